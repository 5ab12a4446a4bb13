package core

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// These functions handle axes that only the run knows. Each axis has one of finitely many values, so that the results
// that depend on it are formulas, or choices.

// alongAxis applies an operator along the axis in input i, one integer that may count from the end: build receives x
// and the axis. If only the run knows the axis, alongAxis reshapes x to three axes, with those before and after the
// axis merged, and restores the shape; the operator must keep it.
func alongAxis(c *convert.Call, x *ir.Value, i int, build func(x *ir.Value, axis int64) *ir.Value) *ir.Value {
	v, shape := c.Input(i), x.Type.Shape
	rank := len(shape)
	if size, ok := convert.Count(v.Type.Shape).Const(); !ok || size != 1 {
		c.Fault("the axis is %s, it must be one integer", v.Type)
	}
	if convert.IsKnown(v) {
		return build(x, c.Axis(c.Numbers(i)[0], rank))
	}
	if rank == 0 {
		c.Fault("an axis of a scalar")
	}
	axis := c.Axes(i, rank)[0]
	three := make([]sym.Expr, 3)
	for d, extent := range shape {
		here := convert.Is(axis, d)
		three[0] = three[0].Add(here.Mul(convert.Count(shape[:d])))
		three[1] = three[1].Add(here.Mul(extent))
		three[2] = three[2].Add(here.Mul(convert.Count(shape[d+1:])))
	}
	y := build(ops.Reshape(c.Builder, x, c.AsDims(0, convert.Natural(three)...)...), 1)
	return ops.Reshape(c.Builder, y, shape...)
}

// counted reshapes input i to a shape if the extents of the input have only names. The operator prescribes the number
// of elements.
func counted(c *convert.Call, i int, shape ...int64) {
	if _, known := convert.Count(c.Input(i).Type.Shape).Const(); !known {
		c.In[i] = ops.Reshape(c.Builder, c.In[i], ir.Constants(shape)...)
	}
}

// reshapedTo returns a new shape that is an argument of the run, with 0 and −1 resolved.
func reshapedTo(c *convert.Call, x *ir.Value, rank int, keepZero bool) []sym.Expr {
	to := slices.Clone(c.SymbolsOf(c.In[1], -1, sym.Unlimited))
	missing, others, open := make([]sym.Expr, rank), sym.Const(1), sym.Const(0)
	for i, e := range to {
		switch {
		case keepZero:
		case i < len(x.Type.Shape):
			to[i] = e.Add(convert.Is(e, 0).Mul(x.Type.Shape[i]))
		default:
			c.Condition(sym.Cond{A: e, Rel: sym.NE, B: sym.Const(0)}, "0 stands for an axis that there is")
		}
		missing[i] = convert.Is(e, -1)
		others = others.Mul(to[i].Add(missing[i]).Add(missing[i]).Max(sym.Const(0)))
		open = open.Add(missing[i])
	}
	c.Condition(sym.Cond{A: open, B: sym.Const(1)}, "one axis at most is -1")
	rest := convert.Count(x.Type.Shape).FloorDiv(others.Max(sym.Const(1)))
	for i := range to {
		to[i] = to[i].Add(missing[i].Mul(rest.Add(sym.Const(1))))
	}
	return c.AsDims(0, convert.Natural(to)...)
}

// reducedAt reduces along axes that are an argument of the run.
func reducedAt(c *convert.Call, op string) *ir.Value {
	x, keep := c.Input(0), c.Int("keepdims", 1) != 0
	shape := x.Type.Shape
	axes := c.Axes(1, len(shape))
	left, gone, kept := make([]sym.Expr, len(shape)), make([]sym.Expr, len(shape)), make([]sym.Expr, len(shape))
	for d, extent := range shape {
		reduced := contains(axes, d)
		left[d] = extent.Add(reduced.Mul(sym.Const(1).Sub(extent)))
		gone[d] = sym.Const(1).Add(reduced.Mul(extent.Sub(sym.Const(1))))
		kept[d] = sym.Const(1).Sub(reduced)
	}
	y := ops.ReduceBy(c.Builder, op, x, c.AsDims(0, convert.Natural(left)...), c.AsDims(0, convert.Natural(gone)...))
	if keep {
		return y
	}
	return ops.Reshape(c.Builder, y, c.AsDims(0, selected(c, shape, kept, len(shape)-len(axes))...)...)
}

// entryFor returns the entry of list for an axis in axes, or fallback if the axis is not in axes.
func entryFor(axes, list []sym.Expr, axis int, fallback sym.Expr) sym.Expr {
	out := fallback
	for k, a := range axes {
		out = out.Add(convert.Is(a, axis).Mul(list[k].Sub(fallback)))
	}
	return out
}

// contains returns 1 if an axis is in a list, otherwise 0.
func contains(axes []sym.Expr, axis int) sym.Expr {
	var out sym.Expr
	for _, a := range axes {
		out = out.Add(convert.Is(a, axis))
	}
	return out
}

// selected returns the entries of a list for which kept is 1, in order; there are count of them.
func selected(c *convert.Call, list, kept []sym.Expr, count int) []sym.Expr {
	out := make([]sym.Expr, count)
	var before sym.Expr
	for d, x := range list {
		for m := range out {
			out[m] = out[m].Add(kept[d].Mul(convert.Is(before, m)).Mul(x))
		}
		before = before.Add(kept[d])
	}
	return convert.Natural(out)
}

// squeezeAt removes axes that only the run knows.
func squeezeAt(c *convert.Call, x *ir.Value) *ir.Value {
	shape := x.Type.Shape
	axes := c.Axes(1, len(shape))
	kept := make([]sym.Expr, len(shape))
	for d := range shape {
		kept[d] = sym.Const(1).Sub(contains(axes, d))
	}
	for _, a := range axes {
		var extent sym.Expr
		for d := range shape {
			extent = extent.Add(convert.Is(a, d).Mul(shape[d]))
		}
		c.Condition(sym.Cond{A: extent, Rel: sym.EQ, B: sym.Const(1)}, "an axis that is removed has one element")
	}
	return ops.Reshape(c.Builder, x, c.AsDims(0, selected(c, shape, kept, len(shape)-len(axes))...)...)
}

// unsqueezeAt inserts axes that only the run knows.
func unsqueezeAt(c *convert.Call, x *ir.Value, rank int) *ir.Value {
	axes := c.Axes(1, rank)
	shape := make([]sym.Expr, rank)
	var before sym.Expr // the number of axes so far that are x's own
	for i := range shape {
		inserted := contains(axes, i)
		shape[i] = inserted
		for d, extent := range x.Type.Shape {
			shape[i] = shape[i].Add(sym.Const(1).Sub(inserted).Mul(convert.Is(before, d)).Mul(extent))
		}
		before = before.Add(sym.Const(1)).Sub(inserted)
	}
	return ops.Reshape(c.Builder, x, c.AsDims(0, convert.Natural(shape)...)...)
}

// slicedAt reports whether the axes or steps of a slice are known only to the run, or its starts and ends can be
// formulas over values that the run knows at its start.
func slicedAt(c *convert.Call) bool {
	for i := 1; i <= 4; i++ {
		if v := c.Optional(i); v != nil && !convert.IsKnown(v) && (i > 2 || slices.Contains(c.Module.Main.Body.Params, v)) {
			return true
		}
	}
	return false
}

// sliceAt slices along axes, or in steps, that only the run knows.
func sliceAt(c *convert.Call, x *ir.Value) *ir.Value {
	rank, size := len(x.Type.Shape), c.Length(1)
	axes, steps := make([]sym.Expr, size), make([]sym.Expr, size)
	for k := range axes {
		axes[k], steps[k] = sym.Const(int64(k)), sym.Const(1)
	}
	if c.Optional(3) != nil {
		axes = c.Axes(3, rank)
	}
	if c.Optional(4) != nil {
		steps = c.Symbols(4, math.MinInt64, convert.Unlimited)
	}
	starts, ends := c.Symbols(1, math.MinInt64, convert.Unlimited), c.Symbols(2, math.MinInt64, convert.Unlimited)
	if len(starts) != len(axes) || len(ends) != len(axes) || len(steps) != len(axes) || len(axes) > rank {
		c.Fault("%d starts, %d ends, %d steps for %d axes", len(starts), len(ends), len(steps), len(axes))
	}
	unit := sym.Const(1)
	steps = slices.Clone(steps)
	for k, step := range steps {
		// A step of this length takes one element at most.
		steps[k] = step.Max(sym.Const(-convert.ExtentLimit * convert.ExtentLimit)).
			Min(sym.Const(convert.ExtentLimit * convert.ExtentLimit))
		c.Condition(sym.Cond{A: step, Rel: sym.NE, B: sym.Const(0)}, "a step is not 0")
	}
	begin, length, stride := make([]sym.Expr, rank), make([]sym.Expr, rank), make([]sym.Expr, rank)
	for d, extent := range x.Type.Shape {
		near := func(list []sym.Expr) []sym.Expr {
			out := make([]sym.Expr, len(list))
			for k, at := range list {
				// All positions beyond the ends are equivalent, and this bounds the numbers that are computed with.
				out[k] = c.FromEnd(at.Max(extent.Neg().Sub(unit)).Min(extent), extent)
			}
			return out
		}
		step := entryFor(axes, steps, d, unit)
		up := convert.Positive(step)
		low, high := up.Sub(unit), extent.Sub(unit).Add(up)
		first := entryFor(axes, near(starts), d, sym.Const(0)).Max(sym.Const(0)).Min(high)
		stop := entryFor(axes, near(ends), d, extent).Max(low).Min(high)
		way := stop.Sub(first).Mul(up.Add(up).Sub(unit))
		begin[d], stride[d] = c.Dims().Simplify(first), c.Dims().Simplify(step)
		length[d] = c.Dims().Simplify(way.CeilDiv(step.Max(step.Neg())).Max(sym.Const(0)))
	}
	return ops.SliceBy(c.Builder, x, c.AsDims(-1, begin...), c.AsDims(0, length...), c.AsDims(math.MinInt64, stride...))
}
