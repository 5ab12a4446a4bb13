package nn

import (
	"fmt"

	"github.com/weirml/weir/array"
)

// Epsilon is what a normalisation adds to the variance; 1e-5 without it.
func Epsilon(e float64) Option { return func(o *settings) { o.epsilon = e } }

// Momentum is the weight of a batch's statistics among the running ones; 0.1 without it.
func Momentum(m float64) Option { return func(o *settings) { o.momentum = m } }

// NoScale leaves a normalisation's "weight" and "bias" out.
func NoScale(o *settings) { o.plain, o.bias = true, false }

// Scaled gives an instance normalisation a "weight" and a "bias".
func Scaled(o *settings) { o.scaled = true }

// layerNorm is LayerNorm and RMSNorm.
type layerNorm struct {
	shape []int
	rms   bool
	settings
}

// LayerNorm scales the last axis, of so many elements, to mean 0 and variance 1, then multiplies by "weight" and adds "bias".
func LayerNorm(extent int, options ...Option) Layer {
	return &layerNorm{[]int{extent}, false, settingsOf(options)}
}

// LayerNormOver is LayerNorm of the last axes, of these extents, together.
func LayerNormOver(shape []int, options ...Option) Layer {
	return &layerNorm{shape, false, settingsOf(options)}
}

// RMSNorm divides the last axis, of so many elements, by the root of the mean of its squares, then multiplies by "weight".
func RMSNorm(extent int, options ...Option) Layer {
	o := settingsOf(options)
	o.bias = false
	return &layerNorm{[]int{extent}, true, o}
}

func (l *layerNorm) String() string {
	if l.rms {
		return fmt.Sprintf("RMSNorm(%s)", brief(l.shape))
	}
	return fmt.Sprintf("LayerNorm(%s)", brief(l.shape))
}

func (l *layerNorm) Declare(d *Declaration) {
	if !l.plain {
		d.Param("weight", l.dtype, l.initial(Ones()), l.shape...)
	}
	if l.bias {
		d.Param("bias", l.dtype, l.initialBias(Zeros()), l.shape...)
	}
}

func (l *layerNorm) Apply(c *Context, x ...*array.Array) []*array.Array {
	if !c.takes(1, x) {
		return c.dead()
	}
	var axes []int
	for i, e := range l.shape {
		axis := i - len(l.shape)
		if x[0].Rank() < len(l.shape) || x[0].Dim(axis) != e {
			return c.Failf("", "the input is %v; its last axes must be %v", x[0], l.shape)
		}
		axes = append(axes, axis)
	}
	weight, bias := c.scale(&l.settings)
	if l.rms {
		return []*array.Array{c.RMSNorm(x[0], weight, l.epsilon, axes...)}
	}
	return []*array.Array{c.LayerNorm(x[0], weight, bias, l.epsilon, axes...)}
}

// scale is a normalisation's weight and bias, or nil.
func (c *Context) scale(o *settings) (weight, bias *array.Array) {
	if !o.plain {
		weight = c.Param("weight")
	}
	if o.bias {
		bias = c.Param("bias")
	}
	return weight, bias
}

// groupNorm is GroupNorm and InstanceNorm.
type groupNorm struct {
	groups, channels int
	name             string
	settings
}

// GroupNorm scales each group of channels of each image of x[N, channels, d…] to mean 0 and variance 1, then multiplies each
// channel by "weight" and adds "bias".
func GroupNorm(groups, channels int, options ...Option) Layer {
	return &groupNorm{groups, channels, fmt.Sprintf("GroupNorm(%d, %d)", groups, channels), settingsOf(options)}
}

// InstanceNorm scales each channel of each image of x[N, channels, d…] to mean 0 and variance 1; with Scaled it multiplies by
// "weight" and adds "bias".
func InstanceNorm(channels int, options ...Option) Layer {
	o := settingsOf(options)
	if !o.scaled {
		NoScale(&o)
	}
	return &groupNorm{channels, channels, fmt.Sprintf("InstanceNorm(%d)", channels), o}
}

func (l *groupNorm) String() string { return l.name }

func (l *groupNorm) Declare(d *Declaration) {
	if l.groups < 1 || l.channels%l.groups != 0 {
		d.Fail(fmt.Errorf("%v: the channels are no multiple of the groups", l))
	}
	l.declareScale(d, l.channels)
}

func (o *settings) declareScale(d *Declaration, channels int) {
	if !o.plain {
		d.Param("weight", o.dtype, o.initial(Ones()), channels)
	}
	if o.bias {
		d.Param("bias", o.dtype, o.initialBias(Zeros()), channels)
	}
}

func (l *groupNorm) Apply(c *Context, x ...*array.Array) []*array.Array {
	if !c.takes(1, x) || !c.channels(x[0], l.channels) {
		return c.dead()
	}
	weight, bias := c.scale(&l.settings)
	return []*array.Array{c.GroupNorm(x[0], l.groups, weight, bias, l.epsilon)}
}

// channels reports whether axis 1 has so many elements.
func (c *Context) channels(x *array.Array, channels int) bool {
	if x.Rank() < 2 || x.Dim(1) != channels {
		c.Failf("the channels are axis 1; Permute moves them there", "the input is %v; axis 1 must have %d channels", x, channels)
		return false
	}
	return true
}

// batchNorm keeps running statistics.
type batchNorm struct {
	channels int
	settings
}

// BatchNorm scales each channel of x[N, channels, d…] to mean 0 and variance 1, then multiplies by "weight" and adds "bias".
// In training the statistics are the batch's, and the buffers "running_mean" and "running_var" follow them; else they are
// the buffers.
func BatchNorm(channels int, options ...Option) Layer {
	return &batchNorm{channels, settingsOf(options)}
}

func (l *batchNorm) String() string { return fmt.Sprintf("BatchNorm(%d)", l.channels) }

func (l *batchNorm) Declare(d *Declaration) {
	l.declareScale(d, l.channels)
	d.Buffer("running_mean", f32, Zeros(), l.channels)
	d.Buffer("running_var", f32, Ones(), l.channels)
}

func (l *batchNorm) Apply(c *Context, x ...*array.Array) []*array.Array {
	if !c.takes(1, x) || !c.channels(x[0], l.channels) {
		return c.dead()
	}
	mean, variance := c.Buffer("running_mean"), c.Buffer("running_var")
	if c.Training() {
		axes := append([]int{0}, spatial(x[0])...)
		m, v := c.Mean(x[0], axes...), c.Var(x[0], axes...)
		follow := func(old, now *array.Array) *array.Array {
			return c.Add(c.Mul(old, c.Number(1-l.momentum)), c.Mul(c.Cast(now, f32), c.Number(l.momentum)))
		}
		c.Update("running_mean", follow(mean, m))
		c.Update("running_var", follow(variance, c.VarCorrected(x[0], 1, axes...)))
		mean, variance = m, v
	}
	weight, bias := c.scale(&l.settings)
	return []*array.Array{c.BatchNorm(x[0], weight, bias, mean, variance, l.epsilon)}
}
