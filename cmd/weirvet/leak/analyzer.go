// Package leak is weirvet's analyser. It finds code that leaks resources of Weir's packages.
//
// It walks a function's paths over its SSA form. The walk of one resource follows the values that hold it, its error
// and the values that belong to it, from the call that made it to every return. Functions and closures are summarised
// first: the effect on each parameter, and the results that are new resources. Facts carry the summaries from package
// to package.
//
// If the code leaves open who closes a resource, for instance because it is stored in a struct or passed to a function
// that the analyser cannot see, there is no finding.
package leak

import (
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/buildssa"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/ssa"
)

const doc = `find leaks of Weir's scopes, programs, results, tensors and arrays

The findings, by category:

	open     a resource is not closed on some path
	turn     each turn of a loop opens a resource, and a defer closes them only at the end of the function
	dropped  a result is dropped, so that nobody can close or use it
	kept     an array, tensor, slice or closure outlives the scope or the results that it belongs to
	grows    each call leaves an array or a loan in a scope that stays open`

const url = "https://github.com/weirml/weir/blob/main/docs/weirvet.md"

// Analyzer finds leaks in packages that use Weir.
var Analyzer = &analysis.Analyzer{
	Name:      "weirvet",
	Doc:       doc,
	URL:       url,
	Run:       run,
	Requires:  []*analysis.Analyzer{ctrlflow.Analyzer},
	FactTypes: []analysis.Fact{new(summary)},
}

// The categories of findings.
const (
	categoryOpen    = "open"
	categoryTurn    = "turn"
	categoryDropped = "dropped"
	categoryKept    = "kept"
	categoryGrows   = "grows"
)

// run analyses one package.
func run(pass *analysis.Pass) (any, error) {
	if !usesWeir(pass.Pkg) {
		return nil, nil
	}
	// Only packages that use Weir are brought into SSA form: all others would take several times as long.
	built, err := buildssa.Analyzer.Run(pass)
	if err != nil {
		return nil, err
	}
	a := &analysisOf{pass: pass, functions: built.(*buildssa.SSA).SrcFuncs, summaries: map[*ssa.Function]*summary{},
		told: map[finding]bool{}}
	a.summarise()
	a.walkAll()
	a.dropped()
	a.grows()
	a.export()
	slices.SortStableFunc(a.found, func(x, y analysis.Diagnostic) int { return int(x.Pos) - int(y.Pos) })
	for _, d := range a.found {
		pass.Report(d)
	}
	return nil, nil
}

// analysisOf is the analysis of one package.
type analysisOf struct {
	pass      *analysis.Pass
	functions []*ssa.Function
	summaries map[*ssa.Function]*summary
	quiet     bool // while summaries still grow
	told      map[finding]bool
	found     []analysis.Diagnostic
}

// finding is a position and a message, which are reported once.
type finding struct {
	at       token.Pos
	category string
}

// report reports a finding, unless it was reported before or its line says that it is intended.
func (a *analysisOf) report(at token.Pos, category, message string) {
	key := finding{at, category}
	if a.quiet || a.told[key] || !at.IsValid() || a.meant(at) {
		return
	}
	a.told[key] = true
	a.found = append(a.found, analysis.Diagnostic{Pos: at, Category: category, Message: message,
		URL: url + "#" + category})
}

// directive begins a comment, on the line of a finding or above it, that gives the reason why the code is intended.
const directive = "//weirvet:ignore "

// meant reports whether a finding's line has such a comment with a reason.
func (a *analysisOf) meant(at token.Pos) bool {
	where := a.pass.Fset.Position(at)
	for _, file := range a.pass.Files {
		if at < file.FileStart || at >= file.FileEnd {
			continue
		}
		for _, group := range file.Comments {
			for _, comment := range group.List {
				reason, ok := strings.CutPrefix(comment.Text, directive)
				line := a.line(comment.Pos())
				if ok && strings.TrimSpace(reason) != "" && (line == where.Line || line == where.Line-1) {
					return true
				}
			}
		}
	}
	return false
}

// line returns the line of a position.
func (a *analysisOf) line(at token.Pos) int { return a.pass.Fset.Position(at).Line }

// usesWeir reports whether a package is one of Weir's or imports one, directly or not.
func usesWeir(pkg *types.Package) bool {
	seen := map[*types.Package]bool{}
	var visit func(p *types.Package) bool
	visit = func(p *types.Package) bool {
		if seen[p] {
			return false
		}
		seen[p] = true
		if library(p) {
			return true
		}
		for _, imported := range p.Imports() {
			if visit(imported) {
				return true
			}
		}
		return false
	}
	return visit(pkg)
}

// module is the import path of Weir.
const module = "github.com/weirml/weir"

// library reports whether a package is part of Weir's API: neither an example, a command nor an internal package.
func library(p *types.Package) bool {
	if p == nil {
		return false
	}
	rest, ok := strings.CutPrefix(p.Path(), module)
	if !ok || rest != "" && rest[0] != '/' {
		return false
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	switch first {
	case "internal", "examples", "cmd", "bench":
		return false
	}
	return true
}
