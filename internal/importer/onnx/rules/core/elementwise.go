package core

import (
	"math"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// UnaryRules has the operators that apply a function to each element.
var UnaryRules = map[string]ops.UnaryFunction{
	"Neg": ops.Neg, "Abs": ops.Abs, "Sign": ops.Sign, "BitwiseNot": ops.BitNot, "Not": ops.Not,
	"Floor": ops.Floor, "Ceil": ops.Ceil, "Round": ops.Round, "Sqrt": ops.Sqrt, "Reciprocal": ops.Reciprocal,
	"Exp": ops.Exp, "Log": ops.Log, "Sin": ops.Sin, "Cos": ops.Cos, "Tan": ops.Tan, "Asin": ops.Asin, "Acos": ops.Acos,
	"Atan": ops.Atan,
	"Sinh": ops.Sinh, "Cosh": ops.Cosh, "Tanh": ops.Tanh, "Asinh": ops.Asinh, "Acosh": ops.Acosh, "Atanh": ops.Atanh,
	"Erf": ops.Erf, "Sigmoid": ops.Sigmoid, "IsNaN": ops.IsNaN,
}

// binaryRules has the operators that apply a function to each pair of elements.
var binaryRules = map[string]ops.BinaryFunction{
	"Add": ops.Add, "Sub": ops.Sub, "Mul": ops.Mul, "Div": ops.Div,
	"And": ops.And, "Or": ops.Or, "Xor": ops.Xor, "BitwiseAnd": ops.And, "BitwiseOr": ops.Or, "BitwiseXor": ops.Xor,
	"Equal": ops.Eq, "Less": ops.Lt, "LessOrEqual": ops.Le, "Greater": ops.Gt, "GreaterOrEqual": ops.Ge,
}

// variadicRules has the operators that combine any number of tensors, from the first to the last.
var variadicRules = map[string]ops.BinaryFunction{"Sum": ops.Add, "Max": ops.Max, "Min": ops.Min}

func unaryOf(f ops.UnaryFunction) convert.Rule {
	return func(c *convert.Call) []*ir.Value { return convert.One(ops.Unary(c.Builder, f, c.Input(0))) }
}

// binaryOf returns the rule of a function of two elements.
func binaryOf(f ops.BinaryFunction) convert.Rule {
	return func(c *convert.Call) []*ir.Value {
		return convert.One(ops.Binary(c.Builder, f, c.Input(0), c.Input(1)))
	}
}

func variadicOf(f ops.BinaryFunction) convert.Rule {
	return func(c *convert.Call) []*ir.Value { return convert.One(combined(c, f)) }
}

// combined combines all inputs by f.
func combined(c *convert.Call, f ops.BinaryFunction) *ir.Value {
	total := c.Input(0)
	for i := 1; i < len(c.In); i++ {
		total = ops.Binary(c.Builder, f, total, c.Input(i))
	}
	return total
}

// mean converts Mean.
func mean(c *convert.Call) []*ir.Value {
	total := combined(c, ops.Add)
	return convert.One(ops.Binary(c.Builder, ops.Div, total, ops.Scalar(c.Builder, total.Type.DType, float64(len(c.In)))))
}

// mod converts Mod.
func mod(c *convert.Call) []*ir.Value {
	f := ops.FloorMod
	if c.Int("fmod", 0) != 0 {
		f = ops.Rem
	}
	return convert.One(ops.Binary(c.Builder, f, c.Input(0), c.Input(1)))
}

// bitShift converts BitShift.
func bitShift(c *convert.Call) []*ir.Value {
	shifts := map[string]ops.BinaryFunction{"LEFT": ops.Shl, "RIGHT": ops.Shr}
	f, ok := shifts[c.StringAttribute("direction", "")]
	if !ok {
		c.Fault("direction %q, it must be LEFT or RIGHT", c.StringAttribute("direction", ""))
	}
	return convert.One(ops.Binary(c.Builder, f, c.Input(0), c.Input(1)))
}

// power converts Pow. The result has the base's type. An integer to the power of a float is computed in f64.
func power(c *convert.Call) []*ir.Value { return convert.One(powerOf(c, c.Input(0), c.Input(1))) }

// powerOf returns x to the power of y, in the type of x.
func powerOf(c *convert.Call, x, y *ir.Value) *ir.Value {
	b := c.Builder
	base, exponent := x.Type.DType, y.Type.DType
	switch {
	case base.IsInt() && exponent.IsFloat():
		x, y = ops.Cast(b, x, dtype.F64), ops.Cast(b, y, dtype.F64)
	case base.IsInt() && exponent.Bits() > base.Bits():
		// The exponent must not wrap: the base is widened instead.
		x, y = ops.Cast(b, x, dtype.I64), ops.Cast(b, y, dtype.I64)
	default:
		y = ops.Cast(b, y, base)
	}
	return ops.Cast(b, ops.Binary(b, ops.Pow, x, y), base)
}

// clip converts Clip. If the bounds contradict each other, the upper one wins.
func clip(c *convert.Call) []*ir.Value {
	return convert.One(clipped(c, c.Input(0), convert.ScalarOf(c, c.Optional(1)), convert.ScalarOf(c, c.Optional(2))))
}

// clipped returns x between two bounds, each of which may be nil.
func clipped(c *convert.Call, x, low, high *ir.Value) *ir.Value {
	b := c.Builder
	if low != nil {
		x = ops.Binary(b, ops.Max, x, low)
	}
	if high != nil {
		x = ops.Binary(b, ops.Min, x, high)
	}
	return x
}

// isInf converts IsInf.
func isInf(c *convert.Call) []*ir.Value {
	b, x := c.Builder, c.Input(0)
	positive, negative := c.Int("detect_positive", 1) != 0, c.Int("detect_negative", 1) != 0
	if positive && negative {
		return convert.One(ops.Unary(b, ops.IsInf, x))
	}
	if !positive && !negative {
		// Nothing is looked for: no element is less than itself.
		return convert.One(ops.Binary(b, ops.Lt, x, x))
	}
	way := 1
	if negative {
		way = -1
	}
	return convert.One(ops.Binary(b, ops.Eq, x, ops.Scalar(b, x.Type.DType, math.Inf(way))))
}

func where(c *convert.Call) []*ir.Value {
	return convert.One(ops.Where(c.Builder, c.Input(0), c.Input(1), c.Input(2)))
}

// cast converts Cast.
func cast(c *convert.Call) []*ir.Value {
	to := c.Type("to")
	if to == dtype.Invalid {
		c.Fault("attribute to is missing")
	}
	return convert.One(CastTo(c, to))
}

func castLike(c *convert.Call) []*ir.Value { return convert.One(CastTo(c, c.Input(1).Type.DType)) }

// CastTo returns the first input as another type, with the attributes of Cast.
func CastTo(c *convert.Call, to dtype.DType) *ir.Value {
	x := c.Input(0)
	if round := c.StringAttribute("round_mode", "up"); to == dtype.F8E8M0 && round != "up" {
		c.Refuse("round_mode %q", round)
	}
	if x.Type.DType == to {
		return x
	}
	if to == dtype.String {
		return c.Scope.StringValue(ops.TextFormat(c.Builder, x))
	}
	if c.Int("saturate", 1) == 0 {
		return c.Op("cast", ir.Attrs{"to": to, "wrap": true}, x)
	}
	return ops.Cast(c.Builder, x, to)
}

// bitCast converts BitCast.
func bitCast(c *convert.Call) []*ir.Value {
	to := c.Type("to")
	if to == dtype.Invalid {
		c.Fault("attribute to is missing")
	}
	return convert.One(ops.BitCast(c.Builder, c.Input(0), to))
}
