package onnx

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// activation is an operator that is an activation, with its settings.
type activation struct {
	op          string
	alpha, beta string // attributes; empty: none
	a, b        float64
}

// activationRules is every activation function: the ir operator, and the attributes that give its settings, with ONNX's defaults.
var activationRules = map[string]activation{
	"Relu":            {op: "relu"},
	"LeakyRelu":       {op: "leaky_relu", alpha: "alpha", a: 0.01},
	"ThresholdedRelu": {op: "thresholded_relu", alpha: "alpha", a: 1},
	"Elu":             {op: "elu", alpha: "alpha", a: 1},
	"Selu":            {op: "selu", alpha: "alpha", beta: "gamma", a: 1.67326319217681884765625, b: 1.05070102214813232421875},
	"Celu":            {op: "celu", alpha: "alpha", a: 1},
	"HardSigmoid":     {op: "hard_sigmoid", alpha: "alpha", beta: "beta", a: 0.2, b: 0.5},
	"HardSwish":       {op: "hard_swish"},
	"Mish":            {op: "mish"},
	"Softplus":        {op: "softplus"},
	"Softsign":        {op: "softsign"},
	"Swish":           {op: "swish", alpha: "alpha", a: 1},
	"Shrink":          {op: "shrink", alpha: "lambd", beta: "bias", a: 0.5},
}

func activated(row activation) rule {
	return func(c *call) []*ir.Value {
		a, b := row.a, row.b
		if row.alpha != "" {
			a = c.Float(row.alpha, a)
		}
		if row.beta != "" {
			b = c.Float(row.beta, b)
		}
		return one(ops.ActivationWith(c.Builder, row.op, c.Input(0), a, b))
	}
}

func gelu(c *call) []*ir.Value {
	switch kind := c.Text("approximate", "none"); kind {
	case "none":
		return one(ops.Activation(c.Builder, "gelu", c.Input(0)))
	case "tanh":
		return one(ops.Activation(c.Builder, "gelu_tanh", c.Input(0)))
	default:
		c.Fault("approximate is %q", kind)
		return nil
	}
}

// swiGLU converts SwiGLU, a gate and what it lets through: Shazeer, GLU variants improve transformer, 2020.
func swiGLU(c *call) []*ir.Value {
	gate := ops.ActivationWith(c.Builder, "swish", c.Input(0), c.Float("alpha", 1), 0)
	return one(ops.Binary(c.Builder, ops.Mul, gate, c.Input(1)))
}

// prelu converts PRelu: a slope for negative elements, broadcast.
func prelu(c *call) []*ir.Value { return one(sloped(c, c.Input(0), c.Input(1))) }

func sloped(c *call, x, slope *ir.Value) *ir.Value {
	b := c.Builder
	below := ops.Binary(b, ops.Mul, x, slope)
	return ops.Where(b, ops.Binary(b, ops.Lt, x, ops.Scalar(b, x.Type.DType, 0)), below, x)
}
