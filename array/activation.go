package array

import (
	"math"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// The functions of this file except Relu are functions of floats: integers become f32 first.

// activation applies an activation of package ops by name, with its settings.
func (s *Scope) activation(name string, x *Array, settings ...float64) *Array {
	return s.set(operation{name: name, settings: told(settings...)},
		func(b *ir.Builder, v []*ir.Value, _ []sym.Expr, numbers []number) *ir.Value {
			x := asFloat(b, v[0])
			alpha, beta, _ := ops.ActivationDefaults(name)
			if len(settings) > 0 {
				if !numbers[0].fixed() {
					return inWide(b, x, func(x *ir.Value) *ir.Value { return bent[name](calc{b}, x, numbers[0].like(b, x)) })
				}
				alpha = settings[0]
			}
			if len(settings) > 1 {
				beta = settings[1]
			}
			return ops.ActivationWith(b, name, x, alpha, beta)
		}, x)
}

// bent are the activations with a parameter for x below 0, built with the parameter as an operand.
var bent = map[string]func(c calc, x, alpha *ir.Value) *ir.Value{
	"leaky_relu": func(c calc, x, alpha *ir.Value) *ir.Value {
		return c.where(c.g(ops.Lt, x, numeral(c.b, x, 0)), c.mul(alpha, x), x)
	},
	"elu": func(c calc, x, alpha *ir.Value) *ir.Value {
		return c.where(c.g(ops.Lt, x, numeral(c.b, x, 0)), c.mul(alpha, c.f(ops.Expm1, x)), x)
	},
	"celu": func(c calc, x, alpha *ir.Value) *ir.Value {
		zero := numeral(c.b, x, 0)
		return c.add(c.g(ops.Max, x, zero), c.g(ops.Min, zero, c.mul(alpha, c.f(ops.Expm1, c.div(x, alpha)))))
	},
}

// Relu is max(x, 0), in x's type.
func (s *Scope) Relu(x *Array) *Array {
	return s.op("relu", nil, func(b *ir.Builder, v []*ir.Value) *ir.Value {
		x := v[0]
		if x.Type.DType == weir.Bool {
			x = ops.Cast(b, x, weir.F32)
		}
		return ops.Binary(b, ops.Max, x, numeral(b, x, 0))
	}, x)
}

// Relu6 is x limited to at least 0 and at most 6, in x's type.
func (s *Scope) Relu6(x *Array) *Array { return s.Clip(x, s.Number(0), s.Number(6)) }

// Sigmoid is 1 / (1 + exp(−x)).
func (s *Scope) Sigmoid(x *Array) *Array { return s.unary(loop.Sigmoid, x, true) }

// LogSigmoid is the logarithm of Sigmoid, without underflow.
func (s *Scope) LogSigmoid(x *Array) *Array {
	return s.float("log_sigmoid", x, func(c calc, v *ir.Value) *ir.Value {
		small := c.f(ops.Log1p, c.f(ops.Exp, c.f(ops.Neg, c.f(ops.Abs, v))))
		y := c.sub(c.g(ops.Min, v, numeral(c.b, v, 0)), small)
		// Both terms have a kink at 0, but their sum is smooth: its derivative is Sigmoid(−x).
		return c.derived(y, v, func(c calc) *ir.Value { return c.f(loop.Sigmoid, c.f(ops.Neg, v)) })
	})
}

// Silu is x · Sigmoid(x), also called swish.
func (s *Scope) Silu(x *Array) *Array { return s.activation("swish", x) }

// Gelu is x · Φ(x), where Φ is the normal distribution's cumulative function, computed by the error function.
func (s *Scope) Gelu(x *Array) *Array { return s.activation("gelu", x) }

// GeluTanh is Gelu's approximation by the hyperbolic tangent.
func (s *Scope) GeluTanh(x *Array) *Array { return s.activation("gelu_tanh", x) }

// Softplus is log(1 + exp(x)) without overflow.
func (s *Scope) Softplus(x *Array) *Array { return s.activation("softplus", x) }

// Softsign is x / (1 + |x|).
func (s *Scope) Softsign(x *Array) *Array { return s.activation("softsign", x) }

// Mish is x · tanh(Softplus(x)).
func (s *Scope) Mish(x *Array) *Array { return s.activation("mish", x) }

// Elu is x, or alpha · (exp(x) − 1) below 0.
func (s *Scope) Elu(x *Array, alpha float64) *Array { return s.activation("elu", x, alpha) }

// Celu is x, or alpha · (exp(x / alpha) − 1) below 0.
func (s *Scope) Celu(x *Array, alpha float64) *Array { return s.activation("celu", x, alpha) }

// Selu is Elu, scaled so that it approximately keeps mean 0 and variance 1.
func (s *Scope) Selu(x *Array) *Array { return s.activation("selu", x) }

// LeakyRelu is x, or slope · x below 0.
func (s *Scope) LeakyRelu(x *Array, slope float64) *Array {
	return s.activation("leaky_relu", x, slope)
}

// HardSigmoid is x / 6 + 1/2, limited to [0, 1].
func (s *Scope) HardSigmoid(x *Array) *Array { return s.activation("hard_sigmoid", x, 1.0/6, 0.5) }

// HardSwish is x · HardSigmoid(x).
func (s *Scope) HardSwish(x *Array) *Array { return s.activation("hard_swish", x) }

// PRelu is x, or slope · x below 0. The slope is broadcast: of rank 1, it applies to the last axis.
func (s *Scope) PRelu(x, slope *Array) *Array {
	return s.floatPairs("prelu", x, slope, func(c calc, p, q *ir.Value) *ir.Value {
		return c.where(c.g(ops.Le, p, numeral(c.b, p, 0)), c.mul(p, q), p)
	})
}

// Erfinv is the inverse of the error function, with an error of a few ulp of f32 (Giles, Approximating the erfinv
// function, 2012).
func (s *Scope) Erfinv(x *Array) *Array {
	return s.widely("erfinv", x, erfinv)
}

// The polynomials of erfinv, for the middle and for the tails.
var (
	erfinvMiddle = []float64{2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
		-0.00125372503, -0.00417768164, 0.246640727, 1.50140941}
	erfinvTails = []float64{-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
		0.00943887047, 1.00167406, 2.83297682}
)

// erfinv gives its result an explicit derivative, √π/2 · e^(y²). The derivative of the formula would be NaN at the
// ends, and NaN times 0 between them.
func erfinv(c calc, x *ir.Value) *ir.Value {
	y := erfinvOf(c, x)
	return c.derived(y, x, func(c calc) *ir.Value {
		return c.mul(c.f(ops.Exp, c.mul(y, y)), numeral(c.b, y, math.Sqrt(math.Pi)/2))
	})
}

// derived returns y, an elementwise function of x, with an explicit derivative: slope builds it.
func (c calc) derived(y, x *ir.Value, slope func(c calc) *ir.Value) *ir.Value {
	return ops.Custom(c.b, []*ir.Value{y}, []*ir.Value{x}, func(b *ir.Builder, up []*ir.Value) []*ir.Value {
		c := calc{b}
		return []*ir.Value{c.mul(up[0], slope(c))}
	})[0]
}

// erfinvOf builds the formula of erfinv.
func erfinvOf(c calc, x *ir.Value) *ir.Value {
	n := func(v float64) *ir.Value { return numeral(c.b, x, v) }
	polynomial := func(w *ir.Value, factors []float64) *ir.Value {
		p := n(factors[0])
		for _, f := range factors[1:] {
			p = c.add(n(f), c.mul(p, w))
		}
		return p
	}
	w := c.f(ops.Neg, c.f(ops.Log1p, c.f(ops.Neg, c.mul(x, x))))
	middle := polynomial(c.sub(w, n(2.5)), erfinvMiddle)
	tails := polynomial(c.sub(c.f(ops.Sqrt, c.g(ops.Max, w, n(5))), n(3)), erfinvTails)
	y := c.mul(x, c.where(c.g(ops.Lt, w, n(5)), middle, tails))
	ends := c.mul(x, n(math.Inf(1)))
	return c.where(c.g(ops.Eq, c.f(ops.Abs, x), n(1)), ends, y)
}
