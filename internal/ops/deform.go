package ops

import (
	"math/rand"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

func init() {
	define(&Def{Op: "deform_columns", Shape: deformShape, Mean: deformMean, Samples: deformSamples, Lowerings: []Lowering{{Name: "taps", Build: deformTaps}}})
}

// DeformConvolution is Convolution (Dai et al., Deformable Convolutional Networks, 2017) whose window's positions are moved: offset[N, G·K·axes, o…] is added to
// where each of the kernel's K elements looks from each place o, for each of G groups of channels; between elements x is interpolated linearly,
// outside it is 0. mask[N, G·K, o…], or nil, weighs what is found. bias may be nil.
func DeformConvolution(b *ir.Builder, x, w, offset, bias, mask *ir.Value, window Window, groups, offsetGroups int64) *ir.Value {
	attrs := window.Attrs()
	attrs["groups"] = offsetGroups
	inputs := []*ir.Value{x, offset}
	if mask != nil {
		inputs = append(inputs, mask)
	}
	columns := b.Op("deform_columns", attrs, inputs...)
	// What is left is a product of matrices: the columns are channels of a convolution that looks at one place.
	shape, axes := columns.Type.Shape, len(window.Kernel)
	elements := int64(1)
	point := Window{Begin: make([]sym.Expr, axes), End: make([]sym.Expr, axes)}
	for _, k := range window.Kernel {
		elements *= k
		point.Kernel, point.Strides, point.Dilations = append(point.Kernel, 1), append(point.Strides, 1), append(point.Dilations, 1)
	}
	count := sym.Const(elements)
	columns = Reshape(b, columns, append([]sym.Expr{shape[0], shape[1].Mul(count)}, shape[3:]...)...)
	weights := Reshape(b, w, append([]sym.Expr{w.Type.Shape[0], w.Type.Shape[1].Mul(count)}, ir.Constants(point.Kernel)...)...)
	return Convolution(b, columns, weights, bias, point, groups)
}

// deformShape is the rule of deform_columns: x[N, C, d…] with offset and mask gives [N, C, K, o…], what the kernel's elements find.
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
	if err := c.RequireEqual(n, x.Shape[1].Mod(sym.Const(groups)), sym.Const(0), "channels are a multiple of the groups of offsets"); err != nil {
		return err
	}
	shape := []sym.Expr{x.Shape[0], x.Shape[1], sym.Const(elements)}
	for i := range axes {
		extent := c.Dims().Simplify(w.positions(i, x.Shape[2+i]))
		if err := c.Require(n, sym.Cond{A: sym.Const(0), Rel: sym.LE, B: extent}, "the kernel fits the padded input"); err != nil {
			return err
		}
		shape = append(shape, extent)
	}
	for i, each := range []int64{int64(axes), 1} {
		v := input(n, 1+i)
		if v == nil {
			continue
		}
		if v.Type.DType != x.DType {
			return fault(n, "%s with weights %s", x, v.Type)
		}
		want := append([]sym.Expr{x.Shape[0], sym.Const(groups * elements * each)}, shape[3:]...)
		if len(v.Type.Shape) != len(want) {
			return fault(n, "%s for an input of rank %d", v.Type, len(x.Shape))
		}
		for axis := range want {
			if err := c.RequireEqual(n, v.Type.Shape[axis], want[axis], "an offset for each place of the window"); err != nil {
				return err
			}
		}
	}
	n.Result(0, ir.Type{DType: x.DType, Shape: shape})
	return nil
}

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
	begin, _, err := w.padding(e)
	if err != nil {
		return nil, err
	}
	perGroup := x.Shape()[1] / n.Attrs.Int("groups", 1)
	elements, strides, flat := out.Shape()[2], tensor.Strides(x.Shape()), int64(0)
	k, taps := make([]int64, axes), make([][]tapOf, axes)
	tensor.Each(out.Shape(), func(o []int64) {
		tensor.Unravel(o[2], w.Kernel, k)
		element := o[1]/perGroup*elements + o[2]
		place := func(t *tensor.Tensor, row int64) float64 {
			return t.Float(tensor.Offset(tensor.Strides(t.Shape()), append([]int64{o[0], row}, o[3:]...)))
		}
		for i := range taps {
			at := float64(o[3+i]*w.Strides[i] + k[i]*w.Dilations[i] - begin[i])
			taps[i] = linearTapsOf(round(at+place(offset, element*int64(axes)+int64(i))), x.Shape()[2+i], round)
		}
		v := 0.0
		if x.Len() > 0 {
			v = weighedOf(x, strides[2:], o[0]*strides[0]+o[1]*strides[1], taps)
		}
		if mask != nil {
			v *= place(mask, element)
		}
		out.SetFloat(flat, v)
		flat++
	})
	return []*tensor.Tensor{out}, nil
}

func deformTaps(k *Nest, n *ir.Node) {
	x, offset, mask, out := k.In[0], k.In[1], present(k.In, 2), k.Out[0]
	axes, dt := len(x.Shape)-2, computing(x.DType)
	w, _ := windowOf(n, axes)
	groups := n.Attrs.Int("groups", 1)
	perGroup := groupOf(x.Shape[1], groups)
	k.Each("n", out.Shape[0], func(image sym.Expr) {
		k.grouped(groups, func(group sym.Expr) {
			k.Nest(loop.Each, "k", append(ir.Constants(w.Kernel), out.Shape[3:]...), func(index []sym.Expr) {
				at, o := index[:axes], index[axes:]
				position := sym.Const(0)
				for i := range at {
					position = position.Mul(sym.Const(w.Kernel[i])).Add(at[i])
				}
				element := group.Mul(out.Shape[2]).Add(position)
				taps := make([][]tap, axes)
				for i := range taps {
					row := element.Mul(sym.Const(int64(axes))).Add(sym.Const(int64(i)))
					moved := loop.Convert(dt, offset.Load(append([]sym.Expr{image, row}, o...)...))
					taps[i] = k.linearTaps(k.Let("at", plus(extentAs(dt, w.source(i, o[i], at[i])), moved)), x.Shape[2+i])
				}
				var weight loop.Expr
				if mask != nil {
					weight = k.Let("m", loop.Convert(dt, mask.Load(append([]sym.Expr{image, element}, o...)...)))
				}
				corners := k.corners(dt, taps)
				k.Each("c", perGroup, func(c sym.Expr) {
					channel := group.Mul(perGroup).Add(c)
					value := weighed(x, dt, []sym.Expr{image, channel}, corners)
					if weight != nil {
						value = times(value, weight)
					}
					k.Store(out, append([]sym.Expr{image, channel, position}, o...), loop.Convert(out.DType, value))
				})
			})
		})
	})
}

func deformSamples(r *rand.Rand) (out []Sample) {
	for i, w := range sampleWindows {
		for _, groups := range []int64{1, 2} {
			attrs := w.Attrs()
			attrs["groups"] = groups
			shape := []int64{2, 4, 6, 7}
			places := []int64{2, groups * w.Kernel[0] * w.Kernel[1]}
			for axis := range w.Kernel {
				count, _ := w.positions(axis, sym.Const(shape[2+axis])).Const()
				places = append(places, count)
			}
			dt := floatTypes[i%2]
			mask := sampleNormal(r, dt, places...)
			places[1] *= 2
			offset := sampleNormal(r, dt, places...)
			out = append(out, Sample{Attrs: attrs, Inputs: []*tensor.Tensor{sampleNormal(r, dt, shape...), offset}, Constant: []int{0}},
				Sample{Attrs: attrs, Inputs: []*tensor.Tensor{sampleNormal(r, dt, shape...), offset, mask}, Constant: []int{0, 1, 2}})
		}
	}
	line := Window{Kernel: []int64{2}, Strides: []int64{1}, Dilations: []int64{1}, Begin: ir.Constants([]int64{0}), End: ir.Constants([]int64{1})}
	attrs := line.Attrs()
	attrs["groups"] = int64(1)
	return append(out, Sample{Attrs: attrs, Inputs: []*tensor.Tensor{sampleNormal(r, dtype.F16, 1, 2, 5), sampleFloats(r, dtype.F16, 1, 2, 5)}, Constant: []int{0, 1}})
}
