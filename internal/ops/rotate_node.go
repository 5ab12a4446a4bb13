package ops

import (
	"math/rand"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator rotate.
func init() {
	define(&Def{Op: "rotate", apart: apartRotate,
		Narrow: rotateNarrow, Light: true, Shape: rotateShape, Mean: rotateMean,
		Samples: rotateSamples, Expand: func(b *ir.Builder, n *ir.Node) []*ir.Value {
			return []*ir.Value{Rotate(b, n.Inputs[0], n.Inputs[1], n.Inputs[2], n.Attrs.Bool("interleaved"))}
		}})
}

// RotateNode is Rotate of the full last axis as one node, whose expansion is Rotate.
func RotateNode(b *ir.Builder, x, cos, sin *ir.Value, interleaved bool) *ir.Value {
	return b.Op("rotate", ir.Attrs{"interleaved": interleaved}, x, cos, sin)
}

// rotateShape requires a cosine and a sine for each pair of elements, which broadcast to the operand.
func rotateShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 3, 3); err != nil {
		return err
	}
	x, cos, sin := n.Inputs[0].Type, n.Inputs[1].Type, n.Inputs[2].Type
	rank := len(x.Shape)
	if rank == 0 || len(cos.Shape) == 0 || !x.DType.IsFloat() || cos.DType != x.DType || sin.DType != x.DType {
		return fault(n, "%s turned by %s and %s", x, cos, sin)
	}
	half := cos.Shape[len(cos.Shape)-1]
	if err := c.RequireEqual(n, half.Mul(sym.Const(2)), x.Shape[rank-1],
		"pairs are half as many as elements"); err != nil {
		return err
	}
	pairs := append(append([]sym.Expr{}, x.Shape[:rank-1]...), half)
	shape, err := broadcast(c, n, pairs, cos.Shape, sin.Shape)
	if err != nil {
		return err
	}
	if len(shape) != rank {
		return fault(n, "%s turned by %s and %s", x, cos, sin)
	}
	for i := range pairs {
		if err := c.RequireEqual(n, shape[i], pairs[i], "angles do not make more of what they turn"); err != nil {
			return err
		}
	}
	n.Result(0, x)
	return nil
}

// rotateMean turns each pair in f64.
func rotateMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	x, cos, sin := in[0], in[1], in[2]
	shape := append([]int64{}, x.Shape()...)
	last := len(shape) - 1
	shape[last] /= 2
	half, row := shape[last], int64(0)
	tensor.Each(shape, func(at []int64) {
		begin, k := row/max(half, 1)*half*2, at[last]
		row++
		first, second := begin+k, begin+half+k
		if n.Attrs.Bool("interleaved") {
			first, second = begin+2*k, begin+2*k+1
		}
		c, s := cos.Float(broadcastFlat(at, cos.Shape())), sin.Float(broadcastFlat(at, sin.Shape()))
		out.SetFloat(first, c*x.Float(first)-s*x.Float(second))
		out.SetFloat(second, s*x.Float(first)+c*x.Float(second))
	})
	return []*tensor.Tensor{out}, nil
}

// rotateSamples covers pairs in halves and side by side, with angles of three ranks.
func rotateSamples(r *rand.Rand) []Sample {
	var out []Sample
	for _, interleaved := range []bool{false, true} {
		for _, angles := range [][]int64{{3}, {5, 3}, {2, 1, 5, 3}} {
			out = append(out, Sample{Attrs: ir.Attrs{"interleaved": interleaved},
				Inputs: []*tensor.Tensor{sampleNormal(r, dtype.F32, 2, 4, 5, 6), sampleNormal(r, dtype.F32, angles...),
					sampleNormal(r, dtype.F32, angles...)}})
		}
	}
	return out
}

// rotateNarrow reads the last axis in full, since its elements are turned in pairs.
func rotateNarrow(p NarrowContext, n *ir.Node, want Section) (Reading, bool) {
	want[len(want)-1] = AxisSection{}
	return elementwiseNarrow(p, n, want)
}
