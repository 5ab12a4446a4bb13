package microsoft

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// The operators that ONNX Runtime's optimizer for diffusion models writes, and products whose weights are codes of a
// table.

// biasSplitGelu converts BiasSplitGelu: the first half of the last axis times gelu of the second half.
func biasSplitGelu(c *convert.Call) []*ir.Value {
	x := ops.Binary(c.Builder, ops.Add, c.Input(0), c.Input(1))
	last := len(x.Type.Shape) - 1
	if last < 0 {
		c.Fault("an input %s", x.Type)
	}
	half := x.Type.Shape[last].FloorDiv(sym.Const(2))
	gate := ops.Activation(c.Builder, "gelu", sliceOf(c, x, last, half, half))
	return convert.One(ops.Binary(c.Builder, ops.Mul, sliceOf(c, x, last, sym.Const(0), half), gate))
}

// groupNorm normalizes groups of channels. Channels are the last axis unless channels_last is 0; x · sigmoid(x) follows
// if activation is 1.
func groupNorm(c *convert.Call, x *ir.Value) *ir.Value {
	b, shape, groups := c.Builder, x.Type.Shape, c.Int("groups", 0)
	rank := len(shape)
	if rank != 4 || groups < 1 || groups > 1<<31 {
		c.Fault("%d groups of %s", groups, x.Type)
	}
	channels, axes := 3, []int64{1, 2, 4}
	if c.Int("channels_last", 1) == 0 {
		channels, axes = 1, []int64{2, 3, 4}
	}
	each := shape[channels].FloorDiv(sym.Const(groups))
	split := append(append(append([]sym.Expr{}, shape[:channels]...), sym.Const(groups), each), shape[channels+1:]...)
	y := ops.Reshape(b, ops.Normalize(b, ops.Reshape(b, x, split...), c.Float("epsilon", 1e-5), true, axes...), shape...)
	scale, shift := ops.Cast(b, c.Input(1), x.Type.DType), ops.Cast(b, c.Input(2), x.Type.DType)
	y = ops.ScaleShift(b, y, channels, scale, shift)
	switch activation := c.Int("activation", 0); activation {
	case 0:
		return y
	case 1:
		return ops.ActivationWith(b, "swish", y, 1, 0)
	default:
		c.Refuse("activation = %d", activation)
		return nil
	}
}

// skipGroupNorm converts SkipGroupNorm: it normalizes the sum of the input, a residual, which may have one element for
// each channel, and a bias. The second output is the sum.
func skipGroupNorm(c *convert.Call) []*ir.Value {
	refuseUnless(c, "channels_last", 1)
	b, skip := c.Builder, c.Input(3)
	if s := skip.Type.Shape; len(s) == 2 {
		skip = ops.Reshape(b, skip, s[0], sym.Const(1), sym.Const(1), s[1])
	}
	sum := plus(c, ops.Binary(b, ops.Add, c.Input(0), skip), c.Optional(4))
	return []*ir.Value{groupNorm(c, sum), sum}
}

// codes are the numbers that codes of 4 bits stand for: floats of 4 bits, scaled to 1, and quantiles of a normal
// distribution as in QLoRA (Dettmers et al., 2023).
var codes = [2][16]float32{
	{0, 0.0052083333, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25, 0, -0.0052083333, -0.66666667, -1, -0.33333333,
		-0.5, -0.16666667, -0.25},
	{-1, -0.6961928, -0.52507305, -0.39491749, -0.28444138, -0.18477343, -0.09105004, 0, 0.0795803, 0.1609302, 0.2461123,
		0.33791524, 0.44070983, 0.562617, 0.72295684, 1},
}

// codedProduct converts MatMulBnb4: A times the transpose of weights of 4-bit codes, two in each byte with the first in
// the high bits. Each block of the flattened weights has a scale: its largest value.
func codedProduct(c *convert.Call) []*ir.Value {
	b := c.Builder
	size, rows, columns, kind := c.Int("block_size", 0), c.Int("N", 0), c.Int("K", 0), c.Int("quant_type", 0)
	if size < 1 || rows < 1 || columns < 1 || size > 1<<31 || rows > 1<<31 || columns > 1<<31 || kind < 0 || kind > 1 {
		c.Fault("%d rows of %d in blocks of %d, codes of kind %d", rows, columns, size, kind)
	}
	refuseUnless(c, "transB", 1)
	all := sym.Const(rows * columns)
	nibbles := unpacked(c, 1, 4)
	pairs := ops.Reshape(b, nibbles, convert.Count(nibbles.Type.Shape).FloorDiv(sym.Const(2)), sym.Const(2))
	pairs = ops.Concat(b, 1, sliceOf(c, pairs, 1, sym.Const(1), sym.Const(1)),
		sliceOf(c, pairs, 1, sym.Const(0), sym.Const(1)))
	flat := sliceOf(c, ops.Reshape(b, pairs, convert.Count(nibbles.Type.Shape)), 0, sym.Const(0), all)
	dt := c.Input(2).Type.DType
	table := ops.Cast(b, b.Constant("codes", tensor.Of(codes[kind][:]...)), dt)
	values := ops.Gather(b, table, ops.Cast(b, flat, dtype.I32), 0)
	blocks := sym.Const((rows*columns + size - 1) / size)
	largest := ops.Expand(b, ops.Reshape(b, c.Input(2), blocks, sym.Const(1)), blocks, sym.Const(size))
	largest = sliceOf(c, ops.Reshape(b, largest, blocks.Mul(sym.Const(size))), 0, sym.Const(0), all)
	weights := ops.Reshape(b, ops.Binary(b, ops.Mul, values, largest), sym.Const(rows), sym.Const(columns))
	return convert.One(ops.MatMul(b, c.Input(0), weights, false, true))
}

// uniqueInOrder converts Unique: the distinct elements of a vector in order of appearance, the index of each element
// among them, and how often each occurs.
func uniqueInOrder(c *convert.Call) []*ir.Value {
	values, _, inverse, counts := ops.Unique(c.Builder, c.Flat(c.Input(0)), 0, false)
	return []*ir.Value{values, inverse, counts}
}

func biasAdd(c *convert.Call) []*ir.Value {
	return convert.One(ops.Binary(c.Builder, ops.Add, ops.Binary(c.Builder, ops.Add, c.Input(0), c.Input(1)), c.Input(2)))
}

func groupNormalized(c *convert.Call) []*ir.Value { return convert.One(groupNorm(c, c.Input(0))) }
