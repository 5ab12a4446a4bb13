package certificate

import (
	"slices"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/report"
	"github.com/weirml/weir/internal/sym"
)

// Ranges returns the dimensions' ranges under their public names, narrowed by the conditions that are checked when a
// run begins.
func Ranges(c *compiler.Compiled, labels *report.Labels) *sym.Dims {
	data := map[sym.Name]bool{}
	for _, d := range c.Program.Dims {
		data[d.Name] = d.Data
	}
	var entry []sym.Cond
	for _, r := range c.Program.Requires {
		if !slices.ContainsFunc(slices.Concat(r.Cond.A.Vars(), r.Cond.B.Vars()), func(name sym.Name) bool {
			return data[name]
		}) {
			entry = append(entry, r.Cond)
		}
	}
	return labels.Dims(ir.Narrowed(c.Loop.Dims, entry...))
}

// Decided returns the labels of the dimensions in a formula of the certificate that data determine.
func Decided(p *program.Program, labels *report.Labels, formula sym.Expr) map[string]bool {
	named := map[string]bool{}
	for _, name := range formula.Vars() {
		named[name.Text()] = true
	}
	out := map[string]bool{}
	for _, d := range p.Dims {
		if label := labels.Of[d.Name]; d.Data && named[label] {
			out[label] = true
		}
	}
	return out
}

// Complete returns a value for every dimension, by label. It takes the values of d, and returns an error if they break
// a range or a condition. A dimension that data determine and that d leaves out gets its upper bound; without a bound
// it gets its least value, unless it is in decided, the dimensions that sizes depend on.
func Complete(p *program.Program, labels *report.Labels, decided map[string]bool, d map[string]int64) (map[string]int64,
	error) {
	if err := p.Admits(labels.Values(d)); err != nil {
		return nil, err
	}
	at := map[string]int64{}
	for _, dim := range p.Dims {
		if v, ok := d[labels.Of[dim.Name]]; ok {
			at[labels.Of[dim.Name]] = v
		}
	}
	for i := range p.Dims {
		dim, label := &p.Dims[i], labels.Of[p.Dims[i].Name]
		v, ok := at[label]
		if !ok && dim.Data {
			if limit, err := dim.Limit.Eval(labels.Values(at)); err == nil && !dim.Late() {
				v, ok = min(limit, dim.Range.Max), true
			} else if !decided[label] {
				v, ok = dim.Range.Min, true // no size depends on it
			}
		}
		if !ok {
			return nil, diag.Inputf("dimension %s has no value", label).AtDim(label).WithFix("add Dims{%q: …}", label)
		}
		if v < dim.Range.Min || v > dim.Range.Max {
			return nil, p.Outside(i, v)
		}
		at[label] = v
	}
	return at, nil
}
