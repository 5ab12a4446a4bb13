package ops

import (
	"math/rand"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator slice_by.
func init() {
	define(&Def{Op: "slice_by", Grad: sliceByGrad, Shape: sliceByShape, Mean: sliceByMean, Samples: sliceBySamples,
		Lowerings: []Lowering{{Name: "map", When: movable, Build: func(k *Nest, n *ir.Node) {
			k.Nest(loop.Each, "i", k.Out[0].Shape, func(at []sym.Expr) {
				k.Store(k.Out[0], at, k.In[0].Load(slicedBy(n, at)...))
			})
		}}}})
}

// SliceBy is Slice with steps that are expressions, which must not be 0.
func SliceBy(b *ir.Builder, x *ir.Value, begin, extent, step []sym.Expr) *ir.Value {
	if fixed, ok := constants(step); ok {
		return Slice(b, x, begin, extent, fixed)
	}
	return b.Op("slice_by", ir.Attrs{"begin": begin, "extent": extent, "step": step}, x)
}

// slicedBy returns the operand's index for the result's index at.
func slicedBy(n *ir.Node, at []sym.Expr) []sym.Expr {
	from, begin, step := make([]sym.Expr, len(at)), n.Attrs.Exprs("begin"), n.Attrs.Exprs("step")
	for i := range at {
		from[i] = begin[i].Add(at[i].Mul(step[i]))
	}
	return from
}

// sliceByShape is sliceShape with conditions on steps that may be known only in a run.
func sliceByShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x, extent := n.Inputs[0], n.Attrs.Exprs("extent")
	rank := len(x.Type.Shape)
	if len(extent) != rank || len(n.Attrs.Exprs("begin")) != rank || len(n.Attrs.Exprs("step")) != rank {
		return fault(n, "a slice of %d axes for rank %d", len(extent), rank)
	}
	shape := make([]sym.Expr, rank)
	for i := range shape {
		shape[i] = c.Dims().Simplify(extent[i])
		if err := c.Require(n, sym.Cond{A: sym.Const(0), Rel: sym.LE, B: shape[i]}, "an extent is not negative"); err != nil {
			return err
		}
		if err := c.Require(n, sym.Cond{A: n.Attrs.Exprs("step")[i], Rel: sym.NE, B: sym.Const(0)},
			"a step is not 0"); err != nil {
			return err
		}
		if n.Line == 0 {
			continue // not from a text: importers have moved its ends into the operand
		}
		first := n.Attrs.Exprs("begin")[i]
		last := first.Add(shape[i].Max(sym.Const(1)).Sub(sym.Const(1)).Mul(n.Attrs.Exprs("step")[i]))
		for _, at := range []sym.Expr{first, last} {
			for _, in := range []sym.Cond{{A: sym.Const(0), B: at}, {A: at, Rel: sym.LT, B: x.Type.Shape[i]}} {
				if err := c.Require(n, in, "a slice begins and ends within its operand"); err != nil {
					return err
				}
			}
		}
	}
	n.Result(0, ir.Type{DType: x.Type.DType, Shape: shape})
	return nil
}

// sliceByMean evaluates the steps and slices.
func sliceByMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	begin, err := e.Ints(n.Attrs.Exprs("begin"))
	if err != nil {
		return nil, err
	}
	step, err := e.Ints(n.Attrs.Exprs("step"))
	if err != nil {
		return nil, err
	}
	cut(out, in[0], begin, step)
	return []*tensor.Tensor{out}, nil
}

// sliceBySamples covers steps of 1, 3, −1 and −2, and an empty slice.
func sliceBySamples(r *rand.Rand) (out []Sample) {
	for _, c := range []struct{ shape, begin, extent, step []int64 }{
		{[]int64{6}, []int64{1}, []int64{3}, []int64{1}},
		{[]int64{6}, []int64{5}, []int64{3}, []int64{-2}},
		{[]int64{4, 5}, []int64{0, 4}, []int64{2, 5}, []int64{3, -1}},
		{[]int64{4, 5}, []int64{3, 0}, []int64{0, 5}, []int64{-1, 1}},
	} {
		out = append(out, sampleMoves(r, ir.Attrs{"begin": ir.Constants(c.begin), "extent": ir.Constants(c.extent),
			"step": ir.Constants(c.step)}, c.shape)...)
	}
	return out
}
