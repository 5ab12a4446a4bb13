package onnx

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
)

// unaryNames maps operators to the operators of ONNX that are the same function of one element.
var unaryNames = map[string]string{"neg": "Neg", "abs": "Abs", "sign": "Sign", "bitnot": "BitwiseNot", "not": "Not",
	"floor": "Floor", "ceil": "Ceil",
	"round": "Round", "sqrt": "Sqrt", "reciprocal": "Reciprocal", "exp": "Exp", "log": "Log", "sin": "Sin", "cos": "Cos",
	"tan": "Tan", "asin": "Asin",
	"acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "asinh": "Asinh", "acosh": "Acosh",
	"atanh": "Atanh", "erf": "Erf",
	"sigmoid": "Sigmoid", "isnan": "IsNaN", "isinf": "IsInf", "stop_gradient": "Identity"}

// binaryNames maps operators to the operators of ONNX that are the same function of several elements.
var binaryNames = map[string]string{"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow", "min": "Min",
	"max": "Max", "eq": "Equal",
	"lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "where": "Where"}

// init adds the rules of this file.
func init() {
	for op, name := range unaryNames {
		rules[op] = direct(name)
	}
	for op, name := range binaryNames {
		rules[op] = direct(name)
	}
	rulesOf(map[string]rule{
		"ne":  func(c *call) { c.final("Not", []string{c.add("Equal", c.inputs())}) },
		"and": bits("And"), "or": bits("Or"), "xor": bits("Xor"),
		"shl": shift("LEFT"), "shr": shift("RIGHT"),
		"rem":      direct("Mod", intAttr("fmod", 1)),
		"floormod": floorMod, "trunc": trunc, "log1p": widened(log1p), "expm1": widened(expm1),
		"cast": cast,
	})
	for op, row := range activations {
		rules[op] = func(c *call) {
			// ONNX has settings as f32 only.
			if a, b := c.n.Attrs.Float("alpha", 0), c.n.Attrs.Float("beta", 0); c.dtype() == dtype.F64 &&
				(row.alpha != "" && float64(float32(a)) != a || row.beta != "" && float64(float32(b)) != b) {
				c.refuse("settings %v and %v, of f64", a, b)
			}
			var attrs []*wire.AttributeProto
			if row.alpha != "" {
				attrs = append(attrs, wire.FloatAttribute(row.alpha, float32(c.n.Attrs.Float("alpha", 0))))
			}
			if row.beta != "" {
				attrs = append(attrs, wire.FloatAttribute(row.beta, float32(c.n.Attrs.Float("beta", 0))))
			}
			c.final(row.op, c.inputs(), attrs...)
		}
	}
	rulesOf(map[string]rule{
		"gelu":      direct("Gelu"),
		"gelu_tanh": direct("Gelu", wire.StringAttribute("approximate", "tanh")),
		"swish": func(c *call) {
			x := c.in(0)
			c.final("Mul", []string{x, c.add("Sigmoid", []string{c.times(x, c.n.Attrs.Float("alpha", 1))})})
		},
		"scaled_tanh": func(c *call) {
			y := c.add("Tanh", []string{c.times(c.in(0), c.n.Attrs.Float("beta", 1))})
			c.final("Mul", []string{y, c.like(c.n.Attrs.Float("alpha", 1))})
		},
		"affine": func(c *call) {
			c.final("Add", []string{c.times(c.in(0), c.n.Attrs.Float("alpha", 1)), c.like(c.n.Attrs.Float("beta", 0))})
		},
	})
}

// activations has the activations, and the names of the attributes that hold their settings.
var activations = map[string]struct{ op, alpha, beta string }{
	"relu": {"Relu", "", ""}, "leaky_relu": {"LeakyRelu", "alpha", ""},
	"thresholded_relu": {"ThresholdedRelu", "alpha", ""}, "elu": {"Elu", "alpha", ""},
	"selu": {"Selu", "alpha", "gamma"}, "celu": {"Celu", "alpha", ""}, "hard_sigmoid": {"HardSigmoid", "alpha", "beta"},
	"hard_swish": {"HardSwish", "", ""},
	"softplus":   {"Softplus", "", ""}, "mish": {"Mish", "", ""}, "softsign": {"Softsign", "", ""},
	"shrink": {"Shrink", "lambd", "bias"},
}

// times returns x times by; x itself if by is 1.
func (c *call) times(x string, by float64) string {
	if by == 1 {
		return x
	}
	return c.add("Mul", []string{x, c.like(by)})
}

// bits writes And, Or or Xor: on truth values, or on bits.
func bits(name string) rule {
	return func(c *call) {
		if c.dtype() != dtype.Bool {
			c.final("Bitwise"+name, c.inputs())
			return
		}
		c.final(name, c.inputs())
	}
}

// shift writes a shift; ONNX shifts only unsigned integers.
func shift(direction string) rule {
	return func(c *call) {
		if c.dtype().IsSigned() {
			c.refuse("a shift of %v; ONNX shifts integers without a sign", c.dtype())
		}
		c.final("BitShift", c.inputs(), wire.StringAttribute("direction", direction))
	}
}

// floorMod writes the remainder with the divisor's sign; ONNX has it only of integers.
func floorMod(c *call) {
	if !c.dtype().IsFloat() {
		c.final("Mod", c.inputs())
		return
	}
	x, y := c.in(0), c.in(1)
	zero := c.like(0)
	r := c.add("Mod", []string{x, y}, intAttr("fmod", 1))
	apart := c.add("Xor", []string{c.add("Less", []string{r, zero}), c.add("Less", []string{y, zero})})
	some := c.add("Not", []string{c.add("Equal", []string{r, zero})})
	c.final("Where", []string{c.add("And", []string{apart, some}), c.add("Add", []string{r, y}), r})
}

// trunc rounds toward zero.
func trunc(c *call) {
	x := c.in(0)
	c.final("Where", []string{c.add("Less", []string{x, c.like(0)}), c.add("Ceil", []string{x}),
		c.add("Floor", []string{x})})
}

// widened computes f in f32 if the type is narrower, and rounds once.
func widened(f func(c *call, x string, number func(x float64) string) (op string, in []string)) rule {
	return func(c *call) {
		x, dt := c.in(0), c.dtype()
		narrow := dt.Bits() < 32
		if narrow {
			x, dt = c.cast(x, dtype.F32), dtype.F32
		}
		op, in := f(c, x, func(x float64) string { return c.number(dt, x) })
		if narrow {
			c.final("Cast", []string{c.add(op, in)}, intAttr("to", int64(elementType(c.dtype()))))
			return
		}
		c.final(op, in)
	}
}

// log1p is log(u) · x / (u − 1) with u = 1 + x, which is a few roundings off (Goldberg, 1991, theorem 4).
func log1p(c *call, x string, number func(float64) string) (op string, in []string) {
	one := number(1)
	u := c.add("Add", []string{x, one})
	more := c.add("Sub", []string{u, one})
	whole := c.add("Div", []string{c.add("Mul", []string{c.add("Log", []string{u}), x}), more})
	small := c.add("Equal", []string{u, one})
	wide := c.add("Equal", []string{u, x}) // also infinity
	return "Where", []string{small, x, c.add("Where", []string{wide, c.add("Log", []string{u}), whole})}
}

// expm1 is (u − 1) · x / log(u) with u = exp(x).
func expm1(c *call, x string, number func(float64) string) (op string, in []string) {
	one := number(1)
	u := c.add("Exp", []string{x})
	less := c.add("Sub", []string{u, one})
	whole := c.add("Div", []string{c.add("Mul", []string{less, x}), c.add("Log", []string{u})})
	small := c.add("Equal", []string{u, one})
	far := c.add("Greater", []string{c.add("Abs", []string{x}), number(2)})
	return "Where", []string{small, x, c.add("Where", []string{far, less, whole})}
}

// cast writes Cast; saturate is 0 if values out of range wrap.
func cast(c *call) {
	to := c.n.Attrs.DType("to")
	attrs := []*wire.AttributeProto{intAttr("to", int64(elementType(to)))}
	if c.n.Attrs.Bool("wrap") {
		attrs = append(attrs, intAttr("saturate", 0))
	}
	c.final("Cast", c.inputs(), attrs...)
}
