package array

import (
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// MatMul is the product of matrices in the last two axes, broadcast over the other axes, in the operands' common type.
// An operand of rank 1 is a row on the left or a column on the right, and the result does not have that axis.
func (s *Scope) MatMul(x, y *Array) *Array {
	return s.pairs("matmul", x, y, func(c calc, p, q *ir.Value) *ir.Value { return ops.MatMulAny(c.b, p, q) })
}

// Einsum is Einstein summation as in NumPy's einsum: axes with the same letter are indexed together, and axes that the
// result does not name are summed: Einsum("ij,jk->ik", x, y) is a matrix product. Operands are converted to their
// common type.
func (s *Scope) Einsum(equation string, xs ...*Array) *Array {
	if !s.ready("einsum", xs) {
		return s.none(1)[0]
	}
	if len(xs) == 0 {
		return s.refuse("einsum", diag.Inputf("no arrays"))
	}
	return s.one(operation{name: "einsum", text: equation, build: func(b *ir.Builder, v []*ir.Value) []*ir.Value {
		return []*ir.Value{ops.Einsum(b, equation, joint(b, v)...)}
	}}, s.typed(xs)...)
}

// TensorDot is the sum of products along pairs of axes, xAxes of x with yAxes of y. The result has x's other axes, then
// y's.
func (s *Scope) TensorDot(x, y *Array, xAxes, yAxes []int) *Array {
	if !s.ready("tensordot", []*Array{x, y}) {
		return s.none(1)[0]
	}
	equation, err := contraction(x, y, xAxes, yAxes)
	if err != nil {
		return s.refuse("tensordot", err)
	}
	return s.Einsum(equation, x, y)
}

// contraction returns the Einsum equation of a TensorDot.
func contraction(x, y *Array, xAxes, yAxes []int) (string, error) {
	if len(xAxes) != len(yAxes) || len(x.shape)+len(y.shape) > 50 {
		return "", diag.Inputf("axes %v of %v with %v of %v", xAxes, x, yAxes, y)
	}
	letter := func(i int) rune { return []rune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")[i] }
	left, right := make([]rune, len(x.shape)), make([]rune, len(y.shape))
	for i := range xAxes {
		p, err := axisOf(x, xAxes[i])
		if err != nil {
			return "", err
		}
		q, err := axisOf(y, yAxes[i])
		if err != nil {
			return "", err
		}
		if left[p] != 0 || right[q] != 0 {
			return "", diag.Inputf("axes %v and %v: one occurs twice", xAxes, yAxes)
		}
		left[p], right[q] = letter(i), letter(i)
	}
	next, out := len(xAxes), []rune{}
	for _, side := range [][]rune{left, right} {
		for i := range side {
			if side[i] == 0 {
				side[i] = letter(next)
				out, next = append(out, side[i]), next+1
			}
		}
	}
	return string(left) + "," + string(right) + "->" + string(out), nil
}

// Outer is the product of each element of x with each element of y. The result has x's axes, then y's.
func (s *Scope) Outer(x, y *Array) *Array {
	return s.pairs("outer", x, y, func(c calc, p, q *ir.Value) *ir.Value {
		ones := slices.Repeat([]sym.Expr{one}, len(q.Type.Shape))
		return c.mul(ops.Reshape(c.b, p, slices.Concat(p.Type.Shape, ones)...), q)
	})
}

// VecDot is the sum of products of x and y along an axis, which is counted from the last: −1 and below. The other axes
// are broadcast. The result has the operands' common type.
func (s *Scope) VecDot(x, y *Array, axis int) *Array {
	return s.plan("vecdot", []*Array{x, y}, func() ([]int, builder, error) {
		if axis >= 0 || -axis > min(len(x.shape), len(y.shape)) {
			return nil, nil, diag.Inputf("axis %d of %v and %v: it is counted from the last, −1 on", axis, x, y)
		}
		if p, q := x.Dim(axis), y.Dim(axis); p >= 0 && q >= 0 && p != q {
			return nil, nil, diag.Inputf("%v and %v differ in axis %d", x, y, axis)
		}
		return []int{axis}, func(b *ir.Builder, v []*ir.Value) *ir.Value {
			p, q := common(b, v[0], v[1])
			y := ops.Binary(b, ops.Mul, p, q)
			return ops.ReduceSum(b, y, false, int64(axis+len(y.Type.Shape)))
		}, nil
	})
}

// Diagonal returns the elements in column row + offset of each matrix in the last two axes. They are the last axis of
// the result.
func (s *Scope) Diagonal(x *Array, offset int) *Array {
	if s.ready("diagonal", []*Array{x}) && s.movable(x) && len(x.shape) >= 2 {
		return s.diagonals(x, offset)
	}
	return s.onMatrices("diagonal", x, []int{offset}, func(b *ir.Builder, v *ir.Value) *ir.Value {
		return diagonal(b, v, offset)
	})
}

// Trace is the sum of Diagonal, in the type of Sum.
func (s *Scope) Trace(x *Array, offset int) *Array {
	if s.ready("trace", []*Array{x}) && s.movable(x) && len(x.shape) >= 2 {
		d := s.diagonals(x, offset)
		defer d.Close()
		return s.Sum(d, -1)
	}
	return s.onMatrices("trace", x, []int{offset}, func(b *ir.Builder, v *ir.Value) *ir.Value {
		return total("reduce_sum")(b, diagonal(b, v, offset), false, int64(len(v.Type.Shape)-2))
	})
}

// Det is the determinant of each square matrix in the last two axes.
func (s *Scope) Det(x *Array) *Array {
	return s.onMatrices("det", x, nil, func(b *ir.Builder, v *ir.Value) *ir.Value {
		return ops.Determinant(b, asFloat(b, v))
	})
}

// Inv is the inverse of each square matrix in the last two axes. Without an inverse, the result is infinities and NaN.
func (s *Scope) Inv(x *Array) *Array {
	return s.onMatrices("inv", x, nil, func(b *ir.Builder, v *ir.Value) *ir.Value { return ops.Inverse(b, asFloat(b, v)) })
}

// Solve returns z with x·z = y for the square matrices in x's last two axes. The matrices of y may have any number of
// columns; a y of rank 1 is one column. The other axes are broadcast. If x has no inverse, the result is infinities and
// NaN.
func (s *Scope) Solve(x, y *Array) *Array {
	return s.plan("solve", []*Array{x, y}, func() ([]int, builder, error) {
		if len(x.shape) < 2 || len(y.shape) == 0 {
			return nil, nil, diag.Inputf("%v is no matrix, or %v no right side", x, y)
		}
		column := len(y.shape) == 1
		return nil, func(b *ir.Builder, v []*ir.Value) *ir.Value {
			p, q := common(b, asFloat(b, v[0]), asFloat(b, v[1]))
			if column {
				q = ops.Reshape(b, q, q.Type.Shape[0], one)
			}
			lead := func(v *ir.Value) []sym.Expr {
				return append(slices.Clone(v.Type.Shape[:len(v.Type.Shape)-2]), one, one)
			}
			p = ops.Expand(b, p, lead(q)...)
			q = ops.Expand(b, q, lead(p)...)
			z := ops.Solve(b, p, q)
			if column {
				z = ops.Reshape(b, z, z.Type.Shape[:len(z.Type.Shape)-1]...)
			}
			return z
		}, nil
	})
}

// nearOffset limits an offset so that it can be negated and added without overflow; a diagonal beyond the limit is
// empty in any case.
func nearOffset(offset int) int { return min(max(offset, -1<<30), 1<<30) }

// diagonal builds Diagonal.
func diagonal(b *ir.Builder, v *ir.Value, offset int) *ir.Value {
	offset = nearOffset(offset)
	row := len(v.Type.Shape) - 2
	down, across := sym.Const(int64(max(-offset, 0))), sym.Const(int64(max(offset, 0)))
	extent := v.Type.Shape[row].Sub(down).Min(v.Type.Shape[row+1].Sub(across))
	if n, known := extent.Const(); !known || n < 0 {
		extent = extent.Max(sym.Const(0))
	}
	if n, known := extent.Const(); known && n == 0 {
		down, across = sym.Const(0), sym.Const(0)
	}
	v = ops.SliceAxis(b, ops.SliceAxis(b, v, row, down, extent), row+1, across, extent)
	return ops.Diagonal(b, v, row, row+1)
}

// onMatrices applies an operation on the matrices in the last two axes.
func (s *Scope) onMatrices(name string, x *Array, ints []int, f func(b *ir.Builder, v *ir.Value) *ir.Value) *Array {
	return s.plan(name, []*Array{x}, func() ([]int, builder, error) {
		if len(x.shape) < 2 {
			return nil, nil, diag.Inputf("%v is no matrix", x)
		}
		return ints, func(b *ir.Builder, v []*ir.Value) *ir.Value { return f(b, v[0]) }, nil
	})
}

// Tril keeps the elements of each matrix in the last two axes whose column is at most row + k, and sets the others to
// 0.
func (s *Scope) Tril(x *Array, k int) *Array { return s.triangle("tril", x, false, k) }

// Triu keeps the elements of each matrix in the last two axes whose column is at least row + k, and sets the others to
// 0.
func (s *Scope) Triu(x *Array, k int) *Array { return s.triangle("triu", x, true, k) }

// triangle is Triu if upper is true, else Tril.
func (s *Scope) triangle(name string, x *Array, upper bool, k int) *Array {
	if s.ready(name, []*Array{x}) && s.movable(x) && len(x.shape) >= 2 {
		return s.triangles(name, x, upper, k)
	}
	return s.onMatrices(name, x, []int{k}, func(b *ir.Builder, v *ir.Value) *ir.Value {
		return ops.Triangle(b, v, upper, sym.Const(int64(k)))
	})
}
