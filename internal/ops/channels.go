package ops

import (
	"maps"
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Convolutions, poolings and similar operators have their channels first, [N, C, d…], or, with the attribute "last",
// last. Then inputs and results are [N, d…, C], and weights, otherwise [O, I, k…] or [I, O, k…] if transposed, are [k…,
// I, O].

// Last reports whether a node has its channels last.
func Last(n *ir.Node) bool { return n.Attrs.Bool("last") }

// ChannelsLast returns the permutation from channels first to channels last.
func ChannelsLast(rank int) []int64 {
	perm := make([]int64, rank)
	for i := 1; i < rank-1; i++ {
		perm[i] = int64(i + 1)
	}
	perm[rank-1] = 1
	return perm
}

// ChannelsFirst returns the permutation from channels last to channels first.
func ChannelsFirst(rank int) []int64 {
	perm := make([]int64, rank)
	perm[1] = int64(rank - 1)
	for i := 2; i < rank; i++ {
		perm[i] = int64(i - 1)
	}
	return perm
}

// weightsLast returns the permutation of a convolution's weights from [O, I, k…], or [I, O, k…] if it is transposed, to
// [k…, I, O].
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

// WeightsLast returns the permutation that a convolution's weights need when its channels become last.
func WeightsLast(n *ir.Node) []int64 {
	return weightsLast(len(n.Inputs[1].Type.Shape), n.Op.Name() == "convolution_transpose")
}

// permuted returns a list over axes in the order of a permutation.
func permuted[T any](list []T, perm []int64) []T {
	out := make([]T, len(list))
	for i, p := range perm {
		out[i] = list[p]
	}
	return out
}

// planar reorders a list over the axes of a node's input or result to [N, C, d…].
func planar[T any](n *ir.Node, list []T) []T {
	if !Last(n) {
		return list
	}
	return permuted(list, ChannelsFirst(len(list)))
}

// filter reorders a list over the axes of a node's weights to [O, I, k…], or [I, O, k…] if the convolution is
// transposed.
func filter[T any](n *ir.Node, list []T) []T {
	if !Last(n) {
		return list
	}
	if axes := besideOf(n); axes > 0 {
		list = unpermuted(list, WeightsBeside(len(list), axes))
	}
	return unpermuted(list, weightsLast(len(list), n.Op.Name() == "convolution_transpose"))
}

// unfilter reorders a list over [O, I, k…] to the axes that a convolution's weights have.
func unfilter[T any](n *ir.Node, list []T) []T {
	if !Last(n) {
		return list
	}
	list = permuted(list, weightsLast(len(list), false))
	if axes := besideOf(n); axes > 0 {
		list = permuted(list, WeightsBeside(len(list), axes))
	}
	return list
}

// unplanar reorders a list over [N, C, d…] to the axes that the node has.
func unplanar[T any](n *ir.Node, list []T) []T {
	if !Last(n) {
		return list
	}
	return permuted(list, ChannelsLast(len(list)))
}

// withLast returns the samples and, for each, a copy with its channels last.
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

// turnedSample returns a tensor with its axes permuted.
func turnedSample(x *tensor.Tensor, perm []int64) *tensor.Tensor {
	out := tensor.Must(tensor.New(x.DType(), permuted(x.Shape(), perm)...))
	strides, flat := tensor.Strides(x.Shape()), int64(0)
	tensor.Each(out.Shape(), func(at []int64) {
		moveElement(out, flat, x, tensor.Offset(strides, unpermuted(at, perm)))
		flat++
	})
	return out
}

// LastForm describes a node whose operands have their channels last.
type LastForm struct {
	Images        []bool   // by input: whether it has channels, which become last; other inputs stay as they are
	DropsChannels bool     // the result has no axis of channels
	Attrs         ir.Attrs // the attributes that differ from the node's own
	Faster        bool     // it saves more than a transposition of the bytes that it reads and writes costs
}

// imageFirst returns the form of a node whose first input alone has channels.
func imageFirst(n *ir.Node, attrs ir.Attrs) *LastForm {
	f := &LastForm{Images: make([]bool, len(n.Inputs)), Attrs: attrs}
	f.Images[0] = true
	return f
}

// imageRank is the rank of a node's first input; 0 if that is too small for channels and positions.
func imageRank(n *ir.Node) int {
	if rank := len(n.Inputs[0].Type.Shape); rank >= 3 {
		return rank
	}
	return 0
}

// windowLast is the last form of operators that have the attribute "last".
func windowLast(_ *sym.Dims, n *ir.Node) *LastForm { return imageFirst(n, ir.Attrs{"last": true}) }

// axisLast is the last form of operators with one axis as an attribute; nil if the axis has blocks or x is of rank
// below 3.
func axisLast(_ *sym.Dims, n *ir.Node) *LastForm {
	axis, named := n.Attrs["axis"].(int64)
	rank := imageRank(n)
	if !named || n.Attrs.Int("block", 0) != 0 || rank == 0 {
		return nil
	}
	return imageFirst(n, ir.Attrs{"axis": whereLast(axis, rank)})
}

// listsLast is the last form of operators whose named attributes are lists over the axes.
func listsLast(names ...string) func(d *sym.Dims, n *ir.Node) *LastForm {
	return func(_ *sym.Dims, n *ir.Node) *LastForm {
		rank := imageRank(n)
		if rank == 0 {
			return nil
		}
		changed, perm := ir.Attrs{}, ChannelsLast(rank)
		for _, name := range names {
			switch list := n.Attrs[name].(type) {
			case []sym.Expr:
				changed[name] = permuted(list, perm)
			case []int64:
				changed[name] = permuted(list, perm)
			}
		}
		return imageFirst(n, changed)
	}
}

// whereLast returns the index of an axis after its tensor's channels became last.
func whereLast(axis int64, rank int) int64 {
	if axis < 0 {
		axis += int64(rank)
	}
	if axis < 0 || axis >= int64(rank) {
		return axis // a single scale has no axis
	}
	return int64(slices.Index(ChannelsLast(rank), axis))
}

// AxesLast returns the node's attribute axes, sorted, after its channels became last.
func AxesLast(n *ir.Node) []int64 {
	axes := []int64{}
	for _, a := range n.Attrs.Ints("axes") {
		axes = append(axes, whereLast(a, len(n.Inputs[0].Type.Shape)))
	}
	slices.Sort(axes)
	return axes
}
