package amd64

import (
	"fmt"
	"math"
	"math/rand"
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// columnSums returns a kernel that reduces the columns of matrices in lanes: a sum of scaled rows and, if two is true,
// the greatest element. It reduces the second of two matrices or, if nested is true, both, in a second loop.
func columnSums(two, nested bool, rows, cols sym.Expr) *loop.Kernel {
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
	return kerneltest.Finish(b)
}

// sumOfAll returns a kernel that reduces all elements of a matrix: the columns in lanes, the rows in a loop inside. The
// variable is declared outside both loops.
func sumOfAll(dt dtype.DType, op loop.BinaryOp, rows, cols sym.Expr) *loop.Kernel {
	b := loop.NewBuilder("all")
	x := b.Param("x", loop.Read, dt, []sym.Expr{rows, cols})
	y := b.Param("y", loop.Write, dt, []sym.Expr{})
	all := b.Var("all", loop.Number(dt, 0))
	b.For(loop.Vector, "c", cols, func(c sym.Expr) {
		b.Serial("r", rows, func(r sym.Expr) { b.Reduce(all, op, x.Load(r, c)) })
	})
	b.Store(y, nil, all)
	return kerneltest.Finish(b)
}

// TestSumOfAll checks that a reduction in a loop inside a vector loop includes all lanes, if its variable is declared
// outside the vector loop.
func TestSumOfAll(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) {
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
						k := sumOfAll(dt, op, rows, cols)
						var operands []*tensor.Tensor
						for _, p := range k.Params {
							x := kerneltest.Operand(t, p, dims)
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
	})
}

// TestColumnSums compares sums of columns with the interpreter; the code computes several strips of columns together.
// Extents are numbers or dimensions. Some columns are not finite, and must not change others.
func TestColumnSums(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) {
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
				k := columnSums(options&4 != 0, options&8 != 0, rows, cols)
				var operands []*tensor.Tensor
				for _, p := range k.Params {
					x := kerneltest.Operand(t, p, dims)
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
	})
}

// TestJammable checks how many strips are computed together: for sums of columns by the numbers of sums and of
// registers, and one for other loops.
func TestJammable(t *testing.T) {
	rows, cols := sym.Var(sym.User("n")), sym.Const(256)
	for _, test := range []struct {
		name   string
		kernel *loop.Kernel
		isa    *isa
		want   int64
	}{
		{"a sum", columnSums(false, false, rows, cols), avx512, 8},
		{"two reductions", columnSums(true, false, rows, cols), avx512, 4},
		{"two loops", columnSums(false, true, rows, cols), avx512, 8},
		{"a sum with fewer registers", columnSums(false, false, rows, cols), avx2, 4},
		{"a sum that is written out", columnSums(false, false, sym.Const(3), cols), avx512, 1},
		{"a sum of all", sumOfAll(dtype.F32, loop.Add, rows, cols), avx512, 1},
		{"sums along rows", rowSums(dtype.F32, sym.Const(40), cols, 1), avx512, 1},
	} {
		e := &lanes.Emitter{MostSums: int64(test.isa.registers) / 4}
		var f *loop.For
		for _, stmt := range test.kernel.Body {
			if found, ok := stmt.(*loop.For); ok {
				f = found
			}
		}
		if got := e.Jammable(f); got != test.want {
			t.Errorf("%s: %d strips are done together, want %d", test.name, got, test.want)
		}
	}
	for _, test := range [][3]int64{{64, 8, 8}, {3, 8, 3}, {9, 8, 8}, {10, 8, 5}, {12, 8, 6}, {1, 8, 1}, {7, 4, 3}} {
		if got := lanes.Together(test[0], test[1]); got != test[2] {
			t.Errorf("of %d strips, %d at most, %d are done together, want %d", test[0], test[1], got, test[2])
		}
	}
}
