package pass

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/schedule/recipes"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// BF16 computes products of f32 with weights from both operands rounded to bf16, with sums in f32: matrix products, and
// convolutions that are not in groups. The states of recurrent layers stay in f32; only the weights that they are
// multiplied by are rounded, if they are read from beyond the caches at each step. Relative to the sum of the products'
// magnitudes, results differ from the results in f32 by at most about 2⁻⁷, and by the order of sums: each rounding
// changes a factor by at most 2⁻⁸ of it. Subnormal numbers may count as zeros. A weight that another node reads too
// stays as it is, since it would be held twice; but see tiedWeights.
func BF16(m *ir.Module, costs recipes.Costs) error { return roundProducts(m, costs, true) }

// BF16Weights is BF16 for machines on which products of bf16 are no faster than products of f32: only weights are
// rounded, and they are widened when they are read.
func BF16Weights(m *ir.Module, costs recipes.Costs) error { return roundProducts(m, costs, false) }

// roundProducts is BF16 if both is true, else BF16Weights.
func roundProducts(m *ir.Module, costs recipes.Costs, both bool) error {
	type key struct {
		block *ir.Block
		value *ir.Value
		more  int64 // channels of zeros
	}
	rounded := map[key]*ir.Value{} // operands that several products read
	tied, halves := tiedWeights(m), map[*ir.Value]*ir.Value{}
	weightsOf := func(b *ir.Builder, w *ir.Value) *ir.Value {
		if halves[w] == nil || !tied[w] {
			t, err := converted(w.Const, dtype.BF16)
			if err != nil {
				b.Fail(err)
			}
			halves[w] = b.Constant(w.Name, t)
		}
		return halves[w]
	}
	return apply(m, []rule{{"rows of bf16", []string{"gather"}, func(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
		if w := n.Inputs[0]; tied[w] && w.Type.DType == dtype.F32 {
			return ops.Cast(b, ops.Gather(b, weightsOf(b, w), n.Inputs[1], 0), dtype.F32)
		}
		return nil
	}}, {"a recurrence of bf16", []string{"recurrent"}, func(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
		w := n.Inputs[1]
		if !r.narrowable(n, costs) {
			return nil
		}
		t, err := converted(w.Const, dtype.BF16)
		if err != nil {
			b.Fail(err)
		}
		in := slices.Clone(n.Inputs)
		in[1] = b.Constant(w.Name, t)
		return b.Node("recurrent", n.Attrs, in...).Outputs[0]
	}}, {"a product of bf16", []string{"matmul", "convolution"}, func(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
		x, w := n.Inputs[0], n.Inputs[1]
		if w.Const == nil || r.uses[w] != 1 && !tied[w] || ops.HasHoles(n) || x.Type.DType != dtype.F32 ||
			w.Type.DType != dtype.F32 || n.Outputs[0].Type.DType != dtype.F32 || n.Attrs.Int("groups", 1) != 1 {
			return nil
		}
		weights := func() *ir.Value { return weightsOf(b, w) }
		if both {
			at := key{r.block, x, 0}
			if !tied[w] {
				at.more = oddChannels(n)
			}
			if rounded[at] == nil {
				rounded[at] = moreChannels(b, ops.Cast(b, x, dtype.BF16), at.more)
			}
			if x = rounded[at]; at.more > 0 {
				weights = func() *ir.Value { return b.Constant(w.Name, widerWeights(w.Const, at.more)) }
			}
		}
		return b.Op(n.Op.Name(), with(n, ir.Attrs{"dtype": dtype.F32}), append([]*ir.Value{x, weights()}, n.Inputs[2:]...)...)
	}}})
}

// narrowable reports whether the weights by which a recurrent layer multiplies its states should have a narrower type:
// they are constants of f32, which no other node reads, and take less time so.
func (r *rewriting) narrowable(n *ir.Node, costs recipes.Costs) bool {
	w := n.Inputs[1]
	if w.Const == nil || r.uses[w] != 1 || w.Type.DType != dtype.F32 {
		return false
	}
	each := w.Const.Shape() // those of one direction are read at a time
	return costs.NarrowPays(times(4, times(each[1], each[2])), n.Inputs[0].Type.Shape[1], r.Module.Dims)
}

// An image with fewer channels than fewestChannels gets that many; weights with more elements than widerMost stay as
// they are.
const (
	fewestChannels = 4
	widerMost      = 1 << 20
)

// oddChannels returns the number of channels of zeros that a convolution with its channels last needs, so that the
// machine can add two products of neighbours at a time: 0 if the number of channels is even.
func oddChannels(n *ir.Node) int64 {
	if n.Op.Name() != "convolution" || !ops.Last(n) {
		return 0
	}
	w := n.Inputs[1].Const
	channels := w.Shape()[w.Rank()-2]
	if channels%2 == 0 || w.Len() > widerMost {
		return 0
	}
	return max(channels+1, fewestChannels) - channels
}

// moreChannels returns a value with more channels of zeros at the end of its last axis.
func moreChannels(b *ir.Builder, x *ir.Value, more int64) *ir.Value {
	if more == 0 {
		return x
	}
	rank := len(x.Type.Shape)
	end := make([]sym.Expr, rank)
	end[rank-1] = sym.Const(more)
	return ops.Pad(b, x, nil, "constant", make([]sym.Expr, rank), end)
}

// widerWeights returns weights [..., C, O] in bf16, with more input channels of zeros after their own.
func widerWeights(w *tensor.Tensor, more int64) *tensor.Tensor {
	shape := slices.Clone(w.Shape())
	rank := len(shape)
	channels, filters := shape[rank-2], shape[rank-1]
	shape[rank-2] += more
	to := tensor.Must(tensor.New(dtype.BF16, shape...))
	for i := range w.Len() {
		outer, at := i/(channels*filters), i%(channels*filters)
		to.SetFloat(outer*(channels+more)*filters+at, w.Float(i))
	}
	return to
}
