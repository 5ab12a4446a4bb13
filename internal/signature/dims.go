package signature

import (
	"maps"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/report"
	"github.com/weirml/weir/internal/sym"
)

// Narrow intersects the ranges of a module's named dimensions with dims, and simplifies its conditions within them.
func Narrow(m *ir.Module, dims map[string]sym.Range) error {
	known := report.NewLabels(m.Dims.Names())
	for _, label := range slices.Sorted(maps.Keys(dims)) {
		r := dims[label]
		name, ok := known.Find(label)
		if !ok {
			return diag.Inputf("the model has no dimension %q; it has %s", label,
				strings.Join(slices.Sorted(maps.Keys(known.Names)), ", ")).AtDim(label)
		}
		old, _ := m.Dims.Get(name)
		lo, hi := max(old.Min, r.Min), min(old.Max, r.Max)
		if lo > hi {
			return emptied(m, name, label, r, old)
		}
		m.Dims.Set(name, sym.Range{Min: lo, Max: hi})
		if sym.IsUnlimited(m.Limits[name]) && hi != sym.NoMax {
			m.Limits[name] = sym.Const(hi)
		}
	}
	if len(dims) > 0 {
		simplify(m)
	}
	return nil
}

// simplify simplifies the sides of a module's conditions within the ranges, which a run checks too. A dimension alone
// stays, and so does a condition that cannot hold, so that errors name the dimensions.
func simplify(m *ir.Module) {
	for i := range m.Requires {
		if m.Dims.Prove(m.Requires[i].Cond) == sym.No {
			continue
		}
		for _, side := range []*sym.Expr{&m.Requires[i].Cond.A, &m.Requires[i].Cond.B} {
			if _, alone := side.Name(); !alone {
				*side = m.Dims.Simplify(*side)
			}
		}
	}
}

// emptied returns the error for a range r that is disjoint from the dimension's own range. The error says what
// determines the dimension's value, and the condition that the dimension's own range comes from, if there is one.
func emptied(m *ir.Module, name sym.Name, label string, r, old sym.Range) error {
	e := diag.Inputf("%s leaves nothing of the dimension's own range %s", r, old).AtDim(label).
		WithFix("give it values of its own range").Found(m.Origins[name])
	for _, c := range m.Requires {
		if names := c.Cond.Vars(); len(names) != 1 || names[0] != name {
			continue
		}
		if ok, err := c.Cond.Eval(func(sym.Name) (int64, bool) { return r.Min, true }); err != nil || !ok {
			shown := c.Cond.Shown(sym.Labels(m.Dims.Names()))
			e.Detail += ": " + shown.Words() + " is needed"
			return e.From(c.From).AtTensor(c.Tensor)
		}
	}
	return e
}
