package ops

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// gridSampleGrad differentiates a sum over the elements around each position: gathered, and weighted by functions of
// the position. At a position at which the interpolation is not smooth, the slope is that of one of its sides.
func gridSampleGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	g.through(up, func() []*ir.Value { return []*ir.Value{g.gridSampled(n)} })
	return make([]*ir.Value, 2)
}

// gridTap is one element along an axis at each position: its index, and its weight, nil for 1.
type gridTap struct{ at, weight *ir.Value }

// gridSampled computes a node's result by other operators.
func (g *Gradients) gridSampled(n *ir.Node) *ir.Value {
	b, x, grid := g.Builder, n.Inputs[0], n.Inputs[1]
	axes := len(x.Type.Shape) - 2
	images, channels, size := x.Type.Shape[0], x.Type.Shape[1], product(x.Type.Shape[2:])
	positions := product(grid.Type.Shape[1 : 1+axes])
	flat := Reshape(b, grid, images, positions, sym.Const(int64(axes)))
	elements := Transpose(b, Reshape(b, x, images, channels, size), 0, 2, 1)
	sums := []gridTap{{g.integer(sym.Const(0)), nil}}
	for i := range axes {
		coordinate := SliceAxis(b, flat, 2, sym.Const(int64(axes-1-i)), one)
		extent := x.Type.Shape[2+i]
		var next []gridTap
		for _, before := range sums {
			for _, tap := range g.gridTaps(n, coordinate, extent) {
				tap.at = g.plus(g.mul(before.at, g.integer(extent)), tap.at)
				if before.weight != nil && tap.weight != nil {
					tap.weight = g.mul(before.weight, tap.weight)
				}
				next = append(next, tap)
			}
		}
		sums = next
	}
	var y *ir.Value
	for _, tap := range sums {
		v := GatherND(b, elements, tap.at, 1)
		if tap.weight != nil {
			v = g.mul(v, Cast(b, tap.weight, x.Type.DType))
		}
		if y == nil {
			y = v
		} else {
			y = g.plus(y, v)
		}
	}
	return Reshape(b, Transpose(b, y, 0, 2, 1), n.Outputs[0].Type.Shape...)
}

// gridTaps returns the elements around coordinates along an axis of the given extent.
func (g *Gradients) gridTaps(n *ir.Node, coordinate *ir.Value, extent sym.Expr) []gridTap {
	mode, padding, align := n.Attrs.String("mode", ""), n.Attrs.String("padding", ""), n.Attrs.Bool("align")
	d := g.count(coordinate, extent)
	at := g.times(g.above(g.mul(g.above(coordinate, 1), d), -1), 0.5)
	if align {
		at = g.mul(g.times(g.above(coordinate, 1), 0.5), g.above(d, -1))
	}
	if mode == "nearest" {
		at = g.f(loop.Round, at)
	}
	switch {
	case padding == "border" && mode != "cubic":
		at = g.op(loop.Max, g.op(loop.Min, at, g.above(d, -1)), g.number(at, 0))
	case padding == "reflection":
		at = g.gridReflected(at, d, align)
	}
	if mode == "nearest" {
		return []gridTap{g.gridTap(n, g.f(loop.Round, at), d, nil)}
	}
	floor := g.f(loop.Floor, at)
	t := g.sub(at, floor)
	if mode == "linear" {
		return []gridTap{g.gridTap(n, floor, d, g.from(1, t)), g.gridTap(n, g.above(floor, 1), d, t)}
	}
	var taps []gridTap
	for i := range 4 {
		taps = append(taps, g.gridTap(n, g.above(floor, float64(i-1)), d,
			g.gridCubic(g.f(loop.Abs, g.above(t, float64(1-i))))))
	}
	return taps
}

// gridReflected mirrors coordinates at the ends until they lie between them.
func (g *Gradients) gridReflected(at, d *ir.Value, align bool) *ir.Value {
	low, width := -0.5, d
	if align {
		low, width = 0, g.above(d, -1)
	}
	period := g.op(loop.Max, g.times(width, 2), g.number(d, 1))
	past := g.op(loop.FloorMod, g.above(at, -low), period)
	inside := g.above(g.op(loop.Min, past, g.sub(period, past)), low)
	return g.choose(g.positive(width), inside, g.number(at, low))
}

// gridTap returns the element at integer coordinates, or the element that the padding puts in its place; with padding
// "zeros" the weight of a position outside is 0.
func (g *Gradients) gridTap(n *ir.Node, at, d, weight *ir.Value) gridTap {
	return g.paddedTap(at, d, weight, n.Attrs.String("padding", ""), n.Attrs.Bool("align"))
}

// paddedTap is gridTap for a kind of padding.
func (g *Gradients) paddedTap(at, d, weight *ir.Value, padding string, align bool) gridTap {
	last, zero := g.above(d, -1), g.number(at, 0)
	switch padding {
	case "zeros":
		inside := g.op(loop.And, g.op(loop.Ge, at, zero), g.op(loop.Le, at, last))
		if weight == nil {
			weight = g.number(at, 1)
		}
		weight = g.choose(inside, weight, nil)
	case "reflection":
		edge := 1.0
		if align {
			edge = 0
		}
		period := g.times(g.above(last, edge), 2)
		at = g.op(loop.FloorMod, at, g.op(loop.Max, period, g.number(d, 1)))
		at = g.choose(g.op(loop.Ge, at, d), g.sub(g.above(period, -edge), at), at)
	}
	at = g.op(loop.Max, g.op(loop.Min, at, last), zero)
	at = g.choose(g.op(loop.Eq, at, at), at, nil) // NaN needs an index too; its weight is NaN
	return gridTap{Cast(g.Builder, at, dtype.I64), weight}
}

// gridCubic returns the operator's cubic kernel of a distance from 0 to 2.
func (g *Gradients) gridCubic(x *ir.Value) *ir.Value {
	polynomial := func(coefficients []float64) *ir.Value {
		y := g.number(x, coefficients[0])
		for _, c := range coefficients[1:] {
			y = g.above(g.mul(y, x), c)
		}
		return y
	}
	return g.choose(g.op(loop.Le, x, g.number(x, 1)), polynomial(cubicNear), polynomial(cubicFar))
}
