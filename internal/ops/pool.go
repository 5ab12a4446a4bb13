package ops

import (
	"math"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operators max_pool, max_pool_indices, average_pool and lp_pool.
func init() {
	define(&Def{Op: "max_pool", Last: poolLast, Picks: true, NotNegative: maxPoolNotNegative, Cost: windowCost,
		rows: windowRows, Grad: maxPoolGrad, Shape: poolShape, Mean: maxPoolMean, Samples: poolSamples,
		Lowerings: []Lowering{{Name: "window", Build: maxPoolWindow}}})
	define(&Def{Op: "max_pool_indices", Grad: maxPoolIndicesGrad, Shape: poolIndicesShape, Mean: poolIndicesMean,
		Samples:   poolIndicesSamples,
		Lowerings: []Lowering{{Name: "window", Build: poolIndicesWindow}}})
	define(&Def{Op: "average_pool", Last: poolLast, NotNegative: firstNotNegative, Cost: windowCost, rows: windowRows,
		Grad: averagePoolGrad, Shape: poolShape, Mean: averagePoolMean, Samples: averagePoolSamples,
		Lowerings: []Lowering{{Name: "window", Build: averagePoolWindow}}})
	define(&Def{Op: "lp_pool", Last: poolLast, Cost: windowCost, rows: windowRows, Grad: lpPoolGrad, Shape: poolShape,
		Mean: lpPoolMean, Samples: lpPoolSamples, Lowerings: []Lowering{{Name: "window", Build: lpPoolWindow}}})
}

// MaxPool returns the largest element under the window at each position; positions outside the input count as the
// lowest number. With ceil, a last window may extend beyond the end.
func MaxPool(b *ir.Builder, x *ir.Value, w Window, ceil bool) *ir.Value {
	attrs := w.Attrs()
	attrs["ceil"] = ceil
	return b.Op("max_pool", attrs, x)
}

// MaxPoolIndices also returns the index in x of each largest element, the first of several: the number of elements
// before it. With columns, the first spatial axis is counted fastest.
func MaxPoolIndices(b *ir.Builder, x *ir.Value, w Window, ceil, columns bool) (y, indices *ir.Value) {
	attrs := w.Attrs()
	attrs["ceil"], attrs["columns"] = ceil, columns
	n := b.Node("max_pool_indices", attrs, x)
	return n.Outputs[0], n.Outputs[1]
}

// LpPool returns the p-norm of the elements under the window, (Σ |x|ᵖ)^(1/p); positions outside the input count as 0.
func LpPool(b *ir.Builder, x *ir.Value, w Window, ceil bool, p int64) *ir.Value {
	attrs := w.Attrs()
	attrs["ceil"], attrs["p"] = ceil, p
	return b.Op("lp_pool", attrs, x)
}

// AveragePool returns the mean under the window. With padded, positions in the padding count as zeros; those beyond the
// padding never count.
func AveragePool(b *ir.Builder, x *ir.Value, w Window, ceil, padded bool) *ir.Value {
	attrs := w.Attrs()
	attrs["ceil"], attrs["padded"] = ceil, padded
	return b.Op("average_pool", attrs, x)
}

// poolShape requires one input of numbers of rank 3 or more; the spatial extents are the numbers of window positions.
func poolShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x := n.Inputs[0].Type
	if len(x.Shape) < 3 {
		return fault(n, "an input of rank %d; at least 3 is needed", len(x.Shape))
	}
	if !numbers(x.DType) {
		return fault(n, "elements of type %s", x.DType)
	}
	w, err := windowOf(n, len(x.Shape)-2)
	if err != nil {
		return err
	}
	sizes := planar(n, x.Shape)
	shape := append([]sym.Expr{}, sizes[:2]...)
	for i := range w.Kernel {
		extent := w.Positions(i, sizes[2+i])
		if n.Attrs.Bool("ceil") {
			extent = overhanging(w, i, sizes[2+i])
		}
		if err := c.Require(n, sym.Cond{A: leastPositions(extent), Rel: sym.LE, B: extent},
			"the window fits the padded input"); err != nil {
			return err
		}
		shape = append(shape, c.Dims().Simplify(extent))
	}
	n.Result(0, ir.Type{DType: x.DType, Shape: unplanar(n, shape)})
	return nil
}

// leastPositions returns the least number of positions that the shape rule demands of a window. Known sizes may leave
// none, and the result is empty. Named sizes must leave one: the planner compares them, which takes many times as long
// if each may be 0.
func leastPositions(extent sym.Expr) sym.Expr {
	if _, known := extent.Const(); known {
		return sym.Const(0)
	}
	return one
}

// overhanging returns the number of window positions along an axis if the last window may extend beyond the end, as
// long as it begins inside the input or the padding before it.
func overhanging(w Window, axis int, extent sym.Expr) sym.Expr {
	stride := sym.Const(w.Strides[axis])
	room := extent.Add(w.Begin[axis]).Add(w.End[axis]).Sub(sym.Const(w.Extent(axis)))
	begins := extent.Add(w.Begin[axis]).CeilDiv(stride)
	return room.CeilDiv(stride).Add(one).Min(begins)
}

// maxPoolNotNegative is firstNotNegative, unless a window may lie outside the input with all of its positions: the
// result is then the lowest number. Of an extent without a known value, it takes the least with which the shape rule
// allows a window.
func maxPoolNotNegative(n *ir.Node, is func(*ir.Value) bool) bool {
	sizes := planar(n, n.Inputs[0].Type.Shape)[2:]
	w, err := windowOf(n, len(sizes))
	if err != nil || !is(n.Inputs[0]) {
		return false
	}
	for i := range sizes {
		before, known := w.Begin[i].Const()
		after, also := w.End[i].Const()
		reach := w.Extent(i) - 1 // from a window's first position to its last
		if !known || !also || before > reach || after > reach {
			return false
		}
		size, fixed := sizes[i].Const()
		if !fixed {
			size = reach + 1 - before - after
			if n.Attrs.Bool("ceil") {
				size -= w.Strides[i] - 1
			}
		}
		if size < w.Dilations[i] && (before > 0 || after > 0) { // the window's positions may lie on both sides of the input
			return false
		}
	}
	return true
}

// poolEach calls, for each output element, begin, then visit with each input element under the window, then end with
// the output's index and the number of window positions that lie in the input or its padding.
func poolEach(e *ir.Evaluation, n *ir.Node, x, out *tensor.Tensor, begin func(), visit func(at int64),
	end func(to, positions int64)) error {
	w, err := windowOf(n, x.Rank()-2)
	if err != nil {
		return err
	}
	first, after, err := padding(e, w)
	if err != nil {
		return err
	}
	shape, strides, flat := planar(n, x.Shape()), planar(n, tensor.Strides(x.Shape())), int64(0)
	tensor.Each(out.Shape(), func(o []int64) {
		o = planar(n, o)
		begin()
		positions := int64(0)
		tensor.Each(w.Kernel, func(k []int64) {
			at, inside, padded := o[0]*strides[0]+o[1]*strides[1], true, true
			for i := range k {
				p := o[2+i]*w.Strides[i] + k[i]*w.Dilations[i] - first[i]
				inside = inside && p >= 0 && p < shape[2+i]
				padded = padded && p < shape[2+i]+after[i]
				at += p * strides[2+i]
			}
			if inside {
				visit(at)
			}
			if padded {
				positions++
			}
		})
		end(flat, positions)
		flat++
	})
	return nil
}

// maxPoolMean compares elements in their own type, from the type's lowest number on.
func maxPoolMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	dt := out.DType()
	var best uint64
	err = poolEach(e, n, in[0], out, func() { best = loop.Lowest(dt).Bits },
		func(at int64) { best = loop.EvalBinary(loop.Max, dt, best, bitsOf(in[0], at)) },
		func(to, _ int64) { setBits(out, to, best) })
	return []*tensor.Tensor{out}, err
}

// averagePoolMean sums in f64; a window that covers no position gives NaN.
func averagePoolMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	var sum float64
	var count int64
	err = poolEach(e, n, in[0], out, func() { sum, count = 0, 0 },
		func(at int64) { sum += in[0].Float(at); count++ },
		func(to, positions int64) {
			if n.Attrs.Bool("padded") {
				count = positions
			}
			if count == 0 {
				sum = math.NaN()
			}
			out.SetFloat(to, sum/float64(count))
		})
	return []*tensor.Tensor{out}, err
}

// poolNest writes the loops over output elements and window positions. body gets the load of an element, which is
// otherwise if the position lies outside the input.
func poolNest(k *Nest, n *ir.Node, otherwise *loop.Const, begin func(o []sym.Expr), body func(value loop.Expr),
	end func(o []sym.Expr)) {
	x, out := k.In[0], k.Out[0]
	w, _ := windowOf(n, len(x.Shape)-2)
	ceil, shape := n.Attrs.Bool("ceil"), planar(n, x.Shape)
	k.Nest(loop.Each, "o", out.Shape, func(to []sym.Expr) {
		o := planar(n, to)
		begin(o)
		k.Nest(loop.Serial, "k", ir.Constants(w.Kernel), func(at []sym.Expr) {
			from := append([]sym.Expr{}, o[:2]...)
			var mask loop.Expr
			for i := range at {
				p := w.Source(i, o[2+i], at[i])
				from = append(from, p)
				if ceil {
					mask = loop.Both(mask, loop.Inside(p, sym.Const(0), shape[2+i]))
				} else {
					mask = loop.Both(mask, w.Inside(i, p, shape[2+i]))
				}
			}
			from = unplanar(n, from)
			if mask == nil {
				body(x.Load(from...))
			} else {
				body(x.LoadIf(mask, otherwise, from...))
			}
		})
		end(to)
	})
}

// maxPoolWindow reduces each window by Max, from the type's lowest number on.
func maxPoolWindow(k *Nest, n *ir.Node) {
	var best *loop.Ref
	lowest := loop.Lowest(k.In[0].DType)
	poolNest(k, n, lowest, func([]sym.Expr) { best = k.Var("best", lowest) },
		func(value loop.Expr) { k.Reduce(best, loop.Max, value) },
		func(o []sym.Expr) { k.Store(k.Out[0], o, best) })
}

// averagePoolWindow sums each window and divides by the number of positions that count, which it computes rather than
// counts.
func averagePoolWindow(k *Nest, n *ir.Node) {
	var sum *loop.Ref
	x, dt := k.In[0], computing(k.In[0].DType)
	w, _ := windowOf(n, len(x.Shape)-2)
	poolNest(k, n, loop.Number(x.DType, 0), func([]sym.Expr) { sum = k.Var("sum", loop.Number(dt, 0)) },
		func(value loop.Expr) { k.Reduce(sum, loop.Add, loop.Convert(dt, value)) },
		func(to []sym.Expr) {
			o, shape := planar(n, to), planar(n, x.Shape)
			// The number of positions that count is a product over the axes.
			count := one
			for i := range w.Kernel {
				low, high := sym.Const(0), shape[2+i]
				if n.Attrs.Bool("padded") {
					low, high = w.Begin[i].Neg(), high.Add(w.End[i])
				}
				begin := w.Source(i, o[2+i], sym.Const(0))
				d := sym.Const(w.Dilations[i])
				first := low.Sub(begin).CeilDiv(d).Max(sym.Const(0))
				end := high.Sub(begin).CeilDiv(d).Min(sym.Const(w.Kernel[i]))
				if w.Unpadded(i) && !n.Attrs.Bool("ceil") {
					first, end = sym.Const(0), sym.Const(w.Kernel[i])
				}
				count = count.Mul(end.Sub(first))
			}
			mean := loop.Apply2(loop.Div, sum, loop.Convert(dt, loop.At(count)))
			k.Store(k.Out[0], to, loop.Convert(x.DType, mean))
		})
}

// windowCost returns one operation for each element under each window.
func windowCost(n *ir.Node, size func(...sym.Expr) float64) float64 {
	return size(n.Outputs[0].Type.Shape...) * size(ir.Constants(n.Attrs.Ints("kernel"))...)
}

// poolLast is windowLast with Faster: if channels come first, the elements of a window are not contiguous.
func poolLast(d *sym.Dims, n *ir.Node) *LastForm {
	f := windowLast(d, n)
	f.Faster = true
	return f
}
