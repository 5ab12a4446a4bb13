package core

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// allInputs returns all inputs, which must be present.
func allInputs(c *convert.Call) []*ir.Value {
	for i := range c.In {
		c.Input(i)
	}
	return c.In
}

// alongside returns the second operand, reshaped so that today's broadcasting does what the attributes broadcast and
// axis ask for: its axes are those of the first operand from `axis` on, or the last ones.
func alongside(c *convert.Call) *ir.Value {
	x, y := c.Input(0), c.Input(1)
	if c.Int("broadcast", 0) == 0 || !c.Has("axis") {
		return y
	}
	rank, have := len(x.Type.Shape), len(y.Type.Shape)
	axis := c.Int("axis", 0)
	if axis < 0 {
		axis += int64(rank)
	}
	if axis < 0 || axis > int64(rank-have) {
		c.Fault("axis %d for %s beside %s", c.Int("axis", 0), y.Type, x.Type)
	}
	shape := append([]sym.Expr{}, y.Type.Shape...)
	for len(shape) < rank-int(axis) {
		shape = append(shape, sym.Const(1))
	}
	return ops.Reshape(c.Builder, y, shape...)
}

// perChannel reshapes a vector with an element for each channel so that it lies along axis 1. A single element stays as
// it is.
func perChannel(c *convert.Call, v *ir.Value) *ir.Value {
	rank := len(c.Input(0).Type.Shape)
	if len(v.Type.Shape) != 1 || rank < 2 || c.Dims().EQ(v.Type.Shape[0], sym.Const(1)) == sym.Yes {
		return v
	}
	return ops.AlongAxis(c.Builder, v, 1, rank)
}

// renamed returns a rule for an operator whose attribute had another name, old.
func renamed(r convert.Rule, old, name string) convert.Rule {
	return func(c *convert.Call) []*ir.Value {
		if a := c.Attributes[old]; a != nil {
			c.Attributes[name] = a
		}
		return r(c)
	}
}

// integerPower returns a rule for an operator whose attribute p was a float; p must be an integer.
func integerPower(r convert.Rule) convert.Rule {
	return func(c *convert.Call) []*ir.Value {
		p := c.Float("p", 2)
		if p != float64(int64(p)) {
			c.Refuse("a power p of %v, which is no whole number", p)
		}
		c.Attributes["p"] = wire.IntAttribute("p", int64(p))
		return r(c)
	}
}

// splitByInput converts Split 1: the extents of the pieces are an attribute, an input, or equal.
func splitByInput(c *convert.Call) []*ir.Value {
	if c.Optional(1) != nil {
		c.Attributes["split"] = wire.IntsAttribute("split", c.Numbers(1)...)
	}
	return split(c)
}

// reshapeByAttribute converts Reshape 1: the new shape is an attribute.
func reshapeByAttribute(c *convert.Call) []*ir.Value {
	if !c.Has("shape") {
		c.Fault("attribute shape is missing")
	}
	c.In = []*ir.Value{c.Input(0), c.Integers(ir.Constants(c.Ints("shape"))...)}
	return reshape(c)
}

// typeNames are the element types that Cast 1 knows, by their names in the file format.
var typeNames = map[string]dtype.DType{
	"FLOAT": dtype.F32, "DOUBLE": dtype.F64, "FLOAT16": dtype.F16, "BOOL": dtype.Bool,
	"INT8": dtype.I8, "INT16": dtype.I16, "INT32": dtype.I32, "INT64": dtype.I64,
	"UINT8": dtype.U8, "UINT16": dtype.U16, "UINT32": dtype.U32, "UINT64": dtype.U64,
}

// castByName converts Cast 1: the type is given by its name in the file format.
func castByName(c *convert.Call) []*ir.Value {
	name := c.StringAttribute("to", "")
	to, ok := typeNames[name]
	if !ok {
		c.Fault("attribute to: there is no element type %q", name)
	}
	return convert.One(CastTo(c, to))
}

// tileOneAxis converts Tile 1: one axis is repeated.
func tileOneAxis(c *convert.Call) []*ir.Value {
	x := c.Input(0)
	tiles, axes := c.Symbols(1, 0, convert.Unlimited), c.Numbers(2)
	if len(tiles) != 1 || len(axes) != 1 {
		c.Fault("%d repeats along %d axes, there must be one of each", len(tiles), len(axes))
	}
	repeats := make([]sym.Expr, len(x.Type.Shape))
	for i := range repeats {
		repeats[i] = sym.Const(1)
	}
	repeats[c.Axis(axes[0], len(repeats))] = tiles[0]
	return convert.One(ops.Tile(c.Builder, x, repeats))
}

// upsampleByTwo converts Upsample 1, which resizes the last two of four axes.
func upsampleByTwo(c *convert.Call) []*ir.Value {
	if len(c.Input(0).Type.Shape) != 4 {
		c.Fault("an input of rank %d, it must be 4", len(c.Input(0).Type.Shape))
	}
	c.Attributes["scales"] = wire.FloatsAttribute("scales", 1, 1, float32(c.Float("height_scale", 1)),
		float32(c.Float("width_scale", 1)))
	return upsample(c)
}

// dropoutUnlessTest converts Dropout 1 and 6, which drop elements unless is_test is set.
func dropoutUnlessTest(c *convert.Call) []*ir.Value {
	if c.Int("is_test", 0) == 0 && c.Float("ratio", 0.5) != 0 {
		c.Refuse("dropout in training mode: is_test is 0")
	}
	return dropout(c)
}

// batchNormalizationByOutputs converts BatchNormalization 1 and 6: with one output, it uses the given statistics.
func batchNormalizationByOutputs(c *convert.Call) []*ir.Value {
	if c.Outputs > 1 && c.Int("is_test", 0) == 0 {
		c.Refuse("training: is_test is 0, and more than the first output is asked for")
	}
	c.Outputs = 1
	return batchNormalization(c)
}

// clipByAttributes converts the versions of Clip whose bounds are attributes.
func clipByAttributes(c *convert.Call) []*ir.Value {
	bound := func(name string) *ir.Value {
		if !c.Has(name) {
			return nil
		}
		return ops.Scalar(c.Builder, c.Input(0).Type.DType, c.Float(name, 0))
	}
	return convert.One(clipped(c, c.Input(0), bound("min"), bound("max")))
}

// modOfIntegers converts the versions of Mod that require fmod for floats.
func modOfIntegers(c *convert.Call) []*ir.Value {
	if c.Input(0).Type.DType.IsFloat() && c.Int("fmod", 0) == 0 {
		c.Fault("floats need fmod=1")
	}
	return mod(c)
}

// requiredFloat returns a float attribute, which must be present.
func requiredFloat(c *convert.Call, name string) float64 {
	if !c.Has(name) {
		c.Fault("attribute %s is missing", name)
	}
	return c.Float(name, 0)
}

// plus returns v plus a number.
func plus(c *convert.Call, v *ir.Value, by float64) *ir.Value {
	return ops.Binary(c.Builder, ops.Add, v, ops.Scalar(c.Builder, v.Type.DType, by))
}

// scaledTanh converts ScaledTanh: alpha · tanh(beta · x).
func scaledTanh(c *convert.Call) []*ir.Value {
	y := ops.Unary(c.Builder, ops.Tanh, Scaled(c, c.Input(0), requiredFloat(c, "beta")))
	return convert.One(Scaled(c, y, requiredFloat(c, "alpha")))
}

// parametricSoftplus converts ParametricSoftplus: alpha · ln(1 + exp(beta · x)).
func parametricSoftplus(c *convert.Call) []*ir.Value {
	y := ops.Activation(c.Builder, "softplus", Scaled(c, c.Input(0), requiredFloat(c, "beta")))
	return convert.One(Scaled(c, y, requiredFloat(c, "alpha")))
}

// imageScaler converts ImageScaler: x · scale + bias, with a bias for each channel.
func imageScaler(c *convert.Call) []*ir.Value {
	x, bias := c.Input(0), convert.Narrow(c.Floats("bias"))
	y := Scaled(c, x, c.Float("scale", 1))
	if len(bias) == 0 {
		return convert.One(y)
	}
	if len(x.Type.Shape) < 2 {
		c.Fault("an input of rank %d", len(x.Type.Shape))
	}
	shift := ops.Cast(c.Builder, c.Builder.Constant("bias", tensor.Of(bias...)), x.Type.DType)
	return convert.One(ops.Binary(c.Builder, ops.Add, y, ops.AlongAxis(c.Builder, shift, 1, len(x.Type.Shape))))
}

// crop converts Crop. border is left, top, right, bottom; if scale gives a height and a width, right and bottom are
// computed from it.
func crop(c *convert.Call) []*ir.Value {
	x, border, size := c.Input(0), c.Ints("border"), c.Ints("scale")
	if len(x.Type.Shape) != 4 || len(border) != 4 || len(size) != 0 && len(size) != 2 {
		c.Fault("an input %s with border %v and scale %v", x.Type, border, size)
	}
	for i, axis := range []int{2, 3} {
		first, last := border[1-i], border[3-i]
		if first < 0 || last < 0 || first > convert.ExtentLimit || last > convert.ExtentLimit {
			c.Fault("border %v", border)
		}
		left := x.Type.Shape[axis].Sub(sym.Const(first + last))
		if size != nil {
			left = sym.Const(size[i])
		}
		c.Condition(sym.Cond{A: sym.Const(0), Rel: sym.LE, B: left}, "what a crop leaves")
		c.Condition(sym.Cond{A: left.Add(sym.Const(first)), Rel: sym.LE, B: x.Type.Shape[axis]},
			"a crop stays within the image")
		x = ops.SliceAxis(c.Builder, x, axis, sym.Const(first), c.Dims().Simplify(left))
	}
	return convert.One(x)
}

// dynamicSlice converts DynamicSlice, which later became Slice 10.
func dynamicSlice(c *convert.Call) []*ir.Value {
	c.Version = 10
	return slice(c)
}

// givenTensorFill converts GivenTensorFill.
func givenTensorFill(c *convert.Call) []*ir.Value {
	if len(c.In) > 0 || c.Has("extra_shape") {
		c.Refuse("a shape that is no attribute")
	}
	values, shape := convert.Narrow(c.Floats("values")), ir.Constants(c.Ints("shape"))
	if n, ok := convert.Count(shape).Const(); !ok || n != int64(len(values)) {
		c.Fault("%d values for shape %v", len(values), c.Ints("shape"))
	}
	return convert.One(ops.Reshape(c.Builder, c.Builder.Constant("values", tensor.Of(values...)), shape...))
}

// constantFill converts ConstantFill: its shape is an attribute, an input's elements, or an input's shape, followed by
// extra_shape.
func constantFill(c *convert.Call) []*ir.Value {
	var shape []sym.Expr
	switch x := c.Optional(0); {
	case x == nil:
		shape = ir.Constants(c.Ints("shape"))
	case c.Int("input_as_shape", 0) != 0:
		c.Length(0)
		shape = append(shape, c.Symbols(0, 0, convert.Unlimited)...)
	default:
		shape = append(shape, x.Type.Shape...)
	}
	shape = append(shape, ir.Constants(c.Ints("extra_shape"))...)
	dt := c.Type("dtype")
	if dt == dtype.Invalid {
		dt = dtype.F32
	}
	value, err := tensor.New(dt)
	if err != nil {
		c.Fail(err)
	}
	if dt.IsInt() || dt == dtype.Bool {
		value.SetInt(0, int64(c.Float("value", 0)))
	} else {
		value.SetFloat(0, c.Float("value", 0))
	}
	return convert.One(ops.Fill(c.Builder, value, shape...))
}

// meanVarianceOfImages converts the trial version of MeanVarianceNormalization: it normalizes each channel of each
// image, or each image.
func meanVarianceOfImages(c *convert.Call) []*ir.Value {
	x, axes := c.Input(0), SpatialAxes(c)
	if c.Int("across_channels", 0) != 0 {
		axes = append([]int64{1}, axes...)
	}
	if c.Int("normalize_variance", 1) != 0 {
		return convert.One(ops.Normalize(c.Builder, x, 1e-9, true, axes...))
	}
	return convert.One(ops.Binary(c.Builder, ops.Sub, x, ops.ReduceMean(c.Builder, x, true, axes...)))
}

// onDemand returns the rule of a function of two elements that broadcasts only if the attribute broadcast is set.
func onDemand(f ops.BinaryFunction) convert.Rule {
	return func(c *convert.Call) []*ir.Value {
		return convert.One(ops.Binary(c.Builder, f, c.Input(0), alongside(c)))
	}
}

func powerOnDemand(c *convert.Call) []*ir.Value {
	return convert.One(powerOf(c, c.Input(0), alongside(c)))
}

func preluByChannel(c *convert.Call) []*ir.Value {
	return convert.One(scaleNegative(c, c.Input(0), perChannel(c, c.Input(1))))
}

// concatAlongOne converts the version of Concat whose axis may be absent.
func concatAlongOne(c *convert.Call) []*ir.Value {
	return convert.One(ops.Concat(c.Builder, c.Int("axis", 1), allInputs(c)...))
}

// firstSelu converts the version of Selu whose default settings had fewer digits.
func firstSelu(c *convert.Call) []*ir.Value {
	alpha, gamma := float64(float32(1.6732)), float64(float32(1.0507))
	return convert.One(ops.ActivationWith(c.Builder, "selu", c.Input(0), c.Float("alpha", alpha), c.Float("gamma", gamma)))
}

func affine(c *convert.Call) []*ir.Value {
	return convert.One(plus(c, Scaled(c, c.Input(0), c.Float("alpha", 1)), c.Float("beta", 0)))
}

func scale(c *convert.Call) []*ir.Value {
	return convert.One(Scaled(c, c.Input(0), c.Float("scale", 1)))
}
