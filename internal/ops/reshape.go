package ops

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

func init() {
	define(&Def{Op: "reshape", Shape: reshapeShape, Mean: reshapeMean, Samples: reshapeSamples, Grad: reshapeGrad,
		View: func(n *ir.Node, d *sym.Dims) *View { return &View{Whole: true} }})
}

// Reshape gives x's elements, in order, another shape of as many elements.
func Reshape(b *ir.Builder, x *ir.Value, shape ...sym.Expr) *ir.Value {
	return b.Op("reshape", ir.Attrs{"shape": shape}, x)
}

func reshapeShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x, shape := n.Inputs[0], n.Attrs.Exprs("shape")
	for _, extent := range shape {
		if err := c.Require(n, sym.Cond{A: sym.Const(0), Rel: sym.LE, B: extent}, "an extent is not negative"); err != nil {
			return err
		}
	}
	if err := c.RequireEqual(n, product(x.Type.Shape), product(shape), "a reshape keeps the number of elements"); err != nil {
		return err
	}
	n.Result(0, ir.Type{DType: x.Type.DType, Shape: shape}).Known = x.Known
	return nil
}

func reshapeMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	shape, err := e.Ints(n.Attrs.Exprs("shape"))
	if err != nil {
		return nil, err
	}
	out, err := in[0].Reshape(shape...)
	return []*tensor.Tensor{out}, err
}

func reshapeGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	return []*ir.Value{Reshape(g.Builder, up[0], n.Inputs[0].Type.Shape...)}
}
