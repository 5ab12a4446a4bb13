package ops

import (
	"maps"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/tensor"
)

// Convolutions, poolings and the like have their channels first, [N, C, d…], or, with the attribute "last", last: inputs and results are [N, d…, C], and weights, [O, I, k…] or
// of a transposed convolution [I, O, k…], are [k…, I, O] then.

// Last says whether a node has its channels last.
func Last(n *ir.Node) bool { return n.Attrs.Bool("last") }

// ChannelsLast is the permutation from channels first to channels last.
func ChannelsLast(rank int) []int64 {
	perm := make([]int64, rank)
	for i := 1; i < rank-1; i++ {
		perm[i] = int64(i + 1)
	}
	perm[rank-1] = 1
	return perm
}

// ChannelsFirst is the permutation back.
func ChannelsFirst(rank int) []int64 {
	perm := make([]int64, rank)
	perm[1] = int64(rank - 1)
	for i := 2; i < rank; i++ {
		perm[i] = int64(i - 1)
	}
	return perm
}

// weightsLast is the permutation of a convolution's weights that makes [k…, I, O] of [O, I, k…], or of [I, O, k…] where the convolution is transposed.
func weightsLast(rank int, transposed bool) []int64 {
	perm := make([]int64, 0, rank)
	for i := 2; i < rank; i++ {
		perm = append(perm, int64(i))
	}
	if transposed {
		return append(perm, 0, 1)
	}
	return append(perm, 1, 0)
}

// WeightsLast is the permutation that a convolution's weights need when its channels become last.
func WeightsLast(n *ir.Node) []int64 {
	return weightsLast(len(n.Inputs[1].Type.Shape), n.Op.Name() == "convolution_transpose")
}

// permuted is a list over axes in the order of a permutation.
func permuted[T any](list []T, perm []int64) []T {
	out := make([]T, len(list))
	for i, p := range perm {
		out[i] = list[p]
	}
	return out
}

// planar is a list over the axes of a node's input or result in the order [N, C, d…], and filter one over those of its weights in the order [O, I, k…] (or [I, O, k…]).
func planar[T any](n *ir.Node, list []T) []T {
	if !Last(n) {
		return list
	}
	return permuted(list, ChannelsFirst(len(list)))
}

func filter[T any](n *ir.Node, list []T) []T {
	if !Last(n) {
		return list
	}
	if axes := besideOf(n); axes > 0 {
		list = unpermuted(list, WeightsBeside(len(list), axes))
	}
	return unpermuted(list, weightsLast(len(list), n.Op.Name() == "convolution_transpose"))
}

// unplanar is a list over [N, C, d…] in the order that the node has.
func unplanar[T any](n *ir.Node, list []T) []T {
	if !Last(n) {
		return list
	}
	return permuted(list, ChannelsLast(len(list)))
}

// withLast is samples of an operator, and each of them again with its channels last.
func withLast(samples []Sample, transposed bool) []Sample {
	for _, s := range samples[:len(samples):len(samples)] {
		attrs := maps.Clone(s.Attrs)
		attrs["last"] = true
		in := append([]*tensor.Tensor{turnedSample(s.Inputs[0], ChannelsLast(s.Inputs[0].Rank()))}, s.Inputs[1:]...)
		if len(in) > 1 {
			in[1] = turnedSample(in[1], weightsLast(in[1].Rank(), transposed))
		}
		samples = append(samples, Sample{Attrs: attrs, Inputs: in, Constant: s.Constant})
	}
	return samples
}

// turnedSample is a tensor with its axes permuted.
func turnedSample(x *tensor.Tensor, perm []int64) *tensor.Tensor {
	out := tensor.Must(tensor.New(x.DType(), permuted(x.Shape(), perm)...))
	strides, flat := tensor.Strides(x.Shape()), int64(0)
	tensor.Each(out.Shape(), func(at []int64) {
		moveElement(out, flat, x, tensor.Offset(strides, unpermuted(at, perm)))
		flat++
	})
	return out
}
