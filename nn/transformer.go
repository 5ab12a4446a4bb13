package nn

import (
	"fmt"
	"strconv"

	"github.com/weirml/weir/array"
)

// NormFirst makes a transformer layer normalise each sublayer's input, in place of the sum after the sublayer.
func NormFirst(o *settings) { o.before = true }

// Activation sets the activation between a transformer's two linear layers, or of an RNN. The defaults are Relu and
// Tanh.
func Activation(l Layer) Option { return func(o *settings) { o.activation = l } }

// block implements TransformerEncoderLayer and TransformerDecoderLayer.
type block struct {
	name         string
	self, cross  Layer
	wide, narrow Layer
	norms        []Layer
	activated    Layer
	settings
}

// newBlock makes a transformer layer, with cross-attention if cross is true.
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

// TransformerEncoderLayer is self-attention over x[batch, positions, extent], followed by two linear layers with inner
// elements between them. Each of the two sublayers is added to its input and normalised. A second input is the
// attention's mask. Parameters have PyTorch's names: "self_attn", "linear1", "linear2", "norm1", "norm2".
func TransformerEncoderLayer(extent, heads, inner int, options ...Option) Layer {
	return newBlock("TransformerEncoderLayer", extent, heads, inner, false, options)
}

// TransformerDecoderLayer is TransformerEncoderLayer with causal self-attention and a second attention,
// "multihead_attn", over the second input, which is the encoder's result. A third input is the mask of the second
// attention.
func TransformerDecoderLayer(extent, heads, inner int, options ...Option) Layer {
	return newBlock("TransformerDecoderLayer", extent, heads, inner, true,
		append(options[:len(options):len(options)], Causal))
}

func (l *block) String() string { return l.name }

// Declare declares the attentions, the linear layers and the normalisations.
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

// Apply takes x and an optional mask; with cross-attention, x, the encoder's result and an optional mask.
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

// stack implements Stack.
type stack struct {
	layers []Layer
	norm   Layer
}

// Stack applies layers one after the other. Each layer's result is the first input of the next; all other inputs, as
// masks and an encoder's result, are given to every layer. The layers are named "layers.0" and so on, and the final
// normalisation, which may be nil, "norm", as in PyTorch's TransformerEncoder and TransformerDecoder.
func Stack(norm Layer, layers ...Layer) Layer { return &stack{layers, norm} }

func (l *stack) String() string { return "Stack" }

// Declare declares the layers and the final normalisation.
func (l *stack) Declare(d *Declaration) {
	for i, inner := range l.layers {
		d.Layer("layers."+strconv.Itoa(i), inner)
	}
	if l.norm != nil {
		d.Layer("norm", l.norm)
	}
}

// Apply passes the first input through the layers; each also receives the other inputs.
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
