package pass

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// Groups rewrites computations on groups of channels, [N, groups, C/groups, d…], as computations on channels,
// [N, C, d…]: the derivative of a group normalisation, and the normalisation if the derivative reads it too. Each
// channel's positions are summed first, and then the sums of a group's channels are added. Layout then sees one shape
// from convolution to convolution. Modules without convolutions stay as they are, and so does a normalisation whose
// operand and result are each read once: Layout has a form for it.
func Groups(m *ir.Module) error {
	if !slices.ContainsFunc(m.Funcs, func(f *ir.Func) bool { return convolves(f.Body) }) {
		return nil
	}
	return apply(m, groups)
}

var groups = []rule{
	{"normalisation of groups", []string{"normalize"}, normalisedGroups},
	{"reduction of groups", []string{"reduce_mean", "reduce_sum"}, reducedGroups},
	{"function of groups", ops.ElementwiseNames(), functionOfGroups},
	{"groups joined", []string{"reshape"}, joinedAgain},
}

// convolves reports whether a block has convolutions.
func convolves(b *ir.Block) bool {
	return slices.ContainsFunc(b.Nodes, func(n *ir.Node) bool {
		return ops.Of(n).WantsLast || slices.ContainsFunc(n.Regions, convolves)
	})
}

// grouping describes how a reshape splits channels into groups.
type grouping struct {
	flat, split []sym.Expr // [N, C, d…], [N, groups, C/groups, d…]
	groups      int64
}

// groupsOf returns the value x, [N, C, d…], that v reshapes to [N, groups, C/groups, d…]; nil if v is something else.
func groupsOf(d *sym.Dims, v *ir.Value) (x *ir.Value, g grouping) {
	n := producer(v, "reshape")
	if n == nil {
		return nil, g
	}
	g.flat, g.split = n.Inputs[0].Type.Shape, n.Outputs[0].Type.Shape
	rank := len(g.flat)
	if rank < 3 || len(g.split) != rank+1 {
		return nil, g
	}
	if !sameShape(d, g.flat[:1], g.split[:1]) || !sameShape(d, g.flat[2:], g.split[3:]) {
		return nil, g
	}
	channels, known := g.flat[1].Const()
	count, fixed := g.split[1].Const()
	if !known || !fixed || count < 1 || channels < 1 || channels%count != 0 {
		return nil, g
	}
	if g.groups = count; !g.split[2].Equal(sym.Const(channels / count)) {
		return nil, g
	}
	return n.Inputs[0], g
}

// one returns the shape [N, groups, 1, 1…].
func (g *grouping) one() []sym.Expr {
	shape := slices.Repeat([]sym.Expr{sym.Const(1)}, len(g.split))
	shape[0], shape[1] = g.split[0], g.split[1]
	return shape
}

// reduced reduces x along each group's channels and positions, which it keeps as axes of 1.
func (g *grouping) reduced(b *ir.Builder, operator string, x *ir.Value) *ir.Value {
	var positions []int64
	for i := 2; i < len(g.flat); i++ {
		positions = append(positions, int64(i))
	}
	y := b.Op(operator, ir.Attrs{"axes": positions, "keep": true}, x)
	y = ops.Reshape(b, y, g.split[:3]...)
	return ops.Reshape(b, b.Op(operator, ir.Attrs{"axes": []int64{2}, "keep": true}, y), g.one()...)
}

// flattened returns v, an operand of a function of groups, as an operand of the function of channels; nil if v has no
// such form.
func (g *grouping) flattened(d *sym.Dims, b *ir.Builder, v *ir.Value) *ir.Value {
	shape := v.Type.Shape
	if x, other := groupsOf(d, v); x != nil && sameShape(d, other.flat, g.flat) && other.groups == g.groups {
		return x
	}
	switch {
	case len(shape) == 0:
		return v
	case isOne(sym.Product(shape...)):
		return ops.Reshape(b, v)
	case len(shape) != len(g.split):
		return nil
	case sameShape(d, shape, g.split):
		return ops.Reshape(b, v, g.flat...)
	case sameShape(d, shape, g.one()):
		wide := slices.Repeat([]sym.Expr{sym.Const(1)}, len(g.flat))
		wide[0], wide[1] = g.flat[0], g.flat[1]
		return ops.Reshape(b, ops.Expand(b, ops.Reshape(b, v, shape[0], shape[1], sym.Const(1)), g.split[:3]...), wide...)
	}
	return nil
}

// normalisedGroups rewrites a normalisation of groups as sums and functions of channels, unless its operand and its
// result are each read once.
func normalisedGroups(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	x, g := groupsOf(r.Dims(), n.Inputs[0])
	if x == nil || r.uses[n.Inputs[0]] == 1 && r.uses[n.Outputs[0]] == 1 || !g.all(n) {
		return nil
	}
	if dt := x.Type.DType; dt != dtype.F32 && dt != dtype.F64 {
		return nil
	}
	mean := func(v *ir.Value) *ir.Value { return g.reduced(b, "reduce_mean", v) }
	wide := func(v *ir.Value) *ir.Value { return g.flattened(r.Dims(), b, v) }
	if n.Attrs.Bool("centered") {
		x = b.Op("sub", nil, x, wide(mean(x)))
	}
	variance := b.Op("add", nil, mean(b.Op("mul", nil, x, x)), ops.Scalar(b, x.Type.DType, n.Attrs.Float("epsilon", 0)))
	y := b.Op("mul", nil, x, wide(b.Op("reciprocal", nil, b.Op("sqrt", nil, variance))))
	return ops.Reshape(b, y, g.split...)
}

// all reports whether a node's axes are exactly the axes of a group's channels and positions.
func (g *grouping) all(n *ir.Node) bool {
	axes := axesFrom(n)
	for i, axis := range axes {
		if axis != int64(i+2) {
			return false
		}
	}
	return len(axes) == len(g.split)-2
}

// reducedGroups rewrites a reduction of groups as a reduction of channels.
func reducedGroups(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	x, g := groupsOf(r.Dims(), n.Inputs[0])
	if x == nil || !n.Attrs.Bool("keep") || n.Attrs["outer"] != nil || !g.all(n) {
		return nil
	}
	return g.reduced(b, n.Op.Name(), x)
}

// functionOfGroups rewrites a function of single elements of groups as a function of channels.
func functionOfGroups(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	if len(n.Outputs) != 1 || slices.Contains(n.Inputs, nil) {
		return nil
	}
	at := slices.IndexFunc(n.Inputs, func(v *ir.Value) bool {
		x, g := groupsOf(r.Dims(), v)
		return x != nil && sameShape(r.Dims(), g.split, n.Outputs[0].Type.Shape)
	})
	if at < 0 {
		return nil
	}
	_, g := groupsOf(r.Dims(), n.Inputs[at])
	in := make([]*ir.Value, len(n.Inputs))
	for i, v := range n.Inputs {
		if in[i] = g.flattened(r.Dims(), b, v); in[i] == nil {
			return nil
		}
	}
	return ops.Reshape(b, b.Op(n.Op.Name(), n.Attrs, in...), g.split...)
}

// joinedAgain drops two reshapes, of channels to groups and of the groups to the same channels.
func joinedAgain(r *rewriting, _ *ir.Builder, n *ir.Node) *ir.Value {
	if x, _ := groupsOf(r.Dims(), n.Inputs[0]); x != nil && sameType(r.Dims(), x.Type, n.Outputs[0].Type) {
		return x
	}
	return nil
}
