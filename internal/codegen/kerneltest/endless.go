package kerneltest

import (
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// Endless has builders of kernels whose tiles would take years: n should be 2⁴⁰ iterations.
var Endless = map[string]func(b *loop.Builder, n sym.Expr){
	"a serial sum": func(b *loop.Builder, n sym.Expr) {
		y := b.Param("y", loop.Write, dtype.I64, Fixed(1))
		total := b.Var("total", loop.Integer(dtype.I64, 0))
		b.Serial("i", n, func(i sym.Expr) { b.Reduce(total, loop.Add, loop.At(i)) })
		b.Store(y, Fixed(0), total)
	},
	"a sum in lanes": func(b *loop.Builder, n sym.Expr) {
		y := b.Param("y", loop.Write, dtype.F32, Fixed(1))
		total := b.Var("total", loop.Number(dtype.F32, 0))
		b.For(loop.Vector, "i", n, func(i sym.Expr) { b.Reduce(total, loop.Add, loop.Convert(dtype.F32, loop.At(i))) })
		b.Store(y, Fixed(0), total)
	},
	"loops in loops": func(b *loop.Builder, n sym.Expr) {
		y := b.Param("y", loop.Write, dtype.I64, Fixed(1))
		total := b.Var("total", loop.Integer(dtype.I64, 0))
		b.Serial("i", sym.Const(1<<20), func(i sym.Expr) {
			b.Serial("j", sym.Const(1<<10), func(j sym.Expr) {
				b.Serial("k", sym.Const(1<<10), func(k sym.Expr) { b.Reduce(total, loop.Add, loop.At(i.Add(j).Add(k))) })
			})
		})
		b.Store(y, Fixed(0), total)
	},
	"a product": func(b *loop.Builder, n sym.Expr) {
		a := b.Param("a", loop.Read, dtype.F32, Fixed(1))
		y := b.Param("y", loop.Update, dtype.F32, Fixed(8, 32))
		x := b.Param("x", loop.Read, dtype.F32, Fixed(1, 32))
		one, none, next := Fixed(0), Fixed(0, 0), Fixed(0, 1)
		b.Contract(sym.Const(8), sym.Const(32), n, y.Tile(none, Fixed(1, 0), next), a.Tile(one, one, one),
			x.Tile(none, none, next))
	},
	"a scatter": func(b *loop.Builder, n sym.Expr) {
		y := b.Param("y", loop.Update, dtype.F32, Fixed(64))
		b.Serial("i", n, func(i sym.Expr) {
			at := b.Check("at", loop.At(i.Mod(sym.Const(64))), sym.Const(0), sym.Const(63), "an index")
			b.Store(y, []sym.Expr{at}, loop.Apply2(loop.Add, y.Load(at), loop.Number(dtype.F32, 1)))
		})
	},
	"tiles with long loops": func(b *loop.Builder, n sym.Expr) {
		y := b.Param("y", loop.Write, dtype.I64, Fixed(4))
		b.For(loop.Parallel, "t", sym.Const(4), func(at sym.Expr) {
			total := b.Var("total", loop.Integer(dtype.I64, 0))
			b.Serial("i", n, func(i sym.Expr) { b.Reduce(total, loop.Add, loop.At(i)) })
			b.Store(y, []sym.Expr{at}, total)
		})
	},
}

// Stops runs Endless's kernels with arguments that are stopped already: each must end with ErrStopped.
func (h Harness) Stops(t *testing.T) {
	for name, write := range Endless {
		for which, n := range []sym.Expr{sym.Const(1 << 40), sym.Dim("n")} {
			t.Run(name+[]string{"", ", dynamic"}[which], func(t *testing.T) {
				b := loop.NewBuilder("endless")
				write(b, n)
				k := Finish(b)
				code, err := h.Compile(&loop.Module{Kernels: []*loop.Kernel{k}}, h.Machine)
				if err != nil {
					t.Fatal(err)
				}
				a, scratch := EndlessArgs(t, k, code.Kernels[0])
				stop := make(chan struct{})
				close(stop)
				a.Stop.Done = stop
				if err := code.Kernels[0].Run(a, 0, 1, scratch); err != target.ErrStopped {
					t.Errorf("after a stop: %v", err)
				}
			})
		}
	}
}

// EndlessArgs returns arguments and scratch for one of Endless's kernels, with 2⁴⁰ for its dimension.
func EndlessArgs(t *testing.T, k *loop.Kernel, compiled target.Kernel) (*target.Args, []byte) {
	t.Helper()
	a := &target.Args{}
	for range k.Dims {
		a.Dims = append(a.Dims, 1<<40)
	}
	for _, p := range k.Params {
		x := Operand(t, p, nil)
		a.Operands = append(a.Operands, target.Operand{Base: unsafe.Pointer(&x.Bytes()[0]), Bytes: int64(len(x.Bytes()))})
	}
	size, err := compiled.Scratch(a.Dims)
	if err != nil {
		t.Fatal(err)
	}
	scratch, _ := ScratchOf(int(size))
	return a, scratch
}
