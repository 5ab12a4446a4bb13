package pass

import (
	"math"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// Activations recognises functions of one element that a model spells out: Sigmoid, SiLU and its relatives, GELU by the
// error function and by tanh, Mish, Softplus, the hard functions, ReLU. The recognised function does not overflow, even
// if an exp of its spelling does.
func Activations(m *ir.Module) error { return apply(m, activations) }

var activations = []rule{
	{"relu", []string{"max"}, found(both("max", the("x"), constant(is(0))), activation("relu"))},
	{"sigmoid", []string{"reciprocal", "div"}, found(inverse(sum(is(1), op("exp", product(is(-1), the("x"))))),
		func(b *ir.Builder, m *match) *ir.Value {
			return ops.Unary(b, ops.Sigmoid, m.value("x"))
		})},
	{"swish", []string{"mul"}, found(product(is(1), the("x"), op("sigmoid", product(let("alpha"), the("x")))), swish(1))},
	{"swish by exp", []string{"div"}, found(op("div", the("x"), sum(is(1), op("exp", product(let("alpha"), the("x"))))),
		swish(-1))},
	{"gelu", []string{"mul", "div"}, found(product(is(0.5), the("x"), sum(is(1), ofErf)), activation("gelu"))},
	{"gelu by halves", []string{"mul"}, found(product(is(1), the("x"), sum(is(0.5), product(is(0.5), ofErf))),
		activation("gelu"))},
	{"gelu_tanh", []string{"mul", "div"}, found(product(is(0.5), the("x"), sum(is(1), op("tanh", cubic(1)))),
		activation("gelu_tanh"))},
	{"gelu_tanh by sigmoid", []string{"mul"}, found(product(is(1), the("x"), op("sigmoid", cubic(2))),
		activation("gelu_tanh"))},
	{"softplus", []string{"log", "log1p"},
		found(either(op("log", sum(is(1), op("exp", the("x")))), op("log1p", op("exp", the("x")))), activation("softplus"))},
	{"mish", []string{"mul"}, found(product(is(1), the("x"), op("tanh", op("softplus", the("x")))), activation("mish"))},
	{"hard_sigmoid", []string{"min", "max", "relu"}, found(within(1, sum(let("beta"), product(let("alpha"), the("x")))),
		hardSigmoid(1))},
	{"hard_sigmoid of six", []string{"mul", "div"},
		found(product(is(1.0/6), within(6, sum(let("beta"), product(let("alpha"), the("x"))))), hardSigmoid(6))},
	{"hard_swish", []string{"mul", "div"}, found(product(is(1.0/6), the("x"), within(6, sum(is(3), the("x")))),
		activation("hard_swish"))},
	{"hard_swish by hard_sigmoid", []string{"mul"},
		found(product(is(1), the("x"), where(op("hard_sigmoid", the("x")), func(_ *match, v *ir.Value) bool {
			return near(v.Type.DType, v.Node.Attrs.Float("alpha", 0), 1.0/6) && near(v.Type.DType, v.Node.Attrs.Float("beta", 0),
				0.5)
		})), activation("hard_swish"))},
}

// ofErf is erf(x / √2).
var ofErf = op("erf", product(is(1/math.Sqrt2), the("x")))

// cubic matches by · √(2/π) · (x + 0.044715 · x³) in its usual spellings.
func cubic(by float64) pattern {
	const third = 0.044715
	root := by * math.Sqrt(2/math.Pi)
	x := the("x")
	return either(
		product(is(root), sum(is(0), x, product(is(third), x, x, x))),
		product(is(root), x, sum(is(1), product(is(third), x, x))),
		sum(is(0), product(is(root), x), product(is(root*third), x, x, x)))
}

// inverse matches 1 / p.
func inverse(p pattern) pattern { return either(op("reciprocal", p), op("div", constant(is(1)), p)) }

// within matches p clamped to [0, most].
func within(most float64, p pattern) pattern {
	low := func(p pattern) pattern { return either(op("relu", p), both("max", p, constant(is(0)))) }
	high := func(p pattern) pattern { return both("min", p, constant(is(most))) }
	return either(high(low(p)), low(high(p)))
}

// activation builds an activation function of x with its default settings.
func activation(name string) func(*ir.Builder, *match) *ir.Value {
	return func(b *ir.Builder, m *match) *ir.Value { return ops.Activation(b, name, m.value("x")) }
}

// swish builds x · sigmoid(sign · α·x).
func swish(sign float64) func(*ir.Builder, *match) *ir.Value {
	return func(b *ir.Builder, m *match) *ir.Value {
		_, beta, _ := ops.ActivationDefaults("swish")
		return ops.ActivationWith(b, "swish", m.value("x"), sign*m.number("alpha"), beta)
	}
}

// hardSigmoid builds min(1, max(0, α·x + β)) from a match of most times that function.
func hardSigmoid(most float64) func(*ir.Builder, *match) *ir.Value {
	return func(b *ir.Builder, m *match) *ir.Value {
		alpha, beta := m.number("alpha")/most, m.number("beta")/most
		if alpha == 1 && beta == 0 {
			return nil // two bounds alone are no function of their own
		}
		return ops.ActivationWith(b, "hard_sigmoid", m.value("x"), alpha, beta)
	}
}
