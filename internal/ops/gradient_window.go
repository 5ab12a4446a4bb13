package ops

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sliding"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// fewChannels is the most channels of a group for which the derivative by a convolution's weights copies the input's
// columns into one matrix: products with fewer columns than a register has lanes are slow.
const fewChannels = 8

// convolutionGrad returns, by the input, a convolution of the derivative with the reversed kernels and, by the weights,
// one product for each element of the kernel.
func convolutionGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	x, weights := n.Inputs[0], n.Inputs[1]
	window, groups := g.windowFirst(n), n.Attrs.Int("groups", 1)
	u, out := Cast(g.Builder, up[0], x.Type.DType), make([]*ir.Value, len(n.Inputs))
	if g.Wants(x) {
		out[0] = g.spreadBack(u, weights, window, groups, x.Type.Shape[2:])
	}
	if g.Wants(weights) {
		out[1] = g.kernelGrad(x, u, window, groups)
	}
	if bias := input(n, 2); g.Wants(bias) {
		out[2] = ReduceSum(g.Builder, up[0], false, notChannels(up[0])...)
	}
	return out
}

// windowFirst returns the window of a node with its channels first. Only passes that run after differentiation put them
// last.
func (g *Gradients) windowFirst(n *ir.Node) Window {
	window, err := windowOf(n, len(n.Inputs[0].Type.Shape)-2)
	if err != nil {
		g.Fail(err)
	}
	if Last(n) {
		g.refuse(n)
	}
	return window
}

// notChannels returns all axes other than that of the channels.
func notChannels(x *ir.Value) []int64 { return slices.Delete(allAxes(x), 1, 2) }

// spreadBack returns the derivative by a convolution's input: with a stride of 1 a convolution with the reversed
// kernel, else a transposed one, cut or filled with zeros to the input's shape.
func (g *Gradients) spreadBack(u, weights *ir.Value, w Window, groups int64, shape []sym.Expr) *ir.Value {
	back := Window{Kernel: w.Kernel, Strides: w.Strides, Dilations: w.Dilations, Begin: slices.Clone(w.Begin),
		End: slices.Clone(w.End)}
	dense := !slices.ContainsFunc(w.Strides, func(s int64) bool { return s != 1 })
	for i, extent := range shape {
		reach, from := sym.Const(w.Extent(i)), u.Type.Shape[2+i]
		if dense {
			back.Begin[i] = reach.Sub(one).Sub(w.Begin[i])
			back.End[i] = extent.Sub(from).Add(reach).Sub(one).Sub(back.Begin[i])
			continue
		}
		back.End[i] = from.Sub(one).Mul(sym.Const(w.Strides[i])).Add(reach).Sub(w.Begin[i]).Sub(extent)
	}
	if !dense || slices.ContainsFunc(append(slices.Clone(back.Begin), back.End...), func(e sym.Expr) bool {
		return g.Dims().LE(sym.Const(0), e) != sym.Yes
	}) {
		for i, extent := range shape {
			back.Begin[i] = w.Begin[i]
			back.End[i] = u.Type.Shape[2+i].Sub(one).Mul(sym.Const(w.Strides[i])).Add(sym.Const(w.Extent(i))).Sub(w.Begin[i]).
				Sub(extent)
		}
		return ConvolutionTranspose(g.Builder, u, weights, nil, back, groups)
	}
	return Convolution(g.Builder, u, g.turnedKernel(weights, groups), nil, back, groups)
}

// turnedKernel turns weights [O, I/groups, k…] into those of the convolution that computes the derivative by the input:
// [I, O/groups, k…], each kernel reversed.
func (g *Gradients) turnedKernel(weights *ir.Value, groups int64) *ir.Value {
	b, shape := g.Builder, weights.Type.Shape
	kernel := shape[2:]
	grouped := append([]sym.Expr{sym.Const(groups), sliding.GroupOf(shape[0], groups), shape[1]}, kernel...)
	perm := []int64{0, 2, 1}
	for i := range kernel {
		perm = append(perm, int64(3+i))
	}
	turned := Transpose(b, Reshape(b, weights, grouped...), perm...)
	turned = Reshape(b, turned, append([]sym.Expr{shape[1].Mul(sym.Const(groups)), sliding.GroupOf(shape[0], groups)},
		kernel...)...)
	rank := len(shape)
	begin, step := make([]sym.Expr, rank), slices.Repeat([]int64{1}, rank)
	for i := range kernel {
		if !isOne(kernel[i]) {
			begin[2+i], step[2+i] = kernel[i].Sub(one), -1
		}
	}
	return Slice(b, turned, begin, turned.Type.Shape, step)
}

// kernelGrad returns the derivative by weights [O, I/groups, k…] of a convolution of x, given the derivative u by its
// result: for each element of the kernel, the product of u with the input that the element reads. Channels come last;
// the products sum over images and positions.
func (g *Gradients) kernelGrad(x, u *ir.Value, w Window, groups int64) *ir.Value {
	b := g.Builder
	each, filters := sliding.GroupOf(x.Type.Shape[1], groups), sliding.GroupOf(u.Type.Shape[1], groups)
	seen := g.seen(x, w, u.Type.Shape[2:])
	result := append([]sym.Expr{u.Type.Shape[1], each}, ir.Constants(w.Kernel)...)
	if isOne(each) && isOne(filters) {
		for i, v := range seen {
			seen[i] = ReduceSum(b, g.mul(u, v), false, notChannels(u)...)
		}
		return Reshape(b, g.stacked(seen, 1), result...)
	}
	left := g.rows(u, groups)
	few, fixed := each.Const()
	if fixed && few < fewChannels && len(seen) > 1 && groups == 1 {
		for i, v := range seen {
			seen[i] = g.rows(v, groups)
		}
		columns := g.stacked(seen, 2)
		columns = Reshape(b, columns, columns.Type.Shape[0], product(columns.Type.Shape[1:]))
		return Reshape(b, MatMul(b, left, columns, true, false), result...)
	}
	for i, v := range seen {
		seen[i] = MatMul(b, left, g.rows(v, groups), true, false)
	}
	return Reshape(b, g.stacked(seen, len(seen[0].Type.Shape)), result...)
}

// rows reshapes v[N, C, d…] to [N·d…, C], or with several groups to [groups, N·d…, C/groups].
func (g *Gradients) rows(v *ir.Value, groups int64) *ir.Value {
	b, shape := g.Builder, v.Type.Shape
	positions := sym.Expr(shape[0].Mul(product(shape[2:])))
	if groups == 1 {
		return Reshape(b, lastChannels(b, v), positions, shape[1])
	}
	each := sliding.GroupOf(shape[1], groups)
	grouped := Reshape(b, v, shape[0], sym.Const(groups), each, product(shape[2:]))
	return Reshape(b, Transpose(b, grouped, 1, 0, 3, 2), sym.Const(groups), positions, each)
}

// stacked joins values of one shape along a new axis.
func (g *Gradients) stacked(list []*ir.Value, axis int) *ir.Value {
	for i, v := range list {
		list[i] = Reshape(g.Builder, v, slices.Insert(slices.Clone(v.Type.Shape), axis, one)...)
	}
	if len(list) == 1 {
		return list[0]
	}
	return Concat(g.Builder, int64(axis), list...)
}

// seen returns, for each element of a window's kernel in order, the elements of x that it sees from positions of the
// given shape: [N, C, o…], 0 outside x.
func (g *Gradients) seen(x *ir.Value, w Window, positions []sym.Expr) []*ir.Value {
	b, rank := g.Builder, len(x.Type.Shape)
	begin, end := make([]sym.Expr, rank), make([]sym.Expr, rank)
	step := slices.Repeat([]int64{1}, rank)
	padded := false
	for i, extent := range positions {
		begin[2+i], step[2+i] = w.Begin[i], w.Strides[i]
		reach := extent.Sub(one).Mul(sym.Const(w.Strides[i])).Add(sym.Const(w.Extent(i)))
		end[2+i] = reach.Sub(w.Begin[i]).Sub(x.Type.Shape[2+i]).Max(sym.Const(0))
		padded = padded || !isZero(begin[2+i]) || !isZero(end[2+i])
	}
	if padded {
		x = Pad(b, x, nil, "constant", begin, end)
	}
	var out []*ir.Value
	tensor.Each(w.Kernel, func(k []int64) {
		from := make([]sym.Expr, rank)
		for i := range k {
			from[2+i] = sym.Const(k[i] * w.Dilations[i])
		}
		out = append(out, Slice(b, x, from, append(slices.Clone(x.Type.Shape[:2]), positions...), step))
	})
	return out
}

// convolutionTransposeGrad returns, by the input, a convolution and, by the weights, the gradient of a convolution with
// input and result exchanged.
func convolutionTransposeGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	x, weights, u := n.Inputs[0], n.Inputs[1], up[0]
	window, groups := g.windowFirst(n), n.Attrs.Int("groups", 1)
	out := make([]*ir.Value, len(n.Inputs))
	if u, w := g.unnegative(u, window); g.Wants(x) {
		out[0] = Convolution(g.Builder, u, weights, nil, w, groups)
	}
	if u, w := g.unnegative(u, window); g.Wants(weights) {
		out[1] = g.kernelGrad(u, x, w, groups)
	}
	if bias := input(n, 2); g.Wants(bias) {
		out[2] = ReduceSum(g.Builder, u, false, notChannels(u)...)
	}
	return out
}

// unnegative cuts x by its negative padding, and returns the window without it.
func (g *Gradients) unnegative(x *ir.Value, w Window) (*ir.Value, Window) {
	rank := len(x.Type.Shape)
	w.Begin, w.End = slices.Clone(w.Begin), slices.Clone(w.End)
	begin, end, cuts := make([]sym.Expr, rank), make([]sym.Expr, rank), false
	for i := range w.Kernel {
		for _, side := range []struct{ list, pad []sym.Expr }{{w.Begin, begin}, {w.End, end}} {
			if g.Dims().LE(sym.Const(0), side.list[i]) != sym.Yes {
				side.pad[2+i], cuts = side.list[i].Min(sym.Const(0)), true
				side.list[i] = side.list[i].Max(sym.Const(0))
			}
		}
	}
	if !cuts {
		return x, w
	}
	return Pad(g.Builder, x, nil, "constant", begin, end), w
}

// spreadEvenly adds the derivative at each window position to all elements that the window covers there.
func (g *Gradients) spreadEvenly(u *ir.Value, w Window, shape []sym.Expr) *ir.Value {
	b := g.Builder
	single := append([]sym.Expr{product(u.Type.Shape[:2]), one}, u.Type.Shape[2:]...)
	ones := Expand(b, g.number(u, 1), append([]sym.Expr{one, one}, ir.Constants(w.Kernel)...)...)
	back := w
	back.End = slices.Clone(w.End)
	for i, extent := range shape[2:] {
		back.End[i] = u.Type.Shape[2+i].Sub(one).Mul(sym.Const(w.Strides[i])).Add(sym.Const(w.Extent(i))).Sub(w.Begin[i]).
			Sub(extent)
	}
	return Reshape(b, ConvolutionTranspose(b, Reshape(b, u, single...), ones, nil, back, 1), shape...)
}

// averagePoolGrad spreads the derivative, divided by the number of elements of each average, over the window.
func averagePoolGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	x, window := n.Inputs[0], g.windowFirst(n)
	return []*ir.Value{g.spreadEvenly(g.div(up[0], g.counts(n, window, up[0])), window, x.Type.Shape)}
}

// counts returns the number of elements of the average at each position: the product of the counts along each axis,
// broadcast.
func (g *Gradients) counts(n *ir.Node, w Window, u *ir.Value) *ir.Value {
	rank := len(u.Type.Shape)
	fixed, total := int64(1), (*ir.Value)(nil)
	for i := range w.Kernel {
		if w.Unpadded(i) && !n.Attrs.Bool("ceil") {
			fixed *= w.Kernel[i]
			continue
		}
		line := slices.Repeat([]sym.Expr{one}, rank)
		line[2+i] = u.Type.Shape[2+i]
		count := Reshape(g.Builder, Cast(g.Builder, g.counted1(n, w, i, line[2+i]), u.Type.DType), line...)
		if total == nil {
			total = count
		} else {
			total = g.mul(total, count)
		}
	}
	if total == nil {
		return g.number(u, float64(fixed))
	}
	return g.times(total, float64(fixed))
}

// counted1 returns, for each position along an axis, the number of kernel elements that count: in x or, if the node
// counts padding, in the padded x.
func (g *Gradients) counted1(n *ir.Node, w Window, axis int, positions sym.Expr) *ir.Value {
	low, high := sym.Const(0), n.Inputs[0].Type.Shape[2+axis]
	if n.Attrs.Bool("padded") {
		low, high = w.Begin[axis].Neg(), high.Add(w.End[axis])
	}
	shape := []sym.Expr{positions, sym.Const(w.Kernel[axis])}
	at := g.plus(g.scaled(g.counted(dtype.I64, shape, 0), w.Strides[axis]),
		g.scaled(g.counted(dtype.I64, shape, 1), w.Dilations[axis]))
	at = g.sub(at, g.integer(w.Begin[axis]))
	inside := g.op(loop.And, g.op(loop.Ge, at, g.integer(low)), g.op(loop.Lt, at, g.integer(high)))
	return ReduceSum(g.Builder, Cast(g.Builder, inside, dtype.I64), false, 1)
}

// scaled returns integers times a constant.
func (g *Gradients) scaled(x *ir.Value, by int64) *ir.Value {
	return g.mul(x, g.integer(sym.Const(by)))
}

// lpPoolGrad is the gradient of y = (Σ|x|ᵖ)^(1/p): sign x·|x|^(p−1) times y^(1−p), spread over the window.
func lpPoolGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	x, y, window, p := n.Inputs[0], n.Outputs[0], g.windowFirst(n), n.Attrs.Int("p", 2)
	u, slope := up[0], g.f(loop.Sign, x)
	switch p {
	case 1:
	case 2:
		u, slope = g.div(u, y), x
	default:
		u = g.mul(u, g.op(loop.Pow, y, g.number(y, float64(1-p))))
		slope = g.mul(slope, g.op(loop.Pow, g.f(loop.Abs, x), g.number(x, float64(p-1))))
	}
	if p > 1 {
		u = g.choose(g.op(loop.Eq, y, g.number(y, 0)), nil, u)
	}
	return []*ir.Value{g.mul(slope, g.spreadEvenly(u, window, x.Type.Shape))}
}

// maxPoolGrad adds each position's derivative to the first of the largest elements that its window sees.
func maxPoolGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	x, window := n.Inputs[0], g.windowFirst(n)
	if !n.Attrs.Bool("ceil") && disjoint(window, x.Type.Shape[2:]) {
		return []*ir.Value{g.toLargestDisjoint(x, n.Outputs[0], up[0], window)}
	}
	_, indices := MaxPoolIndices(g.Builder, x, window, n.Attrs.Bool("ceil"), false)
	return []*ir.Value{g.toLargest(x, indices, up[0], false)}
}

// mostDisjoint is the largest number of elements of a kernel that are compared one by one.
const mostDisjoint = 16

// disjoint reports whether the window's positions are disjoint and read all different elements of constant extents: no
// padding, no dilation, strides equal to the kernel, and a kernel of 2 to mostDisjoint elements.
func disjoint(w Window, shape []sym.Expr) bool {
	if product(ir.Constants(w.Kernel)).Equal(one) || sym.NewDims().LE(product(ir.Constants(w.Kernel)),
		sym.Const(mostDisjoint)) != sym.Yes {
		return false
	}
	for i, extent := range shape {
		size, fixed := extent.Const()
		if !fixed || size < w.Kernel[i] || !w.Unpadded(i) || w.Dilations[i] != 1 || w.Strides[i] != w.Kernel[i] {
			return false
		}
	}
	return true
}

// toLargestDisjoint is toLargest for a window whose positions are disjoint: it compares each element of a position with
// the largest one, y.
func (g *Gradients) toLargestDisjoint(x, y, u *ir.Value, w Window) *ir.Value {
	b, shape, rank := g.Builder, x.Type.Shape, len(x.Type.Shape)
	step := append([]int64{1, 1}, w.Strides...)
	var pieces []*ir.Value
	var found *ir.Value
	tensor.Each(w.Kernel, func(k []int64) {
		v := Slice(b, x, append(zeros(2), ir.Constants(k)...), u.Type.Shape, step)
		is := g.op(loop.Or, g.op(loop.Eq, v, y), g.op(loop.Ne, v, v))
		if found == nil {
			found = is
		} else {
			is, found = g.op(loop.And, is, Unary(b, loop.Not, found)), g.op(loop.Or, is, found)
		}
		pieces = append(pieces, g.choose(is, u, nil))
	})
	end := make([]sym.Expr, rank)
	for i := len(w.Kernel) - 1; i >= 0; i-- {
		k := int(w.Kernel[i])
		joined := make([]*ir.Value, 0, len(pieces)/k)
		for row := range slices.Chunk(pieces, k) {
			v := g.stacked(slices.Clone(row), 3+i)
			shape := slices.Clone(row[0].Type.Shape)
			shape[2+i] = shape[2+i].Mul(sym.Const(int64(k)))
			joined = append(joined, Reshape(b, v, shape...))
		}
		pieces = joined
		end[2+i] = shape[2+i].Sub(pieces[0].Type.Shape[2+i])
	}
	return Pad(b, pieces[0], nil, "constant", zeros(rank), end)
}

// maxPoolIndicesGrad adds each position's derivative at the index that the node returned.
func maxPoolIndicesGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	if up[0] == nil {
		return []*ir.Value{nil}
	}
	g.windowFirst(n)
	return []*ir.Value{g.toLargest(n.Inputs[0], n.Outputs[1], up[0], n.Attrs.Bool("columns"))}
}

// toLargest adds derivatives at indices into a tensor of x's shape, plane by plane. If a window sees no element, its
// index is −1 and its derivative is dropped.
func (g *Gradients) toLargest(x, indices, u *ir.Value, columns bool) *ir.Value {
	b, shape := g.Builder, x.Type.Shape
	images, plane := product(shape[:2]), product(shape[2:])
	flat := func(v *ir.Value) *ir.Value { return Reshape(b, v, images, product(v.Type.Shape[2:])) }
	nowhere := g.op(loop.Lt, indices, g.integer(sym.Const(0)))
	at := Binary(b, loop.FloorMod, flat(g.choose(nowhere, nil, indices)), g.integer(plane.Max(one)))
	d := ScatterElements(b, g.zeros(u.Type.DType, images, plane), at, flat(g.choose(nowhere, nil, u)), 1, "add")
	if !columns || len(shape) == 3 {
		return Reshape(b, d, shape...)
	}
	turned, perm := slices.Clone(shape), []int64{0, 1}
	slices.Reverse(turned[2:])
	for i := len(shape) - 1; i > 1; i-- {
		perm = append(perm, int64(i))
	}
	return Transpose(b, Reshape(b, d, turned...), perm...)
}

// lrnGrad is the gradient of y = x·s^−β with s = bias + α/size·Σx² over a window: u·s^−β − 2αβ/size·x·Σ u·y/s, the last
// sum over the mirrored window.
func lrnGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	x, u := n.Inputs[0], up[0]
	size, alpha, beta := n.Attrs.Int("size", 1), n.Attrs.Float("alpha", 1e-4), n.Attrs.Float("beta", 0.75)
	before, after := (size-1)/2, size-1-(size-1)/2
	each := alpha / float64(size)
	base := g.above(g.times(g.channelSums(g.mul(x, x), before, after), each), n.Attrs.Float("bias", 1))
	power := g.op(loop.Pow, base, g.number(base, -beta))
	back := g.channelSums(g.div(g.mul(u, g.mul(x, power)), base), after, before)
	return []*ir.Value{g.sub(g.mul(u, power), g.mul(x, g.times(back, 2*each*beta)))}
}

// channelSums sums each channel with the given numbers of channels before and after it, as differences of running sums.
func (g *Gradients) channelSums(x *ir.Value, before, after int64) *ir.Value {
	b, shape := g.Builder, x.Type.Shape
	channels := shape[1]
	last := g.integer(channels.Sub(one).Max(sym.Const(0)))
	sums := CumSum(b, x, 1, false, false)
	ends := func(by int64) *ir.Value {
		at := g.plus(Counting(b, dtype.I64, channels), g.integer(sym.Const(min(by, widestExtent))))
		return Binary(b, loop.Min, at, last)
	}
	total := Gather(b, sums, ends(after), 1)
	first := g.sub(Counting(b, dtype.I64, channels), g.integer(sym.Const(min(before, widestExtent)+1)))
	outside := g.op(loop.Lt, first, g.integer(sym.Const(0)))
	lower := Gather(b, sums, g.choose(outside, nil, first), 1)
	return g.sub(total, g.choose(AlongAxis(b, outside, 1, len(shape)), nil, lower))
}
