package ops

import (
	"math"
	"math/rand"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator scaled_rows.
func init() {
	define(&Def{Op: "scaled_rows", Shape: scaledRowsShape, Mean: scaledRowsMean, Samples: scaledRowsSamples,
		Expand: func(b *ir.Builder, n *ir.Node) []*ir.Value {
			x, scale := n.Inputs[0], n.Inputs[1]
			each := Reshape(b, scale, append(append([]sym.Expr{}, scale.Type.Shape...), one)...)
			y := Binary(b, loop.Mul, splitRows(b, Cast(b, x, dtype.F32), rowGroups(scale)), each)
			return []*ir.Value{Reshape(b, y, x.Type.Shape...)}
		}})
}

// ScaledRows returns the numbers that QuantizeRows made bytes of: x, i8, times scale, f32. The last axis of scale has
// one element for each of the equal groups that a row of x consists of.
func ScaledRows(b *ir.Builder, x, scale *ir.Value) *ir.Value {
	return b.Op("scaled_rows", nil, x, scale)
}

// QuantizeRows quantizes f32 to bytes. Each row consists of groups of equal length along the last axis; a group's scale
// is its greatest magnitude / 127, and its elements are divided by it and rounded, ties to even. The scale of a group
// of zeros is 0. The scale of a group with an infinity or NaN is infinite or NaN, and its bytes are 0, so that the
// entire group reads as NaN.
func QuantizeRows(b *ir.Builder, x *ir.Value, groups sym.Expr) (bytes, scale *ir.Value) {
	number := func(v float64) *ir.Value { return Scalar(b, dtype.F32, v) }
	rows := x
	if !isOne(groups) {
		rows = splitRows(b, x, groups)
	}
	scale = Binary(b, loop.Div, ReduceMax(b, Unary(b, loop.Abs, rows), true, -1), number(127))
	y := Binary(b, loop.Div, rows, scale)
	rounded := Unary(b, loop.Round, Binary(b, loop.Max, Binary(b, loop.Min, y, number(127)), number(-127)))
	y = Where(b, Binary(b, loop.Lt, Unary(b, loop.Abs, y), number(math.Inf(1))), rounded, number(0))
	bytes = Cast(b, y, dtype.I8)
	if !isOne(groups) {
		bytes = Reshape(b, bytes, x.Type.Shape...)
		scale = Reshape(b, scale, append(append([]sym.Expr{}, x.Type.Shape[:len(x.Type.Shape)-1]...), groups)...)
	}
	return bytes, scale
}

// rowGroups returns the number of groups of a row, each with its own scale.
func rowGroups(scale *ir.Value) sym.Expr { return scale.Type.Shape[len(scale.Type.Shape)-1] }

// splitRows reshapes x so that the groups of a row have an axis of their own.
func splitRows(b *ir.Builder, x *ir.Value, groups sym.Expr) *ir.Value {
	last := len(x.Type.Shape) - 1
	return Reshape(b, x, append(append([]sym.Expr{}, x.Type.Shape[:last]...), groups,
		x.Type.Shape[last].FloorDiv(groups.Max(one)))...)
}

// scaledRowsShape requires bytes and scales of f32 with the same rows, each with groups of one length.
func scaledRowsShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 2, 2); err != nil {
		return err
	}
	x, scale := n.Inputs[0].Type, n.Inputs[1].Type
	if x.DType != dtype.I8 || scale.DType != dtype.F32 || len(x.Shape) == 0 || len(scale.Shape) != len(x.Shape) {
		return fault(n, "%s with scales %s", x, scale)
	}
	last := len(x.Shape) - 1
	for i := range last {
		if err := c.RequireEqual(n, scale.Shape[i], x.Shape[i], "scales for each row"); err != nil {
			return err
		}
	}
	groups := scale.Shape[last]
	grouped := x.Shape[last].FloorDiv(groups.Max(one)).Mul(groups)
	if err := c.RequireEqual(n, grouped, x.Shape[last], "a row has groups of one length"); err != nil {
		return err
	}
	n.Result(0, ir.Type{DType: dtype.F32, Shape: x.Shape})
	return nil
}

// scaledRowsMean multiplies in f64 and rounds to f32, which is one multiplication in f32.
func scaledRowsMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	x, scale := in[0], in[1]
	if scale.Len() == 0 {
		return []*tensor.Tensor{out}, nil
	}
	group := x.Len() / scale.Len()
	for i := range x.Len() {
		out.SetFloat(i, x.Float(i)*scale.Float(i/group))
	}
	return []*tensor.Tensor{out}, nil
}

// scaledRowsSamples covers one scale for a row, four, scales that are NaN, infinite and subnormal, and no rows.
func scaledRowsSamples(r *rand.Rand) []Sample {
	odd := sampleNormal(r, dtype.F32, 2, 3, 1)
	odd.SetFloat(0, math.NaN())
	odd.SetFloat(1, math.Inf(1))
	odd.SetFloat(2, 0x1p-149)
	return []Sample{
		{Inputs: []*tensor.Tensor{sampleOf(r, dtype.I8, 2, 3, 17), odd}},
		{Inputs: []*tensor.Tensor{sampleOf(r, dtype.I8, 2, 3, 12), sampleNormal(r, dtype.F32, 2, 3, 4)}},
		{Inputs: []*tensor.Tensor{sampleOf(r, dtype.I8, 0, 8), sampleNormal(r, dtype.F32, 0, 1)}},
	}
}
