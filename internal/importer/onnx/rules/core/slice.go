package core

import (
	"math"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// cut returns the first index of a slice along an axis, and its number of elements. For a negative step, ONNX clamps
// the start to the axis: a start before the axis becomes its first element, while Python's slice is empty.
func cut(c *convert.Call, start, end, extent sym.Expr, step int64) (begin, length sym.Expr) {
	zero, low, last := sym.Const(0), sym.Const(0), extent
	if step < 0 {
		low, last = sym.Const(-1), extent.Sub(sym.Const(1))
	}
	clamp := func(at, low sym.Expr) sym.Expr {
		if v, ok := at.Const(); ok && isEnd(c.Dims(), v, extent) {
			if v > 0 {
				return last
			}
			return low.Min(last)
		}
		if at = c.FromEnd(at, extent); c.Dims().LE(last, at) == sym.Yes {
			return last
		}
		return at.Max(low).Min(last)
	}
	begin, stop := clamp(start, zero), clamp(end, low)
	way := stop.Sub(begin)
	if step < 0 {
		way, step = way.Neg(), -step
	}
	length = way.CeilDiv(sym.Const(step))
	if step == longestAxis {
		length = way.Min(sym.Const(1))
	}
	return c.Dims().Simplify(begin), c.Dims().Simplify(length.Max(zero))
}

// longestAxis is a length that no axis has: a bound at least as far from 0 stands for an end of the axis.
const longestAxis = 1 << 40

// isEnd reports whether a number stands for the last or the first element of an axis, whatever its length is: numbers
// beyond every axis, and the greatest and the least integer of 32 bits unless the axis is known to be longer.
func isEnd(d *sym.Dims, at int64, extent sym.Expr) bool {
	if at == math.MaxInt32 || at == math.MinInt32 {
		return d.LT(sym.Const(math.MaxInt32), extent) != sym.Yes
	}
	return at >= longestAxis || at <= -longestAxis
}

// slice converts Slice.
func slice(c *convert.Call) []*ir.Value {
	x := c.Input(0)
	rank := len(x.Type.Shape)
	var starts, ends []sym.Expr
	var axes, steps []int64
	known := true
	if c.Version >= 10 && slicedAt(c) {
		return convert.One(sliceAt(c, x))
	}
	if c.Version < 10 {
		starts, ends, axes = ir.Constants(c.Ints("starts")), ir.Constants(c.Ints("ends")), c.Ints("axes")
	} else {
		first, last := c.Known(1), c.Known(2)
		known = first != nil && last != nil
		starts, ends = make([]sym.Expr, c.Length(1)), make([]sym.Expr, c.Length(2))
		if known {
			starts, ends = first, last
		}
		if c.Optional(3) != nil {
			axes = c.Numbers(3)
		}
		if c.Optional(4) != nil {
			steps = c.Numbers(4)
		}
	}
	if axes == nil {
		for i := range starts {
			axes = append(axes, int64(i))
		}
	}
	if steps == nil {
		for range axes {
			steps = append(steps, 1)
		}
	}
	if len(starts) != len(axes) || len(ends) != len(axes) || len(steps) != len(axes) {
		c.Fault("%d starts, %d ends, %d steps for %d axes", len(starts), len(ends), len(steps), len(axes))
	}
	c.Marked(axes, rank)
	for i, step := range steps {
		if step == 0 {
			c.Fault("a step of 0")
		}
		steps[i] = min(max(step, -longestAxis), longestAxis) // takes one element at most
	}
	begin, extent, step := make([]sym.Expr, rank), append([]sym.Expr{}, x.Type.Shape...), make([]int64, rank)
	for i := range step {
		step[i] = 1
	}
	cut := func(i int, extent sym.Expr) (sym.Expr, sym.Expr) { return cut(c, starts[i], ends[i], extent, steps[i]) }
	if !known {
		cut = cutAtRun(c, x, axes, steps)
	}
	for i, a := range axes {
		axis := c.Axis(a, rank)
		begin[axis], extent[axis] = cut(i, x.Type.Shape[axis])
		if n, ok := extent[axis].Const(); ok && n == 0 { // it may begin anywhere
			begin[axis] = sym.Const(0)
		} else if steps[i] != longestAxis && steps[i] != -longestAxis {
			step[axis] = steps[i]
		}
	}
	return convert.One(ops.Slice(c.Builder, x, begin, extent, step))
}

// cutAtRun is cut for starts and ends that only the run knows: it resolves and clamps them at run time.
func cutAtRun(c *convert.Call, x *ir.Value, axes, steps []int64) func(i int, extent sym.Expr) (begin, length sym.Expr) {
	b := c.Builder
	extents, low, high := make([]sym.Expr, len(axes)), make([]sym.Expr, len(axes)), make([]sym.Expr, len(axes))
	most := make([]sym.Expr, len(axes)) // of a length
	stride, round := make([]sym.Expr, len(axes)), make([]sym.Expr, len(axes))
	for i, a := range axes {
		extent := x.Type.Shape[c.Axis(a, len(x.Type.Shape))]
		extents[i], high[i] = extent, extent
		most[i] = c.Dims().Simplify(extent.CeilDiv(sym.Const(max(steps[i], -steps[i]))))
		stride[i], round[i] = sym.Const(steps[i]), sym.Const(steps[i]-1)
		if steps[i] < 0 {
			low[i], high[i], round[i] = sym.Const(-1), extent.Sub(sym.Const(1)), sym.Const(steps[i]+1)
		}
	}
	clamp := func(at, low *ir.Value) *ir.Value {
		at = ops.Where(b, ops.Binary(b, ops.Lt, at, c.Number(0)), ops.Binary(b, ops.Add, at, c.Integers(extents...)), at)
		return ops.Binary(b, ops.Min, ops.Binary(b, ops.Max, at, low), c.Integers(high...))
	}
	first, stop := clamp(c.Wide(1), c.Number(0)), clamp(c.Wide(2), c.Integers(low...))
	way := ops.Binary(b, ops.Add, ops.Binary(b, ops.Sub, stop, first), c.Integers(round...))
	length := ops.Binary(b, ops.Max, ops.Binary(b, ops.Div, way, c.Integers(stride...)), c.Number(0))
	begins := bound(c, ops.Binary(b, ops.Max, first, c.Number(0)), extents)
	lengths := bound(c, length, most)
	return func(i int, _ sym.Expr) (sym.Expr, sym.Expr) { return begins[i], lengths[i] }
}

// concat converts Concat.
func concat(c *convert.Call) []*ir.Value {
	if !c.Has("axis") {
		c.Fault("attribute axis is missing")
	}
	for i := range c.In {
		c.Input(i)
	}
	return convert.One(ops.Concat(c.Builder, c.Int("axis", 0), c.In...))
}

// maxPieces is the largest number of pieces of a split.
const maxPieces = 1 << 14

// split converts Split.
func split(c *convert.Call) []*ir.Value {
	x := c.Input(0)
	axis := int(c.Axis(c.Int("axis", 0), len(x.Type.Shape)))
	extent, pieces := x.Type.Shape[axis], int64(len(c.Node.Output))
	var extents []sym.Expr
	switch {
	case c.Version < 13 && c.Has("split"):
		extents = ir.Constants(c.Ints("split"))
	case c.Version >= 13 && c.Optional(1) != nil:
		c.Length(1)
		if extents = c.Known(1); extents == nil {
			extents = c.Decided(c.Wide(1), extent)
		}
	default:
		if c.Version >= 18 && c.Has("num_outputs") {
			pieces = c.Int("num_outputs", 0)
		}
		if pieces < 1 || pieces > maxPieces {
			c.Fault("%d pieces", pieces)
		}
		// The last piece is the smallest, and may be empty.
		each, left := extent.CeilDiv(sym.Const(pieces)), extent
		if c.Version < 18 {
			each = extent.FloorDiv(sym.Const(pieces))
		}
		for range pieces - 1 {
			size := c.Dims().Simplify(each.Min(left))
			extents = append(extents, size)
			left = left.Sub(size)
		}
		if c.Version < 18 {
			left = each
		}
		extents = append(extents, c.Dims().Simplify(left))
	}
	if len(extents) < c.Outputs {
		c.Fault("%d pieces for %d outputs", len(extents), c.Outputs)
	}
	c.Condition(sym.Cond{A: c.Dims().Simplify(sym.Sum(extents...)), Rel: sym.EQ, B: extent},
		"the pieces of a split are the whole")
	return ops.Split(c.Builder, x, axis, extents)
}

// pad converts Pad.
func pad(c *convert.Call) []*ir.Value {
	x := c.Input(0)
	rank := len(x.Type.Shape)
	var pads []sym.Expr
	var value *ir.Value
	axes := make([]sym.Expr, rank)
	for i := range axes {
		axes[i] = sym.Const(int64(i))
	}
	if c.Version < 11 {
		pads, value = ir.Constants(c.Ints("pads")), ops.Scalar(c.Builder, x.Type.DType, c.Float("value", 0))
	} else {
		vector(c, 1)
		pads = c.Symbols(1, math.MinInt64, convert.Unlimited)
		value = c.Optional(2)
		if c.Optional(3) != nil {
			axes = c.Axes(3, rank)
		}
	}
	if len(pads) != 2*len(axes) {
		c.Fault("%d paddings for %d axes, two for each are needed", len(pads), len(axes))
	}
	begin, end := make([]sym.Expr, rank), make([]sym.Expr, rank)
	for i := range begin {
		begin[i] = entryFor(axes, pads[:len(axes)], i, sym.Const(0))
		end[i] = entryFor(axes, pads[len(axes):], i, sym.Const(0))
	}
	return convert.One(ops.Pad(c.Builder, x, value, c.StringAttribute("mode", "constant"),
		c.AsDims(math.MinInt64, begin...),
		c.AsDims(math.MinInt64, end...)))
}

// vector checks that input i is a vector of at most two numbers for each axis.
func vector(c *convert.Call, i int) {
	if v := c.Input(i); len(v.Type.Shape) != 1 {
		c.Fault("%s has rank %d, it must be a vector", v.Name, len(v.Type.Shape))
	}
}

// centerCropPad converts CenterCropPad. It crops or pads each axis at both ends; if the difference is odd, the end more
// than the beginning.
func centerCropPad(c *convert.Call) []*ir.Value {
	x := c.Input(0)
	rank := len(x.Type.Shape)
	axes := c.Ints("axes")
	if axes == nil {
		for i := range rank {
			axes = append(axes, int64(i))
		}
	}
	counted(c, 1, int64(len(axes)))
	to := c.Symbols(1, 0, convert.Unlimited)
	if len(to) != len(axes) {
		c.Fault("%d extents for %d axes", len(to), len(axes))
	}
	c.Marked(axes, rank)
	begin, end := make([]sym.Expr, rank), make([]sym.Expr, rank)
	for i, a := range axes {
		axis := c.Axis(a, rank)
		more := to[i].Sub(x.Type.Shape[axis])
		half := more.Max(sym.Const(0)).FloorDiv(sym.Const(2)).Sub(more.Neg().Max(sym.Const(0)).FloorDiv(sym.Const(2)))
		begin[axis] = c.Dims().Simplify(half)
		end[axis] = c.Dims().Simplify(more.Sub(half))
	}
	if x.Type.DType == dtype.String {
		c.Refuse("a tensor of strings")
	}
	return convert.One(ops.Pad(c.Builder, x, nil, "constant", begin, end))
}
