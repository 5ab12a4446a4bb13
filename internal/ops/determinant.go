package ops

import (
	"math"
	"math/rand"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator determinant.
func init() {
	define(&Def{Op: "determinant", apart: apartBefore(2),
		Shape: determinantShape, Mean: determinantMean, Grad: determinantGrad,
		Samples:   determinantSamples,
		Lowerings: []Lowering{{Name: "elimination", Build: determinantElimination}}})
}

// Determinant returns the determinant of each matrix of x[…, m, m], by elimination with the largest element of each
// column as pivot, in f64.
func Determinant(b *ir.Builder, x *ir.Value) *ir.Value { return b.Op("determinant", nil, x) }

// determinantShape checks that x holds square matrices of floats and infers x's leading axes.
func determinantShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x := n.Inputs[0].Type
	rank := len(x.Shape)
	if !floats(x.DType) || rank < 2 {
		return fault(n, "%s are no matrices of floats", x)
	}
	if err := c.RequireEqual(n, x.Shape[rank-2], x.Shape[rank-1], "a matrix is square"); err != nil {
		return err
	}
	n.Result(0, ir.Type{DType: x.DType, Shape: x.Shape[:rank-2]})
	return nil
}

// determinantMean is the reference: it eliminates each matrix.
func determinantMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	if out.Len() == 0 { // matrices may be of any size
		return []*tensor.Tensor{out}, nil
	}
	x := in[0]
	size := x.Shape()[x.Rank()-1]
	a := make([]float64, size*size)
	for i := range out.Len() {
		for j := range a {
			a[j] = x.Float(i*size*size + int64(j))
		}
		out.SetFloat(i, determinantOf(a, size))
	}
	return []*tensor.Tensor{out}, nil
}

// determinantOf returns the determinant of a, size × size elements, which it overwrites.
func determinantOf(a []float64, size int64) float64 {
	det := 1.0
	for k := range size {
		row, most := k, -1.0
		for i := k; i < size; i++ {
			if v := math.Abs(a[i*size+k]); v > most {
				row, most = i, v
			}
		}
		if row != k {
			det = -det
		}
		for j := range size {
			a[k*size+j], a[row*size+j] = a[row*size+j], a[k*size+j]
		}
		pivot := a[k*size+k]
		det *= pivot
		for i := k + 1; i < size; i++ {
			factor := 0.0
			if pivot != 0 {
				factor = a[i*size+k] / pivot
			}
			for j := k + 1; j < size; j++ {
				a[i*size+j] -= factor * a[k*size+j]
			}
		}
	}
	return det
}

// determinantElimination lowers determinant: each iteration copies one matrix, eliminates it with the largest element
// of each column as pivot and stores the product of the pivots.
func determinantElimination(k *Nest, n *ir.Node) {
	x, out := k.In[0], k.Out[0]
	rank := len(x.Shape)
	size, last := x.Shape[rank-1], x.Shape[rank-1].Sub(one)
	number := func(x float64) loop.Expr { return loop.Number(dtype.F64, x) }
	k.Nest(loop.Each, "b", out.Shape, func(b []sym.Expr) {
		a := k.Local("a", dtype.F64, size, size)
		k.Nest(loop.Each, "c", a.Shape, func(at []sym.Expr) {
			k.Store(a, at, loop.Convert(dtype.F64, x.Load(append(append([]sym.Expr{}, b...), at...)...)))
		})
		det := k.Var("det", number(1))
		k.Serial("k", size, func(c sym.Expr) {
			most, row := k.Var("most", number(-1)), k.Var("row", loop.At(c))
			k.Serial("i", size.Sub(c), func(i sym.Expr) {
				v := k.Let("v", loop.Apply(loop.Abs, a.Load(c.Add(i), c)))
				larger := k.Let("larger", less(most, v))
				k.Set(row, loop.Choose(larger, loop.At(c.Add(i)), row))
				k.Set(most, loop.Choose(larger, v, most))
			})
			from := k.Check("p", row, sym.Const(0), last, within)
			k.Set(det, times(det, loop.Choose(loop.Apply2(loop.Eq, row, loop.At(c)), number(1), number(-1))))
			k.Serial("j", size, func(j sym.Expr) {
				v := k.Let("v", a.Load(c, j))
				k.Store(a, []sym.Expr{c, j}, a.Load(from, j))
				k.Store(a, []sym.Expr{from, j}, v)
			})
			pivot := k.Let("pivot", a.Load(c, c))
			k.Set(det, times(det, pivot))
			k.Serial("i", last.Sub(c), func(i sym.Expr) {
				below := c.Add(i).Add(one)
				nothing := loop.Apply2(loop.Eq, pivot, number(0))
				factor := k.Let("factor", loop.Choose(nothing, number(0), loop.Apply2(loop.Div, a.Load(below, c), pivot)))
				k.Serial("j", last.Sub(c), func(j sym.Expr) {
					right := c.Add(j).Add(one)
					k.Store(a, []sym.Expr{below, right}, minus(a.Load(below, right), times(factor, a.Load(c, right))))
				})
			})
		})
		k.Store(out, b, loop.Convert(out.DType, det))
	})
}

// determinantSamples returns regular and singular matrices of each float type.
func determinantSamples(r *rand.Rand) (out []Sample) {
	for _, dt := range floatTypes {
		for _, shape := range [][]int64{{3, 3}, {1, 1}, {2, 0, 0}, {2, 3, 4, 4}, {0, 2, 2}, {1, 7, 7}} {
			out = append(out, Sample{Inputs: []*tensor.Tensor{sampleNormal(r, dt, shape...)}})
		}
		singular := tensor.Must(tensor.New(dt, 3, 3))
		for i := range singular.Len() {
			singular.SetFloat(i, float64(i%3))
		}
		out = append(out, Sample{Inputs: []*tensor.Tensor{singular}},
			Sample{Inputs: []*tensor.Tensor{sampleFloats(r, dt, 5, 3, 3)}})
	}
	return out
}
