package core

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// sharing returns the axis and the blocks along which scales are shared.
func sharing(c *convert.Call) ops.Quantization {
	return ops.Quantization{Axis: c.Int("axis", 1), Block: c.Int("block_size", 0)}
}

// QuantizeLinear converts QuantizeLinear.
func QuantizeLinear(c *convert.Call) []*ir.Value {
	zero, to := c.Optional(2), c.Type("output_dtype")
	switch {
	case zero != nil:
		if to != dtype.Invalid && to != zero.Type.DType {
			c.Fault("output_dtype is %s, the zero point's type %s", to, zero.Type.DType)
		}
		to = zero.Type.DType
	case to == dtype.Invalid:
		to = dtype.U8
	}
	if to.IsFloat() {
		zero = nil // it can only be 0
	}
	return convert.One(ops.Quantize(c.Builder, c.Input(0), c.Input(1), zero, to, c.Type("precision"), sharing(c),
		c.Int("saturate", 1) == 0))
}

// DequantizeLinear converts DequantizeLinear.
func DequantizeLinear(c *convert.Call) []*ir.Value {
	to := c.Type("output_dtype")
	if to == dtype.Invalid {
		to = c.Input(1).Type.DType
	}
	return convert.One(ops.Dequantize(c.Builder, c.Input(0), c.Input(1), c.Optional(2), to, sharing(c)))
}

// dynamicQuantizeLinear converts DynamicQuantizeLinear.
func dynamicQuantizeLinear(c *convert.Call) []*ir.Value {
	y, scale, zero := ops.DynamicQuantize(c.Builder, c.Input(0))
	return []*ir.Value{y, scale, zero}
}

// WideScale returns a scale as f32, broadcast along the axis that is `after` axes before a product's last one.
func WideScale(c *convert.Call, scale *ir.Value, after int) *ir.Value {
	scale = ops.Cast(c.Builder, scale, dtype.F32)
	if len(scale.Type.Shape) != 1 {
		return scale
	}
	if size, ok := scale.Type.Shape[0].Const(); ok && size == 1 {
		return ops.Reshape(c.Builder, scale)
	}
	if after > 0 {
		return ops.Reshape(c.Builder, scale, scale.Type.Shape[0], sym.Const(1))
	}
	return scale
}

// qLinearMatMul converts QLinearMatMul.
func qLinearMatMul(c *convert.Call) []*ir.Value {
	sums := ops.MatMulInteger(c.Builder, c.Input(0), c.Input(2), c.Input(3), c.Input(5))
	scale := ops.Binary(c.Builder, ops.Mul, WideScale(c, c.Input(1), 1), WideScale(c, c.Input(4), 0))
	q := ops.Quantization{Axis: int64(max(0, len(sums.Type.Shape)-2))}
	return convert.One(ops.Requantize(c.Builder, sums, scale, c.Input(6), c.Input(7), q))
}

// QLinearConv converts QLinearConv.
func QLinearConv(c *convert.Call) []*ir.Value {
	x, w := c.Input(0), c.Input(3)
	sums := ops.ConvolutionInteger(c.Builder, x, c.Input(2), w, c.Input(5), c.Optional(8), convWindow(c, x, w),
		c.Int("group", 1))
	scale := WideScale(c, c.Input(4), 0)
	if len(scale.Type.Shape) == 1 {
		scale = ops.AlongAxis(c.Builder, scale, 1, len(sums.Type.Shape))
	}
	scale = ops.Binary(c.Builder, ops.Mul, WideScale(c, c.Input(1), 0), scale)
	return convert.One(ops.Requantize(c.Builder, sums, scale, c.Input(6), c.Input(7), ops.Quantization{Axis: 1}))
}

func matMulInteger(c *convert.Call) []*ir.Value {
	return convert.One(ops.MatMulInteger(c.Builder, c.Input(0), c.Optional(2), c.Input(1), c.Optional(3)))
}

// convInteger converts ConvInteger.
func convInteger(c *convert.Call) []*ir.Value {
	x, w := c.Input(0), c.Input(1)
	return convert.One(ops.ConvolutionInteger(c.Builder, x, c.Optional(2), w, c.Optional(3), nil, convWindow(c, x, w),
		c.Int("group", 1)))
}
