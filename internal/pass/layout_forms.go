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

// formOf returns the form of a node on tensors whose channels are last; nil if it has none. The pass itself knows the
// forms of convolutions and of the transposes and reshapes around them; all other operators define their own.
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

// ownForm returns the form that the node's operator defines; nil if there is none.
func (l *layout) ownForm(n *ir.Node) *form {
	of := ops.Of(n)
	if of.Last == nil {
		return nil
	}
	how := of.Last(l.Dims(), n)
	if how == nil {
		return nil
	}
	f := &form{images: how.Images, dropsChannels: how.DropsChannels}
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

// with returns a node's attributes with the changed ones replaced.
func with(n *ir.Node, changed ir.Attrs) ir.Attrs {
	attrs := maps.Clone(n.Attrs)
	maps.Copy(attrs, changed)
	return attrs
}

// convolution builds a convolution with its weights transposed, and with groups of few output channels joined.
func (l *layout) convolution(b *ir.Builder, n *ir.Node, in []*ir.Value) *ir.Value {
	in, groups := slices.Clone(in), n.Attrs.Int("groups", 1)
	perm, attrs := ops.WeightsLast(n), ir.Attrs{"last": true}
	if w := l.constant(in[1], in[1].Type.Shape, perm); w != nil {
		if in[1] = w; !l.withoutHoles {
			if in[1], attrs["groups"] = joinedGroups(b, w, groups, l.costs.Lanes()); attrs["groups"] != groups {
				attrs["holes"] = true
			}
		}
	} else {
		in[1] = turned(b, in[1], perm)
	}
	return b.Op(n.Op.Name(), with(n, attrs), in...)
}

// joinedGroups joins several groups of few output channels to one. The weights [k…, I, O] of a group get holes for the
// inputs of the other groups: sums become fewer and longer, and a group's filters fill the lanes.
func joinedGroups(b *ir.Builder, w *ir.Value, groups, lanes int64) (*ir.Value, int64) {
	shape := slices.Clone(w.Const.Shape())
	rank := len(shape)
	inner, each := shape[rank-2], shape[rank-1]/max(groups, 1)
	if w.Const.DType() != dtype.F32 || groups < 2 || inner < 2 || each < 1 || each >= lanes {
		return w, groups
	}
	join := int64(1)
	for d := int64(2); d <= groups && join*each < lanes; d++ {
		if groups%d == 0 {
			join = d
		}
	}
	if join*inner > 4*lanes {
		return w, groups
	}
	shape[rank-2] = join * inner
	joined := tensor.Must(tensor.New(w.Const.DType(), shape...))
	from, to := floats(w.Const), floats(joined)
	filters := shape[rank-1]
	// a row is the weights of one kernel element and input channel
	for row := int64(0); row*filters < int64(len(from)); row++ {
		element, i := row/inner, row%inner
		for o := range filters {
			to[(element*join*inner+o/each%join*inner+i)*filters+o] = noHole(from[row*filters+o])
		}
	}
	return b.Constant(w.Name, joined), groups / join
}

// noHole returns a weight as it stands among holes: 0 becomes −0, since 0 is a hole; see ops.HasHoles.
func noHole[T float32 | float64](w T) T {
	if w == 0 {
		return T(math.Copysign(0, -1))
	}
	return w
}

// formOfGroups returns the form of a group normalisation: [N, C, d…] is reshaped to [N, groups, …], normalised along
// all axes after these two, and reshaped to [N, C, d…]. With channels last, each channel's positions are summed first,
// and then the sums of a group's channels are added.
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
	axes := ops.AxesLast(norm) // all axes but the first and the channels'
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

// formOfTranspose returns the form of a transpose that moves channels first or last. With three axes, one permutation
// does both: if the operand's node has a form with channels, the transpose moves them last.
func formOfTranspose(l *layout, n *ir.Node) *form {
	rank := len(n.Attrs.Ints("perm"))
	if rank < 3 {
		return nil
	}
	gain := l.bytes(n.Outputs[0]) + 1 // the model's transpose is preferred to a new one
	same := func(_ *ir.Builder, _ *ir.Node, in []*ir.Value) *ir.Value { return in[0] }
	from := l.forms[n.Inputs[0].Node]
	switch perm := permutation(n); {
	case slices.Equal(perm, ops.ChannelsFirst(rank)) && !(rank == 3 && from != nil && !from.dropsChannels):
		return &form{images: []bool{false}, gain: gain, build: same}
	case slices.Equal(perm, ops.ChannelsLast(rank)):
		return &form{images: []bool{true}, dropsChannels: true, gain: gain, build: same}
	}
	return nil
}

// formOfFunction returns the form of a function of single elements. Operands with fewer axes get axes of 1 in front.
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

// reshapedLast returns an operand in the given shape, with its channels last.
func (l *layout) reshapedLast(b *ir.Builder, v *ir.Value, shape []sym.Expr) *ir.Value {
	perm := ops.ChannelsLast(len(shape))
	if c := l.constant(v, shape, perm); c != nil {
		return c
	}
	return turned(b, ops.Reshape(b, v, shape...), perm)
}
