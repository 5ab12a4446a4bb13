package kerneltest

import (
	"fmt"
	"math"
	"math/rand"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// ColumnSumsKernel returns a kernel that reduces the columns of matrices in lanes: a sum of scaled rows and, if two is
// true, the greatest element. It reduces the second of two matrices or, if nested is true, both, in a second loop.
func ColumnSumsKernel(two, nested bool, rows, cols sym.Expr) *loop.Kernel {
	b := loop.NewBuilder("columns")
	x := b.Param("x", loop.Read, dtype.F32, []sym.Expr{rows, sym.Const(2), cols})
	y := b.Param("y", loop.Write, dtype.F32, []sym.Expr{cols})
	z := b.Param("z", loop.Write, dtype.F32, []sym.Expr{cols})
	b.For(loop.Vector, "c", cols, func(c sym.Expr) {
		sum := b.Var("sum", loop.Number(dtype.F32, 2))
		top := b.Var("top", loop.Number(dtype.F32, math.Inf(-1)))
		body := func(r, i sym.Expr) {
			v := b.Let("v", loop.Apply2(loop.Mul, x.Load(r, i, c), loop.Number(dtype.F32, 3)))
			b.Reduce(sum, loop.Add, v)
			if two {
				b.Reduce(top, loop.Max, v)
			}
		}
		b.Serial("r", rows, func(r sym.Expr) {
			if !nested {
				body(r, sym.Const(1))
				return
			}
			b.Serial("i", sym.Const(2), func(i sym.Expr) { body(r, i) })
		})
		b.Store(y, []sym.Expr{c}, loop.Apply2(loop.Mul, sum, sum))
		b.Store(z, []sym.Expr{c}, top)
	})
	return Finish(b)
}

// SumOfAllKernel returns a kernel that reduces all elements of a matrix: the columns in lanes, the rows in a loop
// inside. The variable is declared outside both loops.
func SumOfAllKernel(dt dtype.DType, op loop.BinaryOp, rows, cols sym.Expr) *loop.Kernel {
	b := loop.NewBuilder("all")
	x := b.Param("x", loop.Read, dt, []sym.Expr{rows, cols})
	y := b.Param("y", loop.Write, dt, []sym.Expr{})
	all := b.Var("all", loop.Number(dt, 0))
	b.For(loop.Vector, "c", cols, func(c sym.Expr) {
		b.Serial("r", rows, func(r sym.Expr) { b.Reduce(all, op, x.Load(r, c)) })
	})
	b.Store(y, nil, all)
	return Finish(b)
}

// SumOfAll checks that a reduction in a loop inside a vector loop includes all lanes, if its variable is declared
// outside the vector loop.
func (h Harness) SumOfAll(t *testing.T) {
	for _, dt := range []dtype.DType{dtype.I16, dtype.U8, dtype.I32, dtype.F64, dtype.F32} {
		for _, size := range [][2]int64{{0, 40}, {3, 0}, {3, 1}, {7, 17}, {20, 64}, {70, 300}} {
			for _, named := range []bool{false, true} {
				rows, cols, dims := sym.Const(size[0]), sym.Const(size[1]), map[sym.Name]int64{}
				if named {
					n, m := sym.User("n"), sym.User("m")
					rows, cols = sym.Var(n), sym.Var(m)
					dims[n], dims[m] = size[0], size[1]
				}
				for _, op := range []loop.BinaryOp{loop.Add, loop.Max} {
					k := SumOfAllKernel(dt, op, rows, cols)
					var operands []*tensor.Tensor
					for _, p := range k.Params {
						x := Operand(t, p, dims)
						for i := range x.Len() {
							x.SetFloat(i, float64(i%3))
						}
						operands = append(operands, x)
					}
					t.Run(fmt.Sprint(dt, size, named, op), func(t *testing.T) { h.Agree(t, k, dims, operands, 0, 0) })
				}
			}
		}
	}
}

// ColumnSums compares sums of columns with the interpreter; the code computes several strips of columns together.
// Extents are numbers or dimensions. Some columns are not finite, and must not change others.
func (h Harness) ColumnSums(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for _, size := range [][2]int64{
		{3, 0}, {0, 40}, {3, 1}, {5, 8}, {2, 15}, {9, 16}, {4, 17}, {3, 31}, {3, 40}, {3, 48},
		{7, 52}, {2, 63}, {3, 64}, {3, 100}, {2, 128}, {2, 130}, {1, 143}, {2, 144}, {2, 300}, {70, 52}, {70, 300},
	} {
		for options := range 16 {
			n, m := sym.User("n"), sym.User("m")
			rows, cols, dims := sym.Const(size[0]), sym.Const(size[1]), map[sym.Name]int64{}
			if options&1 != 0 {
				rows, dims[n] = sym.Var(n), size[0]
			}
			if options&2 != 0 {
				cols, dims[m] = sym.Var(m), size[1]
			}
			k := ColumnSumsKernel(options&4 != 0, options&8 != 0, rows, cols)
			var operands []*tensor.Tensor
			for _, p := range k.Params {
				x := Operand(t, p, dims)
				for i := range x.Len() {
					x.SetFloat(i, float64(r.Intn(9)-4))
					if r.Intn(100) == 0 {
						x.SetFloat(i, []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[r.Intn(3)])
					}
				}
				operands = append(operands, x)
			}
			t.Run(fmt.Sprint(size, options), func(t *testing.T) { h.Agree(t, k, dims, operands, 0, 0) })
		}
	}
}

// RowSumsKernel returns a kernel that multiplies rows by a vector, and stores the sums, scaled by row, step elements
// apart.
func RowSumsKernel(dt dtype.DType, rows, cols sym.Expr, step int64) *loop.Kernel {
	b := loop.NewBuilder("rows")
	q := b.Param("q", loop.Read, dtype.F32, []sym.Expr{cols})
	x := b.Param("x", loop.Read, dt, []sym.Expr{rows, cols})
	scale := b.Param("scale", loop.Read, dtype.F32, []sym.Expr{rows})
	y := b.Param("y", loop.Update, dtype.F32, []sym.Expr{rows.Mul(sym.Const(step)).Add(sym.Const(1))})
	b.Each("j", rows, func(j sym.Expr) {
		sum := b.Var("sum", loop.Number(dtype.F32, 2))
		b.For(loop.Vector, "d", cols, func(d sym.Expr) {
			b.Reduce(sum, loop.Add, loop.Apply2(loop.Mul, q.Load(d), loop.Convert(dtype.F32, x.Load(j, d))))
		})
		b.Store(y, []sym.Expr{j.Mul(sym.Const(step))}, loop.Apply2(loop.Mul, loop.Apply2(loop.Add, sum, sum), scale.Load(j)))
	})
	return Finish(b)
}

// RowSums compares sums along rows with the interpreter; the code computes as many rows at once as there are lanes.
// Extents are numbers or dimensions, below and above the number of lanes. Some rows are not finite, and must not change
// others.
func (h Harness) RowSums(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for _, dt := range []dtype.DType{dtype.F32, dtype.BF16, dtype.I8} {
		for _, size := range [][3]int64{{0, 8, 1}, {3, 64, 1}, {16, 64, 1}, {17, 17, 1}, {40, 1, 1}, {33, 0, 1},
			{100, 200, 1}, {64, 31, 2}} {
			for _, named := range []int{0, 1, 2, 3} {
				n, m := sym.User("n"), sym.User("m")
				rows, cols, dims := sym.Const(size[0]), sym.Const(size[1]), map[sym.Name]int64{}
				if named&1 != 0 {
					rows, dims[n] = sym.Var(n), size[0]
				}
				if named&2 != 0 {
					cols, dims[m] = sym.Var(m), size[1]
				}
				k := RowSumsKernel(dt, rows, cols, size[2])
				var operands []*tensor.Tensor
				for _, p := range k.Params {
					x := Operand(t, p, dims)
					for i := range x.Len() {
						if p.DType.IsFloat() {
							x.SetFloat(i, float64(r.Intn(9)-4))
						} else {
							x.SetInt(i, r.Int63n(256)-128)
						}
						if dt != dtype.I8 && p.Name == "x" && r.Intn(300) == 0 {
							x.SetFloat(i, []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[r.Intn(3)])
						}
					}
					operands = append(operands, x)
				}
				t.Run(fmt.Sprint(dt, size, named), func(t *testing.T) { h.Agree(t, k, dims, operands, 0, 0) })
			}
		}
	}
}
