package onnx

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

func init() {
	for name, op := range map[string]string{"ReduceSum": "reduce_sum", "ReduceProd": "reduce_prod", "ReduceMin": "reduce_min", "ReduceMax": "reduce_max",
		"ReduceMean": "reduce_mean", "ReduceL1": "reduce_l1", "ReduceL2": "reduce_l2", "ReduceSumSquare": "reduce_sum_square", "ReduceLogSum": "reduce_log_sum", "ReduceLogSumExp": "reduce_log_sum_exp"} {
		add(map[string]rule{name: func(c *call) []*ir.Value {
			if byData(c) {
				return one(reducedByData(c, op))
			}
			axes, keep := reducedAxes(c)
			return one(ops.Reduce(c.Builder, op, c.Input(0), keep, axes...))
		}})
	}
	for name, smallest := range map[string]bool{"ArgMax": false, "ArgMin": true} {
		add(map[string]rule{name: func(c *call) []*ir.Value {
			axis := c.Axis(c.Int("axis", 0), len(c.Input(0).Type.Shape))
			return one(ops.ArgMax(c.Builder, c.Input(0), axis, smallest, c.Int("keepdims", 1) != 0, c.Int("select_last_index", 0) != 0))
		}})
	}
}

// byData reports whether the axes are an input whose elements only the run knows.
func byData(c *call) bool { return c.Optional(1) != nil && !isKnown(c.Optional(1)) }

func isKnown(v *ir.Value) bool {
	return v.Known != nil && !slices.ContainsFunc(v.Known, func(e sym.Expr) bool { _, ok := e.Const(); return !ok })
}

// reducedByData reduces along axes that only the run knows. Dimensions that it binds, 0 or 1, say which of the operand's axes are among them.
func reducedByData(c *call, op string) *ir.Value {
	b, x, axes := c.Builder, c.Input(0), c.Input(1)
	rank, one := int64(len(x.Type.Shape)), sym.Const(1)
	if len(axes.Type.Shape) != 1 || !axes.Type.DType.IsInt() {
		c.Fault("the axes are %s", axes.Type)
	}
	count := axes.Type.Shape[0]
	column := ops.Reshape(b, ops.Cast(b, axes, dtype.I64), count, one)
	first, end := ops.Counting(b, dtype.I64, sym.Const(rank)), c.number(rank)
	same := ops.Binary(b, loop.Or, ops.Binary(b, loop.Eq, column, first), ops.Binary(b, loop.Eq, ops.Binary(b, loop.Add, column, end), first))
	among := ops.ReduceMax(b, same, false, 0)
	chosen, err := c.Elements(among, 0, 1)
	if err != nil {
		c.Fail(err)
	}
	if err := c.RequireEqual(among.Node, sym.Sum(chosen...), count, "axes are the operand's, and none is named twice"); err != nil {
		c.Fail(err)
	}
	// No axes at all are every axis, unless they are to be none.
	all := one.Sub(count.Min(one))
	if c.Int("noop_with_empty_axes", 0) != 0 {
		all = sym.Const(0)
	}
	kept := make([]sym.Expr, rank)
	for i := range kept {
		kept[i] = one.Sub(c.Dims().Simplify(chosen[i].Max(all)))
	}
	y := ops.ReduceBy(b, op, x, kept)
	if c.Int("keepdims", 1) != 0 {
		return y
	}
	size, ok := count.Const()
	if !ok {
		c.Refuse("the rank of what is left by %s axes", count)
	}
	if size == 0 && c.Int("noop_with_empty_axes", 0) == 0 {
		size = rank
	}
	// The m-th axis that stays has the extent of the axis before which m others stay.
	shape := make([]sym.Expr, max(0, rank-size))
	for m := range shape {
		before := sym.Const(0)
		for i, extent := range x.Type.Shape {
			apart := before.Sub(sym.Const(int64(m)))
			here := kept[i].Mul(one.Sub(apart.Max(apart.Neg()).Min(one)))
			shape[m] = shape[m].Add(here.Mul(extent))
			before = before.Add(kept[i])
		}
	}
	return ops.Reshape(b, y, shape...)
}

// reducedAxes are the axes of a reduction: an attribute in older versions, an input in newer ones. None given means all, unless noop_with_empty_axes says that
// nothing is reduced; each element is then still mapped as if it were the only one of its sum.
func reducedAxes(c *call) ([]int64, bool) {
	rank := len(c.Input(0).Type.Shape)
	keep := c.Int("keepdims", 1) != 0
	axes := c.IntsOrInput("axes", 1)
	if len(axes) == 0 {
		if c.Int("noop_with_empty_axes", 0) != 0 {
			return []int64{}, keep
		}
		return allAxes(rank), keep
	}
	out := []int64{}
	for _, a := range axes {
		if a = c.Axis(a, rank); !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out, keep
}

func allAxes(rank int) []int64 {
	axes := make([]int64, rank)
	for i := range axes {
		axes[i] = int64(i)
	}
	return axes
}
