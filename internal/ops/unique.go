package ops

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// init defines the operator unique.
func init() {
	define(&Def{Op: "unique", Grad: uniqueGrad, Shape: uniqueShape, Mean: hostMean("unique"), Host: "unique",
		Samples: uniqueSamples})
}

// Unique finds the different slices of x along an axis. It returns the slices, the first index of each, for each slice
// of x the index of its equal, and the number of occurrences of each. They are in ascending order, or in that of their
// first occurrence. The slices of a vector are its elements.
func Unique(b *ir.Builder, x *ir.Value, axis int64, sorted bool) (values, indices, inverse, counts *ir.Value) {
	n := b.Node("unique", ir.Attrs{"axis": axis, "sorted": sorted}, x)
	return n.Outputs[0], n.Outputs[1], n.Outputs[2], n.Outputs[3]
}

// uniqueShape requires elements that are neither strings nor complex; the number of different slices is found in a run.
func uniqueShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x := n.Inputs[0].Type
	if !anything(x.DType) {
		return fault(n, "elements of type %s", x.DType)
	}
	axis, err := axisOf(n, n.Attrs.Int("axis", 0), len(x.Shape))
	if err != nil {
		return err
	}
	n.Attrs["axis"] = int64(axis)
	shape := append([]sym.Expr{}, x.Shape...)
	shape[axis] = found(c, n, "count", x.Shape[axis])
	n.Result(0, ir.Type{DType: x.DType, Shape: shape})
	for i, extent := range []sym.Expr{shape[axis], x.Shape[axis], shape[axis]} {
		n.Result(1+i, ir.Type{DType: dtype.I64, Shape: []sym.Expr{extent}})
	}
	// scratch memory, which is zero after the call
	n.Result(4, ir.Type{DType: dtype.I64, Shape: []sym.Expr{x.Shape[axis].Mul(sym.Const(2))}})
	return nil
}
