package microsoft

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/importer/onnx/rules/core"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// The quantised operators of com.microsoft. As onnxruntime defines them, elements of 8 bits are converted to f32, an
// operator of floats is applied, and the result is converted back.

// real returns the numbers that the i-th input stands for; the next two inputs are its scale and zero point.
func real(c *convert.Call, i int) *ir.Value {
	return ops.Dequantize(c.Builder, c.Input(i), c.Input(i+1), c.Optional(i+2), dtype.F32, ops.Quantization{})
}

// quantized quantises y to type to; the i-th input is the scale and the next the zero point.
func quantized(c *convert.Call, y *ir.Value, i int, to dtype.DType) *ir.Value {
	return ops.Quantize(c.Builder, y, c.Input(i), c.Optional(i+1), to, dtype.Invalid, ops.Quantization{}, false)
}

// The functions below give onnxruntime's result also if it lies half way between two integers: the scales are first
// combined into one number for each operand, in units of the result's scale.

// integers returns the i-th input minus its zero point, as i32.
func integers(c *convert.Call, i int) *ir.Value {
	x := ops.Cast(c.Builder, c.Input(i), dtype.I32)
	if zero := c.Optional(i + 2); zero != nil {
		x = ops.Binary(c.Builder, ops.Sub, x, convert.ScalarIn(c.Builder, ops.Cast(c.Builder, zero, dtype.I32)))
	}
	return x
}

// scaleAt returns the i-th input as a scalar.
func scaleAt(c *convert.Call, i int) *ir.Value { return convert.ScalarIn(c.Builder, c.Input(i)) }

// rounded rounds y, in units of the result's scale, to integers of type to, and adds the zero point, the i-th input.
func rounded(c *convert.Call, y *ir.Value, i int, to dtype.DType) *ir.Value {
	zero := c.Optional(i)
	if zero != nil {
		zero = convert.ScalarIn(c.Builder, zero)
	}
	return ops.Quantize(c.Builder, y, ops.Scalar(c.Builder, dtype.F32, 1), zero, to, dtype.Invalid, ops.Quantization{},
		false)
}

// inUnits returns the integers x, as f32, times by.
func inUnits(c *convert.Call, x, by *ir.Value) *ir.Value {
	return ops.Binary(c.Builder, ops.Mul, ops.Cast(c.Builder, x, dtype.F32), by)
}

// quantizedSum converts QLinearAdd. It rounds once, after it has added the zero points of both operands and of the
// result.
func quantizedSum(c *convert.Call) []*ir.Value {
	b := c.Builder
	total := zeroPoint(c, 7)
	terms := [2]*ir.Value{}
	for i, at := range []int{0, 3} {
		ratio := ops.Binary(b, ops.Div, scaleAt(c, at+1), scaleAt(c, 6))
		terms[i] = inUnits(c, c.Input(at), ratio)
		total = ops.Binary(b, ops.Sub, total, ops.Binary(b, ops.Mul, ratio, zeroPoint(c, at+2)))
	}
	y := ops.Binary(b, ops.Add, ops.Binary(b, ops.Add, terms[0], total), terms[1])
	return convert.One(ops.Quantize(b, y, ops.Scalar(b, dtype.F32, 1), nil, c.Input(0).Type.DType, dtype.Invalid,
		ops.Quantization{}, false))
}

// zeroPoint returns the i-th input, a scalar, as f32; 0 if it is absent.
func zeroPoint(c *convert.Call, i int) *ir.Value {
	if v := c.Optional(i); v != nil {
		return convert.ScalarIn(c.Builder, ops.Cast(c.Builder, v, dtype.F32))
	}
	return ops.Scalar(c.Builder, dtype.F32, 0)
}

// quantizedProduct converts QLinearMul.
func quantizedProduct(c *convert.Call) []*ir.Value {
	b := c.Builder
	scale := ops.Binary(b, ops.Div, ops.Binary(b, ops.Mul, scaleAt(c, 1), scaleAt(c, 4)), scaleAt(c, 6))
	y := inUnits(c, ops.Binary(b, ops.Mul, integers(c, 0), integers(c, 3)), scale)
	return convert.One(rounded(c, y, 7, c.Input(0).Type.DType))
}

// quantizedMean converts QLinearGlobalAveragePool: the mean of each channel.
func quantizedMean(c *convert.Call) []*ir.Value {
	b := c.Builder
	first, back := channelsFirst(c, integers(c, 0))
	inner := *c
	inner.In = []*ir.Value{first}
	axes := core.SpatialAxes(&inner)
	size := ops.Cast(b, ops.Integers(b, ir.Type{DType: dtype.I64}, []sym.Expr{convert.Count(first.Type.Shape[2:])}),
		dtype.F32)
	sum := ops.ReduceSum(b, first, true, axes...)
	y := inUnits(c, sum, ops.Binary(b, ops.Div, scaleAt(c, 1), ops.Binary(b, ops.Mul, scaleAt(c, 3), size)))
	return convert.One(back(rounded(c, y, 4, c.Input(0).Type.DType)))
}

// quantizedUnary returns the rule of a function of one quantised tensor; f gets the tensor's numbers.
func quantizedUnary(f func(c *convert.Call, x *ir.Value) *ir.Value) convert.Rule {
	return func(c *convert.Call) []*ir.Value {
		return convert.One(quantized(c, f(c, real(c, 0)), 3, c.Input(0).Type.DType))
	}
}

// softmaxOf is Softmax of the version of ai.onnx that the attribute opset names.
func softmaxOf(c *convert.Call, x *ir.Value) *ir.Value {
	inner := *c
	inner.In, inner.Version = []*ir.Value{x}, c.Int("opset", 13)
	return c.Scope.Source.Rules.Rule("Softmax", inner.Version)(&inner)[0]
}

// meanOf is ReduceMean along the attribute axes, or along all axes if it is absent.
func meanOf(c *convert.Call, x *ir.Value) *ir.Value {
	axes := c.Ints("axes")
	if len(axes) == 0 {
		axes = convert.AllAxes(len(x.Type.Shape))
	}
	for i := range axes {
		axes[i] = c.Axis(axes[i], len(x.Type.Shape))
	}
	slices.Sort(axes)
	return ops.ReduceMean(c.Builder, x, c.Int("keepdims", 1) != 0, slices.Compact(axes)...)
}

// pooled is an average pooling of images; their channels are last if channels_last is set.
func pooled(c *convert.Call, x *ir.Value) *ir.Value {
	first, back := channelsFirst(c, x)
	inner := *c
	inner.In = []*ir.Value{first}
	return back(core.AveragePool(&inner)[0])
}

// quantizedConcat converts QLinearConcat. Its inputs are the scale and zero point of the result, then a tensor, a scale
// and a zero point for each operand.
func quantizedConcat(c *convert.Call) []*ir.Value {
	if len(c.In) < 5 || len(c.In)%3 != 2 {
		c.Fault("%d inputs, there must be two and three for each operand", len(c.In))
	}
	var operands []*ir.Value
	for i := 2; i < len(c.In); i += 3 {
		operands = append(operands, real(c, i))
	}
	axis := c.Axis(c.Int("axis", 0), len(operands[0].Type.Shape))
	return convert.One(quantized(c, ops.Concat(c.Builder, axis, operands...), 0, c.Input(2).Type.DType))
}

func quantizedWhere(c *convert.Call) []*ir.Value {
	return convert.One(quantized(c, ops.Where(c.Builder, c.Input(0), real(c, 1), real(c, 4)), 7, c.Input(1).Type.DType))
}

// quantizedConv converts QLinearConv: the operator of ai.onnx, on images whose channels are last if channels_last is
// set.
func quantizedConv(c *convert.Call) []*ir.Value {
	first, back := channelsFirst(c, c.Input(0))
	inner := *c
	inner.In = append([]*ir.Value{first}, c.In[1:]...)
	return convert.One(back(core.QLinearConv(&inner)[0]))
}

// integerProduct returns the product of integers of 8 bits times their scales. x has one scale; w has one, or one for
// each column.
func integerProduct(c *convert.Call, x, w, xScale, wScale, xZero, wZero *ir.Value) *ir.Value {
	sums := ops.Cast(c.Builder, ops.MatMulInteger(c.Builder, x, xZero, w, wZero), dtype.F32)
	return ops.Binary(c.Builder, ops.Mul, sums, ops.Binary(c.Builder, ops.Mul, core.WideScale(c, xScale, 0),
		core.WideScale(c, wScale, 0)))
}

// integerToFloat converts MatMulIntegerToFloat.
func integerToFloat(c *convert.Call) []*ir.Value {
	return convert.One(plus(c, integerProduct(c, c.Input(0), c.Input(1), c.Input(2), c.Input(3), c.Optional(4),
		c.Optional(5)), c.Optional(6)))
}

// dynamicProduct converts DynamicQuantizeMatMul: it quantises the left operand by the range of its elements.
func dynamicProduct(c *convert.Call) []*ir.Value {
	x, scale, zero := ops.DynamicQuantize(c.Builder, c.Input(0))
	return convert.One(plus(c, integerProduct(c, x, c.Input(1), scale, c.Input(2), zero, c.Optional(3)), c.Optional(4)))
}

// quantizedGemm converts QGemm: alpha · A · B + C of quantised matrices. C is in units of the product of both scales.
// If the result has no scale, it stays f32.
func quantizedGemm(c *convert.Call) []*ir.Value {
	b := c.Builder
	x, w := transposeIf(c, c.Input(0), c.Int("transA", 0) != 0), transposeIf(c, c.Input(3), c.Int("transB", 0) != 0)
	sums := ops.MatMulInteger(b, x, c.Optional(2), w, c.Optional(5))
	sums = plus(c, sums, c.Optional(6))
	scale := ops.Binary(b, ops.Mul, core.WideScale(c, c.Input(1), 0), core.WideScale(c, c.Input(4), 0))
	if alpha := c.Float("alpha", 1); alpha != 1 {
		scale = core.Scaled(c, scale, alpha)
	}
	if c.Optional(7) == nil {
		return convert.One(inUnits(c, sums, scale))
	}
	return convert.One(rounded(c, inUnits(c, sums, ops.Binary(b, ops.Div, scale, scaleAt(c, 7))), 8,
		c.Input(0).Type.DType))
}

// packedTypes maps a number of bits to the type of integers that are packed into bytes.
var packedTypes = map[int64]dtype.DType{2: dtype.U2, 4: dtype.U4, 8: dtype.U8}

// unpacked returns a constant of bytes as integers of fewer bits, packed along the last axis with the low bits first.
func unpacked(c *convert.Call, i int, bits int64) *ir.Value {
	to, known := packedTypes[bits]
	t := c.Constant(i)
	if !known || t.DType() != dtype.U8 || t.Rank() < 1 {
		c.Refuse("%s as integers of %d bits", t, bits)
	}
	if bits == 8 {
		return c.Input(i)
	}
	shape := slices.Clone(t.Shape())
	shape[len(shape)-1] *= 8 / bits
	view, err := tensor.Over(to, shape, t.Bytes())
	if err != nil {
		c.Fail(err)
	}
	return c.Builder.Constant(c.In[i].Name, view)
}

// levelOfBytes is the accuracy_level that allows operands of 8 bits.
const levelOfBytes = 4

// packedProduct converts MatMulNBits: A times the transpose of weights of a few bits, with a scale and a zero point for
// each block of a row.
func packedProduct(c *convert.Call) []*ir.Value {
	b := c.Builder
	bits, size, rows, columns := c.Int("bits", 4), c.Int("block_size", 0), c.Int("N", 0), c.Int("K", 0)
	if size < 1 || rows < 1 || columns < 1 || size > 1<<31 || rows > 1<<31 || columns > 1<<31 {
		c.Fault("%d rows of %d in blocks of %d", rows, columns, size)
	}
	refuseUnless(c, "weight_prepacked", 0)
	blocks := (columns + size - 1) / size
	weights := ops.Reshape(b, unpacked(c, 1, bits), sym.Const(rows), sym.Const(blocks*size))
	scale := ops.Reshape(b, c.Input(2), sym.Const(rows), sym.Const(blocks))
	var zero *ir.Value // f32, or of the weights' type
	switch given := c.Optional(3); {
	case given == nil:
		zero = ops.Expand(b, ops.Cast(b, c.Number(1<<(bits-1)), weights.Type.DType), sym.Const(rows), sym.Const(blocks))
	case given.Type.DType == dtype.U8:
		zero = unpacked(c, 3, bits)
		zero = ops.Reshape(b, zero, sym.Const(rows), convert.Count(zero.Type.Shape).FloorDiv(sym.Const(rows)))
		zero = sliceOf(c, zero, 1, sym.Const(0), sym.Const(blocks))
	default:
		zero = ops.Reshape(b, given, sym.Const(rows), sym.Const(blocks))
	}
	var real *ir.Value
	if group := c.Optional(4); group != nil || zero.Type.DType.IsFloat() {
		spread := func(v *ir.Value) *ir.Value {
			if group != nil {
				return ops.Gather(b, v, group, 1)
			}
			each := ops.Expand(b, ops.Reshape(b, v, sym.Const(rows), sym.Const(blocks), sym.Const(1)), sym.Const(rows),
				sym.Const(blocks), sym.Const(size))
			return sliceOf(c, ops.Reshape(b, each, sym.Const(rows), sym.Const(blocks*size)), 1, sym.Const(0), sym.Const(columns))
		}
		weights = sliceOf(c, weights, 1, sym.Const(0), sym.Const(columns))
		dt := scale.Type.DType
		real = ops.Binary(b, ops.Mul, ops.Binary(b, ops.Sub, ops.Cast(b, weights, dt), spread(ops.Cast(b, zero, dt))),
			spread(scale))
	} else {
		real = ops.Dequantize(b, weights, scale, zero, scale.Type.DType, ops.Quantization{Axis: 1, Block: size})
		real = sliceOf(c, real, 1, sym.Const(0), sym.Const(columns))
	}
	y := ops.MatMul(b, c.Input(0), real, false, true)
	if c.Int("accuracy_level", 0) == levelOfBytes {
		y.Node.Attrs[ops.BytesAllowed] = true
	}
	return convert.One(plus(c, y, c.Optional(5)))
}

// gatherPacked converts GatherBlockQuantized: it gathers from a table of integers of a few bits, and dequantises the
// result.
func gatherPacked(c *convert.Call) []*ir.Value {
	b, indices := c.Builder, c.Input(1)
	data, zero := c.Input(0), c.Optional(3)
	rank := len(data.Type.Shape)
	axis, along, size := c.Axis(c.Int("gather_axis", 0), rank), c.Axis(c.Int("quantize_axis", 1), rank),
		c.Int("block_size", 128)
	if axis == along {
		c.Refuse("gathering along the axis that blocks lie along")
	}
	if data.Type.DType == dtype.U8 {
		bits := c.Int("bits", 4)
		if data = unpacked(c, 0, bits); zero != nil {
			zero = unpacked(c, 3, bits)
			extent := c.Input(2).Type.Shape[rank-1]
			zero = sliceOf(c, zero, rank-1, sym.Const(0), extent)
		} else {
			zero = ops.Expand(b, ops.Cast(b, c.Number(1<<(bits-1)), data.Type.DType), c.Input(2).Type.Shape...)
		}
	}
	scale := ops.Gather(b, c.Input(2), indices, axis)
	if zero != nil {
		zero = ops.Gather(b, zero, indices, axis)
	}
	if along > axis {
		along += int64(len(indices.Type.Shape)) - 1
	}
	return convert.One(ops.Dequantize(b, ops.Gather(b, data, indices, axis), scale, zero, scale.Type.DType,
		ops.Quantization{Axis: along, Block: size}))
}

func leakyRelu(c *convert.Call, x *ir.Value) *ir.Value {
	return ops.ActivationWith(c.Builder, "leaky_relu", x, c.Float("alpha", 0.01), 0)
}

func sigmoid(c *convert.Call, x *ir.Value) *ir.Value { return ops.Unary(c.Builder, ops.Sigmoid, x) }
