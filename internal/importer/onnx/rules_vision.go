package onnx

import (
	"math"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

func init() {
	add(map[string]rule{
		"NonMaxSuppression": nonMaxSuppression,
		"GridSample":        gridSample,
	})
}

// nonMaxSuppression converts NonMaxSuppression. Its limit may be a number of the run, of any size.
func nonMaxSuppression(c *call) []*ir.Value {
	most := sym.Const(0)
	if c.Optional(2) != nil {
		numbers := c.Symbols(2, math.MinInt64, math.MaxInt64)
		if len(numbers) != 1 {
			c.Fault("max_output_boxes_per_class has %d elements", len(numbers))
		}
		most = numbers[0]
	}
	return one(ops.NonMaxSuppression(c.Builder, c.Input(0), c.Input(1), c.Optional(3), c.Optional(4), most, c.Int("center_point_box", 0) != 0))
}

// gridSampleModes are the names of the modes: those of version 16, and the later ones.
var gridSampleModes = map[string]string{"nearest": "nearest", "bilinear": "linear", "bicubic": "cubic", "linear": "linear", "cubic": "cubic"}

func gridSample(c *call) []*ir.Value {
	name := c.Text("mode", "linear")
	mode := gridSampleModes[name]
	if mode == "" {
		c.Fault("mode %q", name)
	}
	return one(ops.GridSample(c.Builder, c.Input(0), c.Input(1), mode, c.Text("padding_mode", "zeros"), c.Int("align_corners", 0) != 0))
}
