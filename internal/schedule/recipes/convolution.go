package recipes

import (
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sliding"
	"github.com/weirml/weir/internal/sym"
)

// convolution is the kernel of a convolution. Inputs and results are [N, C, d…] and weights [O, I/groups, k…] or, with
// channels last, [N, d…, C] and [k…, I/groups, O]. A bias may follow the weights.
type convolution struct {
	*nest
	window sliding.Window
	groups int64
	last   bool  // channels are last
	holes  bool  // elements of +0 among the weights are not weights: nothing is multiplied by them
	beside int64 // the number of the kernel's last axes that lie beside the output channels; see convolutionBeside
}

// convolutions returns a recipe for convolutions that satisfy a condition.
func convolutions(name string, when func(k *convolution) bool, write func(k *convolution)) recipe {
	return recipe{op: "convolution", name: name, write: func(n *nest) bool {
		k := convolutionOf(n)
		applies := k != nil && when(k)
		if applies {
			write(k)
		}
		return applies
	}}
}

// convolutionOf reads the meaning of a convolution; nil if it does not fit the parameters.
func convolutionOf(n *nest) *convolution {
	k := &convolution{nest: n, groups: max(attribute[int64](n, "groups"), 1), last: attribute[bool](n, "last"),
		holes: attribute[bool](n, "holes"), beside: attribute[int64](n, "beside"),
		window: sliding.Window{
			Kernel: attribute[[]int64](n, "kernel"), Strides: attribute[[]int64](n, "strides"),
			Dilations: attribute[[]int64](n, "dilations"),
			Begin:     attribute[[]sym.Expr](n, "begin"), End: attribute[[]sym.Expr](n, "end")}}
	if len(n.In) < 2 || len(n.Out) != 1 {
		return nil
	}
	axes, w := len(n.In[0].Shape)-2, k.window
	for _, length := range []int{len(n.In[1].Shape) - 2, len(n.Out[0].Shape) - 2, len(w.Kernel), len(w.Strides),
		len(w.Dilations), len(w.Begin), len(w.End)} {
		if length != axes {
			return nil
		}
	}
	return k
}

// both returns the condition that x and y are true.
func both(x, y func(k *convolution) bool) func(k *convolution) bool {
	return func(k *convolution) bool { return x(k) && y(k) }
}

// channelsFirst reports whether channels are first.
func channelsFirst(k *convolution) bool { return !k.last }

// isBeside reports whether elements of the kernel lie beside the output channels.
func isBeside(k *convolution) bool { return k.beside > 0 }

// isRows reports whether channels are last, and no element of the kernel lies beside the output channels.
func isRows(k *convolution) bool { return k.last && !isBeside(k) }

// isFull reports whether the weights have no holes.
func isFull(k *convolution) bool { return !k.holes }

// planar reorders a list over the axes of an input or a result to [N, C, d…].
func (k *convolution) planar(list []sym.Expr) []sym.Expr {
	if !k.last {
		return list
	}
	axis := len(list) - 1
	return append([]sym.Expr{list[0], list[axis]}, list[1:axis]...)
}

// unplanar reorders a list over [N, C, d…] to the axes of inputs and results.
func (k *convolution) unplanar(list []sym.Expr) []sym.Expr {
	if !k.last {
		return list
	}
	return append(append([]sym.Expr{list[0]}, list[2:]...), list[1])
}

// filter reorders a list over the axes of weights, none of which lie beside the output channels, to [O, I, k…].
func (k *convolution) filter(list []sym.Expr) []sym.Expr {
	if !k.last {
		return list
	}
	axis := len(list) - 1
	return append([]sym.Expr{list[axis], list[axis-1]}, list[:axis-1]...)
}

// isPointwise reports whether the kernel has one element, a stride of 1 and no padding.
func isPointwise(k *convolution) bool {
	w := k.window
	for i := range w.Kernel {
		if w.Kernel[i] != 1 || w.Strides[i] != 1 || !w.Unpadded(i) {
			return false
		}
	}
	return true
}

// convolutionPointwise computes a pointwise convolution: one matrix product per image and group, [O/g, I/g] × [I/g,
// positions].
func convolutionPointwise(k *convolution) {
	x, w, out := k.In[0], k.In[1], k.Out[0]
	groups := k.groups
	spatial := x.Shape[2:]
	positions := sym.Product(spatial...)
	perGroup, inner := sliding.GroupOf(out.Shape[1], groups), w.Shape[1]
	// The spatial axes of x become one axis; the result keeps its shape, so that elementwise operators can be fused into
	// the kernel.
	k.Reshape(x, x.Shape[0], x.Shape[1], positions)
	k.Reshape(w, w.Shape[0], w.Shape[1])
	k.Each("n", x.Shape[0], func(image sym.Expr) {
		sliding.Grouped(k.Builder, groups, func(group sym.Expr) {
			acc := sliding.Biased(k.Builder, k.optional(2), out.DType.Accumulator(), group.Mul(perGroup), perGroup, positions)
			k.Contract(perGroup, positions, inner,
				acc.Tile(zeros(2), unit(2, 0, one), unit(2, 1, one)),
				w.Tile([]sym.Expr{group.Mul(perGroup), {}}, unit(2, 0, one), unit(2, 1, one)),
				x.Tile([]sym.Expr{image, group.Mul(inner), {}}, unit(3, 1, one), unit(3, 2, one)))
			k.Nest(loop.Each, "o", acc.Shape, func(at []sym.Expr) {
				to := append([]sym.Expr{image, group.Mul(perGroup).Add(at[0])}, sym.Unravel(at[1], spatial)...)
				k.Store(out, to, loop.Convert(out.DType, acc.Load(at...)))
			})
		})
	})
}

// isDepthwise reports whether each of several groups has one input channel, and the weights have no holes.
func isDepthwise(k *convolution) bool {
	return isFull(k) && isOne(k.filter(k.In[1].Shape)[1]) && k.groups > 1
}

// convolutionDepthwise computes a convolution with one input channel for each output channel to sums over the window:
// without a sum over channels it is not a matrix product.
func convolutionDepthwise(k *convolution) {
	x, w, bias, out := k.In[0], k.In[1], k.optional(2), k.Out[0]
	window := k.window
	shape, kernel := k.planar(x.Shape), k.filter(w.Shape)[2:]
	multiplier := sliding.GroupOf(k.planar(out.Shape)[1], k.groups)
	dt := out.DType.Accumulator()
	k.Nest(loop.Each, "o", out.Shape, func(to []sym.Expr) {
		o := k.planar(to)
		start := loop.Expr(loop.Number(dt, 0))
		if bias != nil {
			start = loop.Convert(dt, bias.Load(o[1]))
		}
		sum := k.Var("sum", start)
		k.Nest(loop.Serial, "k", kernel, func(at []sym.Expr) {
			from := []sym.Expr{o[0], o[1].FloorDiv(multiplier)}
			var mask loop.Expr
			for i := range at {
				p := window.Source(i, o[2+i], at[i])
				from = append(from, p)
				mask = loop.Both(mask, window.Inside(i, p, shape[2+i]))
			}
			from = k.unplanar(from)
			value := x.Load(from...)
			if mask != nil {
				value = x.LoadIf(mask, loop.Number(x.DType, 0), from...)
			}
			weight := append([]sym.Expr{o[1], {}}, at...)
			if k.last {
				weight = append(append([]sym.Expr{}, at...), sym.Expr{}, o[1])
			}
			k.Reduce(sum, loop.Add, loop.Apply2(loop.Mul, loop.Convert(dt, value), loop.Convert(dt, w.Load(weight...))))
		})
		k.Store(out, to, loop.Convert(out.DType, sum))
	})
}

// convolutionDirect computes a convolution with its channels first: each iteration computes one row of output positions
// for all channels of a group. For each kernel position it multiplies the weights with the slice of the input row that
// the position sees, without copying the input.
func convolutionDirect(k *convolution) {
	x, w, out := k.In[0], k.In[1], k.Out[0]
	rank := len(x.Shape)
	last := rank - 1
	window := k.window
	groups := k.groups
	perGroup, inner, width := sliding.GroupOf(out.Shape[1], groups), w.Shape[1], out.Shape[last]
	k.Each("n", out.Shape[0], func(image sym.Expr) {
		sliding.Grouped(k.Builder, groups, func(group sym.Expr) {
			k.Nest(loop.Each, "row", out.Shape[2:last], func(row []sym.Expr) {
				acc := sliding.Biased(k.Builder, k.optional(2), out.DType.Accumulator(), group.Mul(perGroup), perGroup, width)
				k.Nest(loop.Serial, "k", w.Shape[2:], func(at []sym.Expr) {
					var inRow loop.Expr
					from := []sym.Expr{image, group.Mul(inner)}
					for i := range row {
						p := window.Source(i, row[i], at[i])
						from = append(from, p)
						inRow = loop.Both(inRow, window.Inside(i, p, x.Shape[2+i]))
					}
					axis := last - 2
					stride := sym.Const(window.Strides[axis])
					// The count output positions from first on are those whose source lies in [0, extent).
					shift := window.Begin[axis].Sub(at[axis].Mul(sym.Const(window.Dilations[axis])))
					first := shift.CeilDiv(stride).Max(sym.Const(0))
					end := x.Shape[last].Add(shift).CeilDiv(stride).Min(width)
					if window.Unpadded(axis) {
						first, end = sym.Const(0), width
					}
					from = append(from, window.Source(axis, first, at[axis]))
					multiply := func() {
						k.Contract(perGroup, end.Sub(first), inner,
							acc.Tile([]sym.Expr{{}, first}, unit(2, 0, one), unit(2, 1, one)),
							w.Tile(append([]sym.Expr{group.Mul(perGroup), {}}, at...), unit(rank, 0, one), unit(rank, 1, one)),
							x.Tile(from, unit(rank, 1, one), unit(rank, last, stride)))
					}
					if inRow == nil {
						multiply()
					} else {
						k.When(inRow, multiply, nil)
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
