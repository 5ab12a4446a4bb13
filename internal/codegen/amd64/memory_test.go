package amd64

import (
	"fmt"
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// TestNarrowSteps transposes matrices of narrow elements: lanes read or write elements a step apart, in entire strips
// and parts of them.
func TestNarrowSteps(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) {
		for _, dt := range []dtype.DType{dtype.I8, dtype.U8, dtype.I16, dtype.U16, dtype.F16, dtype.BF16, dtype.Bool} {
			for _, extent := range []int64{1, 7, 8, 16, 23, 37} {
				for _, writes := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s of %d, written so: %v", dt, extent, writes), func(t *testing.T) {
						const across = 3
						long, wide := constants(extent, across), constants(across, extent)
						if !writes {
							long, wide = wide, long
						}
						b := loop.NewBuilder("turn")
						x, y := b.Param("x", loop.Read, dt, wide), b.Param("y", loop.Write, dt, long)
						b.For(loop.Parallel, "t", sym.Const(1), func(sym.Expr) {
							b.Each("i", sym.Const(across), func(i sym.Expr) {
								b.For(loop.Vector, "j", sym.Const(extent), func(j sym.Expr) {
									from, to := []sym.Expr{i, j}, []sym.Expr{j, i}
									if !writes {
										from, to = to, from
									}
									b.Store(y, to, x.Load(from...))
								})
							})
						})
						b.Finish()
						h.Agree(t, b.Kernel, nil, operandsOf(t, b.Kernel, nil, extent), 0, 0)
					})
				}
			}
		}
	})
}
