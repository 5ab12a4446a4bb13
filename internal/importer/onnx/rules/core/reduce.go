package core

import (
	"fmt"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// reduction returns the rule of a reduction.
func reduction(op string) convert.Rule {
	return func(c *convert.Call) []*ir.Value {
		if byData(c) {
			if size, ok := convert.Count(c.In[1].Type.Shape).Const(); ok && size > 0 && c.Argument(c.In[1]) != nil {
				return convert.One(reducedAt(c, op))
			}
			return convert.One(reducedByData(c, op))
		}
		axes, keep := reducedAxes(c)
		return convert.One(ops.Reduce(c.Builder, op, c.Input(0), keep, axes...))
	}
}

// indexOfExtreme returns the rule for the index of the greatest or smallest element along an axis.
func indexOfExtreme(smallest bool) convert.Rule {
	return func(c *convert.Call) []*ir.Value {
		axis := c.Axis(c.Int("axis", 0), len(c.Input(0).Type.Shape))
		return convert.One(ops.ArgMax(c.Builder, c.Input(0), axis, smallest, c.Int("keepdims", 1) != 0,
			c.Int("select_last_index", 0) != 0))
	}
}

// byData reports whether the axes are an input whose elements only the run knows.
func byData(c *convert.Call) bool { return c.Optional(1) != nil && !convert.IsKnown(c.Optional(1)) }

// reducedByData reduces along axes that only the run knows. For each axis of the operand it binds two extents: that of
// the result, and that which is reduced.
func reducedByData(c *convert.Call, op string) *ir.Value {
	b, x, axes := c.Builder, c.Input(0), c.Input(1)
	rank, one := int64(len(x.Type.Shape)), sym.Const(1)
	if len(axes.Type.Shape) != 1 || !axes.Type.DType.IsInt() {
		c.Fault("the axes are %s", axes.Type)
	}
	count := axes.Type.Shape[0]
	column := ops.Reshape(b, ops.Cast(b, axes, dtype.I64), count, one)
	first, end := ops.Counting(b, dtype.I64, sym.Const(rank)), c.Number(rank)
	same := ops.Binary(b, ops.Or, ops.Binary(b, ops.Eq, column, first),
		ops.Binary(b, ops.Eq, ops.Binary(b, ops.Add, column, end), first))
	among := ops.ReduceMax(b, same, false, 0)
	if c.Int("noop_with_empty_axes", 0) == 0 {
		// An empty list of axes means all axes.
		all := ops.Integers(b, ir.Type{DType: dtype.Bool}, []sym.Expr{one.Sub(count.Min(one))})
		among = ops.Binary(b, ops.Or, among, all)
	}
	extents := ops.Integers(b, ir.Type{DType: dtype.I64, Shape: ir.Constants([]int64{rank})}, x.Type.Shape)
	kept, gone := ops.Where(b, among, c.Number(1), extents), ops.Where(b, among, extents, c.Number(1))
	limits := make([]sym.Expr, rank)
	for i, extent := range x.Type.Shape {
		limits[i] = extent.Max(one)
	}
	y := ops.ReduceBy(b, op, x, bound(c, kept, limits), bound(c, gone, limits))
	if c.Int("keepdims", 1) != 0 {
		return y
	}
	left := keptRank(c, count, rank)
	if left == 0 {
		return ops.Reshape(b, y)
	}
	// The remaining axes, in order, have the largest keys.
	keys := ops.Where(b, among, c.Number(0), ops.Binary(b, ops.Sub, end, first))
	_, order := ops.TopK(b, keys, sym.Const(left), 0, true)
	for m := range left {
		limits[m] = sym.MaxOf(limits[m : m+rank-left+1]...)
	}
	return ops.Reshape(b, y, bound(c, ops.Gather(b, kept, order, 0), limits[:left])...)
}

// bound makes the elements of a vector dimensions that the run binds, each at most its limit.
func bound(c *convert.Call, v *ir.Value, limits []sym.Expr) []sym.Expr {
	if v.Known == nil {
		v.Known, v.Bound = make([]sym.Expr, len(limits)), true
		for i, limit := range limits {
			v.Known[i] = c.Fresh(fmt.Sprintf("%s[%d]", v.Name, i), "an extent that "+c.String()+" computes", 0, limit)
		}
	}
	return v.Known
}

// keptRank returns the number of axes that remain, from the number of reduced axes or the declared type of the result.
func keptRank(c *convert.Call, count sym.Expr, rank int64) int64 {
	if size, ok := count.Const(); ok {
		if size == 0 && c.Int("noop_with_empty_axes", 0) == 0 {
			return 0
		}
		return max(0, rank-size)
	}
	for _, p := range c.Scope.Source.Outputs {
		if p.Name == c.Node.Output[0] && p.Type.Shape != nil && int64(len(p.Type.Shape)) <= rank {
			return int64(len(p.Type.Shape))
		}
	}
	c.Refuse("the rank of what is left by %s axes", count)
	return 0
}

// reducedAxes returns the axes of a reduction: an attribute in older versions, an input in newer ones. If there are
// none, all axes are reduced; or none, if noop_with_empty_axes is set: then each element is a reduction of one element.
func reducedAxes(c *convert.Call) ([]int64, bool) {
	rank := len(c.Input(0).Type.Shape)
	keep := c.Int("keepdims", 1) != 0
	axes := c.IntsOrInput("axes", 1)
	if len(axes) == 0 {
		if c.Int("noop_with_empty_axes", 0) != 0 {
			return []int64{}, keep
		}
		return convert.AllAxes(rank), keep
	}
	out := []int64{}
	for _, a := range axes {
		if a = c.Axis(a, rank); !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out, keep
}
