package ops

import (
	"math/rand"
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// init defines the operator stretch.
func init() {
	define(&Def{Op: "stretch", Narrow: stretchNarrow, Light: true, Linear: true, Recompute: Late | InPieces | Backward,
		Picks: true, NotNegative: firstNotNegative, rows: rowRule{axes: stretchRows, cut: shapeCut}, Shape: stretchShape,
		Mean: expandMean, View: expandView, Samples: stretchSamples, Grad: stretchGrad,
		Lowerings: []Lowering{{Name: "map", When: movable, Build: func(k *Nest, n *ir.Node) {
			k.Nest(loop.Each, "i", k.Out[0].Shape, func(at []sym.Expr) {
				k.Store(k.Out[0], at, k.In[0].Load(stretchIndex(n, at)...))
			})
		}}}})
}

// Stretch broadcasts x to a shape if a run decides which axes repeat: along each axis, the extent of x is 1 or that of
// the shape. steps has, for each axis of x, the step in x for a step in the result: 0 if x repeats there, else 1. Each
// extent e of x is 1 + step·(extent of the result − 1), which is a condition of the run if it is not proved. Where an
// extent is known to be 1 or to be the result's, its step is a number.
func Stretch(b *ir.Builder, x *ir.Value, shape, steps []sym.Expr) *ir.Value {
	return b.Op("stretch", ir.Attrs{"shape": shape, "steps": steps}, x)
}

// Broadcast broadcasts x and a shape, whose extents are not negative. A run may decide which axes repeat.
func Broadcast(b *ir.Builder, x *ir.Value, shape ...sym.Expr) *ir.Value {
	to := joined(b.Inference, [][]sym.Expr{x.Type.Shape, shape})
	for axis, extent := range shape {
		e, full := settledExtent(b.Dims(), extent), to[len(to)-len(shape)+axis]
		if isOne(e) || b.Equal(e, full) {
			continue
		}
		cond := sym.Cond{A: e, Rel: sym.EQ, B: full}
		if mayBeOne(b.Inference, e) {
			cond = sym.Repeats(e, b.Dims().Step(e, full), full)
		}
		require(b, cond, "an axis is kept, or repeated if it has one element")
	}
	return Expand(b, stretchedTo(b, x, to[len(to)-len(x.Type.Shape):]), to...)
}

// BroadcastTo stretches x so that a broadcast of x and a tensor of the given shape has that shape. A run may decide
// which axes of x repeat. An x of more axes stays as it is, and so does any x of a builder that does not stretch.
func BroadcastTo(b *ir.Builder, x *ir.Value, shape ...sym.Expr) *ir.Value {
	own := x.Type.Shape
	if !b.Stretches || len(own) > len(shape) {
		return x
	}
	to := slices.Clone(own)
	for axis, full := range shape[len(shape)-len(own):] {
		switch e := settledExtent(b.Dims(), own[axis]); {
		case isOne(e) || b.Equal(e, full):
		case mayBeOne(b.Inference, e):
			to[axis] = full
		default:
			require(b, sym.Cond{A: full, Rel: sym.EQ, B: e}, elementwiseExtents)
		}
	}
	return stretchedTo(b, x, to)
}

// elementwiseExtents explains why extents must be equal.
const elementwiseExtents = "extents that are combined element by element"

// require adds a condition of the nodes that a builder makes.
func require(b *ir.Builder, cond sym.Cond, why string) {
	if err := b.RequireOf(b.Source, b.Operator, 0, cond, why); err != nil {
		b.Fail(err)
	}
}

// RequireUnlessRepeated records a condition on two extents, which an operator that broadcasts is about to require, if
// it excludes runs in which an operand repeats.
func RequireUnlessRepeated(c *ir.Inference, cond sym.Cond, a, b sym.Expr) {
	if takenEqual(c, a, b) || !mayBeOne(c, a) && !mayBeOne(c, b) || c.Dims().Prove(cond) != sym.Unknown ||
		slices.ContainsFunc(c.Broadcasts, func(x sym.Cond) bool { return x.String() == cond.String() }) {
		return
	}
	c.Broadcasts = append(c.Broadcasts, cond)
}

// mayBeOne reports whether it is possible that an extent is 1.
func mayBeOne(c *ir.Inference, extent sym.Expr) bool {
	lo, hi := c.Dims().Bounds(extent)
	return lo <= 1 && hi >= 1
}

// stretched returns operands of which each extent, except for those of the last own axes, is known to be 1 or to be
// that of the broadcast result; extents that must be equal for certain stay, with their condition.
func stretched(b *ir.Builder, operands []*ir.Value, own int) []*ir.Value {
	shapes := make([][]sym.Expr, len(operands))
	for i, v := range operands {
		if len(v.Type.Shape) < own {
			return operands
		}
		shapes[i] = v.Type.Shape[:len(v.Type.Shape)-own]
	}
	to := joined(b.Inference, shapes)
	out := slices.Clone(operands)
	for i, v := range operands {
		lead := len(shapes[i])
		out[i] = stretchedTo(b, v, append(to[len(to)-lead:len(to):len(to)], v.Type.Shape[lead:]...))
	}
	return out
}

// joined returns the shape that shapes are broadcast to if a run decides which extents are 1.
func joined(c *ir.Inference, shapes [][]sym.Expr) []sym.Expr {
	rank := 0
	for _, s := range shapes {
		rank = max(rank, len(s))
	}
	out := make([]sym.Expr, rank)
	for axis := range out {
		var extents []sym.Expr
		for _, s := range shapes {
			if at := axis - rank + len(s); at >= 0 {
				extents = append(extents, s[at])
			}
		}
		out[axis] = joinedExtent(c, extents)
	}
	return out
}

// joinedExtent returns the extent that extents are broadcast to.
func joinedExtent(c *ir.Inference, extents []sym.Expr) sym.Expr {
	var unlike []sym.Expr
	for _, e := range extents {
		e = settledExtent(c.Dims(), e)
		if !isOne(e) && !slices.ContainsFunc(unlike, func(x sym.Expr) bool { return takenEqual(c, x, e) }) {
			unlike = append(unlike, e)
		}
	}
	slices.SortStableFunc(unlike, func(x, y sym.Expr) int { return len(x.Vars()) - len(y.Vars()) }) // numbers first
	for _, e := range unlike {
		if !mayBeOne(c, e) {
			return e // the others are 1 or equal to it
		}
	}
	switch len(unlike) {
	case 0:
		return one
	case 1:
		return unlike[0]
	}
	return c.Dims().Joined(unlike...)
}

// takenEqual reports whether two extents are equal, or must be: extents over the same dimensions, such as those of two
// paths through a network that meet again, are meant to be equal if they can be.
func takenEqual(c *ir.Inference, a, b sym.Expr) bool {
	if c.Equal(a, b) {
		return true
	}
	names := a.Vars()
	return len(names) > 0 && slices.Equal(names, b.Vars()) && !sym.Joins(a) && !sym.Joins(b) &&
		c.Dims().EQ(a, b) == sym.Unknown
}

// stretchedTo returns x stretched to extents, one for each of its axes. Axes that are known to be 1 stay, and so do
// those that cannot be 1.
func stretchedTo(b *ir.Builder, x *ir.Value, to []sym.Expr) *ir.Value {
	shape, steps := slices.Clone(x.Type.Shape), make([]sym.Expr, len(to))
	changed := false
	for axis, extent := range shape {
		steps[axis] = one
		e := settledExtent(b.Dims(), extent)
		if isOne(e) || takenEqual(b.Inference, e, to[axis]) || !mayBeOne(b.Inference, e) {
			continue
		}
		steps[axis] = b.Dims().Step(extent, to[axis])
		shape[axis], changed = to[axis], true
	}
	if !changed {
		return x
	}
	return Stretch(b, x, shape, steps)
}

// stretchShape requires that each extent is 1 or the result's, as its step says.
func stretchShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x, shape, steps := n.Inputs[0], n.Attrs.Exprs("shape"), n.Attrs.Exprs("steps")
	if len(shape) != len(x.Type.Shape) || len(steps) != len(shape) {
		return fault(n, "a shape of %d axes and %d steps for %s", len(shape), len(steps), x.Type)
	}
	for axis, extent := range x.Type.Shape {
		for _, need := range []struct {
			cond sym.Cond
			why  string
		}{{sym.Cond{A: sym.Const(0), Rel: sym.LE, B: shape[axis]}, "an extent is not negative"},
			{sym.Repeats(extent, steps[axis], shape[axis]), elementwiseExtents}} {
			if err := c.Require(n, need.cond, need.why); err != nil {
				return err
			}
		}
	}
	n.Result(0, ir.Type{DType: x.Type.DType, Shape: shape})
	return nil
}

// stretchIndex returns the operand's index for the result's index at.
func stretchIndex(n *ir.Node, at []sym.Expr) []sym.Expr {
	from := make([]sym.Expr, len(at))
	for axis, step := range n.Attrs.Exprs("steps") {
		from[axis] = at[axis].Mul(step)
	}
	return from
}

// stretchGrad sums the derivative over the elements that an axis repeated: an axis of the result is as many rows of the
// operand's extent as the operand is repeated.
func stretchGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	var split []sym.Expr
	var axes []int64
	for axis, step := range n.Attrs.Exprs("steps") {
		if !isOne(step) {
			times := one.Add(one.Sub(step).Mul(n.Outputs[0].Type.Shape[axis].Sub(one)))
			axes, split = append(axes, int64(len(split))), append(split, times)
		}
		split = append(split, n.Inputs[0].Type.Shape[axis])
	}
	return []*ir.Value{ReduceSum(g.Builder, Reshape(g.Builder, up[0], split...), false, axes...)}
}

// stretchRows reports that the result can be computed slice by slice along each axis that does not repeat.
func stretchRows(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
	in[0] = axis
	return isOne(n.Attrs.Exprs("steps")[axis])
}

// stretchNarrow returns the slice of x that a slice of the result needs; axes that may repeat are read entirely.
func stretchNarrow(_ NarrowContext, n *ir.Node, want Section) (Reading, bool) {
	for axis, step := range n.Attrs.Exprs("steps") {
		if !isOne(step) {
			want[axis] = AxisSection{}
		}
	}
	return Reading{Made: want, In: []Section{want}, Attrs: ir.Attrs{"shape": want.Shape(n.Outputs[0].Type.Shape),
		"steps": n.Attrs.Exprs("steps")}}, true
}

// stretchSamples covers axes that repeat and axes that do not, and results without elements.
func stretchSamples(r *rand.Rand) (out []Sample) {
	for _, c := range []struct{ from, to, steps []int64 }{{[]int64{3}, []int64{3}, []int64{1}},
		{[]int64{1}, []int64{4}, []int64{0}}, {[]int64{3, 1, 2}, []int64{3, 5, 2}, []int64{1, 0, 1}},
		{[]int64{1, 4}, []int64{0, 4}, []int64{0, 1}}, {[]int64{1, 1}, []int64{2, 3}, []int64{0, 0}}} {
		out = append(out, sampleMoves(r, ir.Attrs{"shape": ir.Constants(c.to), "steps": ir.Constants(c.steps)}, c.from)...)
	}
	return out
}
