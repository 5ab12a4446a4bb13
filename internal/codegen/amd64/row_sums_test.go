package amd64

import (
	"fmt"
	"math"
	"math/rand"
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// rowSums returns a kernel that multiplies rows by a vector, and stores the sums, scaled by row, step elements apart.
func rowSums(dt dtype.DType, rows, cols sym.Expr, step int64) *loop.Kernel {
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
	return kerneltest.Finish(b)
}

// TestRowSums compares sums along rows with the interpreter; the code computes as many rows at once as there are lanes.
// Extents are numbers or dimensions, below and above the number of lanes. Some rows are not finite, and must not change
// others.
func TestRowSums(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) {
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
					k := rowSums(dt, rows, cols, size[2])
					var operands []*tensor.Tensor
					for _, p := range k.Params {
						x := kerneltest.Operand(t, p, dims)
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
	})
}
