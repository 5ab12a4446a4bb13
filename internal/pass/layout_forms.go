package pass

import (
	"maps"
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// formOf says how a node works on tensors whose channels are last; nil if it does not. Convolutions, and the transposes
// and reshapes around them, are what the pass rewrites; all other operators say it themselves.
func (l *layout) formOf(n *ir.Node) *form {
	f := l.ownForm(n)
	switch n.Op.Name() {
	case "convolution":
		f.build = l.convolution
	case "convolution_transpose":
		return formOfTransposed(l, n)
	case "transpose":
		return formOfTranspose(l, n)
	case "reshape":
		if f == nil {
			return formOfGroups(l, n)
		}
	}
	if f == nil && ops.Elementwise(n) {
		return formOfFunction(l, n)
	}
	return f
}

// ownForm is the form that the node's operator says it has.
func (l *layout) ownForm(n *ir.Node) *form {
	of := ops.Of(n)
	if of.Last == nil {
		return nil
	}
	how := of.Last(l.Dims(), n)
	if how == nil {
		return nil
	}
	f := &form{images: how.Images, plain: how.DropsChannels}
	f.build = func(b *ir.Builder, n *ir.Node, in []*ir.Value) *ir.Value {
		return b.Op(n.Op.Name(), with(n, how.Attrs), in...)
	}
	switch {
	case of.WantsLast:
		f.gain = unbreakable
	case how.Faster:
		f.gain = (l.bytes(n.Inputs[0]) + l.bytes(n.Outputs[0])) / 2
	}
	return f
}

// with is a node's attributes with some changed.
func with(n *ir.Node, changed ir.Attrs) ir.Attrs {
	attrs := maps.Clone(n.Attrs)
	maps.Copy(attrs, changed)
	return attrs
}

// convolution builds a convolution, with its weights turned, and with groups of few output channels joined.
func (l *layout) convolution(b *ir.Builder, n *ir.Node, in []*ir.Value) *ir.Value {
	in, groups := slices.Clone(in), n.Attrs.Int("groups", 1)
	perm, attrs := ops.WeightsLast(n), ir.Attrs{"last": true}
	if w := l.constant(in[1], in[1].Type.Shape, perm); w != nil {
		if in[1] = w; !l.withoutHoles {
			if in[1], attrs["groups"] = joinedGroups(b, w, groups); attrs["groups"] != groups {
				attrs["holes"] = true
			}
		}
	} else {
		in[1] = turned(b, in[1], perm)
	}
	return b.Op(n.Op.Name(), with(n, attrs), in...)
}

// fewestFilters is how many output channels of a group fill a product's columns.
const fewestFilters = 16

// joinedGroups makes one group of several that have few output channels each, whose weights [k…, I, O] get holes for
// the inputs of the other groups: as many lanes work, on fewer and longer sums.
func joinedGroups(b *ir.Builder, w *ir.Value, groups int64) (*ir.Value, int64) {
	shape := slices.Clone(w.Const.Shape())
	rank := len(shape)
	inner, each := shape[rank-2], shape[rank-1]/max(groups, 1)
	if w.Const.DType() != dtype.F32 || groups < 2 || inner < 2 || each < 1 || each >= fewestFilters {
		return w, groups
	}
	join := int64(1)
	for d := int64(2); d <= groups && join*each < fewestFilters; d++ {
		if groups%d == 0 {
			join = d
		}
	}
	if join*inner > 4*fewestFilters {
		return w, groups
	}
	shape[rank-2] = join * inner
	joined := tensor.Must(tensor.New(w.Const.DType(), shape...))
	from, to := floats(w.Const), floats(joined)
	filters := shape[rank-1]
	for row := int64(0); row*filters < int64(len(from)); row++ { // of one kernel element and input channel
		element, i := row/inner, row%inner
		for o := range filters {
			to[(element*join*inner+o/each%join*inner+i)*filters+o] = noHole(from[row*filters+o])
		}
	}
	return b.Constant(w.Name, joined), groups / join
}

// noHole is a weight as those with holes have it; see ops.HasHoles.
func noHole[T float32 | float64](w T) T {
	if w == 0 {
		return T(math.Copysign(0, -1))
	}
	return w
}

// formOfGroups is of [N, C, d…] taken as [N, groups, …], normalised along all axes after these two, and taken as
// [N, C, d…] again. With channels last, sums over positions are taken for each channel, and then the sums of a group's
// channels are added up.
func formOfGroups(l *layout, n *ir.Node) *form {
	norm := producer(n.Inputs[0], "normalize")
	if norm == nil || len(n.Inputs[0].Type.Shape) < 3 || l.uses[n.Inputs[0]] != 1 || len(n.Outputs[0].Type.Shape) < 3 {
		return nil
	}
	split := producer(norm.Inputs[0], "reshape")
	if split == nil || l.uses[norm.Inputs[0]] != 1 {
		return nil
	}
	x, shape := split.Inputs[0], n.Outputs[0].Type.Shape
	middle := norm.Outputs[0].Type.Shape
	groups, fixed := middle[1].Const()
	channels, known := shape[1].Const()
	axes := ops.AxesLast(norm) // of the last axes, in order: all but the first and the one that is last now
	for i, a := range axes {
		if a != int64(i+1) {
			return nil
		}
	}
	dt := x.Type.DType
	if !fixed || !known || groups < 1 || channels%groups != 0 || len(axes) != len(middle)-2 ||
		!sameShape(l.Dims(), x.Type.Shape, shape) || !sameShape(l.Dims(), shape[:1], middle[:1]) ||
		dt != dtype.F32 && dt != dtype.F64 {
		return nil
	}
	return &form{images: []bool{true}, from: []*ir.Value{x}, inner: []*ir.Node{split, norm},
		build: func(b *ir.Builder, n *ir.Node, in []*ir.Value) *ir.Value {
			return ops.NormalizeGroups(b, in[0], groups, channels/groups, norm.Attrs.Float("epsilon", 0),
				norm.Attrs.Bool("centered"))
		}}
}

// formOfTranspose is of transposes that bring channels to one of the two places. Of three axes, the same transpose
// brings them to either: if its operand is computed with channels, it brings them last.
func formOfTranspose(l *layout, n *ir.Node) *form {
	rank := len(n.Attrs.Ints("perm"))
	if rank < 3 {
		return nil
	}
	gain := l.bytes(n.Outputs[0]) + 1 // rather the one that is there than another
	same := func(_ *ir.Builder, _ *ir.Node, in []*ir.Value) *ir.Value { return in[0] }
	from := l.forms[n.Inputs[0].Node]
	switch perm := permutation(n); {
	case slices.Equal(perm, ops.ChannelsFirst(rank)) && !(rank == 3 && from != nil && !from.plain):
		return &form{images: []bool{false}, gain: gain, build: same}
	case slices.Equal(perm, ops.ChannelsLast(rank)):
		return &form{images: []bool{true}, plain: true, gain: gain, build: same}
	}
	return nil
}

// formOfFunction is of functions of single elements: operands of fewer axes get the others in front.
func formOfFunction(l *layout, n *ir.Node) *form {
	rank := len(n.Outputs[0].Type.Shape)
	f := &form{images: make([]bool, len(n.Inputs))}
	for i, v := range n.Inputs {
		if v == nil {
			return nil
		}
		f.images[i] = len(v.Type.Shape) == rank && rank >= 3
	}
	f.build = func(b *ir.Builder, n *ir.Node, in []*ir.Value) *ir.Value {
		in = slices.Clone(in)
		for i, v := range in {
			if f.images[i] || len(v.Type.Shape) < 2 && isOne(sym.Product(v.Type.Shape...)) {
				continue
			}
			shape := slices.Clone(v.Type.Shape)
			for len(shape) < rank {
				shape = slices.Insert(shape, 0, sym.Const(1))
			}
			in[i] = l.reshapedLast(b, v, shape)
		}
		if y := l.inPieces(b, n, in); y != nil {
			return y
		}
		return b.Op(n.Op.Name(), n.Attrs, in...)
	}
	return f
}

// reshapedLast is an operand in the given shape, with its channels last.
func (l *layout) reshapedLast(b *ir.Builder, v *ir.Value, shape []sym.Expr) *ir.Value {
	perm := ops.ChannelsLast(len(shape))
	if c := l.constant(v, shape, perm); c != nil {
		return c
	}
	return turned(b, ops.Reshape(b, v, shape...), perm)
}
