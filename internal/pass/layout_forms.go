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

// forms says by operator how its nodes work on tensors whose channels are last; functions of single elements are beside the table.
var forms = map[string]func(l *layout, n *ir.Node) *form{
	"convolution":           formOfConvolution,
	"convolution_transpose": formOfTransposed,
	"max_pool":              formOfPool,
	"average_pool":          formOfPool,
	"lp_pool":               formOfPool,
	"concat":                formOfAxis, "softmax": formOfAxis, "log_softmax": formOfAxis, "resample": formOfAxis, "cumsum": formOfAxis, "quantize": formOfAxis, "dequantize": formOfAxis,
	"pad":        formOfLists("begin", "end"),
	"slice":      formOfLists("begin", "extent", "step"),
	"expand":     formOfExpand,
	"normalize":  formOfAxes,
	"reduce_sum": formOfReduction, "reduce_prod": formOfReduction, "reduce_min": formOfReduction, "reduce_max": formOfReduction, "reduce_mean": formOfReduction, "reduce_l1": formOfReduction,
	"reduce_l2": formOfReduction, "reduce_sum_square": formOfReduction, "reduce_log_sum": formOfReduction, "reduce_log_sum_exp": formOfReduction,
	"reshape":   formOfReshape,
	"transpose": formOfTranspose,
}

// first says that a node's first input has channels, and the others none.
func first(n *ir.Node) []bool {
	images := make([]bool, len(n.Inputs))
	images[0] = true
	return images
}

// with is a node's attributes with some changed.
func with(n *ir.Node, changed ir.Attrs) ir.Attrs {
	attrs := maps.Clone(n.Attrs)
	maps.Copy(attrs, changed)
	return attrs
}

// whereLast is where an axis of a tensor goes when its channels become last.
func whereLast(axis int64, rank int) int64 {
	if axis < 0 {
		axis += int64(rank)
	}
	if axis < 0 || axis >= int64(rank) {
		return axis // one scale for all needs no axis
	}
	return inverted(ops.ChannelsLast(rank))[axis]
}

func formOfConvolution(l *layout, n *ir.Node) *form {
	return &form{images: first(n), gain: unbreakable, build: func(b *ir.Builder, n *ir.Node, in []*ir.Value) *ir.Value {
		in, groups := slices.Clone(in), n.Attrs.Int("groups", 1)
		perm, attrs := ops.WeightsLast(n), ir.Attrs{"last": true}
		if w := l.constant(in[1], in[1].Type.Shape, perm); w != nil {
			if in[1] = w; !l.exact {
				if in[1], attrs["groups"] = joinedGroups(b, w, groups); attrs["groups"] != groups {
					attrs["holes"] = true
				}
			}
		} else {
			in[1] = turned(b, in[1], perm)
		}
		return b.Op(n.Op.Name(), with(n, attrs), in...)
	}}
}

// fewestFilters is how many output channels of a group fill a product's columns.
const fewestFilters = 16

// joinedGroups makes one group of several that have few output channels each, whose weights [k…, I, O] get holes for the
// inputs of the other groups: as many lanes work, on fewer and longer sums.
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

// formOfPool: with its channels first, a window's elements lie apart from its neighbours'.
func formOfPool(l *layout, n *ir.Node) *form {
	return &form{images: first(n), gain: (l.bytes(n.Inputs[0]) + l.bytes(n.Outputs[0])) / 2, build: func(b *ir.Builder, n *ir.Node, in []*ir.Value) *ir.Value {
		return b.Op(n.Op.Name(), with(n, ir.Attrs{"last": true}), in...)
	}}
}

// formOfAxis is of operators along one axis.
func formOfAxis(l *layout, n *ir.Node) *form {
	images := first(n)
	if n.Op.Name() == "concat" {
		for i := range images {
			images[i] = true
		}
	}
	axis, named := n.Attrs["axis"].(int64)
	if !named || n.Attrs.Int("block", 0) != 0 {
		return nil
	}
	return &form{images: images, build: func(b *ir.Builder, n *ir.Node, in []*ir.Value) *ir.Value {
		return b.Op(n.Op.Name(), with(n, ir.Attrs{"axis": whereLast(axis, len(n.Inputs[0].Type.Shape))}), in...)
	}}
}

// formOfLists is of operators with lists over the axes.
func formOfLists(names ...string) func(l *layout, n *ir.Node) *form {
	return func(l *layout, n *ir.Node) *form {
		return &form{images: first(n), build: func(b *ir.Builder, n *ir.Node, in []*ir.Value) *ir.Value {
			changed, perm := ir.Attrs{}, ops.ChannelsLast(len(n.Inputs[0].Type.Shape))
			for _, name := range names {
				switch list := n.Attrs[name].(type) {
				case []sym.Expr:
					changed[name] = permutedShape(list, perm)
				case []int64:
					changed[name] = composed(perm, list)
				}
			}
			return b.Op(n.Op.Name(), with(n, changed), in...)
		}}
	}
}

// formOfExpand is of repetitions along axes that are there.
func formOfExpand(l *layout, n *ir.Node) *form {
	if len(n.Attrs.Exprs("shape")) != len(n.Inputs[0].Type.Shape) {
		return nil
	}
	return formOfLists("shape")(l, n)
}

// axesLast are a node's axes when its channels become last, in order.
func axesLast(n *ir.Node) []int64 {
	axes := []int64{}
	for _, a := range n.Attrs.Ints("axes") {
		axes = append(axes, whereLast(a, len(n.Inputs[0].Type.Shape)))
	}
	slices.Sort(axes)
	return axes
}

func formOfAxes(l *layout, n *ir.Node) *form {
	return &form{images: first(n), build: func(b *ir.Builder, n *ir.Node, in []*ir.Value) *ir.Value {
		return b.Op(n.Op.Name(), with(n, ir.Attrs{"axes": axesLast(n)}), in...)
	}}
}

// formOfReduction is of reductions that keep their axes, or that leave images and channels alone.
func formOfReduction(l *layout, n *ir.Node) *form {
	rank := len(n.Inputs[0].Type.Shape)
	if _, named := n.Attrs["axes"].([]int64); !named || n.Attrs["outer"] != nil || rank < 3 {
		return nil
	}
	f := formOfAxes(l, n)
	if !n.Attrs.Bool("keep") {
		f.plain = true
		axes := axesLast(n)
		for i := 1; i < rank-1; i++ {
			if !slices.Contains(axes, int64(i)) {
				return nil
			}
		}
	}
	return f
}

// formOfReshape is of reshapes that leave images and channels alone and change the spatial axes, and of the last step of a normalisation of groups of channels.
func formOfReshape(l *layout, n *ir.Node) *form {
	from, to := n.Inputs[0].Type.Shape, n.Outputs[0].Type.Shape
	if len(from) < 3 || len(to) < 2 {
		return nil
	}
	if !sameShape(l.Dims(), from[:2], to[:2]) {
		return formOfGroups(l, n)
	}
	return &form{images: first(n), plain: len(to) == 2, build: func(b *ir.Builder, n *ir.Node, in []*ir.Value) *ir.Value {
		if len(to) == 2 {
			return ops.Reshape(b, in[0], to...)
		}
		return ops.Reshape(b, in[0], permutedShape(to, ops.ChannelsLast(len(to)))...)
	}}
}

// formOfGroups is of [N, C, d…] taken as [N, groups, …], normalised along all axes behind these two, and taken as [N, C, d…] again. With channels last, sums over positions are taken for each
// channel, and then those of a group's channels put together.
func formOfGroups(l *layout, n *ir.Node) *form {
	norm := producer(n.Inputs[0], "normalize")
	if norm == nil || l.uses[n.Inputs[0]] != 1 || len(n.Outputs[0].Type.Shape) < 3 {
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
	axes := axesLast(norm) // of the last axes, in order: all but the first and the one that is last now
	for i, a := range axes {
		if a != int64(i+1) {
			return nil
		}
	}
	dt := x.Type.DType
	if !fixed || !known || groups < 1 || channels%groups != 0 || len(axes) != len(middle)-2 || !sameShape(l.Dims(), x.Type.Shape, shape) || !sameShape(l.Dims(), shape[:1], middle[:1]) ||
		dt != dtype.F32 && dt != dtype.F64 {
		return nil
	}
	return &form{images: []bool{true}, from: []*ir.Value{x}, inner: []*ir.Node{split, norm}, build: func(b *ir.Builder, n *ir.Node, in []*ir.Value) *ir.Value {
		return ops.NormalizeGroups(b, in[0], groups, channels/groups, norm.Attrs.Float("epsilon", 0), norm.Attrs.Bool("centered"))
	}}
}

// formOfTranspose is of transposes that bring channels to one of the two places. Of three axes it is the same transpose to both: what is computed with channels has them brought last.
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
