package nn

import (
	"fmt"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// Option is a setting of a layer.
type Option func(o *settings)

// settings are the values of all options; each layer reads the settings that concern it.
type settings struct {
	bias         bool
	weight, zero *Initializer
	dtype        weir.DType

	strides, padding, dilations, kernel, output []int // of windows
	groups                                      int
	ceil, unpadded                              bool

	epsilon, momentum float64 // of normalisations
	plain, scaled     bool

	count      int // of layers in a recurrent one
	both       bool
	causal     bool
	heads      int // of keys
	rate       float64
	before     bool // normalisation before each sublayer
	activation Layer
}

// settingsOf applies options to the defaults.
func settingsOf(options []Option) settings {
	o := settings{bias: true, dtype: weir.F32, epsilon: 1e-5, momentum: 0.1, count: 1}
	for _, option := range options {
		option(&o)
	}
	return o
}

// initial returns the weights' initialiser: the option's, else the default.
func (o *settings) initial(or Initializer) Initializer {
	if o.weight != nil {
		return *o.weight
	}
	return or
}

// initialBias returns the bias's initialiser: the option's, else the default.
func (o *settings) initialBias(or Initializer) Initializer {
	if o.zero != nil {
		return *o.zero
	}
	return or
}

// NoBias omits a layer's bias.
func NoBias(o *settings) { o.bias = false }

// Weights sets the initialiser of a layer's weights. The default is PyTorch's.
func Weights(i Initializer) Option { return func(o *settings) { o.weight = &i } }

// Biases sets the initialiser of a layer's bias. The default is PyTorch's.
func Biases(i Initializer) Option { return func(o *settings) { o.zero = &i } }

// Type sets the element type of a layer's parameters. The default is f32.
func Type(dt weir.DType) Option { return func(o *settings) { o.dtype = dt } }

// linear is y = x·W + b over the last axis.
type linear struct {
	in, out int
	settings
}

// Linear multiplies the last axis, of in elements, by a matrix and adds a bias. Parameters: "weight", [out, in] in
// files, and "bias", [out].
func Linear(in, out int, options ...Option) Layer {
	return &linear{in, out, settingsOf(options)}
}

func (l *linear) String() string { return fmt.Sprintf("Linear(%d, %d)", l.in, l.out) }

// Declare declares the weight and the bias, drawn uniformly within ±1/√in.
func (l *linear) Declare(d *Declaration) {
	d.Transposed("weight", l.dtype, l.initial(byFan()), l.out, l.in)
	if l.bias {
		d.Param("bias", l.dtype, l.initialBias(within(float64(l.in))), l.out)
	}
}

// Apply takes x[…, in] and returns […, out].
func (l *linear) Apply(c *Context, x ...*array.Array) []*array.Array {
	if !c.takes(1, x) {
		return c.dead()
	}
	if x[0].Rank() == 0 || x[0].Dim(-1) != l.in {
		return c.Failf(fmt.Sprintf("nn.Linear(%d, %d), or another input", x[0].Dim(-1), l.out),
			"the input is %v; its last axis must have %d elements", x[0], l.in)
	}
	y := c.MatMul(x[0], c.Param("weight"))
	if l.bias {
		y = c.Add(y, c.Param("bias"))
	}
	return []*array.Array{y}
}

// dead returns the results of a layer that failed.
func (c *Context) dead() []*array.Array { return []*array.Array{c.Dead()} }
