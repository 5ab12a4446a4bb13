package ops

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sliding"
	"github.com/weirml/weir/internal/sym"
)

// deformGrad differentiates deform_columns as sums over the elements around each position, as gridSampleGrad does. At
// an element itself, the slope by the position is that towards the next element.
func deformGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	g.through(up, func() []*ir.Value { return []*ir.Value{g.deformed(n)} })
	return make([]*ir.Value, len(n.Inputs))
}

// deformed computes a node's result by other operators. Its axes are images, groups of offsets, elements of the kernel,
// output positions and channels of a group.
func (g *Gradients) deformed(n *ir.Node) *ir.Value {
	b, x, offset, mask, last := g.Builder, n.Inputs[0], n.Inputs[1], input(n, 2), n.Attrs.Bool("last")
	axes, dt := len(x.Type.Shape)-2, computing(x.Type.DType)
	w, err := windowOf(n, axes)
	if err != nil {
		g.Fail(err)
	}
	channels, first := channelAxis(n)
	groups := n.Attrs.Int("groups", 1)
	images, extents, positions := x.Type.Shape[0], x.Type.Shape[first:first+axes], offset.Type.Shape[2:]
	lead := []sym.Expr{images, sym.Const(groups), product(ir.Constants(w.Kernel))}
	count, each := product(positions), sliding.GroupOf(x.Type.Shape[channels], groups)
	elements := x
	if !last {
		elements = lastChannels(b, elements)
	}
	elements = Transpose(b, Reshape(b, elements, images, product(extents), lead[1], each), 0, 2, 1, 3)
	elements = Cast(b, elements, dt)
	moves := Cast(b, Reshape(b, offset, append(slices.Clone(lead), sym.Const(int64(axes)), count)...), dt)
	sums := []gridTap{{g.integer(sym.Const(0)), nil}}
	for i := range axes {
		move := Reshape(b, SliceAxis(b, moves, 3, sym.Const(int64(i)), one), append(slices.Clone(lead), count, one)...)
		at := g.plus(Cast(b, g.deformPositions(w, i, positions), dt), move)
		floor := g.f(loop.Floor, at)
		t, d := g.sub(at, floor), g.count(at, extents[i])
		var next []gridTap
		for _, before := range sums {
			for _, tap := range []gridTap{g.insideTap(floor, d, g.from(1, t)), g.insideTap(g.above(floor, 1), d, t)} {
				tap.at = g.plus(g.mul(before.at, g.integer(extents[i])), tap.at)
				if before.weight != nil {
					tap.weight = g.mul(before.weight, tap.weight)
				}
				next = append(next, tap)
			}
		}
		sums = next
	}
	var y *ir.Value
	for _, tap := range sums {
		v := g.mul(GatherND(b, elements, tap.at, 2), tap.weight)
		if y == nil {
			y = v
		} else {
			y = g.plus(y, v)
		}
	}
	if mask != nil {
		y = g.mul(y, Cast(b, Reshape(b, mask, append(slices.Clone(lead), count, one)...), dt))
	}
	order := []int64{0, 1, 4, 2, 3}
	if last {
		order = []int64{0, 3, 2, 1, 4}
	}
	return Reshape(b, Cast(b, Transpose(b, y, order...), x.Type.DType), n.Outputs[0].Type.Shape...)
}

// deformPositions returns the unmoved position, along an axis, of each kernel element at each output position: [K,
// positions, 1].
func (g *Gradients) deformPositions(w Window, axis int, positions []sym.Expr) *ir.Value {
	kernel := ir.Constants(w.Kernel)
	at := Reshape(g.Builder, g.scaled(g.counted(dtype.I64, positions, axis), w.Strides[axis]), one, product(positions),
		one)
	element := Reshape(g.Builder, g.scaled(g.counted(dtype.I64, kernel, axis), w.Dilations[axis]), product(kernel), one,
		one)
	return g.sub(g.plus(at, element), g.integer(w.Begin[axis]))
}

// insideTap returns the element at integer coordinates; outside x its weight is 0.
func (g *Gradients) insideTap(at, d, weight *ir.Value) gridTap {
	return g.paddedTap(at, d, weight, "zeros", false)
}
