package core

import (
	"math"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// nonMaxSuppression converts NonMaxSuppression. Its limit may be known only to the run, and may have any value.
func nonMaxSuppression(c *convert.Call) []*ir.Value {
	most := sym.Const(0)
	if c.Optional(2) != nil {
		counted(c, 2)
		numbers := c.Symbols(2, math.MinInt64, math.MaxInt64)
		if len(numbers) != 1 {
			c.Fault("max_output_boxes_per_class has %d elements", len(numbers))
		}
		most = numbers[0]
	}
	return convert.One(ops.NonMaxSuppression(c.Builder, c.Input(0), c.Input(1), c.Optional(3), c.Optional(4), most,
		c.Int("center_point_box", 0) != 0))
}

// gridSampleModes maps the modes of version 16 and later versions to those of ops.GridSample.
var gridSampleModes = map[string]string{"nearest": "nearest", "bilinear": "linear", "bicubic": "cubic",
	"linear": "linear", "cubic": "cubic"}

// gridSample converts GridSample.
func gridSample(c *convert.Call) []*ir.Value {
	name := c.StringAttribute("mode", "linear")
	mode := gridSampleModes[name]
	if mode == "" {
		c.Fault("mode %q", name)
	}
	return convert.One(ops.GridSample(c.Builder, c.Input(0), c.Input(1), mode, c.StringAttribute("padding_mode", "zeros"),
		c.Int("align_corners", 0) != 0))
}

// affineGrid converts AffineGrid, whose input size is the shape of the images: batch, channels and extents.
func affineGrid(c *convert.Call) []*ir.Value {
	theta, size := c.Input(0), c.Symbols(1, 0, convert.Unlimited)
	if len(size) < 3 || len(theta.Type.Shape) != 3 {
		c.Fault("maps %s for images of %d extents", theta.Type, len(size))
	}
	c.Condition(sym.Cond{A: size[0], Rel: sym.EQ, B: theta.Type.Shape[0]}, "a map for each image")
	return convert.One(ops.AffineGrid(c.Builder, theta, size[2:], c.Int("align_corners", 0) != 0))
}

// col2im converts Col2Im.
func col2im(c *convert.Call) []*ir.Value {
	shape, block := c.Symbols(1, 0, convert.Unlimited), c.Symbols(2, 1, convert.Unlimited)
	if len(shape) != len(block) {
		c.Fault("a block of %d extents for an image of %d", len(block), len(shape))
	}
	window := padded(c, slices.Repeat([]int64{1}, len(block)))
	return convert.One(ops.Col2Im(c.Builder, c.Input(0), shape, block, window))
}

// deformConv converts DeformConv.
func deformConv(c *convert.Call) []*ir.Value {
	x, w := c.Input(0), c.Input(1)
	return convert.One(ops.DeformConvolution(c.Builder, x, w, c.Input(2), c.Optional(3), c.Optional(4),
		convWindow(c, x, w), c.Int("group", 1), c.Int("offset_group", 1)))
}

// roiAlign converts RoiAlign.
func roiAlign(c *convert.Call) []*ir.Value {
	a := ops.RoiAlignment{Height: c.Int("output_height", 1), Width: c.Int("output_width", 1),
		Ratio: c.Int("sampling_ratio", 0), Scale: c.Float("spatial_scale", 1)}
	switch mode := strings.ToLower(c.StringAttribute("mode", "avg")); mode {
	case "avg":
	case "max":
		a.Max = true
	default:
		c.Fault("mode %q", mode)
	}
	// Before the attribute was introduced, coordinates were those of elements' corners.
	switch mode := strings.ToLower(c.StringAttribute("coordinate_transformation_mode", "half_pixel")); {
	case c.Version < 16:
	case mode == "half_pixel":
		a.Half = true
	case mode != "output_half_pixel":
		c.Fault("coordinate_transformation_mode %q", mode)
	}
	return convert.One(ops.RoiAlign(c.Builder, c.Input(0), c.Input(1), c.Input(2), a))
}

// maxRoiPool converts MaxRoiPool.
func maxRoiPool(c *convert.Call) []*ir.Value {
	shape := c.Ints("pooled_shape")
	if len(shape) != 2 {
		c.Fault("pooled_shape %v; it is a height and a width", shape)
	}
	return convert.One(ops.MaxRoiPool(c.Builder, c.Input(0), c.Input(1), shape[0], shape[1], c.Float("spatial_scale", 1)))
}

func imageDecoder(c *convert.Call) []*ir.Value {
	return convert.One(ops.DecodeImage(c.Builder, c.Input(0), c.StringAttribute("pixel_format", "RGB")))
}

func determinant(c *convert.Call) []*ir.Value {
	return convert.One(ops.Determinant(c.Builder, c.Input(0)))
}
