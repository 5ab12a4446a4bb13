package ops

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator triangle.
func init() {
	define(&Def{Op: "triangle", apart: apartBefore(2),
		Linear: true, Recompute: Backward, Grad: triangleGrad, Shape: triangleShape,
		Mean: triangleMean, Samples: triangleSamples,
		Lowerings: []Lowering{{Name: "map", When: movable, Build: triangleMap}}})
}

// Triangle keeps the upper or lower triangle of each matrix, including the k-th diagonal; other elements are 0.
func Triangle(b *ir.Builder, x *ir.Value, upper bool, k sym.Expr) *ir.Value {
	return b.Op("triangle", ir.Attrs{"upper": upper, "k": k}, x)
}

// triangleShape requires a rank of at least 2.
func triangleShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x := n.Inputs[0].Type
	if len(x.Shape) < 2 {
		return fault(n, "a tensor of rank %d, it must be at least 2", len(x.Shape))
	}
	n.Result(0, x)
	return nil
}

// triangleMean moves the elements of the triangle.
func triangleMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	diagonal, _ := n.Attrs["k"].(sym.Expr)
	k, err := e.Int(diagonal)
	if err != nil {
		return nil, err
	}
	flat := int64(0)
	tensor.Each(out.Shape(), func(at []int64) {
		right := at[len(at)-1] - at[len(at)-2]
		if n.Attrs.Bool("upper") && right >= k || !n.Attrs.Bool("upper") && right <= k {
			moveElement(out, flat, in[0], flat)
		}
		flat++
	})
	return []*tensor.Tensor{out}, nil
}

// triangleMap loads each element under a mask.
func triangleMap(k *Nest, n *ir.Node) {
	x, out := k.In[0], k.Out[0]
	diagonal, _ := n.Attrs["k"].(sym.Expr)
	k.Nest(loop.Each, "i", out.Shape, func(at []sym.Expr) {
		row, column := loop.At(at[len(at)-2].Add(diagonal)), loop.At(at[len(at)-1])
		kept := loop.Apply2(loop.Le, column, row)
		if n.Attrs.Bool("upper") {
			kept = loop.Apply2(loop.Le, row, column)
		}
		k.Store(out, at, x.LoadIf(kept, &loop.Const{Type: x.DType}, at...))
	})
}
