package pass

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// Extents simplifies every shape, known element and attribute within the ranges that conditions leave to the
// dimensions: expressions inferred before a condition was found could not use it. A dimension alone stays, since a
// value that declares it, such as the number of an iteration, must name it.
func Extents(m *ir.Module) error {
	rewriteExprs(m, func(e sym.Expr) sym.Expr {
		if _, alone := e.Name(); alone {
			return e
		}
		return m.Dims.Simplify(e)
	})
	return nil
}

// rewriteExprs replaces each expression e by one(e): in the types and known elements of values, and in attributes.
func rewriteExprs(m *ir.Module, one func(sym.Expr) sym.Expr) {
	all := func(list []sym.Expr) []sym.Expr {
		if list == nil {
			return nil
		}
		out := make([]sym.Expr, len(list))
		for i, e := range list {
			out[i] = one(e)
		}
		return out
	}
	value := func(v *ir.Value) { v.Type.Shape, v.Known = all(v.Type.Shape), all(v.Known) }
	var block func(b *ir.Block)
	block = func(b *ir.Block) {
		for _, v := range b.Params {
			value(v)
		}
		for _, n := range b.Nodes {
			attrs := ir.Attrs{}
			for name, a := range n.Attrs {
				switch x := a.(type) {
				case sym.Expr:
					a = one(x)
				case []sym.Expr:
					a = all(x)
				}
				attrs[name] = a
			}
			n.Attrs = attrs
			for _, v := range n.Outputs {
				value(v)
			}
			for _, region := range n.Regions {
				block(region)
			}
		}
	}
	for _, f := range m.Funcs {
		block(f.Body)
	}
}
