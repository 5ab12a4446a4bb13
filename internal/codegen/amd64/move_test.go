package amd64

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// TestMoves moves and fills rows of narrow elements, beside pages that fault. Many lengths are near multiples of a
// register's.
func TestMoves(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) {
		h.Guarded = true
		r := rand.New(rand.NewPCG(1, 2))
		for _, dt := range []dtype.DType{dtype.U8, dtype.I8, dtype.U16, dtype.I16, dtype.F16, dtype.BF16, dtype.Bool} {
			for _, n := range []int64{1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 200, 333} {
				for form := range 6 {
					t.Run(fmt.Sprintf("%s/%d/%d", dt, n, form), func(t *testing.T) {
						k, dims := moveKernel(dt, n, form)
						list := []*tensor.Tensor{kerneltest.Operand(t, k.Params[0], dims), kerneltest.Operand(t, k.Params[1], dims)}
						for i := range list[0].Bytes() {
							if list[0].Bytes()[i] = byte(r.Uint32()); dt == dtype.Bool {
								list[0].Bytes()[i] &= 1
							} else if dt.IsFloat() {
								list[0].Bytes()[i] &= 0xbf // no NaN, whose bits may change
							}
						}
						h.Agree(t, k, dims, list, 0, 0)
					})
				}
			}
		}
	})
}

// moveKernel returns a kernel that fills the first n+3 elements of three rows with ones, and moves n elements to the
// rest. By form/2, these come from the same offset in x, from offset 1, or from every second element. In odd forms n is
// a dimension.
func moveKernel(dt dtype.DType, n int64, form int) (*loop.Kernel, map[sym.Name]int64) {
	dims, count := map[sym.Name]int64{}, sym.Const(n)
	if form%2 == 1 {
		count = sym.Dim("n")
		dims[sym.User("n")] = n
	}
	b := loop.NewBuilder("move")
	wide := count.Mul(sym.Const(2)).Add(sym.Const(3))
	x, y := b.Param("x", loop.Read, dt, []sym.Expr{sym.Const(3), wide}),
		b.Param("y", loop.Write, dt, []sym.Expr{sym.Const(3), wide})
	b.For(loop.Parallel, "r", sym.Const(3), func(row sym.Expr) {
		fill := func(first, count sym.Expr, value func(i sym.Expr) loop.Expr) {
			b.For(loop.Vector, "i", count, func(i sym.Expr) { b.Store(y, []sym.Expr{row, first.Add(i)}, value(i)) })
		}
		fill(sym.Const(0), count.Add(sym.Const(3)), func(sym.Expr) loop.Expr {
			if dt.IsFloat() {
				return loop.Number(dt, 1)
			}
			return loop.Integer(dt, 1)
		})
		fill(count.Add(sym.Const(3)), count, func(i sym.Expr) loop.Expr {
			switch form / 2 {
			case 0:
				return x.Load(row, i.Add(count).Add(sym.Const(3)))
			case 1:
				return x.Load(row, i.Add(sym.Const(1)))
			}
			return x.Load(row, i.Mul(sym.Const(2)))
		})
	})
	return kerneltest.Finish(b), dims
}
