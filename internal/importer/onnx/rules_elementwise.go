package onnx

import (
	"math"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/ops"
)

// unaryRules are the operators that are one function of one element.
var unaryRules = map[string]loop.UnaryOp{
	"Neg": loop.Neg, "Abs": loop.Abs, "Sign": loop.Sign, "BitwiseNot": loop.BitNot, "Not": loop.Not,
	"Floor": loop.Floor, "Ceil": loop.Ceil, "Round": loop.Round, "Sqrt": loop.Sqrt, "Reciprocal": loop.Reciprocal,
	"Exp": loop.Exp, "Log": loop.Log, "Sin": loop.Sin, "Cos": loop.Cos, "Tan": loop.Tan, "Asin": loop.Asin, "Acos": loop.Acos, "Atan": loop.Atan,
	"Sinh": loop.Sinh, "Cosh": loop.Cosh, "Tanh": loop.Tanh, "Asinh": loop.Asinh, "Acosh": loop.Acosh, "Atanh": loop.Atanh,
	"Erf": loop.Erf, "Sigmoid": loop.Sigmoid, "IsNaN": loop.IsNaN,
}

// binaryRules are the operators that are one function of two elements.
var binaryRules = map[string]loop.BinaryOp{
	"Add": loop.Add, "Sub": loop.Sub, "Mul": loop.Mul, "Div": loop.Div,
	"And": loop.And, "Or": loop.Or, "Xor": loop.Xor, "BitwiseAnd": loop.And, "BitwiseOr": loop.Or, "BitwiseXor": loop.Xor,
	"Equal": loop.Eq, "Less": loop.Lt, "LessOrEqual": loop.Le, "Greater": loop.Gt, "GreaterOrEqual": loop.Ge,
}

// variadicRules combine any number of tensors, from the first to the last.
var variadicRules = map[string]loop.BinaryOp{"Sum": loop.Add, "Max": loop.Max, "Min": loop.Min}

func init() {
	for name, f := range unaryRules {
		add(map[string]rule{name: func(c *call) []*ir.Value { return one(ops.Unary(c.Builder, f, c.Input(0))) }})
	}
	for name, f := range binaryRules {
		add(map[string]rule{name: func(c *call) []*ir.Value {
			if c.Input(0).Type.DType == dtype.String {
				c.Refuse("texts")
			}
			return one(ops.Binary(c.Builder, f, c.Input(0), c.Input(1)))
		}})
	}
	for name, f := range variadicRules {
		add(map[string]rule{name: func(c *call) []*ir.Value { return one(c.combined(f)) }})
	}
	add(map[string]rule{"Mean": mean, "Mod": mod, "BitShift": bitShift, "Pow": power, "Clip": clip, "IsInf": isInf, "Where": where, "Cast": cast, "CastLike": castLike, "BitCast": bitCast})
}

// combined combines all inputs.
func (c *call) combined(f loop.BinaryOp) *ir.Value {
	total := c.Input(0)
	for i := 1; i < len(c.In); i++ {
		total = ops.Binary(c.Builder, f, total, c.Input(i))
	}
	return total
}

func mean(c *call) []*ir.Value {
	total := c.combined(loop.Add)
	return one(ops.Binary(c.Builder, loop.Div, total, ops.Scalar(c.Builder, total.Type.DType, float64(len(c.In)))))
}

func mod(c *call) []*ir.Value {
	f := loop.FloorMod
	if c.Int("fmod", 0) != 0 {
		f = loop.Rem
	} else if c.Input(0).Type.DType.IsFloat() {
		c.Fault("floats need fmod=1")
	}
	return one(ops.Binary(c.Builder, f, c.Input(0), c.Input(1)))
}

func bitShift(c *call) []*ir.Value {
	shifts := map[string]loop.BinaryOp{"LEFT": loop.Shl, "RIGHT": loop.Shr}
	f, ok := shifts[c.Text("direction", "")]
	if !ok {
		c.Fault("direction %q, it must be LEFT or RIGHT", c.Text("direction", ""))
	}
	return one(ops.Binary(c.Builder, f, c.Input(0), c.Input(1)))
}

// power: the result has the base's type. An integer to the power of a float is computed in f64.
func power(c *call) []*ir.Value {
	b, x, y := c.Builder, c.Input(0), c.Input(1)
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
	return one(ops.Cast(b, ops.Binary(b, loop.Pow, x, y), base))
}

// clip: where the bounds contradict each other, the upper one wins.
func clip(c *call) []*ir.Value {
	b, x := c.Builder, c.Input(0)
	var low, high *ir.Value
	if c.Version < 11 {
		if c.Has("min") {
			low = ops.Scalar(b, x.Type.DType, c.Float("min", 0))
		}
		if c.Has("max") {
			high = ops.Scalar(b, x.Type.DType, c.Float("max", 0))
		}
	} else {
		low, high = scalarOf(c, c.Optional(1)), scalarOf(c, c.Optional(2))
	}
	if low != nil {
		x = ops.Binary(b, loop.Max, x, low)
	}
	if high != nil {
		x = ops.Binary(b, loop.Min, x, high)
	}
	return one(x)
}

func isInf(c *call) []*ir.Value {
	b, x := c.Builder, c.Input(0)
	positive, negative := c.Int("detect_positive", 1) != 0, c.Int("detect_negative", 1) != 0
	if positive && negative {
		return one(ops.Unary(b, loop.IsInf, x))
	}
	if !positive && !negative {
		// Nothing is looked for: no element is less than itself.
		return one(ops.Binary(b, loop.Lt, x, x))
	}
	way := 1
	if negative {
		way = -1
	}
	return one(ops.Binary(b, loop.Eq, x, ops.Scalar(b, x.Type.DType, math.Inf(way))))
}

func where(c *call) []*ir.Value { return one(ops.Where(c.Builder, c.Input(0), c.Input(1), c.Input(2))) }

func cast(c *call) []*ir.Value {
	to := c.Type("to")
	if to == dtype.Invalid {
		c.Fault("attribute to is missing")
	}
	return one(c.castTo(to))
}

func castLike(c *call) []*ir.Value { return one(c.castTo(c.Input(1).Type.DType)) }

func (c *call) castTo(to dtype.DType) *ir.Value {
	x := c.Input(0)
	if round := c.Text("round_mode", "up"); to == dtype.F8E8M0 && round != "up" {
		c.Refuse("round_mode %q", round)
	}
	if x.Type.DType == to {
		return x
	}
	if x.Type.DType == dtype.String || to == dtype.String {
		c.Refuse("%s as %s", x.Type.DType, to)
	}
	if c.Int("saturate", 1) == 0 {
		return c.Op("cast", ir.Attrs{"to": to, "wrap": true}, x)
	}
	return ops.Cast(c.Builder, x, to)
}

func bitCast(c *call) []*ir.Value {
	to := c.Type("to")
	if to == dtype.Invalid {
		c.Fault("attribute to is missing")
	}
	return one(ops.BitCast(c.Builder, c.Input(0), to))
}
