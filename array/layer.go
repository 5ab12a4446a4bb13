package array

import (
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// Window is the geometry of a convolution or a pooling, with one number for each spatial axis, which are the axes after
// batch and channels. Nil stands for 1, or for 0 in Padding and Output; Groups of 0 is 1.
type Window struct {
	Strides, Dilations []int
	Padding            [][2]int // before and after each axis
	Output             []int    // of ConvTranspose: positions added to the result
	Groups             int      // of convolutions: the number of groups of channels, each with its own filters
	Ceil               bool     // of pools: the last window may extend beyond the end
	Padded             bool     // of AvgPool: the padding counts as zeros
}

// ints returns the numbers that determine the code.
func (w Window) ints(kernel []int) []int {
	out := []int{len(w.Strides), len(w.Dilations), len(w.Padding), len(w.Output), w.Groups, flag(w.Ceil), flag(w.Padded)}
	out = slices.Concat(out, kernel, w.Strides, w.Dilations, w.Output)
	for _, p := range w.Padding {
		out = append(out, p[:]...)
	}
	return out
}

// window converts the geometry for package ops.
func (w Window) window(kernel []int) (ops.Window, error) {
	var out ops.Window
	n := len(kernel)
	for _, list := range []struct {
		what   string
		length int
	}{{"strides", len(w.Strides)}, {"dilations", len(w.Dilations)}, {"paddings", len(w.Padding)},
		{"extents of output", len(w.Output)}} {
		if list.length != 0 && list.length != n {
			return out, diag.Inputf("%d %s for %d spatial axes", list.length, list.what, n)
		}
	}
	number := func(list []int, i int) int64 {
		if len(list) == 0 {
			return 1
		}
		return int64(list[i])
	}
	for i, k := range kernel {
		begin, end := 0, 0
		if len(w.Padding) > 0 {
			begin, end = w.Padding[i][0], w.Padding[i][1]
		}
		if len(w.Output) > 0 {
			end -= w.Output[i]
		}
		stride, dilation := number(w.Strides, i), number(w.Dilations, i)
		if k < 1 || stride < 1 || dilation < 1 {
			return out, diag.Inputf("a window of %d, in steps of %d, dilated by %d", k, stride, dilation)
		}
		out.Kernel, out.Strides, out.Dilations = append(out.Kernel, int64(k)), append(out.Strides, stride),
			append(out.Dilations, dilation)
		out.Begin, out.End = append(out.Begin, sym.Const(int64(begin))), append(out.End, sym.Const(int64(end)))
	}
	return out, nil
}

// Conv is the convolution of x[N, I, d…], with 1 to 3 spatial axes, with filters w[O, I/groups, k…]: [N, O, …]. The
// bias, [O], may be nil. All operands have the same float type.
func (s *Scope) Conv(x, w, bias *Array, o Window) *Array {
	return s.convolved("conv", x, w, bias, o, ops.Convolution)
}

// ConvTranspose is the transposed convolution of x[N, I, d…] with filters w[I, O/groups, k…]: [N, O, …]. It is the
// derivative of Conv. The bias, [O], may be nil.
func (s *Scope) ConvTranspose(x, w, bias *Array, o Window) *Array {
	return s.convolved("conv_transpose", x, w, bias, o, ops.ConvolutionTranspose)
}

// convolved applies one of the convolutions of package ops.
func (s *Scope) convolved(name string, x, w, bias *Array, o Window,
	f func(b *ir.Builder, x, w, bias *ir.Value, window ops.Window, groups int64) *ir.Value) *Array {
	in := []*Array{x, w}
	if bias != nil {
		in = append(in, bias)
	}
	return s.plan(name, in, func() ([]int, builder, error) {
		if len(x.shape) < 3 || len(x.shape) != len(w.shape) {
			return nil, nil, diag.Inputf("%v with filters %v: both need a rank from 3 on, the same", x, w)
		}
		kernel := w.shape[2:]
		if !isFixed(kernel) {
			return nil, nil, diag.Inputf("filters %v, whose window is named", w)
		}
		window, err := o.window(kernel)
		return o.ints(kernel), func(b *ir.Builder, v []*ir.Value) *ir.Value {
			v = append(v, nil)
			return f(b, v[0], v[1], v[2], window, int64(max(o.Groups, 1)))
		}, err
	})
}

// MaxPool is the greatest element in each window of x[N, C, d…]. Nil Strides are the window's extents.
func (s *Scope) MaxPool(x *Array, kernel []int, o Window) *Array {
	return s.pooled("max_pool", x, kernel, o, func(b *ir.Builder, v *ir.Value, w ops.Window) *ir.Value {
		return ops.MaxPool(b, v, w, o.Ceil)
	})
}

// AvgPool is the mean of each window of x[N, C, d…]. Nil Strides are the window's extents.
func (s *Scope) AvgPool(x *Array, kernel []int, o Window) *Array {
	return s.pooled("avg_pool", x, kernel, o, func(b *ir.Builder, v *ir.Value, w ops.Window) *ir.Value {
		return ops.AveragePool(b, v, w, o.Ceil, o.Padded)
	})
}

// pooled applies one of the poolings of package ops.
func (s *Scope) pooled(name string, x *Array, kernel []int, o Window,
	f func(b *ir.Builder, v *ir.Value, w ops.Window) *ir.Value) *Array {
	kernel = slices.Clone(kernel)
	return s.plan(name, []*Array{x}, func() ([]int, builder, error) {
		if len(kernel)+2 != len(x.shape) || len(kernel) == 0 {
			return nil, nil, diag.Inputf("a window of %d axes over %v, which has batch, channels and those", len(kernel), x)
		}
		if len(o.Strides) == 0 {
			o.Strides = kernel
		}
		window, err := o.window(kernel)
		return o.ints(kernel), func(b *ir.Builder, v []*ir.Value) *ir.Value { return f(b, v[0], window) }, err
	})
}

// LayerNorm normalises floats along axes (the last if none is given) to mean 0 and variance 1, then multiplies by scale
// and adds shift. Both are broadcast, and may be nil.
func (s *Scope) LayerNorm(x, scale, shift *Array, epsilon float64, axes ...int) *Array {
	return s.normed("layer_norm", x, scale, shift, epsilon, true, axes)
}

// RMSNorm divides floats along axes (the last if none is given) by the root of the mean of their squares, then
// multiplies by scale, which is broadcast and may be nil.
func (s *Scope) RMSNorm(x, scale *Array, epsilon float64, axes ...int) *Array {
	return s.normed("rms_norm", x, scale, nil, epsilon, false, axes)
}

// normed is LayerNorm, or RMSNorm if centered is false.
func (s *Scope) normed(name string, x, scale, shift *Array, epsilon float64, centered bool, axes []int) *Array {
	in, apply := affine(x, scale, shift, func(_ *ir.Builder, v, _ *ir.Value) *ir.Value { return v })
	return s.planSet(name, in, func() (operation, setBuilder, error) {
		if len(axes) == 0 {
			axes = []int{-1}
		}
		list, err := axesOf(x, axes)
		ints := []int{flag(centered), flag(scale != nil), flag(shift != nil)}
		for _, a := range list {
			ints = append(ints, int(a))
		}
		return operation{ints: ints, settings: told(epsilon)}, func(b *ir.Builder, v []*ir.Value, _ []sym.Expr,
			numbers []number) *ir.Value {
			return apply(b, normalized(b, asFloat(b, v[0]), numbers[0], centered, list...), v[1:])
		}, err
	})
}

// normalized scales x along axes to variance 1 and, if centered, to mean 0.
func normalized(b *ir.Builder, x *ir.Value, epsilon number, centered bool, axes ...int64) *ir.Value {
	if epsilon.fixed() {
		return ops.Normalize(b, x, epsilon.x, centered, axes...)
	}
	return inWide(b, x, func(x *ir.Value) *ir.Value {
		c := calc{b}
		if centered {
			x = c.sub(x, ops.ReduceMean(b, x, true, axes...))
		}
		variance := c.add(ops.ReduceMean(b, c.mul(x, x), true, axes...), epsilon.like(b, x))
		return c.mul(x, c.f(ops.Reciprocal, c.f(ops.Sqrt, variance)))
	})
}

// affine returns the operands x, scale and shift without nil, and a function that multiplies by scale and adds shift;
// align gives them a shape that broadcasts to x.
func affine(x, scale, shift *Array, align func(b *ir.Builder, v, x *ir.Value) *ir.Value) ([]*Array,
	func(b *ir.Builder, y *ir.Value, v []*ir.Value) *ir.Value) {
	in := []*Array{x}
	if scale != nil {
		in = append(in, scale)
	}
	if shift != nil {
		in = append(in, shift)
	}
	return in, func(b *ir.Builder, y *ir.Value, v []*ir.Value) *ir.Value {
		for i, f := range []ops.BinaryFunction{ops.Mul, ops.Add} {
			if given := []*Array{scale, shift}[i]; given != nil {
				y = ops.Binary(b, f, y, align(b, ops.Cast(b, v[0], y.Type.DType), y))
				v = v[1:]
			}
		}
		return y
	}
}

// channels reshapes a vector of channels so that it broadcasts along axis 1 of x.
func channels(b *ir.Builder, v, x *ir.Value) *ir.Value {
	return ops.AlongAxis(b, v, 1, len(x.Type.Shape))
}

// GroupNorm normalises floats x[N, C, d…] to mean 0 and variance 1, over each group of channels in each sample. Then it
// multiplies by scale and adds shift, [C]; both may be nil.
func (s *Scope) GroupNorm(x *Array, groups int, scale, shift *Array, epsilon float64) *Array {
	in, apply := affine(x, scale, shift, channels)
	return s.planSet("group_norm", in, func() (operation, setBuilder, error) {
		if len(x.shape) < 2 || groups < 1 || x.shape[1] >= 0 && x.shape[1]%groups != 0 {
			return operation{}, nil, diag.Inputf("%d groups of the channels, axis 1, of %v", groups, x)
		}
		o := operation{ints: []int{groups, flag(scale != nil), flag(shift != nil)}, settings: told(epsilon)}
		return o, func(b *ir.Builder, v []*ir.Value, _ []sym.Expr, numbers []number) *ir.Value {
			x := asFloat(b, v[0])
			shape := x.Type.Shape
			split := append([]sym.Expr{shape[0], sym.Const(int64(groups)), shape[1].FloorDiv(sym.Const(int64(groups)))},
				shape[2:]...)
			axes := make([]int64, 0, len(split))
			for i := 2; i < len(split); i++ {
				axes = append(axes, int64(i))
			}
			y := ops.Reshape(b, normalized(b, ops.Reshape(b, x, split...), numbers[0], true, axes...), shape...)
			return apply(b, y, v[1:])
		}, nil
	})
}

// BatchNorm normalises each channel, axis 1 of floats x, with the given statistics: (x − mean) / √(variance + epsilon)
// · scale + shift, all of them [C]; scale and shift may be nil.
func (s *Scope) BatchNorm(x, scale, shift, mean, variance *Array, epsilon float64) *Array {
	in, apply := affine(x, scale, shift, channels)
	return s.planSet("batch_norm", append([]*Array{mean, variance}, in...), func() (operation, setBuilder, error) {
		if len(x.shape) < 2 {
			return operation{}, nil, diag.Inputf("%v has no channels, axis 1", x)
		}
		o := operation{ints: []int{flag(scale != nil), flag(shift != nil)}, settings: told(epsilon)}
		return o, func(b *ir.Builder, v []*ir.Value, _ []sym.Expr, numbers []number) *ir.Value {
			c, x := calc{b}, asFloat(b, v[2])
			at := func(v *ir.Value) *ir.Value { return channels(b, ops.Cast(b, v, x.Type.DType), x) }
			spread := c.f(ops.Sqrt, c.add(at(v[1]), numbers[0].like(b, x)))
			return apply(b, c.div(c.sub(x, at(v[0])), spread), v[3:])
		}, nil
	})
}

// Heads are the settings of Attention.
type Heads struct {
	Scale   float64 // the factor of the scores; 0: 1/√D
	Softcap float64 // above 0: scores become Softcap · tanh(score / Softcap)
	Causal  bool    // query i sees the keys up to key i + K − Q
}

// Attention is softmax(scale · query · keyᵀ + mask) · value for query[B, H, Q, D], key[B, G, K, D] and value[B, G, K,
// E]: [B, H, Q, E]. H is a multiple of G: groups of query heads share a key head. The mask, broadcast to [B, H, Q, K],
// may be nil: a bool tells whether a key takes part, a float is added. The result of a query that sees no key is NaN.
func (s *Scope) Attention(query, key, value, mask *Array, o Heads) *Array {
	in := []*Array{query, key, value}
	if mask != nil {
		in = append(in, mask)
	}
	return s.planSet("attention", in, func() (operation, setBuilder, error) {
		for _, a := range in[:3] {
			if len(a.shape) != 4 || a.dtype != query.dtype || !a.dtype.IsFloat() {
				return operation{}, nil, diag.Inputf("attention of %v, %v and %v: all are of one float type and of rank 4", query,
					key, value)
			}
		}
		how := operation{ints: append([]int{flag(o.Causal), flag(o.Scale == 0)}, bits(o.Softcap)...), settings: told(o.Scale)}
		return how, func(b *ir.Builder, v []*ir.Value, _ []sym.Expr, numbers []number) *ir.Value {
			scale, dt := o.Scale, v[0].Type.DType
			if !numbers[0].fixed() { // the query has it
				scale = 1
				if narrow(dt) {
					for i := range 3 {
						v[i] = ops.Cast(b, v[i], dtype.F32)
					}
				}
				v[0] = calc{b}.mul(v[0], numbers[0].like(b, v[0]))
			}
			x := ops.AttentionOperands{Query: v[0], Key: v[1], Value: v[2]}
			if len(v) > 3 {
				if x.Mask = v[3]; x.Mask.Type.DType.IsFloat() {
					x.Mask = ops.Cast(b, x.Mask, v[0].Type.DType)
				}
			}
			past := sym.Const(0)
			if o.Causal {
				past = v[1].Type.Shape[2].Sub(v[0].Type.Shape[2])
			}
			y := ops.AttentionNode(b, x, ops.AttentionSettings{Scale: scale, Softcap: o.Softcap, Causal: o.Causal, Past: past})
			return ops.Cast(b, y, dt)
		}, nil
	})
}
