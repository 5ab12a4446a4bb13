package ops

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator transpose.
func init() {
	define(&Def{Op: "transpose", Narrow: transposeNarrow, Light: true, Linear: true, Recompute: InPieces | Backward,
		Picks: true, Rearranges: true, NotNegative: firstNotNegative, KeepsVectors: transposeKeepsVectors,
		Defer: transposeDeferred, rows: rowRule{axes: transposeRows}, Shape: transposeShape, Mean: transposeMean,
		View: transposeView, Samples: transposeSamples, Grad: transposeGrad,
		Lowerings: []Lowering{{Name: "map", Build: func(k *Nest, n *ir.Node) {
			k.Nest(loop.Each, "i", k.Out[0].Shape, func(at []sym.Expr) {
				k.Store(k.Out[0], at, k.In[0].Load(unpermuted(at, n.Attrs.Ints("perm"))...))
			})
		}}}})
}

// Transpose permutes axes: the result's axis i is x's axis perm[i].
func Transpose(b *ir.Builder, x *ir.Value, perm ...int64) *ir.Value {
	return b.Op("transpose", ir.Attrs{"perm": perm}, x)
}

// unpermuted returns the operand's index for the result's index at.
func unpermuted[T any](at []T, perm []int64) []T {
	from := make([]T, len(at))
	for i, p := range perm {
		from[p] = at[i]
	}
	return from
}

// transposeShape requires a permutation of the axes; known elements stay known.
func transposeShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x, perm := n.Inputs[0].Type, n.Attrs.Ints("perm")
	if len(perm) != len(x.Shape) {
		return fault(n, "a permutation of %d axes for rank %d", len(perm), len(x.Shape))
	}
	seen, shape := make([]bool, len(perm)), make([]sym.Expr, len(perm))
	for i, p := range perm {
		if p < 0 || p >= int64(len(perm)) || seen[p] {
			return fault(n, "%v is no permutation", perm)
		}
		seen[p], shape[i] = true, x.Shape[p]
	}
	v := n.Result(0, ir.Type{DType: x.DType, Shape: shape})
	knownPick(c, v, n.Inputs[0], true, func(at []int64) []sym.Expr { return unpermuted(ir.Constants(at), perm) })
	return nil
}

// transposeMean moves each element from its index in the operand.
func transposeMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	strides, flat := tensor.Strides(in[0].Shape()), int64(0)
	tensor.Each(out.Shape(), func(at []int64) {
		moveElement(out, flat, in[0], tensor.Offset(strides, unpermuted(at, n.Attrs.Ints("perm"))))
		flat++
	})
	return []*tensor.Tensor{out}, nil
}

// transposeView returns the entire operand if only axes of extent 1 change their order among the others.
func transposeView(n *ir.Node, d *sym.Dims) *View {
	last := int64(-1)
	for _, p := range n.Attrs.Ints("perm") {
		if isOne(n.Inputs[0].Type.Shape[p]) {
			continue
		}
		if p < last {
			return nil
		}
		last = p
	}
	return &View{}
}

// transposeGrad transposes back.
func transposeGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	perm := n.Attrs.Ints("perm")
	back := make([]int64, len(perm))
	for to, from := range perm {
		back[from] = int64(to)
	}
	return []*ir.Value{Transpose(g.Builder, up[0], back...)}
}

// transposeRows allows pieces of every axis: the operand's axis that becomes it.
func transposeRows(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
	perm := n.Attrs.Ints("perm")
	if axis >= len(perm) {
		return false
	}
	in[0] = int(perm[axis])
	return true
}

// transposeKeepsVectors reports whether the last axis stays last.
func transposeKeepsVectors(_ *sym.Dims, n *ir.Node) bool {
	perm := n.Attrs.Ints("perm")
	return perm[len(perm)-1] == int64(len(perm)-1)
}

// transposeDeferred defers the transpose of a constant.
func transposeDeferred(n *ir.Node, in []*tensor.Tensor) *tensor.Tensor {
	t, _ := tensor.Permuted(in[0], in[0].Shape(), n.Attrs.Ints("perm"))
	return t
}

// transposeNarrow permutes the section as the axes.
func transposeNarrow(_ NarrowContext, n *ir.Node, want Section) (Reading, bool) {
	return Reading{Made: want, In: []Section{unpermuted(want, n.Attrs.Ints("perm"))}}, true
}
