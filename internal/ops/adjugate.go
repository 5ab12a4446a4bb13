package ops

import (
	"math"
	"math/rand"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operators adjugate and regularize.
func init() {
	define(&Def{Op: "adjugate", Shape: adjugateShape, Mean: matricesMean(adjugateOf), Grad: adjugateGrad,
		Samples:   adjugateSamples,
		Lowerings: []Lowering{{Name: "elimination", Build: adjugateElimination}}})
	define(&Def{Op: "regularize", Shape: adjugateShape, Mean: matricesMean(regularizeOf), Grad: regularizeGrad,
		Samples:   adjugateSamples,
		Lowerings: []Lowering{{Name: "elimination", Build: regularizeElimination}}})
}

// Adjugate is the adjugate of each matrix of x[…, m, m]: its inverse times its determinant, which singular matrices
// have too. It is computed by elimination with the largest of all remaining elements as pivot, in 64 bits.
func Adjugate(b *ir.Builder, x *ir.Value) *ir.Value { return b.Op("adjugate", nil, x) }

// Regularize is x[…, m, m] with nudge times the largest element of a singular matrix added at each position at which
// elimination finds a pivot of 0, so that the result is not singular. The derivative is that of x.
func Regularize(b *ir.Builder, x *ir.Value) *ir.Value { return b.Op("regularize", nil, x) }

// nudge is about the square root of the precision of f64: the change to the matrix, and the rounding error of a
// quotient by it, are equally small.
const nudge = 1.0 / (1 << 26)

// smallestPivot times the largest element of a matrix is the limit below which, inclusive, a pivot counts as 0.
const smallestPivot = 1.0 / (1 << 47)

// adjugateShape infers x's own type: square matrices of floats.
func adjugateShape(c *ir.Inference, n *ir.Node) error {
	if err := determinantShape(c, n); err != nil {
		return err
	}
	n.Result(0, n.Inputs[0].Type)
	return nil
}

// matricesMean returns a reference that applies f to each matrix, its elements row by row.
func matricesMean(f func(a []float64, size int64) []float64) func(*ir.Evaluation, *ir.Node,
	[]*tensor.Tensor) ([]*tensor.Tensor, error) {
	return func(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		out, err := result(e, n, 0)
		if err != nil {
			return nil, err
		}
		size := in[0].Shape()[in[0].Rank()-1]
		if out.Len() == 0 {
			return []*tensor.Tensor{out}, nil
		}
		for i := range out.Len() / (size * size) {
			for j, v := range f(floatsAt(in[0], i, size*size), size) {
				out.SetFloat(i*size*size+int64(j), v)
			}
		}
		return []*tensor.Tensor{out}, nil
	}
}

// elimination is a matrix a made upper triangular by exchanging rows and columns and by subtracting multiples of rows
// from rows below. rest is the identity after the same row operations; rows and columns are the original indices; sign
// is −1 after an odd number of exchanges.
type elimination struct {
	upper, rest   []float64
	rows, columns []int64
	sign          float64
}

// eliminationOf eliminates a, of size × size elements, in place; each pivot is the largest of all remaining elements.
func eliminationOf(a []float64, size int64) elimination {
	e := elimination{upper: a, rest: make([]float64, size*size), sign: 1}
	for i := range size {
		e.rest[i*size+i] = 1
		e.rows, e.columns = append(e.rows, i), append(e.columns, i)
	}
	for k := range size {
		row, column, most := k, k, -1.0
		for i := k; i < size; i++ {
			for j := k; j < size; j++ {
				if v := math.Abs(a[i*size+j]); v > most {
					row, column, most = i, j, v
				}
			}
		}
		if (row == k) != (column == k) {
			e.sign = -e.sign
		}
		swapRows(a, size, k, row)
		swapRows(e.rest, size, k, row)
		for i := range size {
			a[i*size+k], a[i*size+column] = a[i*size+column], a[i*size+k]
		}
		e.rows[k], e.rows[row] = e.rows[row], e.rows[k]
		e.columns[k], e.columns[column] = e.columns[column], e.columns[k]
		pivot := a[k*size+k]
		for i := k + 1; i < size; i++ {
			factor := quotientOf(a[i*size+k], pivot)
			for j := k + 1; j < size; j++ {
				a[i*size+j] -= factor * a[k*size+j]
			}
			for j := range size {
				e.rest[i*size+j] -= factor * e.rest[k*size+j]
			}
		}
	}
	return e
}

// quotientOf is x / y; 0 if y is 0.
func quotientOf(x, y float64) float64 {
	if y == 0 {
		return 0
	}
	return x / y
}

// adjugateOf returns the adjugate of a matrix. With the elimination R·x·Q = [U u; 0 δ] it is Q · det U · [δ·U⁻¹, −U⁻¹u;
// 0, 1] · R, up to the sign. If U has a pivot of 0, all remaining elements were 0, and so is the adjugate.
func adjugateOf(a []float64, size int64) []float64 {
	e, last := eliminationOf(a, size), size-1
	det, delta := e.sign, e.upper[last*size+last]
	for k := range last {
		det *= e.upper[k*size+k]
	}
	out, z := make([]float64, size*size), e.rest
	for k := last; k >= 0; k-- {
		for j := range size {
			if k < last {
				v := delta * z[k*size+j]
				for i := k + 1; i < size; i++ {
					v -= e.upper[k*size+i] * z[i*size+j]
				}
				z[k*size+j] = quotientOf(v, e.upper[k*size+k])
			}
			out[e.columns[k]*size+j] = det * z[k*size+j]
		}
	}
	return out
}

// regularizeOf returns the matrix with nudge times its largest element added at each pivot that counts as 0. It
// overwrites a.
func regularizeOf(a []float64, size int64) []float64 {
	out, most := append([]float64{}, a...), 0.0
	for _, v := range a {
		most = max(most, math.Abs(v))
	}
	e := eliminationOf(a, size)
	if most == 0 {
		most = 1
	}
	for k := range size {
		if math.Abs(e.upper[k*size+k]) <= most*smallestPivot {
			out[e.rows[k]*size+e.columns[k]] += most * nudge
		}
	}
	return out
}

// eliminated is an elimination in a kernel's memory; rest is nil if it is not needed.
type eliminated struct {
	upper, rest, rows, columns *loop.Memory
	sign                       *loop.Ref
}

// eliminated writes eliminationOf for the matrix of x at the index b. rest reports whether the row operations are kept.
func (k *Nest) eliminated(x *loop.Memory, b []sym.Expr, rest bool) eliminated {
	size, last := x.Shape[len(b)], x.Shape[len(b)].Sub(one)
	number := func(x float64) loop.Expr { return loop.Number(dtype.F64, x) }
	e := eliminated{upper: k.matrix("a", x, b), rows: k.Local("rows", dtype.I64, size),
		columns: k.Local("columns", dtype.I64, size)}
	k.Each("i", size, func(i sym.Expr) {
		k.Store(e.rows, []sym.Expr{i}, loop.At(i))
		k.Store(e.columns, []sym.Expr{i}, loop.At(i))
	})
	if rest {
		e.rest = k.Local("rest", dtype.F64, size, size)
		k.Nest(loop.Each, "c", e.rest.Shape, func(at []sym.Expr) {
			k.Store(e.rest, at, loop.Choose(loop.Apply2(loop.Eq, loop.At(at[0]), loop.At(at[1])), number(1), number(0)))
		})
	}
	e.sign = k.Var("sign", number(1))
	k.Serial("k", size, func(c sym.Expr) {
		most, row, column := k.Var("most", number(-1)), k.Var("row", loop.At(c)), k.Var("column", loop.At(c))
		k.Serial("i", size.Sub(c), func(i sym.Expr) {
			k.Serial("j", size.Sub(c), func(j sym.Expr) {
				v := k.Let("v", loop.Apply(loop.Abs, e.upper.Load(c.Add(i), c.Add(j))))
				larger := k.Let("larger", less(most, v))
				k.Set(row, loop.Choose(larger, loop.At(c.Add(i)), row))
				k.Set(column, loop.Choose(larger, loop.At(c.Add(j)), column))
				k.Set(most, loop.Choose(larger, v, most))
			})
		})
		fromRow, fromColumn := k.Check("p", row, sym.Const(0), last, within), k.Check("q", column, sym.Const(0), last, within)
		moved := loop.Apply2(loop.Xor, loop.Apply2(loop.Ne, row, loop.At(c)), loop.Apply2(loop.Ne, column, loop.At(c)))
		k.Set(e.sign, times(e.sign, loop.Choose(moved, number(-1), number(1))))
		k.swapRows(e.upper, c, fromRow)
		if rest {
			k.swapRows(e.rest, c, fromRow)
		}
		k.Serial("i", size, func(i sym.Expr) { k.swap(e.upper, []sym.Expr{i, c}, []sym.Expr{i, fromColumn}) })
		k.swap(e.rows, []sym.Expr{c}, []sym.Expr{fromRow})
		k.swap(e.columns, []sym.Expr{c}, []sym.Expr{fromColumn})
		pivot := k.Let("pivot", e.upper.Load(c, c))
		k.Serial("i", last.Sub(c), func(i sym.Expr) {
			below := c.Add(i).Add(one)
			factor := k.quotient(e.upper.Load(below, c), pivot)
			k.subtract(e.upper, below, c, factor, c.Add(one), last.Sub(c))
			if rest {
				k.subtract(e.rest, below, c, factor, sym.Const(0), size)
			}
		})
	})
	return e
}

// swap writes the exchange of two elements.
func (k *Nest) swap(a *loop.Memory, i, j []sym.Expr) {
	v := k.Let("v", a.Load(i...))
	k.Store(a, i, a.Load(j...))
	k.Store(a, j, v)
}

// quotient is x / y; 0 if y is 0.
func (k *Nest) quotient(x, y loop.Expr) loop.Expr {
	nothing := loop.Apply2(loop.Eq, y, like(y, 0))
	return k.Let("factor", loop.Choose(nothing, like(y, 0), loop.Apply2(loop.Div, x, y)))
}

// adjugateElimination lowers adjugate: each iteration eliminates one matrix, substitutes backwards through its rest and
// stores the rows, in their original order, times the determinant.
func adjugateElimination(k *Nest, n *ir.Node) {
	x, out := k.In[0], k.Out[0]
	rank := len(x.Shape)
	size, last := x.Shape[rank-1], x.Shape[rank-1].Sub(one)
	k.Nest(loop.Each, "b", out.Shape[:rank-2], func(b []sym.Expr) {
		e := k.eliminated(x, b, true)
		det, delta := k.Var("det", e.sign), k.Var("delta", loop.Number(dtype.F64, 0))
		k.Serial("k", size, func(c sym.Expr) {
			pivot := k.Let("pivot", e.upper.Load(c, c))
			end := k.Let("end", loop.Apply2(loop.Eq, loop.At(c), loop.At(last)))
			k.Set(det, loop.Choose(end, det, times(det, pivot)))
			k.Set(delta, pivot)
		})
		k.Serial("k", size, func(c sym.Expr) {
			row := last.Sub(c)
			end := k.Let("end", loop.Apply2(loop.Eq, loop.At(c), loop.Integer(dtype.I64, 0)))
			begin := k.Let("begin", loop.Choose(end, loop.Number(dtype.F64, 1), delta))
			k.Serial("j", size, func(j sym.Expr) {
				k.Store(e.rest, []sym.Expr{row, j}, times(begin, e.rest.Load(row, j)))
			})
			k.Serial("i", c, func(i sym.Expr) {
				below := row.Add(i).Add(one)
				k.subtract(e.rest, row, below, k.Let("factor", e.upper.Load(row, below)), sym.Const(0), size)
			})
			pivot := k.Let("pivot", loop.Choose(end, loop.Number(dtype.F64, 1), e.upper.Load(row, row)))
			to := k.Check("p", e.columns.Load(row), sym.Const(0), last, within)
			k.Serial("j", size, func(j sym.Expr) {
				v := k.quotient(e.rest.Load(row, j), pivot)
				k.Store(e.rest, []sym.Expr{row, j}, v)
				k.Store(out, append(append([]sym.Expr{}, b...), to, j), loop.Convert(out.DType, times(det, v)))
			})
		})
	})
}

// regularizeElimination lowers regularize: each iteration copies one matrix, eliminates a copy of it and adds nudge
// times the largest element at each pivot that counts as 0.
func regularizeElimination(k *Nest, n *ir.Node) {
	x, out := k.In[0], k.Out[0]
	rank := len(x.Shape)
	size, last := x.Shape[rank-1], x.Shape[rank-1].Sub(one)
	number := func(x float64) loop.Expr { return loop.Number(dtype.F64, x) }
	k.Nest(loop.Each, "b", out.Shape[:rank-2], func(b []sym.Expr) {
		inside := func(at ...sym.Expr) []sym.Expr { return append(append([]sym.Expr{}, b...), at...) }
		largest := k.Var("largest", number(0))
		k.Nest(loop.Serial, "m", out.Shape[rank-2:], func(at []sym.Expr) {
			v := x.Load(inside(at...)...)
			k.Reduce(largest, loop.Max, loop.Apply(loop.Abs, loop.Convert(dtype.F64, v)))
			k.Store(out, inside(at...), v)
		})
		e := k.eliminated(x, b, false)
		most := k.Let("most", loop.Choose(loop.Apply2(loop.Eq, largest, number(0)), number(1), largest))
		k.Serial("k", size, func(c sym.Expr) {
			row, column := k.Check("p", e.rows.Load(c), sym.Const(0), last, within),
				k.Check("q", e.columns.Load(c), sym.Const(0), last, within)
			small := loop.Apply2(loop.Le, loop.Apply(loop.Abs, e.upper.Load(c, c)), times(most, number(smallestPivot)))
			v := loop.Convert(dtype.F64, x.Load(inside(row, column)...))
			v = plus(v, loop.Choose(small, times(most, number(nudge)), number(0)))
			k.Store(out, inside(row, column), loop.Convert(out.DType, v))
		})
	})
}

// determinantGrad is the rule of a determinant: its derivative is the transposed adjugate.
func determinantGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	return []*ir.Value{g.mul(g.eachMatrix(up[0]), transposed(g.Builder, Adjugate(g.Builder, n.Inputs[0])))}
}

// eachMatrix gives a value for each matrix two axes of extent 1, so that it broadcasts to the matrix's elements.
func (g *Gradients) eachMatrix(x *ir.Value) *ir.Value {
	return Reshape(g.Builder, x, append(slices.Clone(x.Type.Shape), one, one)...)
}

// adjugateGrad is the rule of an adjugate: with a the adjugate of x, the derivative is (Σu·a · aᵀ − aᵀ·u·aᵀ) / det x.
// This is a polynomial of x's elements, so it also has a value for a singular matrix; that of a regularized matrix is
// taken, in 64 bits.
func adjugateGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	b := g.Builder
	x, u := Regularize(b, Cast(b, n.Inputs[0], dtype.F64)), Cast(b, up[0], dtype.F64)
	a := Adjugate(b, x)
	across := transposed(b, a)
	rank := int64(len(x.Type.Shape))
	total := g.sum(g.mul(u, a), rank-2, rank-1)
	both := MatMul(b, MatMul(b, across, u, false, false), across, false, false)
	d := g.div(g.sub(g.mul(total, across), both), g.eachMatrix(Determinant(b, x)))
	return []*ir.Value{Cast(b, d, n.Inputs[0].Type.DType)}
}

// regularizeGrad passes the derivative on unchanged.
func regularizeGrad(_ *Gradients, _ *ir.Node, up []*ir.Value) []*ir.Value { return up }

// adjugateSamples returns regular and singular matrices of each float type.
func adjugateSamples(r *rand.Rand) (out []Sample) {
	for _, dt := range floatTypes {
		for _, s := range sampleMatrices {
			out = append(out, Sample{Inputs: []*tensor.Tensor{sampleRegular(r, dt, s.x...)}})
		}
		for _, rank := range []int64{0, 1, 2, 3} { // 4 × 4 matrices of integers
			x := tensor.Must(tensor.New(dt, 2, 4, 4))
			for i := range x.Len() / 4 {
				factors := []int64{r.Int63n(5) - 2, r.Int63n(5) - 2, r.Int63n(5) - 2}
				for j := range int64(4) {
					v := int64(0)
					for k := range rank {
						v += factors[k] * ((j+1)*(k+2)*(k+2)%7 - 3)
					}
					x.SetFloat(4*i+j, float64(v))
				}
			}
			out = append(out, Sample{Inputs: []*tensor.Tensor{x}})
		}
		out = append(out, Sample{Inputs: []*tensor.Tensor{sampleFloats(r, dt, 5, 3, 3)}})
	}
	return out
}
