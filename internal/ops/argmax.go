package ops

import (
	"math/rand"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operators argmax and hardmax.
func init() {
	define(&Def{Op: "argmax", apart: apartReduced,
		Linear: true, Shape: argMaxShape, Mean: argMaxMean, Samples: argMaxSamples,
		Lowerings: []Lowering{{Name: "rows", Build: argMaxRows}}})
	define(&Def{Op: "hardmax", apart: apartBeside(-1),
		Grad: none, Shape: softmaxShape, Mean: hardmaxMean, Samples: softmaxSamples,
		Lowerings: []Lowering{{Name: "rows", Build: hardmaxRows}}})
}

// ArgMax returns the index (i64) of the largest element along an axis, or of the smallest. Of several equal elements it
// returns the first, with last the last. NaN counts as larger, and as smaller, than any number.
func ArgMax(b *ir.Builder, x *ir.Value, axis int64, smallest, keep, last bool) *ir.Value {
	return b.Op("argmax", ir.Attrs{"axes": []int64{axis}, "smallest": smallest, "keep": keep, "last": last}, x)
}

// Hardmax returns 1 at the first largest element along an axis, and 0 elsewhere.
func Hardmax(b *ir.Builder, x *ir.Value, axis int64) *ir.Value {
	return b.Op("hardmax", ir.Attrs{"axis": axis}, x)
}

// argMaxShape infers the indices' shape: x's without the axis, or with extent 1 if keep is set. The axis must not be
// empty.
func argMaxShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x := n.Inputs[0].Type
	if !numbers(x.DType) {
		return fault(n, "elements of type %s", x.DType)
	}
	shape, axes, err := reducedShape(n, x.Shape)
	if err != nil {
		return err
	}
	if len(axes) != 1 {
		return fault(n, "%d axes, one is needed", len(axes))
	}
	if err := c.Require(n, sym.Cond{A: one, Rel: sym.LE, B: x.Shape[axes[0]]},
		"the axis has elements to choose from"); err != nil {
		return err
	}
	n.Result(0, ir.Type{DType: dtype.I64, Shape: shape})
	return nil
}

// prefers reports whether the element y, found after x, replaces x as the chosen element.
func prefers(n *ir.Node, dt dtype.DType, x, y uint64) bool {
	if dt.IsFloat() && loop.EvalUnary(loop.IsNaN, dt, y) != 0 {
		return loop.EvalUnary(loop.IsNaN, dt, x) == 0 || n.Attrs.Bool("last")
	}
	compare := loop.Gt
	if n.Attrs.Bool("smallest") {
		compare = loop.Lt
	}
	return loop.EvalBinary(compare, dt, y, x) != 0 || n.Attrs.Bool("last") && loop.EvalBinary(loop.Eq, dt, y, x) != 0
}

// argMaxMean is the reference: it scans the axis and keeps the index of the preferred element.
func argMaxMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	x := in[0]
	axes, err := axesOf(n, n.Attrs.Ints("axes"), x.Rank())
	if err != nil {
		return nil, err
	}
	step, flat := tensor.Strides(x.Shape())[axes[0]], int64(0)
	tensor.Each(out.Shape(), func(at []int64) {
		begin := tensor.Offset(tensor.Strides(x.Shape()), reducedIndex(x.Rank(), axes, n.Attrs.Bool("keep"), at, []int64{0}))
		best := int64(0)
		for j := int64(1); j < x.Shape()[axes[0]]; j++ {
			if prefers(n, x.DType(), bitsOf(x, begin+best*step), bitsOf(x, begin+j*step)) {
				best = j
			}
		}
		out.SetInt(flat, best)
		flat++
	})
	return []*tensor.Tensor{out}, nil
}

// chosen writes the search along an axis; it returns the index of the preferred element among load(0), load(1), ….
func chosen(k *Nest, n *ir.Node, dt dtype.DType, extent sym.Expr, load func(j sym.Expr) loop.Expr) *loop.Ref {
	begin, compare := loop.Lowest(dt), loop.Gt
	if n.Attrs.Bool("smallest") {
		begin, compare = loop.Highest(dt), loop.Lt
	}
	best, where := k.Var("best", begin), k.Var("where", loop.Integer(dtype.I64, 0))
	k.Serial("k", extent, func(j sym.Expr) {
		value := k.Let("value", load(j))
		better := loop.Apply2(compare, value, best)
		if n.Attrs.Bool("last") {
			better = loop.Apply2(loop.Or, better, loop.Apply2(loop.Eq, value, best))
		}
		if dt.IsFloat() {
			odd := loop.Apply(loop.IsNaN, value)
			if !n.Attrs.Bool("last") {
				odd = loop.Apply2(loop.And, odd, loop.Apply2(loop.Eq, best, best))
			}
			better = loop.Apply2(loop.Or, better, odd)
		}
		better = k.Let("better", better)
		k.Set(best, loop.Choose(better, value, best))
		k.Set(where, loop.Choose(better, loop.At(j), where))
	})
	return where
}

// argMaxRows lowers argmax: each iteration searches one row and stores the index of its preferred element.
func argMaxRows(k *Nest, n *ir.Node) {
	x, out := k.In[0], k.Out[0]
	axes, _ := axesOf(n, n.Attrs.Ints("axes"), len(x.Shape))
	k.Nest(loop.Each, "i", out.Shape, func(at []sym.Expr) {
		where := chosen(k, n, x.DType, x.Shape[axes[0]], func(j sym.Expr) loop.Expr {
			return x.Load(reducedIndex(len(x.Shape), axes, n.Attrs.Bool("keep"), at, []sym.Expr{j})...)
		})
		k.Store(out, at, where)
	})
}

// hardmaxMean is the reference: 1 at the first largest element of each row, 0 elsewhere.
func hardmaxMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	x := in[0]
	axis, err := axisOf(n, n.Attrs.Int("axis", -1), x.Rank())
	if err != nil {
		return nil, err
	}
	step, rows := tensor.Strides(x.Shape())[axis], append([]int64{}, x.Shape()...)
	rows[axis] = min(rows[axis], 1)
	tensor.Each(rows, func(at []int64) {
		begin, best := tensor.Offset(tensor.Strides(x.Shape()), at), int64(0)
		for j := int64(1); j < x.Shape()[axis]; j++ {
			if prefers(n, x.DType(), bitsOf(x, begin+best*step), bitsOf(x, begin+j*step)) {
				best = j
			}
		}
		out.SetFloat(begin+best*step, 1)
	})
	return []*tensor.Tensor{out}, nil
}

// hardmaxRows lowers hardmax: each iteration searches one row and then stores 1 at the found index and 0 elsewhere.
func hardmaxRows(k *Nest, n *ir.Node) {
	x, out := k.In[0], k.Out[0]
	axis, _ := axisOf(n, n.Attrs.Int("axis", -1), len(x.Shape))
	rows := append(append([]sym.Expr{}, x.Shape[:axis]...), x.Shape[axis+1:]...)
	k.Nest(loop.Each, "i", rows, func(row []sym.Expr) {
		at := func(j sym.Expr) []sym.Expr { return reducedIndex(len(x.Shape), []int{axis}, false, row, []sym.Expr{j}) }
		where := chosen(k, n, x.DType, x.Shape[axis], func(j sym.Expr) loop.Expr { return x.Load(at(j)...) })
		k.Each("o", x.Shape[axis], func(j sym.Expr) {
			k.Store(out, at(j), loop.Choose(loop.Apply2(loop.Eq, where, loop.At(j)), loop.Number(out.DType, 1),
				loop.Number(out.DType, 0)))
		})
	})
}

// argMaxSamples returns tensors of each element type for each combination of the attributes.
func argMaxSamples(r *rand.Rand) []Sample {
	var out []Sample
	for _, dt := range append(append([]dtype.DType{}, floatTypes...), integerTypes...) {
		for i := range 8 {
			x := sampleOf(r, dt, 3, 4, 5)
			if dt.IsFloat() {
				x = sampleFloats(r, dt, 3, 4, 5)
			}
			out = append(out, Sample{Attrs: ir.Attrs{"axes": []int64{int64(i%3) - 1}, "smallest": i&1 != 0, "keep": i&2 != 0,
				"last": i&4 != 0}, Inputs: []*tensor.Tensor{x}})
		}
	}
	return append(out, Sample{Attrs: ir.Attrs{"axes": []int64{1}}, Inputs: []*tensor.Tensor{sampleOf(r, dtype.F32, 0, 3)}},
		Sample{Attrs: ir.Attrs{"axes": []int64{0}}, Inputs: []*tensor.Tensor{sampleOf(r, dtype.F32, 6)}})
}
