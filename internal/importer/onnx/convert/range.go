package convert

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// A dimension that is 1 because the caller says so, or has the one value that the model needs, is a number in the
// shapes of the inputs, as if the file had declared it.

// rangeOf returns the initial range of an input's dimension. A range that the caller gives matters to a conversion only
// if it is 1 alone or decides a rank: conditions are proved after the conversion.
func (a *Attempt) rangeOf(name sym.Name) sym.Range {
	r := sym.Range{Min: 0, Max: sym.NoMax}
	asked, ok := a.asked[name.Text()]
	if ok && (asked == sym.Range{Min: 1, Max: 1} || a.narrow) && max(asked.Min, 0) <= asked.Max {
		r = sym.Range{Min: max(asked.Min, 0), Max: asked.Max}
	}
	if found, ok := a.found[name]; ok && max(r.Min, found.Min) <= min(r.Max, found.Max) {
		r = sym.Range{Min: max(r.Min, found.Min), Max: min(r.Max, found.Max)}
	}
	return r
}

// bound returns an input with numbers for the dimensions that are 1 or have the one value that the model needs. States
// keep their shape, and so do vectors of integers, whose elements may be sizes.
func (g *Scope) bound(v *ir.Value) *ir.Value {
	if _, state := g.Attempt.States[v.Name]; state || g.Composites[v] != nil || len(v.Type.Shape) == 0 ||
		len(v.Type.Shape) == 1 && v.Type.DType.IsInt() {
		return v
	}
	shape := slices.Clone(v.Type.Shape)
	for i, e := range shape {
		shape[i] = e.Subst(func(name sym.Name) (sym.Expr, bool) {
			r, known := g.Build.Dims().Get(name)
			_, needed := g.Attempt.found[name]
			return sym.Const(r.Min), known && r.Min == r.Max && (r.Min == 1 || needed)
		})
	}
	if slices.EqualFunc(shape, v.Type.Shape, sym.Expr.Equal) {
		return v
	}
	return ops.Reshape(g.Build, v, shape...)
}

// settle begins the conversion again if the module's conditions leave one value for a dimension of an input, or narrow
// the range of a dimension that decides a rank. The module keeps these conditions.
func (a *Attempt) settle(m *Source, module *ir.Module) error {
	again := false
	for _, p := range m.Inputs {
		for _, e := range p.Type.Shape {
			name, alone := e.Name()
			left, known := module.Dims.Get(name)
			if _, decided := module.Limits[name]; !alone || !known || decided {
				continue
			}
			var from []ir.Require
			for _, c := range module.Requires {
				if vars := c.Cond.Vars(); len(vars) != 1 || vars[0] != name {
					continue
				}
				from = append(from, c)
				if _, v, ok := fixes(c.Cond); ok && v >= left.Min && v <= left.Max {
					left = sym.Range{Min: v, Max: v}
				}
			}
			if before := a.rangeOf(name); left != before && (left.Min == left.Max || a.sized) {
				a.found[name], a.conditions, again = left, append(a.conditions, from...), true
			}
		}
	}
	if again {
		return errAgain
	}
	return nil
}
