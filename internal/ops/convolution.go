package ops

import (
	"maps"
	"math"
	"math/rand"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sliding"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator convolution.
func init() {
	define(&Def{Op: "convolution", WantsLast: true, Last: windowLast, Products: convolutionProducts, Cost: convolutionCost,
		rows: windowRows, Grad: convolutionGrad, Shape: convolutionShape, Mean: convolutionMean, Work: convolutionWork,
		Samples:   convolutionSamples,
		Lowerings: []Lowering{{Name: "sums", Separate: true, Meant: true, Build: convolutionSums}}})

}

// Window is the geometry of a convolution or a pooling, by spatial axis.
type Window = sliding.Window

// ConvolutionAs is Convolution of integers of at most 8 bits, signed or unsigned, whose sums and result are of type dt.
func ConvolutionAs(b *ir.Builder, dt dtype.DType, x, w *ir.Value, window Window, groups int64) *ir.Value {
	attrs := window.Attrs()
	attrs["groups"], attrs["dtype"] = groups, dt
	return b.Op("convolution", attrs, x, w)
}

// Convolution slides weights w[O, I/groups, k…] over x[N, I, d…], giving [N, O, …]; bias, [O], may be nil.
func Convolution(b *ir.Builder, x, w, bias *ir.Value, window Window, groups int64) *ir.Value {
	attrs := window.Attrs()
	attrs["groups"] = groups
	inputs := []*ir.Value{x, w}
	if bias != nil {
		inputs = append(inputs, bias)
	}
	return b.Op("convolution", attrs, inputs...)
}

// WindowOf returns the window of a valid node.
func WindowOf(n *ir.Node) Window {
	a := n.Attrs
	return Window{Kernel: a.Ints("kernel"), Strides: a.Ints("strides"), Dilations: a.Ints("dilations"),
		Begin: a.Exprs("begin"), End: a.Exprs("end")}
}

// windowOf reads a node's window; it returns an error if a list's length is not the number of spatial axes.
func windowOf(n *ir.Node, axes int) (Window, error) {
	w := WindowOf(n)
	for _, length := range []int{len(w.Kernel), len(w.Strides), len(w.Dilations), len(w.Begin), len(w.End)} {
		if length != axes {
			return w, fault(n, "a window over %d axes in a list for %d", length, axes)
		}
	}
	for i := range w.Kernel {
		if w.Kernel[i] < 1 || w.Strides[i] < 1 || w.Dilations[i] < 1 {
			return w, fault(n, "kernel, strides and dilations must be positive")
		}
	}
	return w, nil
}

// padding evaluates a window's padding before and after the input, by spatial axis.
func padding(e *ir.Evaluation, w Window) (begin, end []int64, err error) {
	if begin, err = e.Ints(w.Begin); err == nil {
		end, err = e.Ints(w.End)
	}
	return begin, end, err
}

// convolutionShape checks types, channels, groups, kernel and padding and infers the result, [N, O, o…] or, with
// channels last, [N, o…, O].
func convolutionShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 2, 3); err != nil {
		return err
	}
	x, w := n.Inputs[0].Type, n.Inputs[1].Type
	if len(x.Shape) < 3 || len(w.Shape) != len(x.Shape) {
		return fault(n, "input of rank %d and weights of rank %d; both need the same rank, at least 3", len(x.Shape),
			len(w.Shape))
	}
	dt := n.Attrs.DType("dtype")
	if dt == dtype.Invalid {
		dt = x.DType
		if x.DType != w.DType {
			return fault(n, "input of type %s and weights of type %s", x.DType, w.DType)
		}
	}
	if !numbers(x.DType) || x.DType.IsInt() != w.DType.IsInt() || x.DType.IsInt() != dt.IsInt() {
		return fault(n, "input of type %s and weights of type %s", x.DType, w.DType)
	}
	window, err := windowOf(n, len(x.Shape)-2)
	if err != nil {
		return err
	}
	groups := n.Attrs.Int("groups", 1)
	if groups < 1 {
		return fault(n, "%d groups", groups)
	}
	if HasHoles(n) && (!Last(n) || x.DType != dtype.F32 || dt != dtype.F32) {
		return fault(n, "holes in weights of type %s, with a result of type %s", w.DType, dt)
	}
	if err := checkBeside(n, window); err != nil {
		return err
	}
	xs, ws := planar(n, x.Shape), filter(n, w.Shape)
	if err := c.RequireEqual(n, xs[1], ws[1].Mul(sym.Const(groups)), "the channels of a convolution"); err != nil {
		return err
	}
	if err := c.RequireEqual(n, ws[0].Mod(sym.Const(groups)), sym.Const(0),
		"output channels are a multiple of the groups"); err != nil {
		return err
	}
	shape := []sym.Expr{xs[0], ws[0]}
	for i := range window.Kernel {
		if err := c.RequireEqual(n, ws[2+i], sym.Const(window.Kernel[i]), "the kernel's extent"); err != nil {
			return err
		}
		extent := window.Positions(i, xs[2+i])
		if err := c.Require(n, sym.Cond{A: sym.Const(0), Rel: sym.LE, B: extent},
			"the kernel fits the padded input"); err != nil {
			return err
		}
		shape = append(shape, c.Dims().Simplify(extent))
	}
	if bias := input(n, 2); bias != nil {
		if len(bias.Type.Shape) != 1 {
			return fault(n, "a bias of rank %d", len(bias.Type.Shape))
		}
		if err := c.RequireEqual(n, bias.Type.Shape[0], ws[0], "one bias for each output channel"); err != nil {
			return err
		}
	}
	n.Result(0, ir.Type{DType: dt, Shape: unplanar(n, shape)})
	return nil
}

// convolutionMean is the reference: each element is its bias plus the sum over the channels of its group and the
// kernel, in 64 bits; holes take no part.
func convolutionMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	x, w, bias := in[0], in[1], present(in, 2)
	window, err := windowOf(n, x.Rank()-2)
	if err != nil {
		return nil, err
	}
	begin, _, err := padding(e, window)
	if err != nil {
		return nil, err
	}
	groups := n.Attrs.Int("groups", 1)
	shape, kernel := planar(n, x.Shape()), filter(n, w.Shape())
	sx, sw := planar(n, tensor.Strides(x.Shape())), filter(n, tensor.Strides(w.Shape()))
	inner, perGroup := kernel[1], kernel[0]/groups
	flat := int64(0)
	integer, holes := out.DType().IsInt(), HasHoles(n)
	tensor.Each(out.Shape(), func(o []int64) {
		o = planar(n, o)
		sum, intSum := 0.0, int64(0)
		if bias != nil {
			if integer {
				intSum = bias.Int(o[1])
			} else {
				sum = bias.Float(o[1])
			}
		}
		first := o[1] / perGroup * inner
		tensor.Each(kernel[1:], func(k []int64) {
			at, weight, ok := o[0]*sx[0]+(first+k[0])*sx[1], o[1]*sw[0]+tensor.Offset(sw[1:], k), true
			for i := range window.Kernel {
				p := o[2+i]*window.Strides[i] + k[1+i]*window.Dilations[i] - begin[i]
				ok = ok && p >= 0 && p < shape[2+i]
				at += p * sx[2+i]
			}
			switch {
			case !ok || holes && w.Float(weight) == 0 && !math.Signbit(w.Float(weight)):
			case integer:
				intSum += x.Int(at) * w.Int(weight)
			default:
				sum += x.Float(at) * w.Float(weight)
			}
		})
		if integer {
			out.SetInt(flat, intSum)
		} else {
			out.SetFloat(flat, sum)
		}
		flat++
	})
	return []*tensor.Tensor{out}, nil
}

// HasHoles reports whether the weights of a convolution with its channels last have holes: elements of +0 that are not
// weights, so that an infinity in the input is not multiplied by them. Weights of such a node that are 0 are stored as
// −0.
func HasHoles(n *ir.Node) bool { return n.Attrs.Bool("holes") }

// convolutionSums lowers a convolution to one sum per element of the result, over the channels of its group and the
// kernel; holes take no part. Positions outside the image count as 0 or, with channels last, take no part.
func convolutionSums(k *Nest, n *ir.Node) {
	x, w, out := k.In[0], k.In[1], k.Out[0]
	rank := len(x.Shape)
	window, _ := windowOf(n, rank-2)
	groups, dt := n.Attrs.Int("groups", 1), out.DType.Accumulator()
	size, weights, result := planar(n, x.Shape), filter(n, w.Shape), planar(n, out.Shape)
	perGroup, inner := sliding.GroupOf(result[1], groups), weights[1]
	extents := append([]sym.Expr{result[0], sym.Const(groups), perGroup}, result[2:]...)
	k.Nest(loop.Each, "o", extents, func(at []sym.Expr) {
		image, group, position := at[0], at[1], at[3:]
		output := group.Mul(perGroup).Add(at[2])
		start := loop.Expr(loop.Number(dt, 0))
		if bias := present(k.In, 2); bias != nil {
			start = loop.Convert(dt, bias.Load(output))
		}
		sum := k.Var("sum", start)
		k.Nest(loop.Serial, "k", append([]sym.Expr{inner}, weights[2:]...), func(steps []sym.Expr) {
			from := []sym.Expr{image, group.Mul(inner).Add(steps[0])}
			var mask loop.Expr
			for i := range position {
				p := window.Source(i, position[i], steps[1+i])
				from = append(from, p)
				mask = loop.Both(mask, window.Inside(i, p, size[2+i]))
			}
			from = unplanar(n, from)
			value := x.Load(from...)
			if mask != nil {
				value = x.LoadIf(mask, loop.Number(x.DType, 0), from...)
			}
			weight := w.Load(unfilter(n, append([]sym.Expr{output}, steps...))...)
			if !Last(n) {
				k.Reduce(sum, loop.Add, times(loop.Convert(dt, value), loop.Convert(dt, weight)))
				return
			}
			there := k.Let("w", weight)
			product := times(loop.Convert(dt, value), loop.Convert(dt, there))
			if HasHoles(n) {
				mask = loop.Both(mask, loop.Apply(loop.Not, isHole(there)))
			}
			if mask != nil {
				product = loop.Choose(mask, product, loop.Number(dt, 0))
			}
			k.Reduce(sum, loop.Add, product)
		})
		k.Store(out, unplanar(n, append([]sym.Expr{image, output}, position...)), loop.Convert(out.DType, sum))
	})
}

// isHole returns the test that a weight is +0.
func isHole(weight loop.Expr) loop.Expr {
	return loop.Apply2(loop.And, loop.Apply2(loop.Eq, weight, like(weight, 0)),
		loop.Apply2(loop.Gt, loop.Apply2(loop.Div, like(weight, 1), weight), like(weight, 0)))
}

// farWindows are windows many of whose elements read only padding.
var farWindows = []Window{
	{Kernel: []int64{3, 3}, Strides: []int64{1, 1}, Dilations: []int64{4, 4}, Begin: ir.Constants([]int64{4, 4}),
		End: ir.Constants([]int64{4, 4})},
	{Kernel: []int64{3, 3}, Strides: []int64{1, 1}, Dilations: []int64{9, 9}, Begin: ir.Constants([]int64{9, 9}),
		End: ir.Constants([]int64{9, 9})},
	{Kernel: []int64{5, 2}, Strides: []int64{2, 3}, Dilations: []int64{3, 2}, Begin: ir.Constants([]int64{7, 0}),
		End: ir.Constants([]int64{4, 3})},
	{Kernel: []int64{1, 11}, Strides: []int64{1, 2}, Dilations: []int64{1, 3}, Begin: ir.Constants([]int64{0, 20}),
		End: ir.Constants([]int64{0, 10})},
}

// convolutionSamples returns inputs for each window, type, number of groups and layout.
func convolutionSamples(r *rand.Rand) []Sample {
	var out []Sample
	sample := func(dt dtype.DType, w Window, groups, channels, filters int64, bias bool, shape ...int64) {
		attrs := w.Attrs()
		attrs["groups"] = groups
		x := sampleOf(r, dt, append([]int64{shape[0], channels}, shape[1:]...)...)
		in := []*tensor.Tensor{x, sampleOf(r, dt, append([]int64{filters, channels / groups}, w.Kernel...)...)}
		if bias {
			in = append(in, sampleOf(r, dt, filters))
		}
		out = append(out, Sample{Attrs: attrs, Inputs: in, Constant: []int{1, 2}})
	}
	for i, w := range sampleWindows {
		for _, groups := range []int64{1, 2, 4} {
			sample(dtype.F32, w, groups, 4, 4, i%2 == 0, 2, 7, 6)
		}
		sample(dtype.F32, w, 4, 4, 8, true, 1, 7, 6)
	}
	for _, dt := range []dtype.DType{dtype.F64, dtype.F16, dtype.BF16, dtype.I32} {
		sample(dt, sampleWindows[0], 1, 3, 2, true, 1, 5, 6)
		sample(dt, sampleWindows[1], 3, 3, 6, false, 1, 5, 6)
		sample(dt, sampleWindows[4], 1, 3, 2, true, 2, 3, 4)
	}
	line := Window{Kernel: []int64{3}, Strides: []int64{1}, Dilations: []int64{2}, Begin: ir.Constants([]int64{2}),
		End: ir.Constants([]int64{2})}
	cube := Window{Kernel: []int64{2, 1, 3}, Strides: []int64{1, 2, 1}, Dilations: []int64{1, 1, 1},
		Begin: ir.Constants([]int64{1, 0, 1}), End: ir.Constants([]int64{0, 0, 1})}
	dot := Window{Kernel: []int64{1, 1, 1}, Strides: []int64{1, 1, 1}, Dilations: []int64{1, 1, 1},
		Begin: ir.Constants([]int64{0, 0, 0}), End: ir.Constants([]int64{0, 0, 0})}
	same := Window{Kernel: []int64{3, 3}, Strides: []int64{1, 1}, Dilations: []int64{1, 1},
		Begin: ir.Constants([]int64{1, 1}), End: ir.Constants([]int64{1, 1})}
	sample(dtype.F32, line, 1, 3, 2, true, 2, 8)
	sample(dtype.F32, cube, 2, 2, 4, true, 1, 4, 3, 5)
	sample(dtype.F32, dot, 1, 3, 5, true, 2, 2, 3, 4)
	sample(dtype.F32, same, 1, 3, 5, true, 1, 9, 8)
	sample(dtype.F32, same, 1, 140, 128, true, 1, 2, 3) // the output channels are computed in several blocks
	sample(dtype.F32, same, 2, 4, 6, true, 2, 7, 7)
	sample(dtype.F32, same, 1, 2, 2, false, 0, 5, 5)
	sample(dtype.F32, same, 3, 72, 72, true, 1, 5, 6)
	sample(dtype.F32, dot, 2, 40, 96, true, 1, 2, 3, 3)
	sample(dtype.F32, line, 2, 6, 96, false, 2, 9)
	wide := Window{Kernel: []int64{3, 2}, Strides: []int64{1, 1}, Dilations: []int64{2, 3},
		Begin: ir.Constants([]int64{2, 1}), End: ir.Constants([]int64{2, 2})}
	for _, dt := range []dtype.DType{dtype.F32, dtype.F16, dtype.I32} {
		sample(dt, same, 4, 4, 8, true, 2, 6, 5)
		sample(dt, wide, 3, 3, 3, false, 1, 7, 6)
	}
	sample(dtype.F32, line, 3, 3, 6, true, 2, 8)
	sample(dtype.F32, same, 2, 2, 2, true, 1, 6, 1500)
	for _, w := range farWindows {
		sample(dtype.F32, w, 1, 16, 5, true, 2, 7, 6)
		sample(dtype.F32, w, 2, 32, 6, false, 1, 5, 8)
	}
	for _, channels := range []int64{3, 32} {
		sample(dtype.F32, Window{Kernel: []int64{9, 9}, Strides: []int64{1, 1}, Dilations: []int64{1, 1},
			Begin: ir.Constants([]int64{4, 4}), End: ir.Constants([]int64{4, 4})},
			channels, channels, channels, true, 1, 10, 11)
		sample(dtype.F32, Window{Kernel: []int64{4, 8}, Strides: []int64{2, 2}, Dilations: []int64{1, 2},
			Begin: ir.Constants([]int64{5, 0}), End: ir.Constants([]int64{4, 3})},
			channels, channels, channels, false, 2, 5, 13)
		sample(dtype.F32, Window{Kernel: []int64{31}, Strides: []int64{1}, Dilations: []int64{1},
			Begin: ir.Constants([]int64{15}), End: ir.Constants([]int64{15})},
			channels, channels, channels, true, 1, 20)
	}
	sample(dtype.F32, Window{Kernel: []int64{3}, Strides: []int64{1}, Dilations: []int64{4},
		Begin: ir.Constants([]int64{4}), End: ir.Constants([]int64{4})}, 1, 16, 3, true, 2, 7)
	sample(dtype.F32, Window{Kernel: []int64{3, 2, 3}, Strides: []int64{1, 1, 1}, Dilations: []int64{1, 3, 5},
		Begin: ir.Constants([]int64{1, 2, 5}), End: ir.Constants([]int64{1, 1, 5})},
		1, 17, 3, true, 1, 2, 3, 6)
	return append(withHoles(withLast(out, false)), besideSamples(r)...)
}

// withHoles adds, for each sample of f32 with its channels last, a copy whose weights have holes and whose input has
// infinities and NaN.
func withHoles(samples []Sample) []Sample {
	for _, s := range samples[:len(samples):len(samples)] {
		last, _ := s.Attrs["last"].(bool)
		if !last || s.Inputs[0].DType() != dtype.F32 {
			continue
		}
		attrs := maps.Clone(s.Attrs)
		attrs["holes"] = true
		in := slices.Clone(s.Inputs)
		in[0], in[1] = in[0].Clone(), in[1].Clone()
		for i := range in[1].Len() {
			switch i % 3 {
			case 0:
				in[1].SetFloat(i, 0)
			case 1:
				in[1].SetFloat(i, math.Copysign(0, -1))
			}
		}
		samples = append(samples, Sample{Attrs: attrs, Inputs: slices.Clone(in), Constant: s.Constant})
		if in[0] = in[0].Clone(); in[0].Len() > 0 {
			in[0].SetFloat(in[0].Len()/2, math.Inf(-1))
			in[0].SetFloat(in[0].Len()-1, math.NaN())
		}
		samples = append(samples, Sample{Attrs: attrs, Inputs: in, Constant: s.Constant})
	}
	return samples
}

// convolutionProducts returns the number of weights of one filter.
func convolutionProducts(n *ir.Node) int64 {
	each := int64(1)
	for _, extent := range n.Inputs[1].Const.Shape()[1:] {
		each *= extent
	}
	return each
}

// convolutionCost returns the number of multiplications and additions: one of each for each weight of a filter and
// element of the result.
func convolutionCost(n *ir.Node, size func(...sym.Expr) float64) float64 {
	out := n.Outputs[0].Type.Shape
	filters := out[1]
	if Last(n) {
		filters = out[len(out)-1]
	}
	return 2 * size(out...) * size(n.Inputs[1].Type.Shape...) / max(size(filters), 1)
}
