package onnx

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
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

// reducedByData reduces along axes that only the run knows, of which there is a known number.
func reducedByData(c *call, op string) *ir.Value {
	x := c.Input(0)
	rank := int64(len(x.Type.Shape))
	axes := c.Symbols(1, -rank, rank-1)
	if rank == 0 || len(axes) == 0 {
		if c.Int("noop_with_empty_axes", 0) != 0 {
			axes = nil
		} else {
			axes = ir.Constants(allAxes(int(rank)))
		}
	}
	// differ is 0 where two positions are the same, and 1 where not.
	one := sym.Const(1)
	differ := func(a, b sym.Expr) sym.Expr { return a.Sub(b).Max(b.Sub(a)).Min(one) }
	kept := make([]sym.Expr, rank)
	for i := range kept {
		kept[i] = one
		for _, a := range axes {
			kept[i] = kept[i].Mul(differ(a.Mod(sym.Const(rank)), sym.Const(int64(i))))
		}
	}
	y := ops.ReduceBy(c.Builder, op, x, kept)
	if c.Int("keepdims", 1) != 0 {
		return y
	}
	// The m-th axis that stays has the extent of the axis before which m others stay.
	shape := make([]sym.Expr, rank-int64(len(axes)))
	for m := range shape {
		before := sym.Const(0)
		for i, extent := range x.Type.Shape {
			here := kept[i].Mul(one.Sub(differ(before, sym.Const(int64(m)))))
			shape[m] = shape[m].Add(here.Mul(extent))
			before = before.Add(kept[i])
		}
	}
	return ops.Reshape(c.Builder, y, shape...)
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
