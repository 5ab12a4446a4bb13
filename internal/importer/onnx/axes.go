package onnx

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// Axes that only the run knows. Each has one of finitely many values, so that what it decides is a formula, or a choice.

// folded applies an operator along the axis that input i, one integer that may count from the end, names: build is given x and the axis. Where only the run knows it,
// x is folded into three axes, what lies before it, itself and what lies behind it, and the result unfolded; the operator keeps the shape.
func (c *call) folded(x *ir.Value, i int, build func(x *ir.Value, axis int64) *ir.Value) *ir.Value {
	v, shape := c.Input(i), x.Type.Shape
	rank := len(shape)
	if size, ok := count(v.Type.Shape).Const(); !ok || size != 1 {
		c.Fault("the axis is %s, it must be one integer", v.Type)
	}
	if isKnown(v) {
		return build(x, c.Axis(c.Numbers(i)[0], rank))
	}
	if rank == 0 {
		c.Fault("an axis of a scalar")
	}
	axis := c.axes(i, rank)[0]
	three := make([]sym.Expr, 3)
	for d, extent := range shape {
		here := is(axis, d)
		three[0] = three[0].Add(here.Mul(count(shape[:d])))
		three[1] = three[1].Add(here.Mul(extent))
		three[2] = three[2].Add(here.Mul(count(shape[d+1:])))
	}
	y := build(ops.Reshape(c.Builder, x, c.asDims(0, natural(three)...)...), 1)
	return ops.Reshape(c.Builder, y, shape...)
}

// natural are extents of which the prover cannot see that they are not negative, as extents that it can; and each stays a whole when they are multiplied.
func natural(extents []sym.Expr) []sym.Expr {
	out := make([]sym.Expr, len(extents))
	for i, e := range extents {
		out[i] = e.Max(sym.Const(0))
	}
	return out
}

// argument is the graph's input whose elements, as many as are known, a value has in order: itself, or what it is another form of. nil where there is none.
func (c *call) argument(v *ir.Value) *ir.Value {
	for v.Node != nil && (v.Node.Op.Name() == "reshape" || v.Node.Op.Name() == "cast") && v.Type.DType.IsInt() {
		v = v.Node.Inputs[0]
	}
	if _, known := count(v.Type.Shape).Const(); known && v.Type.DType.IsInt() && slices.Contains(c.Module.Main.Body.Params, v) {
		return v
	}
	return nil
}

// counted gives input i, whose number of elements the operator prescribes, that shape where its own extents have only names.
func (c *call) counted(i int, shape ...int64) {
	if _, known := count(c.Input(i).Type.Shape).Const(); !known {
		c.In[i] = ops.Reshape(c.Builder, c.In[i], ir.Constants(shape)...)
	}
}

// symbols is the elements of an integer value as symbolic integers within [lo, hi]: known ones, dimensions that the caller's argument gives, or such that the run binds.
func (c *call) symbols(v *ir.Value, lo int64, hi sym.Expr) []sym.Expr {
	from, argument := v, c.argument(v)
	if v.Known == nil && argument != nil {
		from = argument
	}
	out, err := c.ElementsWithin(from, c.String(), lo, hi)
	if err != nil {
		if e := diag.As(err, diag.ErrUnsupported); e != nil {
			c.Fail(e.AtNode(c.Source, c.Node.OpType))
		}
		c.Fail(err)
	}
	v.Known = out
	if argument != nil {
		// It may have a wider range, from another use or because the bound is no number.
		for _, e := range out {
			if lo > math.MinInt64 {
				c.require(sym.Cond{A: sym.Const(lo), B: e}, "an element of "+argument.Name+" is in range")
			}
			if !sym.IsUnlimited(hi) {
				c.require(sym.Cond{A: e, B: hi}, "an element of "+argument.Name+" is in range")
			}
		}
	}
	return out
}

// reshapedTo is a new shape that is an argument of the run, with 0 and −1 resolved.
func (c *call) reshapedTo(x *ir.Value, rank int, keepZero bool) []sym.Expr {
	to := slices.Clone(c.symbols(c.In[1], -1, sym.Unlimited))
	missing, others, open := make([]sym.Expr, rank), sym.Const(1), sym.Const(0)
	for i, e := range to {
		switch {
		case keepZero:
		case i < len(x.Type.Shape):
			to[i] = e.Add(is(e, 0).Mul(x.Type.Shape[i]))
		default:
			c.require(sym.Cond{A: e, Rel: sym.NE, B: sym.Const(0)}, "0 stands for an axis that there is")
		}
		missing[i] = is(e, -1)
		others = others.Mul(to[i].Add(missing[i]).Add(missing[i]).Max(sym.Const(0)))
		open = open.Add(missing[i])
	}
	c.require(sym.Cond{A: open, B: sym.Const(1)}, "one axis at most is -1")
	rest := count(x.Type.Shape).FloorDiv(others.Max(sym.Const(1)))
	for i := range to {
		to[i] = to[i].Add(missing[i].Mul(rest.Add(sym.Const(1))))
	}
	return c.asDims(0, natural(to)...)
}

// reducedAt reduces along axes that are an argument of the run.
func (c *call) reducedAt(op string) *ir.Value {
	x, keep := c.Input(0), c.Int("keepdims", 1) != 0
	shape := x.Type.Shape
	axes := c.axes(1, len(shape))
	left, gone, kept := make([]sym.Expr, len(shape)), make([]sym.Expr, len(shape)), make([]sym.Expr, len(shape))
	for d, extent := range shape {
		reduced := among(axes, d)
		left[d] = extent.Add(reduced.Mul(sym.Const(1).Sub(extent)))
		gone[d] = sym.Const(1).Add(reduced.Mul(extent.Sub(sym.Const(1))))
		kept[d] = sym.Const(1).Sub(reduced)
	}
	y := ops.ReduceBy(c.Builder, op, x, c.asDims(0, natural(left)...), c.asDims(0, natural(gone)...))
	if keep {
		return y
	}
	return ops.Reshape(c.Builder, y, c.asDims(0, c.compacted(shape, kept, len(shape)-len(axes))...)...)
}

// asDims makes formulas that are not plain dimensions of their own, which the run binds: what is computed with them is
// as simple as if they were the model's. None is below lo. One that the run knows when it begins is its own limit, so
// that sizes stay exact.
func (c *call) asDims(lo int64, list ...sym.Expr) []sym.Expr {
	out := slices.Clone(list)
	var intricate []sym.Expr
	var at []int
	for i, e := range list {
		if e = c.Dims().Simplify(e); plain(e) && !c.ofData(e) {
			out[i] = e
			continue
		}
		intricate, at = append(intricate, e), append(at, i)
	}
	if intricate == nil {
		return out
	}
	v := c.integers(intricate...)
	v.Known, v.Bound = make([]sym.Expr, len(intricate)), true
	for k, e := range intricate {
		limit := e
		low, high := c.Dims().Bounds(e)
		if c.ofData(e) {
			limit = sym.Const(high)
		}
		v.Known[k] = c.Fresh(c.Source+".extent", "an extent that "+c.String()+" computes", max(lo, low), limit)
		out[at[k]] = v.Known[k]
	}
	return out
}

// mostPlain is the most factors of a formula that stays as it is: of sums, quotients and remainders of a dimension or
// two.
const mostPlain = 8

// plain reports whether a formula is a number, or short and without minima and maxima, so that what is computed with it
// stays simple.
func plain(e sym.Expr) bool {
	left := mostPlain
	var short func(e sym.Expr) bool
	short = func(e sym.Expr) bool {
		_, terms := e.Terms()
		for _, t := range terms {
			for _, f := range t.Factors {
				switch left--; f.Kind {
				case sym.Variable, sym.FloorQuotient, sym.CeilQuotient, sym.Remainder:
				default:
					return false
				}
				if left < 0 || slices.ContainsFunc(f.Args, func(x sym.Expr) bool { return !short(x) }) {
					return false
				}
			}
		}
		return true
	}
	return short(e)
}

// ofData reports whether data decide a dimension of a formula.
func (c *call) ofData(e sym.Expr) bool {
	return slices.ContainsFunc(e.Vars(), func(name sym.Name) bool { _, data := c.Module.Limits[name]; return data })
}

// within states that a symbolic integer lies between two numbers.
func (c *call) within(e sym.Expr, lo, hi int64, why string) {
	c.require(sym.Cond{A: sym.Const(lo), B: e}, why)
	c.require(sym.Cond{A: e, B: sym.Const(hi)}, why)
}

// axes are the elements of input i, each an axis of a tensor of the given rank that may count from the end, no two the same: numbers, or symbolic integers.
func (c *call) axes(i, rank int) []sym.Expr {
	v := c.Input(i)
	if len(v.Type.Shape) > 1 {
		c.Fault("the axes are %s, they must be a vector", v.Type)
	}
	if isKnown(v) {
		given := c.Numbers(i)
		c.marked(given, rank)
		out := make([]sym.Expr, len(given))
		for k, a := range given {
			out[k] = sym.Const(c.Axis(a, rank))
		}
		return out
	}
	if size, ok := count(v.Type.Shape).Const(); !ok {
		c.Refuse("%s, whose number is known only when the model runs, decides the rank of a result", v.Name)
	} else if size > int64(rank) {
		c.Fault("%d axes of a tensor of rank %d", size, rank)
	}
	list := append([]sym.Expr{}, c.Symbols(i, -int64(rank), int64(rank)-1)...)
	for k, a := range list {
		c.within(a, -int64(rank), int64(rank)-1, "an axis is one of the tensor's")
		list[k] = c.fromEnd(a, sym.Const(int64(rank)))
		for _, other := range list[:k] {
			c.require(sym.Cond{A: list[k], Rel: sym.NE, B: other}, "no axis is named twice")
		}
	}
	return list
}

// is is 1 where a symbolic integer has a value, else 0.
func is(a sym.Expr, value int) sym.Expr {
	above := a.Sub(sym.Const(int64(value)))
	return sym.Const(1).Sub(above).Min(sym.Const(1).Add(above)).Max(sym.Const(0))
}

// along is what a list has beside the axis in another list, and otherwise where that axis is not there.
func along(axes, list []sym.Expr, axis int, otherwise sym.Expr) sym.Expr {
	out := otherwise
	for k, a := range axes {
		out = out.Add(is(a, axis).Mul(list[k].Sub(otherwise)))
	}
	return out
}

// among is 1 where an axis is in a list, else 0.
func among(axes []sym.Expr, axis int) sym.Expr {
	var out sym.Expr
	for _, a := range axes {
		out = out.Add(is(a, axis))
	}
	return out
}

// compacted are the members of a list that are kept, in order, of which there are so many.
func (c *call) compacted(list, kept []sym.Expr, count int) []sym.Expr {
	out := make([]sym.Expr, count)
	var before sym.Expr
	for d, x := range list {
		for m := range out {
			out[m] = out[m].Add(kept[d].Mul(is(before, m)).Mul(x))
		}
		before = before.Add(kept[d])
	}
	return natural(out)
}

// squeezeAt removes axes that only the run knows.
func (c *call) squeezeAt(x *ir.Value) *ir.Value {
	shape := x.Type.Shape
	axes := c.axes(1, len(shape))
	kept := make([]sym.Expr, len(shape))
	for d := range shape {
		kept[d] = sym.Const(1).Sub(among(axes, d))
	}
	for _, a := range axes {
		var extent sym.Expr
		for d := range shape {
			extent = extent.Add(is(a, d).Mul(shape[d]))
		}
		c.require(sym.Cond{A: extent, Rel: sym.EQ, B: sym.Const(1)}, "an axis that is removed has one element")
	}
	return ops.Reshape(c.Builder, x, c.asDims(0, c.compacted(shape, kept, len(shape)-len(axes))...)...)
}

// unsqueezeAt inserts axes that only the run knows.
func (c *call) unsqueezeAt(x *ir.Value, rank int) *ir.Value {
	axes := c.axes(1, rank)
	shape := make([]sym.Expr, rank)
	var before sym.Expr // how many of the axes so far are x's own
	for i := range shape {
		inserted := among(axes, i)
		shape[i] = inserted
		for d, extent := range x.Type.Shape {
			shape[i] = shape[i].Add(sym.Const(1).Sub(inserted).Mul(is(before, d)).Mul(extent))
		}
		before = before.Add(sym.Const(1)).Sub(inserted)
	}
	return ops.Reshape(c.Builder, x, c.asDims(0, natural(shape)...)...)
}

// slicedAt reports whether a slice is a formula over what the run knows when it begins, or over axes and steps that it computes.
func (c *call) slicedAt() bool {
	for i := 1; i <= 4; i++ {
		if v := c.Optional(i); v != nil && !isKnown(v) && (i > 2 || slices.Contains(c.Module.Main.Body.Params, v)) {
			return true
		}
	}
	return false
}

// sliceAt slices along axes, or in steps, that only the run knows.
func (c *call) sliceAt(x *ir.Value) *ir.Value {
	rank, size := len(x.Type.Shape), c.length(1)
	axes, steps := make([]sym.Expr, size), make([]sym.Expr, size)
	for k := range axes {
		axes[k], steps[k] = sym.Const(int64(k)), sym.Const(1)
	}
	if c.Optional(3) != nil {
		axes = c.axes(3, rank)
	}
	if c.Optional(4) != nil {
		steps = c.Symbols(4, math.MinInt64, unlimited)
	}
	starts, ends := c.Symbols(1, math.MinInt64, unlimited), c.Symbols(2, math.MinInt64, unlimited)
	if len(starts) != len(axes) || len(ends) != len(axes) || len(steps) != len(axes) || len(axes) > rank {
		c.Fault("%d starts, %d ends, %d steps for %d axes", len(starts), len(ends), len(steps), len(axes))
	}
	unit := sym.Const(1)
	steps = slices.Clone(steps)
	for k, step := range steps {
		// One so long takes one element at most.
		steps[k] = step.Max(sym.Const(-extentLimit * extentLimit)).Min(sym.Const(extentLimit * extentLimit))
		c.require(sym.Cond{A: step, Rel: sym.NE, B: sym.Const(0)}, "a step is not 0")
	}
	begin, length, stride := make([]sym.Expr, rank), make([]sym.Expr, rank), make([]sym.Expr, rank)
	for d, extent := range x.Type.Shape {
		near := func(list []sym.Expr) []sym.Expr {
			out := make([]sym.Expr, len(list))
			for k, at := range list {
				// Beyond the ends all are the same; and no number is too large to count with.
				out[k] = c.fromEnd(at.Max(extent.Neg().Sub(unit)).Min(extent), extent)
			}
			return out
		}
		step := along(axes, steps, d, unit)
		up := positive(step)
		low, high := up.Sub(unit), extent.Sub(unit).Add(up)
		first := along(axes, near(starts), d, sym.Const(0)).Max(sym.Const(0)).Min(high)
		stop := along(axes, near(ends), d, extent).Max(low).Min(high)
		way := stop.Sub(first).Mul(up.Add(up).Sub(unit))
		begin[d], stride[d] = c.Dims().Simplify(first), c.Dims().Simplify(step)
		length[d] = c.Dims().Simplify(way.CeilDiv(step.Max(step.Neg())).Max(sym.Const(0)))
	}
	return ops.SliceBy(c.Builder, x, c.asDims(-1, begin...), c.asDims(0, length...), c.asDims(math.MinInt64, stride...))
}
