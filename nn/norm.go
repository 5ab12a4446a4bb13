package nn

import (
	"fmt"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// Epsilon sets the number that a normalisation adds to the variance. The default is 1e-5.
func Epsilon(e float64) Option { return func(o *settings) { o.epsilon = e } }

// Momentum sets the weight of a batch's statistics in the update of the running statistics. The default is 0.1.
func Momentum(m float64) Option { return func(o *settings) { o.momentum = m } }

// NoScale omits a normalisation's "weight" and "bias".
func NoScale(o *settings) { o.plain, o.bias = true, false }

// Scaled adds "weight" and "bias" to an instance normalisation.
func Scaled(o *settings) { o.scaled = true }

// layerNorm implements LayerNorm, LayerNormOver and RMSNorm.
type layerNorm struct {
	shape []int
	rms   bool
	settings
}

// LayerNorm normalises the last axis, of extent elements, to mean 0 and variance 1, then multiplies by "weight" and
// adds "bias".
func LayerNorm(extent int, options ...Option) Layer {
	return &layerNorm{[]int{extent}, false, settingsOf(options)}
}

// LayerNormOver is LayerNorm over the last axes together, whose extents are shape.
func LayerNormOver(shape []int, options ...Option) Layer {
	return &layerNorm{shape, false, settingsOf(options)}
}

// RMSNorm divides the last axis, of extent elements, by the root of the mean of its squares, then multiplies by
// "weight".
func RMSNorm(extent int, options ...Option) Layer {
	o := settingsOf(options)
	o.bias = false
	return &layerNorm{[]int{extent}, true, o}
}

// String returns the constructor's call, for errors.
func (l *layerNorm) String() string {
	if l.rms {
		return fmt.Sprintf("RMSNorm(%s)", brief(l.shape))
	}
	return fmt.Sprintf("LayerNorm(%s)", brief(l.shape))
}

// Declare declares a scale of ones and, unless the layer is RMSNorm, a bias of zeros.
func (l *layerNorm) Declare(d *Declaration) {
	if !l.plain {
		d.Param("weight", l.dtype, l.initial(Ones()), l.shape...)
	}
	if l.bias {
		d.Param("bias", l.dtype, l.initialBias(Zeros()), l.shape...)
	}
}

// Apply takes and returns an array whose last axes have the layer's shape.
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

// scale returns a normalisation's weight and bias; nil for a parameter that the settings omit.
func (c *Context) scale(o *settings) (weight, bias *array.Array) {
	if !o.plain {
		weight = c.Param("weight")
	}
	if o.bias {
		bias = c.Param("bias")
	}
	return weight, bias
}

// groupNorm implements GroupNorm and InstanceNorm.
type groupNorm struct {
	groups, channels int
	name             string
	settings
}

// GroupNorm normalises each group of channels of each sample of x[N, channels, d…] to mean 0 and variance 1, then
// multiplies each channel by "weight" and adds "bias".
func GroupNorm(groups, channels int, options ...Option) Layer {
	return &groupNorm{groups, channels, fmt.Sprintf("GroupNorm(%d, %d)", groups, channels), settingsOf(options)}
}

// InstanceNorm normalises each channel of each sample of x[N, channels, d…] to mean 0 and variance 1; with Scaled it
// also multiplies by "weight" and adds "bias".
func InstanceNorm(channels int, options ...Option) Layer {
	o := settingsOf(options)
	if !o.scaled {
		NoScale(&o)
	}
	return &groupNorm{channels, channels, fmt.Sprintf("InstanceNorm(%d)", channels), o}
}

func (l *groupNorm) String() string { return l.name }

// Declare declares the scale and the bias; it fails if the groups do not divide the channels.
func (l *groupNorm) Declare(d *Declaration) {
	if l.groups < 1 || l.channels%l.groups != 0 {
		d.Fail(fmt.Errorf("%v: the channels are no multiple of the groups", l))
	}
	l.declareScale(d, l.channels)
}

// declareScale declares a weight and a bias with one element per channel, unless the settings omit them.
func (o *settings) declareScale(d *Declaration, channels int) {
	if !o.plain {
		d.Param("weight", o.dtype, o.initial(Ones()), channels)
	}
	if o.bias {
		d.Param("bias", o.dtype, o.initialBias(Zeros()), channels)
	}
}

// Apply takes and returns x[N, channels, d…].
func (l *groupNorm) Apply(c *Context, x ...*array.Array) []*array.Array {
	if !c.takes(1, x) || !c.channels(x[0], l.channels) {
		return c.dead()
	}
	weight, bias := c.scale(&l.settings)
	return []*array.Array{c.GroupNorm(x[0], l.groups, weight, bias, l.epsilon)}
}

// channels reports whether axis 1 has the given number of elements; another number is an error.
func (c *Context) channels(x *array.Array, channels int) bool {
	if x.Rank() < 2 || x.Dim(1) != channels {
		c.Failf("the channels are axis 1; Permute moves them there", "the input is %v; axis 1 must have %d channels", x,
			channels)
		return false
	}
	return true
}

// batchNorm implements BatchNorm.
type batchNorm struct {
	channels int
	settings
}

// BatchNorm normalises each channel of x[N, channels, d…] to mean 0 and variance 1, then multiplies by "weight" and
// adds "bias". In training it uses the batch's statistics and updates the buffers "running_mean" and "running_var";
// otherwise it uses the buffers.
func BatchNorm(channels int, options ...Option) Layer {
	return &batchNorm{channels, settingsOf(options)}
}

func (l *batchNorm) String() string { return fmt.Sprintf("BatchNorm(%d)", l.channels) }

// Declare declares the scale, the bias and the running statistics.
func (l *batchNorm) Declare(d *Declaration) {
	l.declareScale(d, l.channels)
	d.Buffer("running_mean", f32, Zeros(), l.channels)
	d.Buffer("running_var", f32, Ones(), l.channels)
}

// Apply takes and returns x[N, channels, d…]; in training it updates the running statistics.
func (l *batchNorm) Apply(c *Context, x ...*array.Array) []*array.Array {
	if !c.takes(1, x) || !c.channels(x[0], l.channels) {
		return c.dead()
	}
	mean, variance := c.Buffer("running_mean"), c.Buffer("running_var")
	weight, bias := c.scale(&l.settings)
	if !c.Training() {
		return []*array.Array{c.BatchNorm(x[0], weight, bias, mean, variance, l.epsilon)}
	}
	n := &batchStatistics{axes: append([]int{0}, spatial(x[0])...), epsilon: l.epsilon, scaled: weight != nil,
		shifted: bias != nil}
	in := []*array.Array{x[0]}
	for _, a := range []*array.Array{weight, bias} {
		if a != nil {
			in = append(in, a)
		}
	}
	out := array.Custom(n.apply, n.back)(c.Scope, in...)
	follow := func(old, now *array.Array) *array.Array {
		return c.Add(c.Mul(old, c.Number(1-l.momentum)), c.Mul(c.Cast(now, f32), c.Number(l.momentum)))
	}
	c.Update("running_mean", follow(mean, out[1]))
	c.Update("running_var", follow(variance, c.VarCorrected(x[0], 1, n.axes...)))
	return out[:1]
}

// batchStatistics normalises a batch by its own statistics. Its derivative reads the batch three times: for two sums
// per channel, and for the result. Derivatives of mean and variance written out as operations would need one sum for
// each use.
type batchStatistics struct {
	axes            []int
	epsilon         float64
	scaled, shifted bool
}

// apply takes x and, if they exist, the scale and the shift, [C]. It returns the result, the mean and the variance.
func (n *batchStatistics) apply(s *array.Scope, in ...*array.Array) []*array.Array {
	scale, shift := n.affine(in)
	mean, variance := s.Reshape(s.MeanKeep(in[0], n.axes...), in[0].Dim(1)), s.Var(in[0], n.axes...)
	return []*array.Array{s.BatchNorm(in[0], scale, shift, mean, variance, n.epsilon), mean, variance}
}

// affine returns the scale and the shift among the inputs; nil if they do not exist.
func (n *batchStatistics) affine(in []*array.Array) (scale, shift *array.Array) {
	if n.scaled {
		scale = in[1]
	}
	if n.shifted {
		shift = in[len(in)-1]
	}
	return scale, shift
}

// back returns the derivatives by apply's inputs, computed in f32 or a wider type.
func (n *batchStatistics) back(s *array.Scope, in, out, up []*array.Array) []*array.Array {
	dt := in[0].DType()
	if dt == weir.F16 || dt == weir.BF16 {
		dt = weir.F32
	}
	b := &batchBack{batchStatistics: n, Scope: s, x: s.Cast(in[0], dt), grads: make([]*array.Array, len(in))}
	b.mean, b.count = b.along(out[1]), b.elements()
	if up[0] != nil {
		scale, _ := n.affine(in)
		b.byResult(s.Cast(up[0], dt), out[2], scale)
	}
	if up[1] != nil {
		b.add(s.Mul(s.OnesLike(b.x), s.Div(b.along(up[1]), b.count)))
	}
	if up[2] != nil {
		b.add(s.Mul(b.far(), s.Div(s.Mul(b.along(up[2]), s.Number(2)), b.count)))
	}
	for i, grad := range b.grads {
		if grad != nil {
			b.grads[i] = s.Cast(grad, in[i].DType())
		}
	}
	return b.grads
}

// batchBack builds the derivatives of batchStatistics.
type batchBack struct {
	*batchStatistics
	*array.Scope
	x, mean, count *array.Array // count: the number of elements in a channel
	grads          []*array.Array
}

// far returns x minus the mean. It is written differently from the forward pass and from byResult's sum on purpose:
// otherwise all three would be one common value, which would be stored, and reading it takes longer than computing it.
func (b *batchBack) far() *array.Array { return b.Add(b.x, b.Neg(b.mean)) }

// along reshapes one number per channel so that it broadcasts to x.
func (b *batchBack) along(a *array.Array) *array.Array {
	shape := make([]int, b.x.Rank())
	for i := range shape {
		shape[i] = 1
	}
	shape[1] = b.x.Dim(1)
	return b.Reshape(b.Cast(a, b.x.DType()), shape...)
}

// elements returns the number of elements in a channel, at least 1, in x's type.
func (b *batchBack) elements() *array.Array {
	fixed, count := 1, b.Ones(weir.I64)
	for _, axis := range b.axes {
		if extent := b.x.Dim(axis); extent >= 0 {
			fixed *= extent
		} else {
			count = b.Mul(count, b.Sum(b.Ones(weir.I64, extent)))
		}
	}
	count = b.Maximum(b.Mul(count, b.Full(float64(fixed), weir.I64)), b.Ones(weir.I64))
	return b.Cast(count, b.x.DType())
}

// byResult adds the derivatives that flow through the normalised result.
func (b *batchBack) byResult(up, variance, scale *array.Array) {
	spread := b.along(b.Rsqrt(b.Add(b.Cast(variance, b.x.DType()), b.Number(b.epsilon))))
	sum := b.SumKeep(up, b.axes...)
	product := b.Neg(b.SumKeep(b.Mul(b.Mul(up, b.Sub(b.mean, b.x)), spread), b.axes...))
	channels, factor := b.x.Dim(1), spread
	if b.shifted {
		b.grads[len(b.grads)-1] = b.Reshape(sum, channels)
	}
	if b.scaled {
		b.grads[1] = b.Reshape(product, channels)
		factor = b.Mul(spread, b.along(scale))
	}
	rest := b.Mul(b.Sub(up, b.Div(sum, b.count)), factor)
	b.add(b.Sub(rest, b.Mul(b.far(), b.Mul(b.Mul(factor, spread), b.Div(product, b.count)))))
}

// add adds a term to the derivative by x.
func (b *batchBack) add(part *array.Array) {
	if b.grads[0] != nil {
		part = b.Add(b.grads[0], part)
	}
	b.grads[0] = part
}
