package ops

import (
	"math/rand"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator diagonal.
func init() {
	define(&Def{Op: "diagonal", apart: apartDiagonal,
		Linear: true, Grad: diagonalGrad, Shape: diagonalShape, Mean: diagonalMean,
		View: diagonalView, Samples: diagonalSamples,
		Lowerings: []Lowering{{Name: "map", Build: func(k *Nest, n *ir.Node) {
			k.Nest(loop.Each, "i", k.Out[0].Shape, func(at []sym.Expr) {
				k.Store(k.Out[0], at, k.In[0].Load(undiagonal(n, at)...))
			})
		}}}})
}

// Diagonal takes the elements with equal indices along two axes of one extent: the result keeps the first axis and
// drops the second.
func Diagonal(b *ir.Builder, x *ir.Value, first, second int) *ir.Value {
	return b.Op("diagonal", ir.Attrs{"first": int64(first), "second": int64(second)}, x)
}

// diagonalShape checks that the two axes have equal extents and infers x's shape without the second.
func diagonalShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x, first, second := n.Inputs[0].Type, n.Attrs.Int("first", 0), n.Attrs.Int("second", 1)
	if first < 0 || second <= first || second >= int64(len(x.Shape)) {
		return fault(n, "axes %d and %d of rank %d", first, second, len(x.Shape))
	}
	if err := c.RequireEqual(n, x.Shape[first], x.Shape[second], "a diagonal's two axes"); err != nil {
		return err
	}
	shape := append(append([]sym.Expr{}, x.Shape[:second]...), x.Shape[second+1:]...)
	n.Result(0, ir.Type{DType: x.DType, Shape: shape})
	return nil
}

// undiagonal returns the operand's index for an index of the result.
func undiagonal[T any](n *ir.Node, at []T) []T {
	first, second := n.Attrs.Int("first", 0), n.Attrs.Int("second", 1)
	from := append(append([]T{}, at[:second]...), at[first])
	return append(from, at[second:]...)
}

// diagonalMean is the reference: it copies the elements of the diagonal.
func diagonalMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	strides, flat := tensor.Strides(in[0].Shape()), int64(0)
	tensor.Each(out.Shape(), func(at []int64) {
		moveElement(out, flat, in[0], tensor.Offset(strides, undiagonal(n, at)))
		flat++
	})
	return []*tensor.Tensor{out}, nil
}

// diagonalView is the result as a view of x: the first axis has the sum of both strides.
func diagonalView(n *ir.Node, _ *sym.Dims) *View {
	strides := loop.RowMajor(n.Inputs[0].Type.Shape)
	first, second := n.Attrs.Int("first", 0), n.Attrs.Int("second", 1)
	strides[first] = strides[first].Add(strides[second])
	return &View{Strides: append(strides[:second:second], strides[second+1:]...)}
}

// diagonalSamples returns tensors with diagonals along several pairs of axes.
func diagonalSamples(r *rand.Rand) []Sample {
	return []Sample{
		{Attrs: ir.Attrs{"first": int64(0), "second": int64(1)}, Inputs: []*tensor.Tensor{sampleOf(r, floatTypes[0], 3, 3)}},
		{Attrs: ir.Attrs{"first": int64(0), "second": int64(2)},
			Inputs: []*tensor.Tensor{sampleOf(r, integerTypes[0], 3, 2, 3, 2)}},
		{Attrs: ir.Attrs{"first": int64(1), "second": int64(2)},
			Inputs: []*tensor.Tensor{sampleOf(r, floatTypes[2], 2, 0, 0)}},
	}
}
