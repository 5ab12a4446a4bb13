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

// init defines the operator solve.
func init() {
	define(&Def{Op: "solve", Shape: solveShape, Mean: solveMean, Grad: solveGrad, Samples: solveSamples,
		Lowerings: []Lowering{{Name: "elimination", Build: solveElimination}}})
}

// Solve returns z with x·z = y for each matrix of x[…, m, m] and y[…, m, k], by elimination with the largest element of
// each column as pivot, in f64. A singular matrix divides by 0: its results are infinities and NaN.
func Solve(b *ir.Builder, x, y *ir.Value) *ir.Value { return b.Op("solve", nil, x, y) }

// Inverse returns the inverse of each matrix of x[…, m, m].
func Inverse(b *ir.Builder, x *ir.Value) *ir.Value { return Solve(b, x, identityLike(b, x)) }

// identityLike returns the identity for each matrix of x[…, m, m].
func identityLike(b *ir.Builder, x *ir.Value) *ir.Value {
	shape := x.Type.Shape
	rank := len(shape)
	rows := Reshape(b, Counting(b, dtype.I64, shape[rank-2]), shape[rank-2], one)
	one := Binary(b, loop.Eq, rows, Counting(b, dtype.I64, shape[rank-1]))
	return Expand(b, Cast(b, one, x.Type.DType), shape...)
}

// solveShape requires square matrices in x and y with as many rows, of one float type.
func solveShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 2, 2); err != nil {
		return err
	}
	x, y := n.Inputs[0].Type, n.Inputs[1].Type
	rank := len(x.Shape)
	if !floats(x.DType) || y.DType != x.DType || rank < 2 || len(y.Shape) != rank {
		return fault(n, "%s for %s: both need matrices of one float type", y, x)
	}
	if err := c.RequireEqual(n, x.Shape[rank-2], x.Shape[rank-1], "a matrix is square"); err != nil {
		return err
	}
	for i := range rank - 1 {
		if err := c.RequireEqual(n, y.Shape[i], x.Shape[i], "a right side for each row of each matrix"); err != nil {
			return err
		}
	}
	n.Result(0, y)
	return nil
}

// solveMean solves the matrices one by one with solveOf.
func solveMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	x, y := in[0], in[1]
	size, columns := x.Shape()[x.Rank()-1], y.Shape()[y.Rank()-1]
	if out.Len() == 0 {
		return []*tensor.Tensor{out}, nil
	}
	for i := range out.Len() / (size * columns) {
		a, z := floatsAt(x, i, size*size), floatsAt(y, i, size*columns)
		solveOf(a, z, size, columns)
		for j, v := range z {
			out.SetFloat(i*size*columns+int64(j), v)
		}
	}
	return []*tensor.Tensor{out}, nil
}

// floatsAt returns the count elements of matrix i of a tensor.
func floatsAt(x *tensor.Tensor, i, count int64) []float64 {
	out := make([]float64, count)
	for j := range out {
		out[j] = x.Float(i*count + int64(j))
	}
	return out
}

// solveOf eliminates a, of size × size, in place and turns z, of size × columns, into the solution.
func solveOf(a, z []float64, size, columns int64) {
	for k := range size {
		row, most := k, -1.0
		for i := k; i < size; i++ {
			if v := math.Abs(a[i*size+k]); v > most {
				row, most = i, v
			}
		}
		swapRows(a, size, k, row)
		swapRows(z, columns, k, row)
		for i := k + 1; i < size; i++ {
			factor := a[i*size+k] / a[k*size+k]
			for j := k + 1; j < size; j++ {
				a[i*size+j] -= factor * a[k*size+j]
			}
			for j := range columns {
				z[i*columns+j] -= factor * z[k*columns+j]
			}
		}
	}
	for k := size - 1; k >= 0; k-- {
		for j := range columns {
			for i := k + 1; i < size; i++ {
				z[k*columns+j] -= a[k*size+i] * z[i*columns+j]
			}
			z[k*columns+j] /= a[k*size+k]
		}
	}
}

// swapRows exchanges rows i and j of a matrix with the given number of columns.
func swapRows(a []float64, columns, i, j int64) {
	for c := range columns {
		a[i*columns+c], a[j*columns+c] = a[j*columns+c], a[i*columns+c]
	}
}

// solveElimination computes as solveOf does, on local copies in f64, in parallel over the matrices.
func solveElimination(k *Nest, n *ir.Node) {
	x, y, out := k.In[0], k.In[1], k.Out[0]
	rank := len(x.Shape)
	size, columns, last := x.Shape[rank-1], y.Shape[rank-1], x.Shape[rank-1].Sub(one)
	k.Nest(loop.Each, "b", out.Shape[:rank-2], func(b []sym.Expr) {
		a, z := k.matrix("a", x, b), k.matrix("z", y, b)
		k.Serial("k", size, func(c sym.Expr) {
			most, row := k.Var("most", loop.Number(dtype.F64, -1)), k.Var("row", loop.At(c))
			k.Serial("i", size.Sub(c), func(i sym.Expr) {
				v := k.Let("v", loop.Apply(loop.Abs, a.Load(c.Add(i), c)))
				larger := k.Let("larger", less(most, v))
				k.Set(row, loop.Choose(larger, loop.At(c.Add(i)), row))
				k.Set(most, loop.Choose(larger, v, most))
			})
			from := k.Check("p", row, sym.Const(0), last, within)
			k.swapRows(a, c, from)
			k.swapRows(z, c, from)
			pivot := k.Let("pivot", a.Load(c, c))
			k.Serial("i", last.Sub(c), func(i sym.Expr) {
				below := c.Add(i).Add(one)
				factor := k.Let("factor", loop.Apply2(loop.Div, a.Load(below, c), pivot))
				k.subtract(a, below, c, factor, c.Add(one), last.Sub(c))
				k.subtract(z, below, c, factor, sym.Const(0), columns)
			})
		})
		k.Serial("k", size, func(c sym.Expr) {
			row := last.Sub(c)
			k.Serial("i", c, func(i sym.Expr) {
				below := row.Add(i).Add(one)
				k.subtract(z, row, below, k.Let("factor", a.Load(row, below)), sym.Const(0), columns)
			})
			pivot := k.Let("pivot", a.Load(row, row))
			k.Serial("j", columns, func(j sym.Expr) {
				k.Store(z, []sym.Expr{row, j}, loop.Apply2(loop.Div, z.Load(row, j), pivot))
			})
		})
		k.Nest(loop.Each, "o", z.Shape, func(at []sym.Expr) {
			k.Store(out, append(append([]sym.Expr{}, b...), at...), loop.Convert(out.DType, z.Load(at...)))
		})
	})
}

// matrix copies the matrix at index b of x into a local buffer of f64.
func (k *Nest) matrix(name string, x *loop.Memory, b []sym.Expr) *loop.Memory {
	a := k.Local(name, dtype.F64, x.Shape[len(b)], x.Shape[len(b)+1])
	k.Nest(loop.Each, "c", a.Shape, func(at []sym.Expr) {
		k.Store(a, at, loop.Convert(dtype.F64, x.Load(append(append([]sym.Expr{}, b...), at...)...)))
	})
	return a
}

// swapRows exchanges two rows of a.
func (k *Nest) swapRows(a *loop.Memory, i, j sym.Expr) {
	k.Serial("j", a.Shape[1], func(c sym.Expr) {
		v := k.Let("v", a.Load(i, c))
		k.Store(a, []sym.Expr{i, c}, a.Load(j, c))
		k.Store(a, []sym.Expr{j, c}, v)
	})
}

// subtract subtracts factor times row `row` of a from row `from`, in count columns from first on.
func (k *Nest) subtract(a *loop.Memory, from, row sym.Expr, factor loop.Expr, first, count sym.Expr) {
	k.Serial("j", count, func(j sym.Expr) {
		c := first.Add(j)
		k.Store(a, []sym.Expr{from, c}, minus(a.Load(from, c), times(factor, a.Load(row, c))))
	})
}

// solveGrad returns, by y, the solution d with x transposed, and by x −d·zᵀ.
func solveGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	b, x, z := g.Builder, n.Inputs[0], n.Outputs[0]
	d := Solve(b, transposed(b, x), up[0])
	return []*ir.Value{g.neg(MatMul(b, d, z, false, true)), d}
}

// transposed exchanges the last two axes.
func transposed(b *ir.Builder, x *ir.Value) *ir.Value {
	order := allAxes(x)
	rank := len(order)
	order[rank-2], order[rank-1] = order[rank-1], order[rank-2]
	return Transpose(b, x, order...)
}

// sampleMatrices are shapes of square matrices x and of y with as many rows, in batches.
var sampleMatrices = []struct{ x, y []int64 }{
	{[]int64{3, 3}, []int64{3, 2}}, {[]int64{1, 1}, []int64{1, 1}}, {[]int64{2, 0, 0}, []int64{2, 0, 3}},
	{[]int64{2, 3, 4, 4}, []int64{2, 3, 4, 1}},
	{[]int64{0, 2, 2}, []int64{0, 2, 2}}, {[]int64{1, 7, 7}, []int64{1, 7, 7}}, {[]int64{2, 2}, []int64{2, 0}},
}

// solveSamples covers regular matrices of each shape, and matrices with infinities and NaN.
func solveSamples(r *rand.Rand) (out []Sample) {
	for _, dt := range floatTypes {
		for _, s := range sampleMatrices {
			out = append(out, Sample{Inputs: []*tensor.Tensor{sampleRegular(r, dt, s.x...), sampleNormal(r, dt, s.y...)}})
		}
		out = append(out, Sample{Inputs: []*tensor.Tensor{sampleFloats(r, dt, 5, 3, 3), sampleFloats(r, dt, 5, 3, 2)}})
	}
	return out
}

// sampleRegular returns random matrices that are far from singular.
func sampleRegular(r *rand.Rand, dt dtype.DType, shape ...int64) *tensor.Tensor {
	x := sampleNormal(r, dt, shape...)
	size := shape[len(shape)-1]
	for i := range x.Len() {
		if i/size%size == (i+1)%size { // each row's largest element is not on the diagonal
			x.SetFloat(i, x.Float(i)+4)
		}
	}
	return x
}
