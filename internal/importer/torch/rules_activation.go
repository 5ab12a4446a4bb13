package torch

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// init adds the rules of this file.
func init() {
	add(map[string]rule{
		"aten.relu.default": mapped(false, func(c *call, x *ir.Value) *ir.Value {
			return c.binary(ops.Max, x, c.like(x, 0))
		}),
		"aten.gelu.default": mapped(true, func(c *call, x *ir.Value) *ir.Value {
			if c.string("approximate", "none") == "tanh" {
				return ops.Activation(c.Builder, "gelu_tanh", x)
			}
			return ops.Activation(c.Builder, "gelu", x)
		}),
		"aten.silu.default": activation("swish", func(*call) (float64, float64) {
			return 1, 0
		}), "aten.mish.default": activation("mish", nil),
		"aten.hardswish.default": activation("hard_swish", nil), "aten.softplus.default": softplus,
		"aten.hardsigmoid.default": activation("hard_sigmoid", func(*call) (float64, float64) { return 1.0 / 6, 0.5 }),
		"aten.leaky_relu.default": activation("leaky_relu", func(c *call) (float64, float64) {
			return c.float("negative_slope", 0.01), 0
		}),
		"aten.elu.default": elu,
		"aten.hardtanh.default": func(c *call) []*ir.Value {
			x := c.tensor("self")
			low, high := c.float("min_val", -1), c.float("max_val", 1)
			return one(c.binary(ops.Min, c.binary(ops.Max, x, c.like(x, low)), c.like(x, high)))
		},
		"aten.relu6.default": mapped(false, func(c *call, x *ir.Value) *ir.Value {
			return c.binary(ops.Min, c.binary(ops.Max, x, c.like(x, 0)), c.like(x, 6))
		}),
	})
	add(map[string]rule{
		"aten.threshold_backward.default": func(c *call) []*ir.Value {
			g, x := c.tensor("grad_output"), c.tensor("self")
			over := c.binary(ops.Gt, x, c.number("threshold", x.Type.DType))
			return one(ops.Where(c.Builder, over, g, c.like(g, 0)))
		},
		"aten.sigmoid_backward.default": func(c *call) []*ir.Value {
			g, y := c.tensor("grad_output"), c.tensor("output")
			return one(c.binary(ops.Mul, g, c.binary(ops.Mul, y, c.binary(ops.Sub, c.like(y, 1), y))))
		},
		"aten.tanh_backward.default": func(c *call) []*ir.Value {
			g, y := c.tensor("grad_output"), c.tensor("output")
			return one(c.binary(ops.Mul, g, c.binary(ops.Sub, c.like(y, 1), c.binary(ops.Mul, y, y))))
		},
		"aten.gelu_backward.default": backwardOf(func(c *call, b *ir.Builder, x *ir.Value) *ir.Value {
			if c.string("approximate", "none") == "tanh" {
				return ops.Activation(b, "gelu_tanh", x)
			}
			return ops.Activation(b, "gelu", x)
		}),
		"aten.silu_backward.default": backwardOf(func(c *call, b *ir.Builder, x *ir.Value) *ir.Value {
			return ops.ActivationWith(b, "swish", x, 1, 0)
		}),
	})
}

// activation returns a rule for an activation function with settings.
func activation(name string, settings func(c *call) (alpha, beta float64)) rule {
	return mapped(true, func(c *call, x *ir.Value) *ir.Value {
		if settings == nil {
			return ops.Activation(c.Builder, name, x)
		}
		alpha, beta := settings(c)
		return ops.ActivationWith(c.Builder, name, x, alpha, beta)
	})
}

// softplus is a rule for log(1 + exp(beta · x)) / beta; past the threshold of beta · x, it is x.
func softplus(c *call) []*ir.Value {
	x := c.floats("self")
	beta, threshold := c.float("beta", 1), c.float("threshold", 20)
	scaled := c.binary(ops.Mul, x, c.like(x, beta))
	soft := c.binary(ops.Div, ops.Activation(c.Builder, "softplus", scaled), c.like(x, beta))
	return one(ops.Where(c.Builder, c.binary(ops.Gt, scaled, c.like(x, threshold)), x, soft))
}

// elu is a rule for scale · x above 0, and scale · alpha · (exp(input_scale · x) − 1) otherwise.
func elu(c *call) []*ir.Value {
	x := c.floats("self")
	below := c.binary(ops.Mul, c.unary(ops.Expm1, c.binary(ops.Mul, x, c.like(x, c.float("input_scale", 1)))),
		c.like(x, c.float("alpha", 1)))
	y := ops.Where(c.Builder, c.binary(ops.Gt, x, c.like(x, 0)), x, below)
	if scale := c.float("scale", 1); scale != 1 {
		y = c.binary(ops.Mul, y, c.like(y, scale))
	}
	return one(y)
}

// clamp is a rule for self limited to min and max, of which one may be absent.
func clamp(c *call) []*ir.Value {
	list := []operand{c.operand("self")}
	for _, name := range []string{"min", "max"} {
		if c.has(name) {
			list = append(list, c.operand(name))
		}
	}
	v := c.promote(false, list...)
	x, rest := v[0], v[1:]
	if c.has("min") {
		x, rest = c.ordered(ops.Max, x, rest[0]), rest[1:]
	}
	if c.has("max") {
		x = c.ordered(ops.Min, x, rest[0])
	}
	return one(x)
}

// where is a rule for self where the condition is true, and other elsewhere.
func where(c *call) []*ir.Value {
	v := c.promote(false, c.operand("self"), c.operand("other"))
	return one(ops.Where(c.Builder, ops.Cast(c.Builder, c.tensor("condition"), dtype.Bool), v[0], v[1]))
}

// maskedFill is a rule that replaces the elements of self by value if the mask is true.
func maskedFill(c *call) []*ir.Value {
	x := c.tensor("self")
	value := c.scalarOf("value", x.Type.DType)
	return one(ops.Where(c.Builder, c.tensor("mask"), value, x))
}

// scalarOf returns an argument, a number or a tensor without axes, as a value of a type.
func (c *call) scalarOf(name string, dt dtype.DType) *ir.Value {
	if o := c.operand(name); o.value != nil {
		return ops.Cast(c.Builder, o.value, dt)
	}
	return c.number(name, dt)
}

// backwardOf returns a rule for the derivative of a function with respect to self, times grad_output, computed by
// Weir's own differentiation.
func backwardOf(f func(c *call, b *ir.Builder, x *ir.Value) *ir.Value) rule {
	return func(c *call) []*ir.Value {
		x, g := c.tensor("self"), c.tensor("grad_output")
		y := f(c, c.Builder, x)
		return c.derivatives([]*ir.Value{y}, []*ir.Value{g}, []*ir.Value{x})
	}
}
