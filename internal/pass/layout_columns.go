package pass

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// This file computes transposed convolutions to few channels whose outputs see different numbers of the kernel's
// elements. A product multiplies each position of the input by each element of the kernel, and each output adds up the
// products that it sees. No products with holes are computed, which neighbouring outputs as channels would need.

// inColumns reports whether a transposed convolution is better computed by columns than in the way how.
func (l *layout) inColumns(n *ir.Node, how *transposed) bool {
	w := n.Inputs[1].Const
	if w == nil || n.Attrs.Int("groups", 1) != 1 {
		return false
	}
	elements := w.Shape()[1]
	for _, k := range w.Shape()[2:] {
		elements *= k
	}
	return l.costs.ColumnsPay(w.Shape()[1], w.Shape()[0], elements) &&
		slices.ContainsFunc(how.joined, func(a phasesAxis) bool { return !a.full() })
}

// columnsOf builds a transposed convolution of x, [N, d…, I], by columns.
func columnsOf(b *ir.Builder, n *ir.Node, x *ir.Value, begin []int64) *pieces {
	w := n.Inputs[1].Const
	inner, filters, kernel := w.Shape()[0], w.Shape()[1], w.Shape()[2:]
	p := &pieces{extents: n.Outputs[0].Type.Shape[2:], how: &transposed{}}
	var counts []int64
	for i, k := range kernel {
		list := separateOf(n.Attrs.Ints("strides")[i], k, n.Attrs.Ints("dilations")[i], begin[i])
		p.how.separate, counts = append(p.how.separate, list), append(counts, int64(len(list)))
	}
	columns := columnsFrom(b, n, x, inner, filters, kernel)
	tensor.Each(counts, func(at []int64) {
		p.list = append(p.list, p.added(b, columns, at, kernel, filters, input(n, 2)))
	})
	return p
}

// columnsFrom returns the products of each position and each element of the kernel: [N, k… · O, d…].
func columnsFrom(b *ir.Builder, n *ir.Node, x *ir.Value, inner, filters int64, kernel []int64) *ir.Value {
	from, elements, axes := n.Inputs[1].Const, int64(1), len(kernel)
	for _, k := range kernel {
		elements *= k
	}
	ones := slices.Repeat([]int64{1}, axes)
	w := tensor.Must(tensor.New(from.DType(), append(slices.Clone(ones), inner, elements*filters)...))
	for i := range w.Len() {
		channel, element, filter := i/(elements*filters), i/filters%elements, i%filters
		w.SetFloat(i, from.Float((channel*filters+filter)*elements+element))
	}
	none := make([]sym.Expr, axes)
	attrs := ops.Window{Kernel: ones, Strides: ones, Dilations: ones, Begin: none, End: none}.Attrs()
	attrs["groups"], attrs["last"] = int64(1), true
	y := b.Op("convolution", attrs, x, b.Constant(n.Inputs[1].Name, w))
	perm := []int64{0, int64(axes + 1)}
	for i := range axes {
		perm = append(perm, int64(1+i))
	}
	return ops.Transpose(b, y, perm...)
}

// added returns a piece, [N, u…, O]: the sum of the shifted columns of the elements that its outputs see.
func (p *pieces) added(b *ir.Builder, columns *ir.Value, at, kernel []int64, filters int64, bias *ir.Value) *ir.Value {
	size, shape, counts := columns.Type.Shape, []sym.Expr{columns.Type.Shape[0]}, []int64{}
	for i, t := range at {
		shape = append(shape, b.Dims().Simplify(p.extents[i].CeilDiv(sym.Const(int64(len(p.how.separate[i]))))))
		counts = append(counts, int64(len(p.how.separate[i][t].elements)))
	}
	shape = append(shape, sym.Const(filters))
	var sum *ir.Value
	tensor.Each(counts, func(tap []int64) {
		element := int64(0)
		begin, end := make([]sym.Expr, len(size)), make([]sym.Expr, len(size))
		for i, t := range at {
			a := p.how.separate[i][t]
			element = element*kernel[i] + a.elements[tap[i]]
			begin[2+i] = sym.Const(a.begin - tap[i]*a.dilation)
			end[2+i] = b.Dims().Simplify(shape[1+i].Sub(size[2+i]).Sub(begin[2+i]))
		}
		column := ops.Pad(b, ops.SliceAxis(b, columns, 1, sym.Const(element*filters), sym.Const(filters)), nil, "constant",
			begin, end)
		if sum == nil {
			sum = column
		} else {
			sum = b.Op("add", nil, sum, column)
		}
	})
	if sum != nil {
		sum = ops.Transpose(b, sum, ops.ChannelsLast(len(size))...)
	}
	switch {
	case sum == nil && bias == nil:
		return ops.Expand(b, b.Constant("none", tensor.Must(tensor.New(columns.Type.DType, 1))), shape...)
	case sum == nil:
		return ops.Expand(b, bias, shape...)
	case bias != nil:
		return b.Op("add", nil, sum, bias)
	}
	return sum
}
