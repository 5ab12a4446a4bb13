package ops

import (
	"math/rand"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sliding"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator convolution_transpose.
func init() {
	define(&Def{Op: "convolution_transpose", WantsLast: true, rows: rowRule{axes: transposedRows},
		Grad: convolutionTransposeGrad, Shape: convTransposeShape, Mean: convTransposeMean, Samples: convTransposeSamples,
		Lowerings: []Lowering{{Name: "sums", Blocks: true, Build: convTransposeSums},
			{Name: "rows", Build: convTransposeRows}}})
}

// ConvolutionTranspose adds each element of x[N, I, d…], times the kernel w[I, O/groups, k…], to the result, kernels
// Strides apart: it is the gradient of Convolution by its input. The result's extent along each spatial axis is (d −
// 1)·stride + the window's extent − begin − end; negative padding enlarges it. bias, [O], may be nil.
func ConvolutionTranspose(b *ir.Builder, x, w, bias *ir.Value, window Window, groups int64) *ir.Value {
	attrs := window.Attrs()
	attrs["groups"] = groups
	inputs := []*ir.Value{x, w}
	if bias != nil {
		inputs = append(inputs, bias)
	}
	return b.Op("convolution_transpose", attrs, inputs...)
}

// convTransposeShape checks types, channels, groups, kernel and padding and infers [N, O, o…].
func convTransposeShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 2, 3); err != nil {
		return err
	}
	x, w := n.Inputs[0].Type, n.Inputs[1].Type
	if len(x.Shape) < 3 || len(w.Shape) != len(x.Shape) || x.DType != w.DType || !numbers(x.DType) {
		return fault(n, "input %s and weights %s; both need the same type and rank, at least 3", x, w)
	}
	window, err := windowOf(n, len(x.Shape)-2)
	if err != nil {
		return err
	}
	groups := n.Attrs.Int("groups", 1)
	if groups < 1 {
		return fault(n, "%d groups", groups)
	}
	if err := c.RequireEqual(n, x.Shape[1], w.Shape[0], "the channels of a convolution"); err != nil {
		return err
	}
	if err := c.RequireEqual(n, w.Shape[0].Mod(sym.Const(groups)), sym.Const(0),
		"input channels are a multiple of the groups"); err != nil {
		return err
	}
	shape := []sym.Expr{x.Shape[0], w.Shape[1].Mul(sym.Const(groups))}
	for i := range window.Kernel {
		if err := c.RequireEqual(n, w.Shape[2+i], sym.Const(window.Kernel[i]), "the kernel's extent"); err != nil {
			return err
		}
		extent := x.Shape[2+i].Sub(one).Mul(sym.Const(window.Strides[i])).Add(sym.Const(window.Extent(i))).
			Sub(window.Begin[i]).
			Sub(window.End[i])
		if err := c.Require(n, sym.Cond{A: sym.Const(0), Rel: sym.LE, B: extent},
			"the padding is no longer than the result"); err != nil {
			return err
		}
		shape = append(shape, c.Dims().Simplify(extent))
	}
	if bias := input(n, 2); bias != nil {
		if len(bias.Type.Shape) != 1 {
			return fault(n, "a bias of rank %d", len(bias.Type.Shape))
		}
		if err := c.RequireEqual(n, bias.Type.Shape[0], shape[1], "one bias for each output channel"); err != nil {
			return err
		}
	}
	n.Result(0, ir.Type{DType: x.DType, Shape: shape})
	return nil
}

// convTransposeMean is the reference: each element is its bias plus the sum over the kernel elements that reach it, in
// 64 bits.
func convTransposeMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
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
	inner, perGroup := x.Shape()[1]/groups, w.Shape()[1]
	sx, sw := tensor.Strides(x.Shape()), tensor.Strides(w.Shape())
	flat := int64(0)
	tensor.Each(out.Shape(), func(o []int64) {
		sum := 0.0
		if bias != nil {
			sum = bias.Float(o[1])
		}
		group := o[1] / perGroup
		kernel := append([]int64{inner}, window.Kernel...)
		tensor.Each(kernel, func(k []int64) {
			channel := group*inner + k[0]
			from, weight, ok := o[0]*sx[0]+channel*sx[1], channel*sw[0]+o[1]%perGroup*sw[1], true
			for i := range window.Kernel {
				p := o[2+i] + begin[i] - k[1+i]*window.Dilations[i]
				ok = ok && p >= 0 && p%window.Strides[i] == 0 && p/window.Strides[i] < x.Shape()[2+i]
				from += p / window.Strides[i] * sx[2+i]
				weight += k[1+i] * sw[2+i]
			}
			if ok {
				sum += x.Float(from) * w.Float(weight)
			}
		})
		out.SetFloat(flat, sum)
		flat++
	})
	return []*tensor.Tensor{out}, nil
}

// convTransposeRows lowers a transposed convolution: each iteration computes one row of output positions for all
// channels of a group. For each kernel position that reaches the row it multiplies the weights with an input row and
// adds the product to every stride-th column.
func convTransposeRows(k *Nest, n *ir.Node) {
	x, w, out := k.In[0], k.In[1], k.Out[0]
	rank := len(x.Shape)
	last := rank - 1
	window, _ := windowOf(n, rank-2)
	groups := n.Attrs.Int("groups", 1)
	perGroup, inner, width := w.Shape[1], sliding.GroupOf(x.Shape[1], groups), out.Shape[last]
	k.Each("n", out.Shape[0], func(image sym.Expr) {
		sliding.Grouped(k.Builder, groups, func(group sym.Expr) {
			k.Nest(loop.Each, "row", out.Shape[2:last], func(row []sym.Expr) {
				acc := sliding.Biased(k.Builder, present(k.In, 2), out.DType.Accumulator(), group.Mul(perGroup), perGroup, width)
				k.Nest(loop.Serial, "k", w.Shape[2:], func(at []sym.Expr) {
					var reaches loop.Expr
					from := []sym.Expr{image, group.Mul(inner)}
					for i := range row {
						stride := sym.Const(window.Strides[i])
						p := row[i].Add(window.Begin[i]).Sub(at[i].Mul(sym.Const(window.Dilations[i])))
						if window.Strides[i] > 1 {
							reaches = loop.Both(reaches, loop.Apply2(loop.Eq, loop.At(p.Mod(stride)), loop.At(sym.Const(0))))
						}
						from = append(from, p.FloorDiv(stride))
						reaches = loop.Both(reaches, loop.Inside(p.FloorDiv(stride), sym.Const(0), x.Shape[2+i]))
					}
					axis := last - 2
					stride := sym.Const(window.Strides[axis])
					// Input position i, in [first, end), reaches output position i·stride + shift.
					shift := at[axis].Mul(sym.Const(window.Dilations[axis])).Sub(window.Begin[axis])
					first := shift.Neg().CeilDiv(stride).Max(sym.Const(0))
					end := width.Sub(shift).CeilDiv(stride).Min(x.Shape[last])
					from = append(from, first)
					multiply := func() {
						k.Contract(perGroup, end.Sub(first), inner,
							acc.Tile([]sym.Expr{{}, first.Mul(stride).Add(shift)}, unit(2, 0, one), unit(2, 1, stride)),
							w.Tile(append([]sym.Expr{group.Mul(inner), {}}, at...), unit(rank, 1, one), unit(rank, 0, one)),
							x.Tile(from, unit(rank, 1, one), unit(rank, last, one)))
					}
					if reaches == nil {
						multiply()
					} else {
						k.When(reaches, multiply, nil)
					}
				})
				k.Nest(loop.Each, "o", acc.Shape, func(at []sym.Expr) {
					to := append([]sym.Expr{image, group.Mul(perGroup).Add(at[0])}, row...)
					k.Store(out, append(to, at[1]), loop.Convert(out.DType, acc.Load(at...)))
				})
			})
		})
	})
}

// convTransposeSums lowers a transposed convolution to one sum per element of the result, over the channels of its
// group and the window positions that reach it. With a stride of s these are every s-th, starting at one that depends
// on the element's position modulo s, so each residue has its own loop nest. A window with a stride and a dilation is
// visited entirely instead.
func convTransposeSums(k *Nest, n *ir.Node) {
	x, w, out := k.In[0], k.In[1], k.Out[0]
	window, _ := windowOf(n, len(x.Shape)-2)
	groups := n.Attrs.Int("groups", 1)
	perGroup, inner, dt := w.Shape[1], sliding.GroupOf(x.Shape[1], groups), out.DType.Accumulator()
	axes := make([]spreadAxis, len(window.Kernel))
	var phases, positions []sym.Expr
	steps := []sym.Expr{inner}
	for i := range axes {
		axes[i] = spreadAxis{stride: window.Strides[i], dilation: window.Dilations[i], begin: window.Begin[i],
			kernel: window.Kernel[i], from: x.Shape[2+i], to: out.Shape[2+i]}
		phase, position, step := axes[i].extents(k.D)
		phases, positions, steps = append(phases, phase), append(positions, position), append(steps, step)
	}
	extents := append([]sym.Expr{out.Shape[0], sym.Const(groups), perGroup}, append(phases, positions...)...)
	k.Nest(loop.Each, "o", extents, func(at []sym.Expr) {
		image, group, filter := at[0], at[1], at[1].Mul(perGroup).Add(at[2])
		start := loop.Expr(loop.Number(dt, 0))
		if bias := present(k.In, 2); bias != nil {
			start = loop.Convert(dt, bias.Load(filter))
		}
		sum := k.Var("sum", start)
		to := []sym.Expr{image, filter}
		var stored loop.Expr
		for i, a := range axes {
			o, inside := a.position(at[3+i], at[3+len(axes)+i])
			to, stored = append(to, o), loop.Both(stored, inside)
		}
		k.Nest(loop.Serial, "k", steps, func(step []sym.Expr) {
			channel := group.Mul(inner).Add(step[0])
			from, weight := []sym.Expr{image, channel}, []sym.Expr{channel, at[2]}
			var reaches, within loop.Expr
			for i, a := range axes {
				p, tap, in, known := a.source(at[3+i], at[3+len(axes)+i], step[1+i])
				from, weight = append(from, p), append(weight, tap)
				reaches, within = loop.Both(reaches, in), loop.Both(within, known)
			}
			factor := w.Load(weight...)
			if within != nil {
				factor = w.LoadIf(within, loop.Number(w.DType, 0), weight...)
			}
			value := x.LoadIf(loop.Both(within, reaches), loop.Number(x.DType, 0), from...)
			k.Reduce(sum, loop.Add, loop.Apply2(loop.Mul, loop.Convert(dt, value), loop.Convert(dt, factor)))
		})
		k.StoreIf(stored, out, to, loop.Convert(out.DType, sum))
	})
}

// spreadAxis is one axis of a transposed convolution.
type spreadAxis struct {
	stride, dilation, kernel int64
	begin, from, to          sym.Expr // padding, and the extents of the input and the result
}

// phased reports whether positions are grouped by their residue modulo the stride.
func (a spreadAxis) phased() bool { return a.stride > 1 && a.dilation == 1 }

// extents returns the number of phases, of positions of each phase, and of window positions that may reach a position.
func (a spreadAxis) extents(d *sym.Dims) (phases, positions, steps sym.Expr) {
	if !a.phased() {
		return one, a.to, sym.Const(a.kernel)
	}
	stride := sym.Const(a.stride)
	return stride, d.Simplify(a.to.CeilDiv(stride)), sym.Const((a.kernel + a.stride - 1) / a.stride)
}

// position returns the position in the result of position at of a phase; inside tests whether it lies in the result,
// nil if it always does.
func (a spreadAxis) position(phase, at sym.Expr) (o sym.Expr, inside loop.Expr) {
	if !a.phased() {
		return at, nil
	}
	o = at.Mul(sym.Const(a.stride)).Add(phase)
	if isMultiple(a.to, a.stride) {
		return o, nil
	}
	return o, loop.Apply2(loop.Lt, loop.At(o), loop.At(a.to))
}

// source returns the input position p, and the window position tap, from which step reaches a position of the result;
// reaches tests whether p lies in the input, within whether tap lies in the window (nil: always).
func (a spreadAxis) source(phase, at, step sym.Expr) (p, tap sym.Expr, reaches, within loop.Expr) {
	stride := sym.Const(a.stride)
	if a.phased() {
		first := phase.Add(a.begin)
		p, tap = at.Add(first.FloorDiv(stride)).Sub(step), first.Mod(stride).Add(step.Mul(stride))
		if a.kernel%a.stride != 0 {
			within = loop.Apply2(loop.Lt, loop.At(tap), loop.At(sym.Const(a.kernel)))
		}
		return p, tap, loop.Inside(p, sym.Const(0), a.from), within
	}
	spread := at.Add(a.begin).Sub(step.Mul(sym.Const(a.dilation)))
	p = spread.FloorDiv(stride)
	reaches = loop.Inside(p, sym.Const(0), a.from)
	if a.stride > 1 {
		reaches = loop.Both(reaches, loop.Apply2(loop.Eq, loop.At(spread.Mod(stride)), loop.At(sym.Const(0))))
	}
	return p, step, reaches, nil
}

// convTransposeSamples returns inputs for each window, type and number of groups.
func convTransposeSamples(r *rand.Rand) []Sample {
	var out []Sample
	sample := func(dt dtype.DType, w Window, groups, channels, filters int64, bias bool, shape ...int64) {
		attrs := w.Attrs()
		attrs["groups"] = groups
		in := []*tensor.Tensor{sampleNormal(r, dt, append([]int64{shape[0], channels}, shape[1:]...)...),
			sampleNormal(r, dt, append([]int64{channels, filters / groups}, w.Kernel...)...)}
		if bias {
			in = append(in, sampleNormal(r, dt, filters))
		}
		out = append(out, Sample{Attrs: attrs, Inputs: in, Constant: []int{1, 2}})
	}
	for i, w := range sampleWindows {
		for _, groups := range []int64{1, 2} {
			sample(dtype.F32, w, groups, 4, 6, i%2 == 0, 2, 4, 5)
		}
	}
	longer := Window{Kernel: []int64{3, 3}, Strides: []int64{3, 2}, Dilations: []int64{1, 1},
		Begin: ir.Constants([]int64{0, 1}), End: ir.Constants([]int64{-1, -1})}
	for _, dt := range floatTypes {
		sample(dt, longer, 1, 3, 2, true, 1, 3, 4)
	}
	sample(dtype.F32, Window{Kernel: []int64{3}, Strides: []int64{2}, Dilations: []int64{2},
		Begin: ir.Constants([]int64{1}), End: ir.Constants([]int64{0})}, 1, 3, 2, true, 2, 5)
	sample(dtype.F32, Window{Kernel: []int64{2, 1, 3}, Strides: []int64{2, 2, 1}, Dilations: []int64{1, 1, 1},
		Begin: ir.Constants([]int64{1, 0, 1}), End: ir.Constants([]int64{0, 0, 1})}, 2, 2, 4, true, 1, 3, 2, 4)
	sample(dtype.F32, longer, 1, 2, 2, false, 0, 3, 3)
	return out
}

// transposedRows reports whether the result can be computed slice by slice along an axis: images only.
func transposedRows(_ *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
	in[0] = axis
	return axis == 0
}
