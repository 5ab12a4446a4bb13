package core

import (
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// activation describes an operator that is an activation, with its settings.
type activation struct {
	Op          string
	Alpha, Beta string // the attributes' names; "" if there is no setting
	A, B        float64
}

// ActivationRules has the activation functions: the ir operator, and the attributes of its settings with ONNX's
// defaults.
var ActivationRules = map[string]activation{
	"Relu":            {Op: "relu"},
	"LeakyRelu":       {Op: "leaky_relu", Alpha: "alpha", A: 0.01},
	"ThresholdedRelu": {Op: "thresholded_relu", Alpha: "alpha", A: 1},
	"Elu":             {Op: "elu", Alpha: "alpha", A: 1},
	"Selu": {Op: "selu", Alpha: "alpha", Beta: "gamma", A: 1.67326319217681884765625,
		B: 1.05070102214813232421875},
	"Celu":        {Op: "celu", Alpha: "alpha", A: 1},
	"HardSigmoid": {Op: "hard_sigmoid", Alpha: "alpha", Beta: "beta", A: 0.2, B: 0.5},
	"HardSwish":   {Op: "hard_swish"},
	"Mish":        {Op: "mish"},
	"Softplus":    {Op: "softplus"},
	"Softsign":    {Op: "softsign"},
	"Swish":       {Op: "swish", Alpha: "alpha", A: 1},
	"Shrink":      {Op: "shrink", Alpha: "lambd", Beta: "bias", A: 0.5},
}

// activated returns the rule of an activation function.
func activated(row activation) convert.Rule {
	return func(c *convert.Call) []*ir.Value {
		a, b := row.A, row.B
		if row.Alpha != "" {
			a = c.Float(row.Alpha, a)
		}
		if row.Beta != "" {
			b = c.Float(row.Beta, b)
		}
		return convert.One(ops.ActivationWith(c.Builder, row.Op, c.Input(0), a, b))
	}
}

// gelu converts Gelu.
func gelu(c *convert.Call) []*ir.Value {
	switch kind := c.StringAttribute("approximate", "none"); kind {
	case "none":
		return convert.One(ops.Activation(c.Builder, "gelu", c.Input(0)))
	case "tanh":
		return convert.One(ops.Activation(c.Builder, "gelu_tanh", c.Input(0)))
	default:
		c.Fault("approximate is %q", kind)
		return nil
	}
}

// swiGLU converts SwiGLU, a gate and the values that it scales (Shazeer, GLU variants improve transformer, 2020).
func swiGLU(c *convert.Call) []*ir.Value {
	gate := ops.ActivationWith(c.Builder, "swish", c.Input(0), c.Float("alpha", 1), 0)
	return convert.One(ops.Binary(c.Builder, ops.Mul, gate, c.Input(1)))
}

// prelu converts PRelu: a slope for negative elements, broadcast.
func prelu(c *convert.Call) []*ir.Value { return convert.One(scaleNegative(c, c.Input(0), c.Input(1))) }

// scaleNegative returns x with its negative elements multiplied by slope.
func scaleNegative(c *convert.Call, x, slope *ir.Value) *ir.Value {
	b := c.Builder
	below := ops.Binary(b, ops.Mul, x, slope)
	return ops.Where(b, ops.Binary(b, ops.Lt, x, ops.Scalar(b, x.Type.DType, 0)), below, x)
}
