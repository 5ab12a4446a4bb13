package pass

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// Extents writes every shape, element and attribute in the simplest way within the ranges that conditions have left to
// the dimensions: what was inferred before a condition was met could not count on it. A dimension alone stays: a value
// that declares it, such as the number of an iteration, has to name it.
func Extents(m *ir.Module) error {
	rewriteExprs(m, func(e sym.Expr) sym.Expr {
		if _, alone := e.Name(); alone {
			return e
		}
		return m.Dims.Simplify(e)
	})
	return nil
}

// rewriteExprs puts what one gives for an expression in its place: in the types of values, in what is known of them,
// and in attributes.
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
