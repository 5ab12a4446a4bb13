package onnx

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

func init() {
	for name, op := range map[string]string{"ReduceSum": "reduce_sum", "ReduceProd": "reduce_prod", "ReduceMin": "reduce_min", "ReduceMax": "reduce_max",
		"ReduceMean": "reduce_mean", "ReduceL1": "reduce_l1", "ReduceL2": "reduce_l2", "ReduceSumSquare": "reduce_sum_square", "ReduceLogSum": "reduce_log_sum"} {
		add(map[string]rule{name: func(c *call) []*ir.Value {
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
	add(map[string]rule{"ReduceLogSumExp": func(c *call) []*ir.Value {
		axes, keep := reducedAxes(c)
		return one(ops.ReduceLogSumExp(c.Builder, c.Input(0), keep, axes...))
	}})
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
