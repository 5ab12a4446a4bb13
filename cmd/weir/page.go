package main

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"strings"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/values"
)

// The page of plans: its frame, its looks, and the script that draws it from the plans' JSON.
//
//go:embed page
var pageFiles embed.FS

// pageData is what the page's script reads.
type pageData struct {
	Plans []pagePlan `json:"plans"`
	Diff  *planDiff  `json:"diff,omitempty"` // of two plans
}

// pagePlan is one plan with what is said beside it.
type pagePlan struct {
	Name     string            `json:"name"`
	Plan     *weir.Plan        `json:"plan"`
	Formulas map[string]string `json:"formulas"` // of the certificate's terms
	Savings  []pageSaving      `json:"savings,omitempty"`
	Requires []pageCondition   `json:"requires,omitempty"` // what a run's sizes must keep to
	Table    bool              `json:"table,omitempty"`    // it is of a table of buffers, no model
	Notes    []string          `json:"notes,omitempty"`
}

// pageSaving is a change that the budget asked for.
type pageSaving struct {
	Kind   string `json:"kind"`
	Tensor string `json:"tensor"`
	Text   string `json:"text"`
}

// pageCondition is a condition and where it comes from.
type pageCondition struct {
	Condition string `json:"condition"`
	From      string `json:"from"`
}

// newPagePlan collects what the page says of a program.
func newPagePlan(name string, p *weir.Program, plan *weir.Plan, notes []string) pagePlan {
	m := p.Memory()
	out := pagePlan{Name: name, Plan: plan, Notes: notes, Formulas: map[string]string{
		"arena": m.Arena.String(), "outputs": m.Outputs.String(), "scratch": m.Scratch.String(), "peak": m.Formula(plan.Calls).String()}}
	for _, s := range p.Savings() {
		out.Savings = append(out.Savings, pageSaving{s.Kind, s.Tensor, s.String()})
	}
	for _, r := range p.Requires() {
		out.Requires = append(out.Requires, pageCondition{relations.Replace(r.Condition), r.From})
	}
	return out
}

// writePage writes one page that needs nothing else: no file, no network. The names in a model come from whoever wrote it: they reach the page as JSON that is escaped
// for its place, are shown as text only, and the page's policy lets no script run but its own.
func writePage(w io.Writer, title string, data pageData) error {
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
	return frame.Execute(w, map[string]any{"Title": title, "Data": data, "Script": template.JS(script), "Style": template.CSS(style),
		"Policy": "default-src 'none'; script-src '" + scriptHash + "'; style-src '" + styleHash + "'"})
}

// writePageTo writes the page into a file, whole or not at all.
func writePageTo(path, title string, data pageData) error {
	err := values.WriteWhole(path, func(w io.Writer) error { return writePage(w, title, data) })
	if err != nil {
		return diag.Inputf("cannot be written").AtFile(path).WithCause(err)
	}
	return nil
}

// freeDims adds the dimensions that nothing has bound: at their upper bounds, or, where there is none, at 1. The notes say so.
func freeDims(p *weir.Program, bound weir.Dims) (d weir.Dims, notes []string) {
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
			say(dim, max(1, dim.Min), "since it has no upper bound; --dim "+dim.Name+"=SIZE draws another")
		}
	}
	for _, dim := range p.Decided() {
		if _, given := d[dim.Name]; !given && dim.Max == weir.Unbounded {
			say(dim, max(1, dim.Min), "since the data decide it and nothing bounds it; --dim "+dim.Name+"=SIZE draws another")
		}
	}
	return d, notes
}

// shortName is how the page calls a model.
func shortName(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	if folder := filepath.Base(filepath.Dir(path)); name == "model" && len(folder) > 2 {
		return folder // where every model has a folder
	}
	return name
}
