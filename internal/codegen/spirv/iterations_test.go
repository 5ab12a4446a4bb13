package spirv

import (
	"errors"
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// TestIterations: a kernel is refused if its loops have more iterations than the driver's limit for dimensions of a
// common size; otherwise a launch is refused if they have for its dimensions.
func TestIterations(t *testing.T) {
	const most = 65535
	machine := target.Vulkan(target.Limits{Iterations: most}, target.Int64)
	for _, c := range []struct {
		inner   int64
		n       sym.Range
		refused bool
		largest int64 // the largest n of a launch that runs; 0 if no launch is refused
	}{
		{inner: 70000, refused: true, n: sym.Range{Max: sym.NoMax}},
		{inner: 2000, refused: true, n: sym.Range{Max: sym.NoMax}},
		{inner: 2000, refused: true, n: sym.Range{Min: 3, Max: 40}},
		{inner: 2000, n: sym.Range{Max: 32}},
		{inner: 9, refused: true, n: sym.Range{Min: 7000, Max: 8000}},
		{inner: 9, n: sym.Range{Max: sym.NoMax}, largest: 6553},
	} {
		b := loop.NewBuilder("sum")
		n := sym.Dim("n")
		x := b.Param("x", loop.Read, dtype.F32, []sym.Expr{n, sym.Const(c.inner)})
		y := b.Param("y", loop.Update, dtype.F32, []sym.Expr{sym.Const(1)})
		b.Serial("i", n, func(i sym.Expr) {
			b.Serial("j", sym.Const(c.inner), func(j sym.Expr) {
				first := []sym.Expr{sym.Const(0)}
				b.Store(y, first, loop.Apply2(loop.Max, y.Load(first...), x.Load(i, j)))
			})
		})
		m := &loop.Module{Kernels: []*loop.Kernel{kerneltest.Finish(b)}, Dims: sym.NewDims()}
		m.Dims.Set(sym.User("n"), c.n)
		code, err := Compile(m, machine)
		if errors.Is(err, diag.ErrUnsupported) != c.refused || err != nil && !c.refused {
			t.Errorf("%+v: %v", c, err)
		}
		if err != nil || c.largest == 0 {
			continue
		}
		k, grid := code.Kernels[0].(target.Blocks), make([]int64, 1)
		if err := k.Grid([]int64{c.largest}, grid); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		if err := k.Grid([]int64{c.largest + 1}, grid); !errors.Is(err, diag.ErrUnsupported) {
			t.Errorf("%+v: one more: %v", c, err)
		}
	}
}
