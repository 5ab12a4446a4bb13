package ops

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator cast.
func init() {
	define(&Def{Op: "cast", Light: true, Elementwise: true, Narrow: elementwiseNarrow, rows: elementwiseRows,
		Shape: castShape, Mean: castMean, View: castView, Samples: castSamples, Grad: castGrad,
		Lowerings: []Lowering{{Name: "map", When: func(n *ir.Node, d *sym.Dims) bool {
			return anything(n.Inputs[0].Type.DType) && anything(n.Outputs[0].Type.DType)
		}, Build: func(k *Nest, n *ir.Node) {
			k.Nest(loop.Each, "i", k.Out[0].Shape, func(at []sym.Expr) {
				k.Store(k.Out[0], at, &loop.Cast{Type: k.Out[0].DType, X: k.In[0].Load(at...), Wrap: n.Attrs.Bool("wrap")})
			})
		}}}})
}

// Cast converts elements. A float outside a float8 type's range becomes its largest value.
func Cast(b *ir.Builder, x *ir.Value, to dtype.DType) *ir.Value {
	if x.Type.DType == to {
		return x
	}
	return b.Op("cast", ir.Attrs{"to": to}, x)
}

// castShape infers x's shape with the new element type; known integers and bools stay known if the conversion keeps
// their values.
func castShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x, to := n.Inputs[0], n.Attrs.DType("to")
	if to == dtype.Invalid {
		return fault(n, "no type to cast to")
	}
	v := n.Result(0, ir.Type{DType: to, Shape: x.Type.Shape})
	elements, certain := c.Knows(x)
	if elements == nil || !to.IsInt() && to != dtype.Bool {
		return nil
	}
	known := make([]sym.Expr, len(elements))
	for i, e := range elements {
		if number, fixed := e.Const(); fixed && to.IsInt() {
			e = element(to, loop.FromInt(to, number))
		} else if to == dtype.Bool {
			switch c.Dims().EQ(e, sym.Const(0)) {
			case sym.Yes:
				e = sym.Const(0)
			case sym.No:
				e = one
			default:
				return nil
			}
		}
		known[i] = e
	}
	c.Learn(v, known, certain)
	return nil
}

// castMean converts each element; out-of-range integers wrap if the attribute wrap is set.
func castMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	dtype.ConvertSlice(out.DType(), out.Bytes(), in[0].DType(), in[0].Bytes(), out.Len(), !n.Attrs.Bool("wrap"))
	return []*tensor.Tensor{out}, nil
}

// castView returns x itself as the result if the types are equal, else nil.
func castView(n *ir.Node, d *sym.Dims) *View {
	if n.Inputs[0].Type.DType == n.Outputs[0].Type.DType {
		return &View{}
	}
	return nil
}

// castGrad converts the derivative back to x's type: rounding counts as the identity.
func castGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	return []*ir.Value{Cast(g.Builder, up[0], n.Inputs[0].Type.DType)}
}
