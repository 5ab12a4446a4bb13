package ops

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// init defines the operator nonzero.
func init() {
	define(&Def{Op: "nonzero", Linear: true, Shape: nonzeroShape, Mean: hostMean("nonzero"), Host: "nonzero",
		Samples: nonzeroSamples})
}

// NonZero finds the elements that are not zero: [rank, count] indices, a column for each, in the elements' order.
func NonZero(b *ir.Builder, x *ir.Value) *ir.Value { return b.Op("nonzero", nil, x) }

// nonzeroShape gives the result a row for each axis; the number of elements other than 0 is found in a run.
func nonzeroShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x := n.Inputs[0].Type
	if x.DType.IsComplex() {
		return fault(n, "elements of type %s", x.DType)
	}
	rank := sym.Const(int64(max(len(x.Shape), 1)))
	n.Result(0, ir.Type{DType: dtype.I64, Shape: []sym.Expr{rank, found(c, n, "count", product(x.Shape))}})
	return nil
}

// Compress takes the slices along an axis for which the condition, a vector of bools no longer than the axis, holds.
func Compress(b *ir.Builder, x, condition *ir.Value, axis int64) *ir.Value {
	chosen := NonZero(b, condition)
	return Gather(b, x, Reshape(b, chosen, chosen.Type.Shape[1]), axis)
}
