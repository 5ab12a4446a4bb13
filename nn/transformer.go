package nn

import (
	"fmt"
	"strconv"

	"github.com/weirml/weir/array"
)

// NormFirst has a transformer's layer normalise the input of each part, instead of the sum after it.
func NormFirst(o *settings) { o.before = true }

// Activation is what stands between two layers, Relu without it.
func Activation(l Layer) Option { return func(o *settings) { o.activation = l } }

// block is a layer of a transformer.
type block struct {
	name         string
	self, cross  Layer
	wide, narrow Layer
	norms        []Layer
	activated    Layer
	settings
}

func newBlock(name string, extent, heads, inner int, cross bool, options []Option) *block {
	o := settingsOf(options)
	b := &block{name: fmt.Sprintf("%s(%d, %d, %d)", name, extent, heads, inner), settings: o}
	b.self = MultiHeadAttention(extent, heads, options...)
	if cross {
		b.cross = MultiHeadAttention(extent, heads, append(options[:len(options):len(options)], func(o *settings) {
			o.causal = false
		})...)
	}
	b.wide, b.narrow = Linear(extent, inner, options...), Linear(inner, extent, options...)
	b.activated = o.activation
	if b.activated == nil {
		b.activated = Relu
	}
	norms := 2
	if cross {
		norms = 3
	}
	for range norms {
		b.norms = append(b.norms, &layerNorm{[]int{extent}, false,
			settings{bias: o.bias, dtype: o.dtype, epsilon: o.epsilon}})
	}
	return b
}

// TransformerEncoderLayer is attention over x[batch, positions, extent] and a pair of linear layers with inner elements
// between them, each added to its input and normalised. A second input is attention's mask. Parameters are called as
// PyTorch's: "self_attn", "linear1", "linear2", "norm1", "norm2".
func TransformerEncoderLayer(extent, heads, inner int, options ...Option) Layer {
	return newBlock("TransformerEncoderLayer", extent, heads, inner, false, options)
}

// TransformerDecoderLayer is TransformerEncoderLayer with a second attention, "multihead_attn", over the second input,
// the encoder's result; its own attention is causal. A third input is the mask of the second attention.
func TransformerDecoderLayer(extent, heads, inner int, options ...Option) Layer {
	return newBlock("TransformerDecoderLayer", extent, heads, inner, true,
		append(options[:len(options):len(options)], Causal))
}

func (l *block) String() string { return l.name }

func (l *block) Declare(d *Declaration) {
	d.Layer("self_attn", l.self)
	if l.cross != nil {
		d.Layer("multihead_attn", l.cross)
	}
	d.Layer("linear1", l.wide)
	d.Layer("linear2", l.narrow)
	for i, n := range l.norms {
		d.Layer("norm"+strconv.Itoa(i+1), n)
	}
}

func (l *block) Apply(c *Context, x ...*array.Array) []*array.Array {
	least, most := 1, 2
	if l.cross != nil {
		least, most = 2, 3
	}
	if len(x) < least || len(x) > most {
		return c.Failf("", "%d inputs are given, the layer takes %d or %d", len(x), least, most)
	}
	y, norm := x[0], 0
	part := func(f func(y *array.Array) *array.Array) {
		name := "norm" + strconv.Itoa(norm+1)
		n := l.norms[norm]
		norm++
		if l.before {
			y = c.Add(y, drop(c, f(c.One(name, n, y)), l.rate))
		} else {
			y = c.One(name, n, c.Add(y, drop(c, f(y), l.rate)))
		}
	}
	part(func(y *array.Array) *array.Array {
		in := []*array.Array{y}
		if l.cross == nil {
			in = append(in, x[1:]...)
		}
		return c.One("self_attn", l.self, in...)
	})
	if l.cross != nil {
		part(func(y *array.Array) *array.Array {
			in := append([]*array.Array{y, x[1], x[1]}, x[2:]...)
			return c.One("multihead_attn", l.cross, in...)
		})
	}
	part(func(y *array.Array) *array.Array {
		h := c.One("activation", l.activated, c.One("linear1", l.wide, y))
		return c.One("linear2", l.narrow, drop(c, h, l.rate))
	})
	return []*array.Array{y}
}

// stack is layers on each other that share what comes after their first input.
type stack struct {
	layers []Layer
	norm   Layer
}

// Stack applies layers one after the other: the first input becomes the layer's result, the others, as masks and an
// encoder's result, are given to each. The layers are called "layers.0" and so on, and the norm after them, which may
// be nil, "norm": as PyTorch's TransformerEncoder and TransformerDecoder are.
func Stack(norm Layer, layers ...Layer) Layer { return &stack{layers, norm} }

func (l *stack) String() string { return "Stack" }

func (l *stack) Declare(d *Declaration) {
	for i, inner := range l.layers {
		d.Layer("layers."+strconv.Itoa(i), inner)
	}
	if l.norm != nil {
		d.Layer("norm", l.norm)
	}
}

func (l *stack) Apply(c *Context, x ...*array.Array) []*array.Array {
	if len(x) == 0 {
		return c.Failf("", "no input is given")
	}
	y := x[0]
	for i, inner := range l.layers {
		y = c.One("layers."+strconv.Itoa(i), inner, append([]*array.Array{y}, x[1:]...)...)
	}
	if l.norm != nil {
		y = c.One("norm", l.norm, y)
	}
	return []*array.Array{y}
}
