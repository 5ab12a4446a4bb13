package core

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// gather converts Gather. A known index becomes a slice, which may need no copy.
func gather(c *convert.Call) []*ir.Value {
	b, x, indices := c.Builder, c.Input(0), c.Input(1)
	axis := c.Axis(c.Int("axis", 0), len(x.Type.Shape))
	if known, _ := c.Knows(x); known != nil || len(indices.Type.Shape) > 0 || indices.Bound {
		return convert.One(ops.Gather(b, x, indices, axis))
	}
	index := c.Known(1)
	if len(index) != 1 {
		return convert.One(ops.Gather(b, x, indices, axis))
	}
	at, extent := index[0], x.Type.Shape[axis]
	at = c.Dims().Simplify(c.FromEnd(at, extent))
	inside := []sym.Cond{{A: sym.Const(0), Rel: sym.LE, B: at}, {A: at, Rel: sym.LT, B: extent}}
	for _, cond := range inside {
		if c.Scope.Outer != nil && c.Dims().Prove(cond) != sym.Yes {
			// A branch may not be taken: the index is checked where it is used.
			return convert.One(ops.Gather(b, x, indices, axis))
		}
		c.Condition(cond, "an index")
	}
	row := ops.SliceAxis(b, x, int(axis), at, sym.Const(1))
	return convert.One(ops.Reshape(b, row, append(append([]sym.Expr{}, x.Type.Shape[:axis]...),
		x.Type.Shape[axis+1:]...)...))
}

func gatherElements(c *convert.Call) []*ir.Value {
	return convert.One(ops.GatherElements(c.Builder, c.Input(0), c.Input(1), c.Int("axis", 0)))
}

// GatherND converts GatherND.
func GatherND(c *convert.Call) []*ir.Value {
	return convert.One(ops.GatherND(c.Builder, c.Input(0), c.Input(1), c.Int("batch_dims", 0)))
}

// scatterElements converts ScatterElements.
func scatterElements(c *convert.Call) []*ir.Value {
	return convert.One(ops.ScatterElements(c.Builder, c.Input(0), c.Input(1), c.Input(2), c.Int("axis", 0),
		c.StringAttribute("reduction", "none")))
}

// scatterND converts ScatterND.
func scatterND(c *convert.Call) []*ir.Value {
	return convert.One(ops.ScatterND(c.Builder, c.Input(0), c.Input(1), c.Input(2),
		c.StringAttribute("reduction", "none")))
}

// tensorScatter converts TensorScatter: it writes update[b, …, s, …] into a cache at position write_indices[b] + s
// along the axis, circular or not.
func tensorScatter(c *convert.Call) []*ir.Value {
	b, cache, news := c.Builder, c.Input(0), c.Input(1)
	rank := len(cache.Type.Shape)
	axis := c.Axis(c.Int("axis", -2), rank)
	if len(news.Type.Shape) != rank || axis == 0 {
		c.Fault("an update %s of %s along axis %d", news.Type, cache.Type, axis)
	}
	positions := ops.Reshape(b, ops.Counting(b, dtype.I64, news.Type.Shape[axis]),
		onAxis(c, news.Type.Shape[axis], axis, rank)...)
	if first := c.Optional(2); first != nil {
		batch := onAxis(c, cache.Type.Shape[0], 0, rank)
		positions = ops.Binary(b, ops.Add, positions, ops.Reshape(b, ops.Cast(b, first, dtype.I64), batch...))
	}
	if c.StringAttribute("mode", "linear") == "circular" {
		extent := ops.Integers(b, ir.Type{DType: dtype.I64}, []sym.Expr{cache.Type.Shape[axis]})
		positions = ops.Binary(b, ops.FloorMod, positions, extent)
	}
	return convert.One(ops.ScatterElements(b, cache, ops.Expand(b, positions, news.Type.Shape...), news, axis, "none"))
}

// onAxis returns a shape of a rank with the given extent on one axis and 1 on all others.
func onAxis(c *convert.Call, extent sym.Expr, axis int64, rank int) []sym.Expr {
	shape := make([]sym.Expr, rank)
	for i := range shape {
		shape[i] = sym.Const(1)
	}
	shape[axis] = extent
	return shape
}

// OneHot converts OneHot: it compares each index, which may count from the end, with 0, 1, … depth − 1 along a new
// axis.
func OneHot(c *convert.Call) []*ir.Value {
	b, indices, values := c.Builder, ops.Cast(c.Builder, c.Input(0), dtype.I64),
		ops.Reshape(c.Builder, c.Input(2), sym.Const(2))
	var depth sym.Expr
	if v := c.Input(1); v.Const != nil && v.Const.Len() == 1 && v.Type.DType.IsFloat() {
		depth = sym.Const(int64(v.Const.Float(0)))
	} else {
		depth = c.Decided(convert.ScalarIn(b, ops.Cast(b, v, dtype.I64)), sym.Unlimited)[0]
	}
	rank := len(indices.Type.Shape) + 1
	axis := c.Axis(c.Int("axis", -1), rank)
	extent := ops.Integers(b, ir.Type{DType: dtype.I64}, []sym.Expr{depth})
	indices = ops.Where(b, ops.Binary(b, ops.Lt, indices, c.Number(0)), ops.Binary(b, ops.Add, indices, extent), indices)
	lead := append(append(append([]sym.Expr{}, indices.Type.Shape[:axis]...), sym.Const(1)), indices.Type.Shape[axis:]...)
	classes := ops.Reshape(b, ops.Counting(b, dtype.I64, depth), onAxis(c, depth, axis, rank)...)
	hot := ops.Binary(b, ops.Eq, ops.Reshape(b, indices, lead...), classes)
	value := func(i int64) *ir.Value {
		return ops.Reshape(b, ops.SliceAxis(b, values, 0, sym.Const(i), sym.Const(1)))
	}
	return convert.One(ops.Where(b, hot, value(1), value(0)))
}

func nonZero(c *convert.Call) []*ir.Value { return convert.One(ops.NonZero(c.Builder, c.Input(0))) }

// compress converts Compress.
func compress(c *convert.Call) []*ir.Value {
	x, axis := c.Input(0), int64(0)
	if c.Has("axis") {
		axis = c.Axis(c.Int("axis", 0), len(x.Type.Shape))
	} else {
		x = c.Flat(x)
	}
	return convert.One(ops.Compress(c.Builder, x, c.Input(1), axis))
}

// unique converts Unique.
func unique(c *convert.Call) []*ir.Value {
	x, axis := c.Input(0), int64(0)
	if c.Has("axis") {
		axis = c.Axis(c.Int("axis", 0), len(x.Type.Shape))
	} else {
		x = c.Flat(x)
	}
	values, indices, inverse, counts := ops.Unique(c.Builder, x, axis, c.Int("sorted", 1) != 0)
	return []*ir.Value{values, indices, inverse, counts}
}

// topK converts TopK.
func topK(c *convert.Call) []*ir.Value {
	x := c.Input(0)
	axis := c.Axis(c.Int("axis", -1), len(x.Type.Shape))
	k := sym.Const(c.Int("k", -1))
	if c.Version >= 10 {
		k = c.Decided(convert.ScalarIn(c.Builder, c.Input(1)), x.Type.Shape[axis])[0]
	}
	values, indices := ops.TopK(c.Builder, x, k, axis, c.Int("largest", 1) != 0)
	return []*ir.Value{values, indices}
}

// cumulate returns the rule of a running sum or product.
func cumulate(build func(b *ir.Builder, x *ir.Value, axis int64, exclusive, reverse bool) *ir.Value) convert.Rule {
	return func(c *convert.Call) []*ir.Value {
		return convert.One(alongAxis(c, c.Input(0), 1, func(x *ir.Value, axis int64) *ir.Value {
			return build(c.Builder, x, axis, c.Int("exclusive", 0) != 0, c.Int("reverse", 0) != 0)
		}))
	}
}

// Trilu converts Trilu.
func Trilu(c *convert.Call) []*ir.Value {
	diagonal := sym.Const(0)
	if k := c.Optional(1); k != nil {
		known, err := c.Elements(convert.ScalarIn(c.Builder, k), c.String(), -convert.ExtentLimit, convert.ExtentLimit)
		if err != nil {
			c.Fail(err)
		}
		diagonal = known[0]
	}
	return convert.One(ops.Triangle(c.Builder, c.Input(0), c.Int("upper", 1) != 0, diagonal))
}

// reverseSequence converts ReverseSequence.
func reverseSequence(c *convert.Call) []*ir.Value {
	return convert.One(ops.ReverseSequence(c.Builder, c.Input(0), c.Input(1), c.Int("batch_axis", 1),
		c.Int("time_axis", 0)))
}
