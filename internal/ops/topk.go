package ops

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/hostop"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// init defines the operator topk.
func init() {
	define(&Def{Op: "topk", apart: apartBeside(-1),
		Grad: topkGrad, Shape: topkShape, Mean: hostMean("topk"), Host: "topk", Samples: topkSamples})
}

// TopK returns the k largest (or smallest) elements along an axis, in order, and their indices (i64). Of equal elements
// the first comes first; NaN is larger than any number.
func TopK(b *ir.Builder, x *ir.Value, k sym.Expr, axis int64, largest bool) (values, indices *ir.Value) {
	n := b.Node("topk", ir.Attrs{"k": k, "axis": axis, "largest": largest}, x)
	return n.Outputs[0], n.Outputs[1]
}

// topkShape requires k between 0 and the axis's extent.
func topkShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x := n.Inputs[0].Type
	if !numbers(x.DType) {
		return fault(n, "elements of type %s", x.DType)
	}
	axis, err := axisOf(n, n.Attrs.Int("axis", -1), len(x.Shape))
	if err != nil {
		return err
	}
	n.Attrs["axis"] = int64(axis)
	k, _ := n.Attrs["k"].(sym.Expr)
	for _, cond := range []sym.Cond{{A: sym.Const(0), Rel: sym.LE, B: k}, {A: k, Rel: sym.LE, B: x.Shape[axis]}} {
		if err := c.Require(n, cond, "k elements of an axis"); err != nil {
			return err
		}
	}
	shape := append([]sym.Expr{}, x.Shape...)
	shape[axis] = k
	n.Result(0, ir.Type{DType: x.DType, Shape: shape})
	n.Result(1, ir.Type{DType: dtype.I64, Shape: shape})
	room := k.Mul(sym.Const(hostop.TopKRoomTimes)).Add(sym.Const(hostop.TopKRoomPlus)).Min(x.Shape[axis].Mul(sym.Const(2)))
	// scratch memory, which is zero after the call
	n.Result(2, ir.Type{DType: dtype.I64, Shape: []sym.Expr{c.Dims().Simplify(room)}})
	return nil
}
