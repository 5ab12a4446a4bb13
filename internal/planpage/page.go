// Package planpage draws memory plans on a self-contained HTML page.
package planpage

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/weirml/weir"
)

// pageFiles has the page's HTML frame, its style sheet, and the script that draws the plans from JSON.
//
//go:embed page
var pageFiles embed.FS

// Data is the input of the page's script.
type Data struct {
	Plans []Plan `json:"plans"`
	Diff  any    `json:"diff,omitempty"` // the differences between two plans, as the command prints them
}

// Plan is a plan with its annotations.
type Plan struct {
	Name     string            `json:"name"`
	Plan     *weir.Plan        `json:"plan"`
	Formulas map[string]string `json:"formulas"` // of the certificate's terms
	Savings  []Saving          `json:"savings,omitempty"`
	Requires []Condition       `json:"requires,omitempty"` // conditions on a run's sizes
	Table    bool              `json:"table,omitempty"`    // the plan is of a table of buffers, not of a model
	Notes    []string          `json:"notes,omitempty"`
}

// Saving is a change that the budget required.
type Saving struct {
	Kind   string `json:"kind"`
	Tensor string `json:"tensor"`
	Text   string `json:"text"`
}

// Condition is a condition on a run's sizes, and its origin.
type Condition struct {
	Condition string `json:"condition"`
	From      string `json:"from"`
}

// NewPlan collects the page's data for a program.
func NewPlan(name string, p *weir.Program, plan *weir.Plan, notes []string) Plan {
	m := p.Memory()
	out := Plan{Name: name, Plan: plan, Notes: notes, Formulas: map[string]string{
		"arena": m.Arena.String(), "outputs": m.Outputs.String(), "scratch": m.Scratch.String(),
		"peak": m.Formula(plan.Calls).String()}}
	for _, s := range p.Savings() {
		out.Savings = append(out.Savings, Saving{s.Kind, s.Tensor, s.String()})
	}
	for _, r := range p.Requires() {
		out.Requires = append(out.Requires, Condition{Relations.Replace(r.Condition), r.From})
	}
	return out
}

// Write writes a page that needs no other file and no network. Names in a model are not trusted: they are escaped as
// JSON and never shown as HTML, and the page's policy allows no script except its own.
func Write(w io.Writer, title string, data Data) error {
	frame, err := template.ParseFS(pageFiles, "page/page.html")
	if err != nil {
		return err
	}
	read := func(name string) (text, hash string) {
		b, e := pageFiles.ReadFile("page/" + name)
		if e != nil && err == nil {
			err = e
		}
		sum := sha256.Sum256(b)
		return string(b), "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
	}
	script, scriptHash := read("page.js")
	style, styleHash := read("page.css")
	if err != nil {
		return err
	}
	return frame.Execute(w, map[string]any{"Title": title, "Data": data, "Script": template.JS(script),
		"Style":  template.CSS(style),
		"Policy": "default-src 'none'; script-src '" + scriptHash + "'; style-src '" + styleHash + "'"})
}

// Relations replaces Python's relation operators, as in JSON, by mathematical signs.
var Relations = strings.NewReplacer(" <= ", " ≤ ", " == ", " = ", " != ", " ≠ ")

// FreeDims returns bound with values for the dimensions that it does not bind: the upper bound or, if there is none, at
// least 1. The notes list them; flag is the text before NAME=SIZE with which the caller binds a dimension.
func FreeDims(p *weir.Program, bound weir.Dims, flag string) (d weir.Dims, notes []string) {
	d = weir.Dims{}
	for name, size := range bound {
		d[name] = size
	}
	say := func(dim weir.Dimension, size int64, why string) {
		d[dim.Name] = size
		notes = append(notes, fmt.Sprintf("%s is free: drawn at %d, %s.", dim.Name, size, why))
	}
	for _, dim := range p.Dims() {
		if _, given := d[dim.Name]; given {
			continue
		}
		if dim.Max != weir.Unbounded {
			say(dim, dim.Max, "its upper bound")
		} else {
			say(dim, max(1, dim.Min), "since it has no upper bound; "+flag+dim.Name+"=SIZE draws another")
		}
	}
	for _, dim := range p.Decided() {
		if _, given := d[dim.Name]; !given && dim.Max == weir.Unbounded {
			say(dim, max(1, dim.Min), "since the data decide it and nothing bounds it; "+flag+dim.Name+"=SIZE draws another")
		}
	}
	return d, notes
}
