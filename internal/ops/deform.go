package ops

import (
	"math/rand"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sliding"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator deform_columns.
func init() {
	define(&Def{Op: "deform_columns", Shape: deformShape, Grad: deformGrad, Mean: deformMean, Samples: deformSamples,
		Lowerings: []Lowering{{Name: "taps", Build: deformTaps}}})
}

// DeformConvolution is Convolution with moved window positions (Dai et al., Deformable Convolutional Networks, 2017).
// offset[N, G·K·axes, o…] is added to the input position of each of the kernel's K elements at each output position o,
// for each of G groups of channels. x is interpolated linearly and is 0 outside. mask[N, G·K, o…], or nil, weighs each
// sample. bias may be nil.
func DeformConvolution(b *ir.Builder, x, w, offset, bias, mask *ir.Value, window Window, groups,
	offsetGroups int64) *ir.Value {
	attrs := window.Attrs()
	attrs["groups"] = offsetGroups
	inputs := []*ir.Value{x, offset}
	if mask != nil {
		inputs = append(inputs, mask)
	}
	last := len(x.Type.Shape) > 2 && manyChannels(x.Type.Shape[1])
	if last { // the channels of a sample are contiguous
		attrs["last"] = true
		inputs[0] = lastChannels(b, x)
	}
	columns := b.Op("deform_columns", attrs, inputs...)
	axes := len(window.Kernel)
	if last && groups == 1 {
		w = lastChannels(b, w)
	} else if last {
		columns = Transpose(b, columns, columnsFirst(axes)...)
	}
	// The rest is a matrix product: the columns become channels of a pointwise convolution.
	shape := columns.Type.Shape
	elements := int64(1)
	point := Window{Begin: make([]sym.Expr, axes), End: make([]sym.Expr, axes)}
	for _, k := range window.Kernel {
		elements *= k
		point.Kernel, point.Strides, point.Dilations = append(point.Kernel, 1), append(point.Strides, 1),
			append(point.Dilations, 1)
	}
	count := sym.Const(elements)
	rows := sym.Product(w.Type.Shape[1:]...)
	if last && groups == 1 {
		columns = Reshape(b, columns, append(slices.Clone(shape[:1+axes]), shape[1+axes].Mul(shape[2+axes]))...)
		columns = firstChannels(b, columns)
	} else {
		columns = Reshape(b, columns, append([]sym.Expr{shape[0], shape[1].Mul(count)}, shape[3:]...)...)
	}
	weights := Reshape(b, w, append([]sym.Expr{w.Type.Shape[0], rows}, ir.Constants(point.Kernel)...)...)
	return Convolution(b, columns, weights, bias, point, groups)
}

// lastChannels moves axis 1 to the end.
func lastChannels(b *ir.Builder, x *ir.Value) *ir.Value {
	order := []int64{0}
	for i := 2; i < len(x.Type.Shape); i++ {
		order = append(order, int64(i))
	}
	return Transpose(b, x, append(order, 1)...)
}

// firstChannels moves the last axis to position 1.
func firstChannels(b *ir.Builder, x *ir.Value) *ir.Value {
	order := []int64{0, int64(len(x.Type.Shape) - 1)}
	for i := 1; i < len(x.Type.Shape)-1; i++ {
		order = append(order, int64(i))
	}
	return Transpose(b, x, order...)
}

// columnsFirst returns the permutation from columns [N, o…, K, C] to [N, C, K, o…].
func columnsFirst(axes int) []int64 {
	order := []int64{0, int64(axes + 2), int64(axes + 1)}
	for i := range axes {
		order = append(order, int64(1+i))
	}
	return order
}

// deformShape is the shape rule of deform_columns: x[N, C, d…] with offset and mask gives [N, C, K, o…], the samples of
// the kernel's elements. With the attribute last, x is [N, d…, C] and the result [N, o…, K, C].
func deformShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 2, 3); err != nil {
		return err
	}
	x, offset := n.Inputs[0].Type, n.Inputs[1].Type
	axes := len(x.Shape) - 2
	if axes < 1 || axes > 6 || !floats(x.DType) || offset.DType != x.DType || len(offset.Shape) != len(x.Shape) {
		return fault(n, "%s with offsets %s; both need the same floats and rank, from 3 to 8", x, offset)
	}
	w, err := windowOf(n, axes)
	if err != nil {
		return err
	}
	groups := n.Attrs.Int("groups", 1)
	elements := int64(1)
	for _, k := range w.Kernel {
		if k > (1<<31)/elements {
			return fault(n, "a kernel of %v elements", w.Kernel)
		}
		elements *= k
	}
	if groups < 1 || groups > 1<<31 {
		return fault(n, "%d groups of offsets", groups)
	}
	channels, first := channelAxis(n)
	if err := c.RequireEqual(n, x.Shape[channels].Mod(sym.Const(groups)), sym.Const(0),
		"channels are a multiple of the groups of offsets"); err != nil {
		return err
	}
	var positions []sym.Expr
	for i := range axes {
		extent := c.Dims().Simplify(w.Positions(i, x.Shape[first+i]))
		if err := c.Require(n, sym.Cond{A: sym.Const(0), Rel: sym.LE, B: extent},
			"the kernel fits the padded input"); err != nil {
			return err
		}
		positions = append(positions, extent)
	}
	for i, each := range []int64{int64(axes), 1} {
		v := input(n, 1+i)
		if v == nil {
			continue
		}
		if v.Type.DType != x.DType {
			return fault(n, "%s with weights %s", x, v.Type)
		}
		want := append([]sym.Expr{x.Shape[0], sym.Const(groups * elements * each)}, positions...)
		if len(v.Type.Shape) != len(want) {
			return fault(n, "%s for an input of rank %d", v.Type, len(x.Shape))
		}
		for axis := range want {
			if err := c.RequireEqual(n, v.Type.Shape[axis], want[axis],
				"an offset for each position of the window"); err != nil {
				return err
			}
		}
	}
	shape := append([]sym.Expr{x.Shape[0], x.Shape[channels], sym.Const(elements)}, positions...)
	if n.Attrs.Bool("last") {
		shape = append(append([]sym.Expr{x.Shape[0]}, positions...), sym.Const(elements), x.Shape[channels])
	}
	n.Result(0, ir.Type{DType: x.DType, Shape: shape})
	return nil
}

// deformMean is the reference: each element interpolates x at the moved position of its kernel element, times the mask.
func deformMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	x, offset, mask := in[0], in[1], present(in, 2)
	axes, round := x.Rank()-2, rounding(x.DType())
	w, err := windowOf(n, axes)
	if err != nil {
		return nil, err
	}
	begin, _, err := padding(e, w)
	if err != nil {
		return nil, err
	}
	channels, first := channelAxis(n)
	perGroup := x.Shape()[channels] / n.Attrs.Int("groups", 1)
	strides, flat := tensor.Strides(x.Shape()), int64(0)
	elements := out.Shape()[2]
	if n.Attrs.Bool("last") {
		elements = out.Shape()[axes+1]
	}
	k, taps := make([]int64, axes), make([][]tapOf, axes)
	tensor.Each(out.Shape(), func(o []int64) {
		if n.Attrs.Bool("last") { // as [N, C, K, o…]
			o = slices.Concat(o[:1], []int64{o[axes+2], o[axes+1]}, o[1:axes+1])
		}
		tensor.Unravel(o[2], w.Kernel, k)
		element := o[1]/perGroup*elements + o[2]
		position := func(t *tensor.Tensor, row int64) float64 {
			return t.Float(tensor.Offset(tensor.Strides(t.Shape()), append([]int64{o[0], row}, o[3:]...)))
		}
		for i := range taps {
			at := float64(o[3+i]*w.Strides[i] + k[i]*w.Dilations[i] - begin[i])
			taps[i] = linearTapsOf(round(at+position(offset, element*int64(axes)+int64(i))), x.Shape()[first+i], round)
		}
		v := 0.0
		if x.Len() > 0 {
			v = weighedOf(x, strides[first:], o[0]*strides[0]+o[1]*strides[channels], taps)
		}
		if mask != nil {
			v *= position(mask, element)
		}
		out.SetFloat(flat, v)
		flat++
	})
	return []*tensor.Tensor{out}, nil
}

// deformTaps lowers deform_columns: each iteration computes the taps of one kernel element at one position and
// interpolates all channels of a group there.
func deformTaps(k *Nest, n *ir.Node) {
	x, offset, mask, out := k.In[0], k.In[1], present(k.In, 2), k.Out[0]
	axes, dt := len(x.Shape)-2, computing(x.DType)
	w, _ := windowOf(n, axes)
	groups := n.Attrs.Int("groups", 1)
	last := n.Attrs.Bool("last")
	channels, first := channelAxis(n)
	perGroup := sliding.GroupOf(x.Shape[channels], groups)
	elements, positions := out.Shape[2], out.Shape[min(3, len(out.Shape)):]
	if last {
		elements, positions = out.Shape[axes+1], out.Shape[1:axes+1]
	}
	k.Each("n", out.Shape[0], func(image sym.Expr) {
		sliding.Grouped(k.Builder, groups, func(group sym.Expr) {
			k.Nest(loop.Each, "k", deformOrder(last, ir.Constants(w.Kernel), positions), func(index []sym.Expr) {
				at, o := index[:axes], index[axes:]
				if last {
					o, at = at, o
				}
				position := sym.Const(0)
				for i := range at {
					position = position.Mul(sym.Const(w.Kernel[i])).Add(at[i])
				}
				element := group.Mul(elements).Add(position)
				taps := make([][]tap, axes)
				for i := range taps {
					row := element.Mul(sym.Const(int64(axes))).Add(sym.Const(int64(i)))
					moved := loop.Convert(dt, offset.Load(append([]sym.Expr{image, row}, o...)...))
					taps[i] = k.linearTaps(k.Let("at", plus(extentAs(dt, w.Source(i, o[i], at[i])), moved)), x.Shape[first+i])
				}
				var weight loop.Expr
				if mask != nil {
					weight = k.Let("m", loop.Convert(dt, mask.Load(append([]sym.Expr{image, element}, o...)...)))
				}
				corners := k.corners(dt, taps)
				k.Each("c", perGroup, func(c sym.Expr) {
					channel := group.Mul(perGroup).Add(c)
					value := weighed(x, dt, image, channel, channels, corners)
					if weight != nil {
						value = times(value, weight)
					}
					to := append([]sym.Expr{image, channel, position}, o...)
					if last {
						to = append(append([]sym.Expr{image}, o...), position, channel)
					}
					k.Store(out, to, loop.Convert(out.DType, value))
				})
			})
		})
	})
}

// deformOrder returns the extents of the loops over the window and over positions, in the order of the result's axes.
func deformOrder(last bool, window, positions []sym.Expr) []sym.Expr {
	if last {
		return slices.Concat(positions, window)
	}
	return slices.Concat(window, positions)
}

// deformSamples returns inputs for each window, number of groups and layout, with and without a mask.
func deformSamples(r *rand.Rand) (out []Sample) {
	for i, w := range sampleWindows {
		for _, groups := range []int64{1, 2} {
			attrs := w.Attrs()
			attrs["groups"] = groups
			shape := []int64{2, 4, 6, 7}
			positions := []int64{2, groups * w.Kernel[0] * w.Kernel[1]}
			for axis := range w.Kernel {
				count, _ := w.Positions(axis, sym.Const(shape[2+axis])).Const()
				positions = append(positions, count)
			}
			dt := floatTypes[i%2]
			mask := sampleNormal(r, dt, positions...)
			positions[1] *= 2
			offset := sampleNormal(r, dt, positions...)
			out = append(out, Sample{Attrs: attrs, Inputs: []*tensor.Tensor{sampleNormal(r, dt, shape...), offset},
				Constant: []int{0}},
				Sample{Attrs: attrs, Inputs: []*tensor.Tensor{sampleNormal(r, dt, shape...), offset, mask},
					Constant: []int{0, 1, 2}})
			channelsLast := w.Attrs()
			channelsLast["groups"], channelsLast["last"] = groups, true
			out = append(out, Sample{Attrs: channelsLast, Inputs: []*tensor.Tensor{sampleNormal(r, dt, 2, 6, 7, 4), offset,
				mask},
				Constant: []int{1}})
		}
	}
	line := Window{Kernel: []int64{2}, Strides: []int64{1}, Dilations: []int64{1}, Begin: ir.Constants([]int64{0}),
		End: ir.Constants([]int64{1})}
	attrs := line.Attrs()
	attrs["groups"] = int64(1)
	for _, last := range []bool{false, true} {
		w := sampleWindows[0]
		each, shape := w.Attrs(), []int64{2, 4, 6, 7}
		each["groups"], each["last"] = int64(2), last
		positions := []int64{2, 2 * w.Kernel[0] * w.Kernel[1]}
		for axis := range w.Kernel {
			count, _ := w.Positions(axis, sym.Const(shape[2+axis])).Const()
			positions = append(positions, count)
		}
		mask := sampleNormal(r, dtype.F32, positions...)
		positions[1] *= 2
		if last {
			shape = []int64{2, 6, 7, 4}
		}
		out = append(out, Sample{Attrs: each, Inputs: []*tensor.Tensor{sampleNormal(r, dtype.F32, shape...),
			sampleNormal(r, dtype.F32, positions...), mask}})
	}
	return append(out, Sample{Attrs: attrs, Inputs: []*tensor.Tensor{sampleNormal(r, dtype.F16, 1, 2, 5),
		sampleFloats(r, dtype.F16, 1, 2, 5)}, Constant: []int{0, 1}})
}
