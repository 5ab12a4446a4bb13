package ops

import (
	"math"
	"math/rand"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// activation is a function of one element with up to two settings, a and b. Elements narrower than 32 bits are computed
// in f32 and rounded once.
type activation struct {
	name        string
	alpha, beta float64 // the default settings
	mean        func(x, a, b float64) float64
	integer     func(x, a, b int64) int64 // the function of integers; nil: floats only
	body        func(x, a, b loop.Expr) loop.Expr
	own         Def // properties of this operator alone
	// slope returns the derivative with respect to x, given the derivative up with respect to the result y.
	slope func(g *Gradients, up, x, y *ir.Value, a, b float64) *ir.Value
}

// The constants of Selu (Klambauer et al., Self-Normalizing Neural Networks, 2017), as ONNX rounds them.
const (
	seluAlpha = 1.67326319217681884765625
	seluGamma = 1.05070102214813232421875
)

// activationTable lists the operators that apply one function to each element, with constant settings.
var activationTable = []activation{
	{name: "relu", own: Def{Light: true, NotNegative: neverNegative}, mean: func(x, _, _ float64) float64 {
		return max(x, 0)
	}, integer: func(x, _, _ int64) int64 { return max(x, 0) },
		body: func(x, _, _ loop.Expr) loop.Expr {
			return loop.Apply2(loop.Max, x, like(x, 0))
		}, slope: func(g *Gradients, up, _, y *ir.Value, _, _ float64) *ir.Value {
			return g.choose(g.positive(y), up, nil)
		}},
	{name: "leaky_relu", own: Def{Light: true}, alpha: 0.01, mean: func(x, a, _ float64) float64 {
		return choose(x < 0, a*x, x)
	},
		body: func(x, a, _ loop.Expr) loop.Expr {
			return loop.Choose(less(x, like(x, 0)), times(a, x), x)
		}, slope: func(g *Gradients, up, x, y *ir.Value, a, _ float64) *ir.Value {
			return g.choose(g.positive(either(a > 0, y, x)), up, g.times(up, a))
		}},
	{name: "thresholded_relu", alpha: 1, mean: func(x, a, _ float64) float64 { return choose(x > a, x, 0) },
		body: func(x, a, _ loop.Expr) loop.Expr {
			return loop.Choose(less(a, x), x, like(x, 0))
		}, slope: func(g *Gradients, up, x, _ *ir.Value, a, _ float64) *ir.Value {
			return g.choose(g.op(loop.Gt, x, g.number(x, a)), up, nil)
		}},
	{name: "elu", alpha: 1, mean: func(x, a, _ float64) float64 { return choose(x < 0, a*math.Expm1(x), x) },
		body: func(x, a, _ loop.Expr) loop.Expr {
			return loop.Choose(less(x, like(x, 0)), times(a, loop.Apply(loop.Expm1, x)), x)
		}, slope: func(g *Gradients, up, x, y *ir.Value, a, _ float64) *ir.Value {
			return g.choose(g.positive(either(a > 0, y, x)), up, g.mul(up, g.above(y, a)))
		}},
	{name: "selu", alpha: seluAlpha, beta: seluGamma, mean: func(x, a, b float64) float64 {
		return b * choose(x <= 0, a*math.Expm1(x), x)
	},
		body: func(x, a, b loop.Expr) loop.Expr {
			return times(b, loop.Choose(loop.Apply2(loop.Le, x, like(x, 0)), times(a, loop.Apply(loop.Expm1, x)), x))
		}, slope: func(g *Gradients, up, x, y *ir.Value, a, b float64) *ir.Value {
			return g.choose(g.positive(either(a > 0 && b > 0, y, x)), g.times(up, b), g.mul(up, g.above(y, a*b)))
		}},
	{name: "celu", alpha: 1, mean: func(x, a, _ float64) float64 { return max(x, 0) + min(0, a*math.Expm1(x/a)) },
		body: func(x, a, _ loop.Expr) loop.Expr {
			below := times(a, loop.Apply(loop.Expm1, loop.Apply2(loop.Div, x, a)))
			return plus(loop.Apply2(loop.Max, x, like(x, 0)), loop.Apply2(loop.Min, like(x, 0), below))
		}, slope: func(g *Gradients, up, _, y *ir.Value, a, _ float64) *ir.Value {
			return g.choose(g.positive(y), up, g.mul(up, g.above(g.times(y, 1/a), 1)))
		}},
	{name: "hard_sigmoid", own: Def{Light: true, NotNegative: neverNegative}, alpha: 0.2, beta: 0.5, mean: hardSigmoid,
		body: hardSigmoidBody, slope: func(g *Gradients, up, _, y *ir.Value, a, _ float64) *ir.Value {
			return g.choose(g.op(loop.And, g.positive(y), g.op(loop.Lt, y, g.number(y, 1))), g.times(up, a), nil)
		}},
	{name: "hard_swish", own: Def{Light: true}, mean: func(x, _, _ float64) float64 {
		return x * hardSigmoid(x, 1.0/6, 0.5)
	},
		body: func(x, _, _ loop.Expr) loop.Expr {
			return times(x, hardSigmoidBody(x, like(x, 1.0/6), like(x, 0.5)))
		}, slope: func(g *Gradients, up, x, _ *ir.Value, _, _ float64) *ir.Value {
			above, below := g.op(loop.Ge, x, g.number(x, 3)), g.op(loop.Le, x, g.number(x, -3))
			return g.choose(below, nil, g.choose(above, up, g.mul(up, g.above(g.times(x, 1.0/3), 0.5))))
		}},
	{name: "softplus", mean: softplus, body: softplusBody, slope: func(g *Gradients, up, x, _ *ir.Value, _,
		_ float64) *ir.Value {
		return g.mul(up, g.f(loop.Sigmoid, x))
	}},
	{name: "mish", mean: func(x, _, _ float64) float64 { return x * math.Tanh(softplus(x, 0, 0)) },
		body: func(x, a, b loop.Expr) loop.Expr {
			return times(x, loop.Apply(loop.Tanh, softplusBody(x, a, b)))
		}, slope: func(g *Gradients, up, x, _ *ir.Value, _, _ float64) *ir.Value {
			t := g.f(loop.Tanh, Activation(g.Builder, "softplus", x))
			return g.mul(up, g.plus(t, g.mul(g.mul(x, g.f(loop.Sigmoid, x)), g.cosine(t))))
		}},
	{name: "softsign", mean: func(x, _, _ float64) float64 { return x / (1 + math.Abs(x)) },
		body: func(x, _, _ loop.Expr) loop.Expr {
			return loop.Apply2(loop.Div, x, plus(like(x, 1), loop.Apply(loop.Abs, x)))
		}, slope: func(g *Gradients, up, x, _ *ir.Value, _, _ float64) *ir.Value {
			below := g.above(g.f(loop.Abs, x), 1)
			return g.div(up, g.mul(below, below))
		}},
	{name: "gelu", mean: func(x, _, _ float64) float64 { return 0.5 * x * (1 + math.Erf(x/math.Sqrt2)) },
		body: func(x, _, _ loop.Expr) loop.Expr {
			return times(times(like(x, 0.5), x), plus(like(x, 1), loop.Apply(loop.Erf, times(x, like(x, 1/math.Sqrt2)))))
		}, slope: func(g *Gradients, up, x, _ *ir.Value, _, _ float64) *ir.Value {
			area := g.times(g.above(g.f(loop.Erf, g.times(x, 1/math.Sqrt2)), 1), 0.5)
			density := g.times(g.f(loop.Exp, g.times(g.mul(x, x), -0.5)), 1/math.Sqrt(2*math.Pi))
			return g.mul(up, g.plus(area, g.mul(x, density)))
		}},
	{name: "gelu_tanh", mean: func(x, _, _ float64) float64 {
		return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	},
		body: func(x, _, _ loop.Expr) loop.Expr {
			// The order of roundings is that of models that express gelu by separate operators: later operators may be
			// ill-conditioned.
			cubic := plus(x, times(like(x, 0.044715), times(x, times(x, x))))
			return times(times(like(x, 0.5), x), plus(like(x, 1),
				loop.Apply(loop.Tanh, times(like(x, math.Sqrt(2/math.Pi)), cubic))))
		}, slope: func(g *Gradients, up, x, _ *ir.Value, _, _ float64) *ir.Value {
			k, square := math.Sqrt(2/math.Pi), g.mul(x, x)
			t := g.f(loop.Tanh, g.times(g.mul(x, g.above(g.times(square, 0.044715), 1)), k))
			bend := g.mul(g.mul(x, g.cosine(t)), g.times(g.above(g.times(square, 3*0.044715), 1), k/2))
			return g.mul(up, g.plus(g.times(g.above(t, 1), 0.5), bend))
		}},
	{name: "swish", alpha: 1, mean: func(x, a, _ float64) float64 { return x / (1 + math.Exp(-a*x)) },
		body: func(x, a, _ loop.Expr) loop.Expr {
			return times(x, loop.Apply(loop.Sigmoid, times(a, x)))
		}, slope: func(g *Gradients, up, x, _ *ir.Value, a, _ float64) *ir.Value {
			s := g.f(loop.Sigmoid, g.times(x, a))
			return g.mul(up, g.mul(s, g.above(g.mul(g.times(x, a), g.from(1, s)), 1)))
		}},
	{name: "shrink", alpha: 0.5, mean: func(x, a, b float64) float64 { return choose(x < -a, x+b, choose(x > a, x-b, 0)) },
		integer: func(x, a, b int64) int64 { return choose(x < -a, x+b, choose(x > a, x-b, 0)) },
		body: func(x, a, b loop.Expr) loop.Expr {
			above := loop.Choose(less(a, x), loop.Apply2(loop.Sub, x, b), like(x, 0))
			if x.DType().IsUnsigned() {
				return above
			}
			return loop.Choose(less(x, loop.Apply(loop.Neg, a)), plus(x, b), above)
		}, slope: func(g *Gradients, up, x, _ *ir.Value, a, _ float64) *ir.Value {
			outside := g.op(loop.Or, g.op(loop.Gt, x, g.number(x, a)), g.op(loop.Lt, x, g.number(x, -a)))
			return g.choose(outside, up, nil)
		}},
	{name: "scaled_tanh", alpha: 1, beta: 1, mean: func(x, a, b float64) float64 { return a * math.Tanh(b*x) },
		body: func(x, a, b loop.Expr) loop.Expr {
			return times(a, loop.Apply(loop.Tanh, times(b, x)))
		}, slope: func(g *Gradients, up, x, _ *ir.Value, a, b float64) *ir.Value {
			return g.times(g.mul(up, g.cosine(g.f(loop.Tanh, g.times(x, b)))), a*b)
		}},
	{name: "affine", alpha: 1, mean: func(x, a, b float64) float64 { return a*x + b },
		body: func(x, a, b loop.Expr) loop.Expr {
			return plus(times(a, x), b)
		}, slope: func(g *Gradients, up, _, _ *ir.Value, a, _ float64) *ir.Value { return g.times(up, a) }},
}

// hardSigmoid is a·x + b, limited to [0, 1].
func hardSigmoid(x, a, b float64) float64 { return max(0, min(1, a*x+b)) }

// hardSigmoidBody is hardSigmoid as an expression of a kernel.
func hardSigmoidBody(x, a, b loop.Expr) loop.Expr {
	return loop.Apply2(loop.Max, like(x, 0), loop.Apply2(loop.Min, like(x, 1), plus(times(a, x), b)))
}

// softplus is log(1 + exp(x)) without overflow.
func softplus(x, _, _ float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// softplusBody is softplus as an expression of a kernel.
func softplusBody(x, _, _ loop.Expr) loop.Expr {
	small := loop.Apply(loop.Log1p, loop.Apply(loop.Exp, loop.Apply(loop.Neg, loop.Apply(loop.Abs, x))))
	return plus(loop.Apply2(loop.Max, x, like(x, 0)), small)
}

// choose returns x if cond is true, else y.
func choose[T any](cond bool, x, y T) T {
	if cond {
		return x
	}
	return y
}

// like returns a constant of x's element type.
func like(x loop.Expr, number float64) loop.Expr { return loop.Number(x.DType(), number) }

func plus(x, y loop.Expr) loop.Expr  { return loop.Apply2(loop.Add, x, y) }
func minus(x, y loop.Expr) loop.Expr { return loop.Apply2(loop.Sub, x, y) }
func times(x, y loop.Expr) loop.Expr { return loop.Apply2(loop.Mul, x, y) }
func less(x, y loop.Expr) loop.Expr  { return loop.Apply2(loop.Lt, x, y) }

var activations = map[string]*activation{}

// init defines the operators of activationTable.
func init() {
	for i := range activationTable {
		a := &activationTable[i]
		activations[a.name] = a
		define(a.define())
	}
	// Recurrent cells accept these two as well; their operators are defined in the table of unary functions.
	activations["sigmoid"] = &activation{name: "sigmoid", mean: func(x, _, _ float64) float64 {
		return 1 / (1 + math.Exp(-x))
	},
		body: func(x, _, _ loop.Expr) loop.Expr { return loop.Apply(loop.Sigmoid, x) }}
	activations["tanh"] = &activation{name: "tanh", mean: func(x, _, _ float64) float64 { return math.Tanh(x) },
		body: func(x, _, _ loop.Expr) loop.Expr { return loop.Apply(loop.Tanh, x) }}
}

// Activation applies an activation function by its name in activationTable, with the settings that it has by default.
func Activation(b *ir.Builder, name string, x *ir.Value) *ir.Value {
	a := activations[name]
	return ActivationWith(b, name, x, a.alpha, a.beta)
}

// ActivationWith is Activation with the function's settings: leaky_relu, elu, celu, thresholded_relu and swish have
// alpha; hard_sigmoid (slope, shift), selu (alpha, gamma), shrink (threshold, bias), scaled_tanh and affine have both.
func ActivationWith(b *ir.Builder, name string, x *ir.Value, alpha, beta float64) *ir.Value {
	return b.Op(name, ir.Attrs{"alpha": alpha, "beta": beta}, x)
}

// ActivationDefaults returns the settings that a function has by default; ok is false if there is no function of this
// name.
func ActivationDefaults(name string) (alpha, beta float64, ok bool) {
	a := activations[name]
	if a == nil {
		return 0, 0, false
	}
	return a.alpha, a.beta, true
}

// settings returns the node's alpha and beta, or the function's defaults if the node does not have them.
func (a *activation) settings(n *ir.Node) (alpha, beta float64) {
	return n.Attrs.Float("alpha", a.alpha), n.Attrs.Float("beta", a.beta)
}

// define returns the operator of this activation.
func (a *activation) define() *Def {
	return &Def{Op: a.name, Light: a.own.Light, NotNegative: a.own.NotNegative, Elementwise: true,
		Narrow: elementwiseNarrow, rows: elementwiseRows, Shape: a.shape, Mean: a.eval, Grad: a.grad,
		Lowerings: []Lowering{{Name: "map", Build: a.build}}, Samples: a.samples}
}

// shape infers a result of x's type and shape. Elements must be floats, or integers if the function has a form for
// them.
func (a *activation) shape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x := n.Inputs[0].Type
	if !x.DType.IsFloat() && (a.integer == nil || !x.DType.IsInt()) {
		return fault(n, "elements of type %s", x.DType)
	}
	n.Result(0, ir.Type{DType: x.DType, Shape: x.Shape})
	return nil
}

// eval is the reference: floats are computed in 64 bits, integers by the function's form for integers.
func (a *activation) eval(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	alpha, beta := a.settings(n)
	for i := int64(0); i < out.Len(); i++ {
		switch dt := out.DType(); {
		case dt.IsFloat():
			out.SetFloat(i, a.mean(in[0].Float(i), alpha, beta))
		case dt.IsUnsigned():
			// Unsigned elements are never below 0: only the upper half of the function matters.
			out.SetInt(i, a.unsigned(in[0].Int(i), alpha, beta))
		default:
			out.SetInt(i, a.integer(in[0].Int(i), int64(alpha), int64(beta)))
		}
	}
	return []*tensor.Tensor{out}, nil
}

// unsigned applies the function to an unsigned element, given and returned as its bits.
func (a *activation) unsigned(x int64, alpha, beta float64) int64 {
	if x < 0 { // a u64 above the range of i64
		if a.name == "shrink" {
			return x - int64(beta)
		}
		return x
	}
	return a.integer(x, int64(alpha), int64(beta))
}

// build lowers the activation: each iteration loads one element, widens it to the computing type, applies body and
// stores the result.
func (a *activation) build(k *Nest, n *ir.Node) {
	alpha, beta := a.settings(n)
	dt := computing(k.In[0].DType)
	k.Nest(loop.Each, "i", k.Out[0].Shape, func(at []sym.Expr) {
		y := a.body(loop.Convert(dt, k.In[0].Load(at...)), loop.Number(dt, alpha), loop.Number(dt, beta))
		k.Store(k.Out[0], at, loop.Convert(k.Out[0].DType, y))
	})
}

// samples returns test inputs: each element type, default and other settings, an empty axis.
func (a *activation) samples(r *rand.Rand) []Sample {
	attrs := ir.Attrs{"alpha": a.alpha, "beta": a.beta}
	var out []Sample
	for _, dt := range floatTypes {
		out = append(out, Sample{Attrs: attrs, Inputs: []*tensor.Tensor{sampleFloats(r, dt, 3, 5)}})
	}
	if a.integer != nil {
		for _, dt := range integerTypes {
			out = append(out, Sample{Attrs: ir.Attrs{"alpha": 2.0, "beta": 1.0},
				Inputs: []*tensor.Tensor{sampleIntegers(r, dt, 7)}})
		}
	}
	if a.alpha > 0 {
		out = append(out, Sample{Attrs: ir.Attrs{"alpha": 0.7, "beta": 0.3},
			Inputs: []*tensor.Tensor{sampleFloats(r, floatTypes[0], 2, 0, 3)}})
		out = append(out, Sample{Attrs: ir.Attrs{"alpha": 0.7, "beta": 0.3},
			Inputs: []*tensor.Tensor{sampleFloats(r, floatTypes[0], 9)}})
	}
	return out
}

// grad multiplies the result's derivative by the slope of the function.
func (a *activation) grad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	alpha, beta := a.settings(n)
	return []*ir.Value{a.slope(g, up[0], n.Inputs[0], n.Outputs[0], alpha, beta)}
}

// positive reports of each element whether it is above 0.
func (g *Gradients) positive(x *ir.Value) *ir.Value { return g.op(loop.Gt, x, g.number(x, 0)) }

// either returns x if first is true, else y. The sign of an activation's result gives the argument's sign only for some
// settings.
func either(first bool, x, y *ir.Value) *ir.Value {
	if first {
		return x
	}
	return y
}
