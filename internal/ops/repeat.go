package ops

import (
	"math/rand"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator repeat.
func init() {
	define(&Def{Op: "repeat", Light: true, Recompute: InPieces | Backward,
		rows: rowRule{axes: firstAxes, seen: repeatSeen, granule: repeatGranule}, Grad: repeatGrad, Shape: repeatShape,
		Mean: repeatMean, Samples: repeatSamples,
		Lowerings: []Lowering{{Name: "map", When: movable, Build: func(k *Nest, n *ir.Node) {
			k.Nest(loop.Each, "i", k.Out[0].Shape, func(at []sym.Expr) {
				k.Store(k.Out[0], at, k.In[0].Load(repeated(n, at)...))
			})
		}}}})
}

// Repeat repeats each element of x side by side along each axis, times[axis] ≥ 1 times: it enlarges a picture to the
// nearest pixel.
func Repeat(b *ir.Builder, x *ir.Value, times []int64) *ir.Value {
	return b.Op("repeat", ir.Attrs{"times": times}, x)
}

// repeated returns the operand's index for the result's index at.
func repeated(n *ir.Node, at []sym.Expr) []sym.Expr {
	from := make([]sym.Expr, len(at))
	for i, times := range n.Attrs.Ints("times") {
		from[i] = at[i].FloorDiv(sym.Const(times))
	}
	return from
}

// repeatShape requires a number of times for each axis, from 1 to 2³¹.
func repeatShape(_ *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x, times := n.Inputs[0].Type, n.Attrs.Ints("times")
	if len(times) != len(x.Shape) {
		return fault(n, "%d numbers of times for rank %d", len(times), len(x.Shape))
	}
	shape := make([]sym.Expr, len(times))
	for i, t := range times {
		if t < 1 || t > 1<<31 {
			return fault(n, "each element %d times", t)
		}
		shape[i] = x.Shape[i].Mul(sym.Const(t))
	}
	n.Result(0, ir.Type{DType: x.DType, Shape: shape})
	return nil
}

// repeatMean moves each element from its index divided by the number of times.
func repeatMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	strides, flat := tensor.Strides(in[0].Shape()), int64(0)
	tensor.Each(out.Shape(), func(at []int64) {
		from := int64(0)
		for i, times := range n.Attrs.Ints("times") {
			from += at[i] / times * strides[i]
		}
		moveElement(out, flat, in[0], from)
		flat++
	})
	return []*tensor.Tensor{out}, nil
}

// repeatSamples covers one axis, several, a scalar and extents of 0, in types of different width.
func repeatSamples(r *rand.Rand) []Sample {
	var out []Sample
	for _, c := range []struct{ shape, times []int64 }{{[]int64{4}, []int64{3}}, {[]int64{2, 3, 2}, []int64{1, 2, 3}},
		{[]int64{0, 3}, []int64{2, 2}}, {nil, []int64{}}} {
		for _, dt := range []dtype.DType{dtype.F32, dtype.I64, dtype.Bool} {
			out = append(out, Sample{Attrs: ir.Attrs{"times": c.times}, Inputs: []*tensor.Tensor{sampleOf(r, dt, c.shape...)}})
		}
	}
	return out
}

// repeatSeen returns the rows whose repetitions the result's rows contain.
func repeatSeen(n *ir.Node, axis, _ int, rows RowRange) RowRange {
	times := n.Attrs.Ints("times")[axis]
	return RowRange{rows.From / times, (rows.To + times - 1) / times}
}

func repeatGranule(n *ir.Node, axis int) int64 { return n.Attrs.Ints("times")[axis] }
