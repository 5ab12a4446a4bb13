package ops

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

func anything(dt dtype.DType) bool { return dt != dtype.String && !dt.IsComplex() }
func bitsets(dt dtype.DType) bool  { return dt.IsInt() || dt == dtype.Bool }

// binaryTable is every operator that is one function of two elements, with broadcasting: z[i] = f(x[i], y[i]).
var binaryTable = []struct {
	function loop.BinaryOp
	accepts  accepts
}{
	{loop.Add, numbers}, {loop.Sub, numbers}, {loop.Mul, numbers}, {loop.Div, numbers}, {loop.FloorMod, numbers}, {loop.Rem, numbers}, {loop.Pow, numbers},
	{loop.Min, numbers}, {loop.Max, numbers}, {loop.And, bitsets}, {loop.Or, bitsets}, {loop.Xor, bitsets}, {loop.Shl, integers}, {loop.Shr, integers},
	{loop.Atan2, floats}, {loop.Eq, anything}, {loop.Ne, anything}, {loop.Lt, numbers}, {loop.Le, numbers}, {loop.Gt, numbers}, {loop.Ge, numbers},
}

func init() {
	for _, row := range binaryTable {
		define(binary(row.function, row.accepts))
	}
}

func binary(f loop.BinaryOp, takes accepts) *Def {
	return &Def{
		Op: f.String(), Samples: binarySamples(takes),
		Shape: func(c *ir.Inference, n *ir.Node) error {
			if err := arity(n, 2, 2); err != nil {
				return err
			}
			x, y := n.Inputs[0].Type, n.Inputs[1].Type
			if x.DType != y.DType {
				return fault(n, "operands of types %s and %s", x.DType, y.DType)
			}
			if !takes(x.DType) {
				return fault(n, "elements of type %s", x.DType)
			}
			shape, err := broadcast(c, n, x.Shape, y.Shape)
			if err != nil {
				return err
			}
			out := x.DType
			if f.Test() {
				out = dtype.Bool
			}
			v := n.Result(0, ir.Type{DType: out, Shape: shape})
			known2(c, v, f, n.Inputs[0], n.Inputs[1])
			return nil
		},
		Mean: func(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			out, err := result(e, n, 0)
			if err != nil {
				return nil, err
			}
			dt, flat := in[0].DType(), int64(0)
			tensor.Each(out.Shape(), func(at []int64) {
				x, y := bitsOf(in[0], stretchedFlat(at, in[0].Shape())), bitsOf(in[1], stretchedFlat(at, in[1].Shape()))
				setBits(out, flat, loop.EvalBinary(f, dt, x, y))
				flat++
			})
			return []*tensor.Tensor{out}, nil
		},
		Lowerings: []Lowering{{Name: "map", Build: func(k *Nest, n *ir.Node) {
			k.Nest(loop.Each, "i", k.Out[0].Shape, func(at []sym.Expr) {
				x, y := k.In[0].Load(stretched(at, k.In[0].Shape)...), k.In[1].Load(stretched(at, k.In[1].Shape)...)
				k.Store(k.Out[0], at, loop.Apply2(f, x, y))
			})
		}}},
	}
}

// Binary applies a function to pairs of elements, with broadcasting.
func Binary(b *ir.Builder, f loop.BinaryOp, x, y *ir.Value) *ir.Value {
	return b.Op(f.String(), nil, x, y)
}

// Scalar is a constant of rank 0.
func Scalar(b *ir.Builder, dt dtype.DType, x float64) *ir.Value {
	t, err := tensor.New(dt)
	if err != nil {
		b.Fail(err)
	}
	if dt.IsInt() || dt == dtype.Bool {
		t.SetInt(0, int64(x))
	} else {
		t.SetFloat(0, x)
	}
	return b.Constant("c", t)
}
