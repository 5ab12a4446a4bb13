package nn

import (
	"fmt"

	"github.com/weirml/weir/array"
)

// Activations: layers without parameters.
var (
	// Relu is max(x, 0).
	Relu = named("Relu", func(c *Context, x *array.Array) *array.Array { return c.Scope.Relu(x) })
	// Relu6 is min(Relu(x), 6).
	Relu6 = named("Relu6", func(c *Context, x *array.Array) *array.Array { return c.Scope.Relu6(x) })
	// Sigmoid is 1 / (1 + e⁻ˣ).
	Sigmoid = named("Sigmoid", func(c *Context, x *array.Array) *array.Array { return c.Scope.Sigmoid(x) })
	// LogSigmoid is the logarithm of Sigmoid.
	LogSigmoid = named("LogSigmoid", func(c *Context, x *array.Array) *array.Array { return c.Scope.LogSigmoid(x) })
	// Tanh is the hyperbolic tangent.
	Tanh = named("Tanh", func(c *Context, x *array.Array) *array.Array { return c.Scope.Tanh(x) })
	// Silu is x · Sigmoid(x).
	Silu = named("Silu", func(c *Context, x *array.Array) *array.Array { return c.Scope.Silu(x) })
	// Gelu is x · Φ(x), where Φ is the normal distribution's cumulative function.
	Gelu = named("Gelu", func(c *Context, x *array.Array) *array.Array { return c.Scope.Gelu(x) })
	// GeluTanh is the approximation of Gelu by Tanh.
	GeluTanh = named("GeluTanh", func(c *Context, x *array.Array) *array.Array { return c.Scope.GeluTanh(x) })
	// Softplus is log(1 + eˣ).
	Softplus = named("Softplus", func(c *Context, x *array.Array) *array.Array { return c.Scope.Softplus(x) })
	// Softsign is x / (1 + |x|).
	Softsign = named("Softsign", func(c *Context, x *array.Array) *array.Array { return c.Scope.Softsign(x) })
	// Mish is x · tanh(Softplus(x)).
	Mish = named("Mish", func(c *Context, x *array.Array) *array.Array { return c.Scope.Mish(x) })
	// Selu is scaled Elu, with the constants that keep mean and variance.
	Selu = named("Selu", func(c *Context, x *array.Array) *array.Array { return c.Scope.Selu(x) })
	// HardSigmoid is x/6 + 1/2, limited to [0, 1].
	HardSigmoid = named("HardSigmoid", func(c *Context, x *array.Array) *array.Array { return c.Scope.HardSigmoid(x) })
	// HardSwish is x · HardSigmoid(x).
	HardSwish = named("HardSwish", func(c *Context, x *array.Array) *array.Array { return c.Scope.HardSwish(x) })
	// Identity returns its input.
	Identity = named("Identity", func(c *Context, x *array.Array) *array.Array { return x })
)

// Elu is x above 0, and alpha · (eˣ − 1) below 0.
func Elu(alpha float64) Layer {
	return named(fmt.Sprintf("Elu(%v)", alpha), func(c *Context, x *array.Array) *array.Array {
		return c.Scope.Elu(x, alpha)
	})
}

// Celu is x above 0, and alpha · (e^(x/alpha) − 1) below 0.
func Celu(alpha float64) Layer {
	return named(fmt.Sprintf("Celu(%v)", alpha), func(c *Context, x *array.Array) *array.Array {
		return c.Scope.Celu(x, alpha)
	})
}

// LeakyRelu is x above 0, and slope · x below 0.
func LeakyRelu(slope float64) Layer {
	return named(fmt.Sprintf("LeakyRelu(%v)", slope), func(c *Context, x *array.Array) *array.Array {
		return c.Scope.LeakyRelu(x, slope)
	})
}

// Softmax is the exponentials along an axis, divided by their sum.
func Softmax(axis int) Layer {
	return named(fmt.Sprintf("Softmax(%d)", axis), func(c *Context, x *array.Array) *array.Array {
		return c.Scope.Softmax(x, axis)
	})
}

// LogSoftmax is the logarithm of Softmax.
func LogSoftmax(axis int) Layer {
	return named(fmt.Sprintf("LogSoftmax(%d)", axis), func(c *Context, x *array.Array) *array.Array {
		return c.Scope.LogSoftmax(x, axis)
	})
}

// GLU splits an axis into halves, and multiplies the first half by Sigmoid of the second.
func GLU(axis int) Layer {
	return named(fmt.Sprintf("GLU(%d)", axis), func(c *Context, x *array.Array) *array.Array {
		n := x.Dim(axis)
		if n < 2 || n%2 != 0 {
			return c.Failf("", "axis %d of %v cannot be halved", axis, x)[0]
		}
		halves := c.Split(x, axis, n/2, n/2)
		return c.Mul(halves[0], c.Scope.Sigmoid(halves[1]))
	})
}

// prelu is LeakyRelu with learnt slopes.
type prelu struct {
	count int
	settings
}

// PRelu is LeakyRelu with learnt slopes. Parameter "weight" has count elements: one slope for all channels, or, with
// count above 1, one for each channel of x[N, count, d…].
func PRelu(count int, options ...Option) Layer { return &prelu{max(count, 1), settingsOf(options)} }

func (l *prelu) String() string { return fmt.Sprintf("PRelu(%d)", l.count) }

// Declare declares the slopes, initially 0.25.
func (l *prelu) Declare(d *Declaration) {
	d.Param("weight", l.dtype, l.initial(Constant(0.25)), l.count)
}

// Apply takes and returns x[N, count, d…], or an array of any shape if there is one slope.
func (l *prelu) Apply(c *Context, x ...*array.Array) []*array.Array {
	if !c.takes(1, x) || l.count > 1 && !c.channels(x[0], l.count) {
		return c.dead()
	}
	w := c.Param("weight")
	if l.count > 1 {
		shape := make([]int, x[0].Rank()-1)
		for i := range shape {
			shape[i] = 1
		}
		shape[0] = l.count
		w = c.Reshape(w, shape...)
	}
	return []*array.Array{c.PRelu(x[0], w)}
}
