package pass

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// phasesAxis describes a transposed convolution along one axis, with stride s: for each tap, output s·u + t sees input
// u + tap − begin through element first[t] + s·(last[t] − tap) of the kernel, if the kernel has that element. The
// convolution's outputs begin at output cut.
type phasesAxis struct {
	stride, kernel, taps int64
	begin                int64
	first, last          []int64 // by t
	cut                  int64
	outputs              sym.Expr // number of all outputs, a multiple of the stride
}

// phasesOf returns how to compute a transposed convolution along an axis. If that takes no more taps, output 0 is the
// first output of the convolution.
func phasesOf(stride, kernel, begin int64, extent sym.Expr) phasesAxis {
	reach := (kernel + stride - 1) / stride // the least number of taps of each t
	make := func(cut int64) phasesAxis {
		a := phasesAxis{stride: stride, kernel: kernel, cut: cut}
		least, most := (begin-cut)/stride, (stride-1+begin-cut)/stride
		a.taps, a.begin = reach+most-least, reach-1-least
		for t := range stride {
			at := t + begin - cut
			a.first, a.last = append(a.first, at%stride), append(a.last, at/stride+a.begin)
		}
		a.outputs = extent.Add(sym.Const(cut)).CeilDiv(sym.Const(stride)).Mul(sym.Const(stride))
		return a
	}
	if a := make(0); a.taps == reach {
		return a
	}
	return make(begin)
}

// element returns the index of the kernel's element through which t sees a tap; false if there is none.
func (a phasesAxis) element(t, tap int64) (int64, bool) {
	k := a.first[t] + a.stride*(a.last[t]-tap)
	return k, tap <= a.last[t] && k < a.kernel
}

// full reports whether every output sees an element of the kernel at every tap.
func (a phasesAxis) full() bool {
	for t := range a.stride {
		for tap := range a.taps {
			if _, some := a.element(t, tap); !some {
				return false
			}
		}
	}
	return true
}

// mostSeparate is the largest number of convolutions that a transposed convolution is divided into.
const mostSeparate = 27

// separateAxis describes, along one axis, the convolution with stride 1 that gives every stride-th output of a
// transposed convolution. elements are the indices of the kernel's elements that it reads, in the order of the inputs
// they see.
type separateAxis struct {
	elements        []int64
	dilation, begin int64
}

// separateOf divides a transposed convolution along an axis with stride s: element t of the result gives the outputs
// s·u + t.
func separateOf(stride, kernel, dilation, begin int64) []separateAxis {
	list := make([]separateAxis, stride)
	for t := range list {
		a := separateAxis{dilation: 1}
		least := int64(0)
		for k := kernel - 1; k >= 0; k-- {
			p := int64(t) + begin - k*dilation // times the stride: from output u on, the input that element k sees
			if p%stride != 0 {
				continue
			}
			switch len(a.elements) {
			case 0:
				least = p / stride
			case 1:
				a.dilation = p/stride - least
			}
			a.elements = append(a.elements, k)
		}
		a.begin = -least
		list[t] = a
	}
	return list
}

// transposed describes how a transposed convolution is computed: along the first axes by separate convolutions, and
// along the other axes by one convolution whose channels hold strides × strides neighbouring outputs.
type transposed struct {
	separate [][]separateAxis
	joined   []phasesAxis
}

// formOfTransposed returns the form of a transposed convolution: convolutions with stride 1 whose outputs are
// interleaved.
func formOfTransposed(l *layout, n *ir.Node) *form {
	if n.Outputs[0].Type.DType != dtype.F32 {
		return nil
	}
	var begin []int64
	for _, e := range n.Attrs.Exprs("begin") {
		v, fixed := e.Const()
		if !fixed || v < 0 {
			return nil
		}
		begin = append(begin, v)
	}
	how := l.chooseTransposed(n, begin)
	if how == nil {
		return nil
	}
	images := make([]bool, len(n.Inputs))
	images[0] = true
	return &form{images: images, gain: unbreakable, build: func(b *ir.Builder, n *ir.Node, in []*ir.Value) *ir.Value {
		p := &pieces{extents: n.Outputs[0].Type.Shape[2:], how: how}
		if l.inColumns(n, how) {
			p = columnsOf(b, n, in[0], begin)
		} else {
			p.of(b, n, in[0])
		}
		y := p.put(b)
		l.pieces[y] = p
		return y
	}}
}

// input returns a node's input; nil if it has none of that index.
func input(n *ir.Node, i int) *ir.Value {
	if i < len(n.Inputs) {
		return n.Inputs[i]
	}
	return nil
}

// chooseTransposed chooses the number of joined axes that costs least, in multiplications and in movements of outputs;
// nil if the convolution cannot be computed so.
func (l *layout) chooseTransposed(n *ir.Node, begin []int64) *transposed {
	strides, kernel, dilations := n.Attrs.Ints("strides"), n.Attrs.Ints("kernel"), n.Attrs.Ints("dilations")
	groups, w := n.Attrs.Int("groups", 1), n.Inputs[1].Type.Shape
	channels, known := w[0].Const()
	filters, fixed := w[1].Const()
	if !known || !fixed || groups < 1 {
		return nil
	}
	inner, axes, noHoles := channels/groups, len(begin), l.withoutHoles || n.Inputs[1].Const == nil // without holes
	var best *transposed
	least, lanes := int64(0), l.costs.Lanes()
	for _, joined := range []int{1, axes, 0} {
		how := &transposed{}
		cost, moved, count, channels, full := inner, false, int64(1), groups*filters, true
		for i := range axes {
			if i < axes-joined {
				list := separateOf(strides[i], kernel[i], dilations[i], begin[i])
				how.separate, count, cost = append(how.separate, list), count*strides[i], cost*kernel[i]
				continue
			}
			a := phasesOf(strides[i], kernel[i], begin[i], n.Outputs[0].Type.Shape[2+i])
			how.joined = append(how.joined, a)
			cost, channels, full = cost*a.taps, channels*strides[i], full && a.full()
			moved = moved || a.cut != 0 || joined > 1 || groups > 1
		}
		if count > mostSeparate || joined > 0 && (noHoles && !full || slices.ContainsFunc(dilations[axes-joined:],
			func(d int64) bool {
				return d != 1
			})) {
			continue
		}
		if count > 1 && channels < lanes/2 {
			moved = true // so few channels are not written directly between others
		}
		if cost *= (channels + lanes - 1) / lanes; moved {
			cost += l.costs.MovedCost() * ((channels*count + lanes - 1) / lanes)
		}
		if best == nil || cost < least {
			best, least = how, cost
		}
	}
	return best
}

// pieces are the outputs of a transposed convolution, or of functions of its elements, before they are interleaved. A
// piece, [N, u…, O], has the outputs of one position among the neighbours along the separate axes.
type pieces struct {
	how     *transposed
	extents []sym.Expr // by spatial axis: the extent of the interleaved result
	list    []*ir.Value
}

// of builds the convolutions of x, whose channels are last.
func (p *pieces) of(b *ir.Builder, n *ir.Node, x *ir.Value) {
	var counts []int64
	for _, list := range p.how.separate {
		counts = append(counts, int64(len(list)))
	}
	tensor.Each(counts, func(at []int64) { p.list = append(p.list, p.convolution(b, n, x, at)) })
}

// convolution builds one piece.
func (p *pieces) convolution(b *ir.Builder, n *ir.Node, x *ir.Value, at []int64) *ir.Value {
	groups, bias := n.Attrs.Int("groups", 1), input(n, 2)
	filters, _ := n.Inputs[1].Type.Shape[1].Const()
	window, shape, holes := ops.Window{}, []sym.Expr{x.Type.Shape[0]}, false
	var neighbours []int64 // by joined axis
	all := int64(1)
	along := func(i int, taps, dilation, begin int64, count sym.Expr) {
		window.Kernel, window.Strides, window.Dilations = append(window.Kernel, taps), append(window.Strides, 1),
			append(window.Dilations, dilation)
		window.Begin = append(window.Begin, sym.Const(begin))
		reach := (taps - 1) * dilation
		window.End = append(window.End, b.Dims().Simplify(count.Sub(x.Type.Shape[1+i]).Add(sym.Const(reach-begin))))
		shape = append(shape, count)
	}
	for i, t := range at {
		a := p.how.separate[i][t]
		along(i, int64(len(a.elements)), a.dilation, a.begin,
			b.Dims().Simplify(p.extents[i].CeilDiv(sym.Const(int64(len(p.how.separate[i]))))))
	}
	for i, a := range p.how.joined {
		along(len(at)+i, a.taps, 1, a.begin, a.outputs.FloorDiv(sym.Const(a.stride)))
		neighbours, all, holes = append(neighbours, a.stride), all*a.stride, holes || !a.full()
	}
	shape = append(shape, sym.Const(groups*filters*all))
	if slices.Contains(window.Kernel, 0) {
		value := bias
		if bias == nil {
			value = b.Constant(n.Inputs[1].Name, tensor.Must(tensor.New(dtype.F32, groups*filters*all)))
		} else {
			value = repeated(b, bias, groups, all)
		}
		return p.split(b, ops.Expand(b, value, shape...), groups, neighbours)
	}
	weights := p.computed
	if n.Inputs[1].Const != nil {
		weights = p.constant
	}
	attrs := window.Attrs()
	attrs["groups"], attrs["last"] = groups, true
	if holes {
		attrs["holes"] = true
	}
	inputs := []*ir.Value{x, weights(b, n, at, window.Kernel, neighbours)}
	if bias != nil {
		inputs = append(inputs, repeated(b, bias, groups, all))
	}
	return p.split(b, b.Op("convolution", attrs, inputs...), groups, neighbours)
}

// constant returns the weights of a piece, [taps…, I, groups · neighbours · O], for the given numbers of taps and
// neighbours by axis.
func (p *pieces) constant(b *ir.Builder, n *ir.Node, at, taps, neighbours []int64) *ir.Value {
	w, groups, all := n.Inputs[1].Const, n.Attrs.Int("groups", 1), int64(1)
	inner, filters, holes := w.Shape()[0]/groups, w.Shape()[1], false
	for _, a := range p.how.joined {
		all, holes = all*a.stride, holes || !a.full()
	}
	weights := tensor.Must(tensor.New(w.DType(), append(slices.Clone(taps), inner, all*groups*filters)...))
	from, to := tensor.Strides(w.Shape()), int64(0)
	tensor.Each(taps, func(tap []int64) {
		element := int64(0)
		for i, t := range at {
			element += p.how.separate[i][t].elements[tap[i]] * from[2+i]
		}
		for row := range inner * groups { // a row is an input channel of a group
			tensor.Each(neighbours, func(t []int64) {
				at, some := element+(row%groups*inner+row/groups)*from[0], true
				for i, a := range p.how.joined {
					axis := len(p.how.separate) + i
					k, ok := a.element(t[i], tap[axis])
					at, some = at+k*from[2+axis], some && ok
				}
				for o := range filters {
					if some {
						v := w.Float(at + o*from[1])
						if holes {
							v = noHole(v)
						}
						weights.SetFloat(to, v)
					}
					to++
				}
			})
		}
	})
	return b.Constant(n.Inputs[1].Name, weights)
}

// computed is constant for weights that are computed and have no holes: it orders the kernel's elements along each
// axis, and then the axes.
func (p *pieces) computed(b *ir.Builder, n *ir.Node, at, taps, neighbours []int64) *ir.Value {
	w, groups, separate := n.Inputs[1], n.Attrs.Int("groups", 1), len(at)
	channels, _ := w.Type.Shape[0].Const()
	filters, _ := w.Type.Shape[1].Const()
	shape, columns := []int64{groups, channels / groups, filters}, []int64{0}
	perm := make([]int64, len(taps), len(taps)+3)
	for i, count := range taps {
		var elements []int64
		if i < separate {
			elements = p.how.separate[i][at[i]].elements
		} else {
			for tap := range count {
				for t := range neighbours[i-separate] {
					k, _ := p.how.joined[i-separate].element(t, tap)
					elements = append(elements, k)
				}
			}
		}
		w = ops.Gather(b, w, b.Constant("elements", tensor.Must(tensor.FromSlice(elements, int64(len(elements))))),
			int64(2+i))
		perm[i], shape = int64(len(shape)), append(shape, count)
		if i >= separate {
			columns, shape = append(columns, int64(len(shape))), append(shape, neighbours[i-separate])
		}
	}
	perm = append(append(append(perm, 1), columns...), 2)
	w = ops.Transpose(b, ops.Reshape(b, w, ir.Constants(shape)...), perm...)
	last := groups * filters
	for _, s := range neighbours {
		last *= s
	}
	return ops.Reshape(b, w, ir.Constants(append(slices.Clone(taps), channels/groups, last))...)
}

// repeated returns a bias in which each group's elements are repeated times times.
func repeated(b *ir.Builder, bias *ir.Value, groups, times int64) *ir.Value {
	if times == 1 {
		return bias
	}
	if bias.Const == nil {
		count, _ := bias.Type.Shape[0].Const()
		each := ops.Reshape(b, bias, ir.Constants([]int64{groups, 1, count / groups})...)
		return ops.Reshape(b, ops.Expand(b, each, ir.Constants([]int64{groups, times, count / groups})...),
			sym.Const(count*times))
	}
	filters := bias.Const.Len() / groups
	all := tensor.Must(tensor.New(bias.Const.DType(), groups*times*filters))
	for i := range all.Len() {
		all.SetFloat(i, bias.Const.Float(i/(times*filters)*filters+i%filters))
	}
	return b.Constant(bias.Name, all)
}

// split moves the neighbours, which are channels of y, to the joined axes.
func (p *pieces) split(b *ir.Builder, y *ir.Value, groups int64, neighbours []int64) *ir.Value {
	if len(neighbours) == 0 {
		return y
	}
	shape, separate := y.Type.Shape, len(p.how.separate)
	split, perm, joined := slices.Clone(shape[:1+separate]), []int64{}, slices.Clone(shape[:1+separate])
	for i := range 1 + separate {
		perm = append(perm, int64(i))
	}
	filters := shape[len(shape)-1]
	for i, s := range neighbours {
		split = append(split, shape[1+separate+i])
		perm = append(perm, int64(1+separate+i), int64(1+separate+len(neighbours)+i))
		joined = append(joined, p.how.joined[i].outputs)
		filters = filters.FloorDiv(sym.Const(s))
	}
	if groups > 1 {
		for i := range neighbours {
			perm[2+separate+2*i]++
		}
		split, perm = append(split, sym.Const(groups)), append(perm, int64(len(split)))
	}
	joined = append(joined, filters)
	for _, s := range neighbours {
		split = append(split, sym.Const(s))
	}
	split, perm = append(split, filters.FloorDiv(sym.Const(groups))), append(perm, int64(len(split)))
	return ops.Reshape(b, ops.Transpose(b, ops.Reshape(b, y, split...), perm...), joined...)
}

// put interleaves the pieces.
func (p *pieces) put(b *ir.Builder) *ir.Value {
	list := p.list
	for axis := len(p.how.separate) - 1; axis >= 0; axis-- {
		count := len(p.how.separate[axis])
		if count == 1 {
			continue
		}
		var next []*ir.Value
		for ; len(list) > 0; list = list[count:] {
			shape := list[0].Type.Shape
			var side []*ir.Value
			for _, v := range list[:count] {
				side = append(side, ops.Reshape(b, v, slices.Insert(slices.Clone(shape), 2+axis, sym.Const(1))...))
			}
			joined := slices.Clone(shape)
			joined[1+axis] = shape[1+axis].Mul(sym.Const(int64(count)))
			next = append(next, ops.Reshape(b, ops.Concat(b, int64(2+axis), side...), joined...))
		}
		list = next
	}
	y := list[0]
	shape := y.Type.Shape
	begin, extent, step, cut := []sym.Expr{{}}, []sym.Expr{shape[0]}, []int64{1}, false
	for i, want := range p.extents {
		from := int64(0)
		if i >= len(p.how.separate) {
			from = p.how.joined[i-len(p.how.separate)].cut
		}
		begin, extent, step = append(begin, sym.Const(from)), append(extent, want), append(step, 1)
		cut = cut || from != 0 || b.Dims().EQ(shape[1+i], want) != sym.Yes
	}
	if cut {
		y = ops.Slice(b, y, append(begin, sym.Expr{}), append(extent, shape[len(shape)-1]), append(step, 1))
	}
	return y
}

// like reports whether pieces lie as others do.
func (p *pieces) like(q *pieces) bool {
	same := len(p.how.separate) == len(q.how.separate) && slices.EqualFunc(p.extents, q.extents, sym.Expr.Equal)
	for i := range p.how.separate {
		same = same && len(p.how.separate[i]) == len(q.how.separate[i])
	}
	for i, a := range p.how.joined {
		same = same && a.cut == q.how.joined[i].cut
	}
	return same
}

// inPieces builds a function of single elements of pieces, and of channels' constants, by piece; nil if there are none.
func (l *layout) inPieces(b *ir.Builder, n *ir.Node, in []*ir.Value) *ir.Value {
	var p *pieces
	for _, v := range in {
		q := l.pieces[v]
		switch {
		case q == nil:
			if v.Const == nil || slices.ContainsFunc(v.Type.Shape[:max(len(v.Type.Shape)-1, 0)], func(e sym.Expr) bool {
				return !isOne(e)
			}) {
				return nil
			}
		case p == nil:
			p = q
		case !p.like(q):
			return nil
		}
	}
	if p == nil || len(p.how.separate) == 0 {
		return nil
	}
	next := &pieces{how: p.how, extents: p.extents}
	for i := range p.list {
		operands := slices.Clone(in)
		for j, v := range in {
			if q := l.pieces[v]; q != nil {
				operands[j] = q.list[i]
			}
		}
		next.list = append(next.list, b.Op(n.Op.Name(), n.Attrs, operands...))
	}
	y := next.put(b)
	l.pieces[y] = next
	return y
}
