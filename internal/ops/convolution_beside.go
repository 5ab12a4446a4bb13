package ops

import (
	"maps"
	"math/rand"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/tensor"
)

// besideOf returns the number of the kernel's last axes whose elements are columns of the product; 0 for none.
func besideOf(n *ir.Node) int64 { return n.Attrs.Int("beside", 0) }

// WeightsBeside returns the permutation, of the given rank, from weights [k…, I, O] to [k before, I, k beside, O].
func WeightsBeside(rank int, axes int64) []int64 {
	perm := make([]int64, rank)
	for i := range perm {
		perm[i] = int64(i)
	}
	at := rank - 2 - int(axes)
	return slices.Insert(slices.Delete(perm, rank-2, rank-1), at, int64(rank-2))
}

// CanBeBeside reports whether elements of a convolution's kernel can be laid beside its output channels, and are not.
func CanBeBeside(n *ir.Node) bool {
	with := &ir.Node{Op: n.Op, Source: n.Source, Attrs: maps.Clone(n.Attrs)}
	with.Attrs["beside"] = int64(1)
	return besideOf(n) == 0 && checkBeside(with, WindowOf(n)) == nil
}

// checkBeside returns an error if the attribute "beside" does not fit a convolution.
func checkBeside(n *ir.Node, w Window) error {
	axes := besideOf(n)
	far := func(stride int64) bool { return stride != 1 }
	switch {
	case axes == 0:
		return nil
	case axes < 0 || axes > 2 || axes > int64(len(w.Kernel)):
		return fault(n, "%d axes of the kernel beside the output channels", axes)
	case !Last(n) || HasHoles(n) || n.Attrs.Int("groups", 1) != 1 || slices.ContainsFunc(w.Strides, far):
		return fault(n, "elements of the kernel beside the output channels of a convolution with groups, strides, holes or "+
			"its channels first")
	}
	return nil
}

// besideSamples returns convolutions with the attribute "beside".
func besideSamples(r *rand.Rand) []Sample {
	var out []Sample
	sample := func(w Window, axes, channels, filters int64, bias bool, shape ...int64) {
		attrs := w.Attrs()
		attrs["groups"], attrs["last"], attrs["beside"] = int64(1), true, axes
		rank := len(shape) + 1
		weights := append(slices.Clone(w.Kernel), channels, filters)
		s := Sample{Attrs: attrs, Inputs: []*tensor.Tensor{sampleOf(r, dtype.F32, append(slices.Clone(shape), channels)...),
			sampleOf(r, dtype.F32, permuted(weights, WeightsBeside(rank, axes))...)}, Constant: []int{1, 2}}
		if bias {
			s.Inputs = append(s.Inputs, sampleOf(r, dtype.F32, filters))
		}
		out = append(out, s)
	}
	window := func(kernel, dilations, begin, end []int64) Window {
		strides := slices.Repeat([]int64{1}, len(kernel))
		return Window{Kernel: kernel, Strides: strides, Dilations: dilations, Begin: ir.Constants(begin),
			End: ir.Constants(end)}
	}
	same := window([]int64{3, 3}, []int64{1, 1}, []int64{1, 1}, []int64{1, 1})
	odd := window([]int64{5, 4}, []int64{2, 3}, []int64{7, 0}, []int64{3, 11})
	unpadded := window([]int64{2, 3}, []int64{1, 1}, []int64{0, 0}, []int64{0, 0})
	line := window([]int64{7}, []int64{2}, []int64{6}, []int64{5})
	cube := window([]int64{3, 2, 3}, []int64{1, 1, 1}, []int64{1, 1, 1}, []int64{1, 0, 1})
	for axes := int64(1); axes <= 2; axes++ {
		sample(same, axes, 9, 3, true, 2, 7, 6)
		sample(same, axes, 5, 1, false, 1, 21, 300)
		sample(odd, axes, 8, 4, true, 1, 6, 9)
		sample(unpadded, axes, 3, 12, true, 2, 5, 8)
		sample(same, axes, 3, 2, true, 0, 4, 4)
		sample(cube, axes, 4, 2, true, 1, 3, 4, 5)
	}
	sample(line, 1, 10, 1, true, 2, 270)
	sample(line, 1, 3, 5, false, 1, 4)
	return out
}
