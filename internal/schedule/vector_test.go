package schedule

import (
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// TestSeldomLoops: a nest gets a vector loop even if it is inside a loop whose number of iterations is guessed as 0,
// such as the quotient of a dimension by a large number.
func TestSeldomLoops(t *testing.T) {
	w, n := newWriter(), dim("n")
	w.module.Dims.Set(sym.User("n"), sym.Range{Min: 0, Max: 1 << 20})
	const piece, columns = 1 << 18, 96
	x := w.buffer(loop.Input, dtype.F32, shape(n, number(columns)))
	w.launch("pieces", loop.Output, dtype.F32, shape(number(columns)), []*loop.Buffer{x},
		func(b *loop.Builder, in []*loop.Memory, out *loop.Memory) {
			b.Each("once", one, func(sym.Expr) {
				sums := b.Local("sums", dtype.F32, number(columns))
				b.Each("z", number(columns), func(i sym.Expr) { b.Store(sums, []sym.Expr{i}, f32(0)) })
				b.Serial("u", n.FloorDiv(number(piece)), func(u sym.Expr) {
					b.Each("i", number(columns), func(i sym.Expr) {
						sum := b.Var("sum", sums.Load(i))
						b.Serial("j", number(100), func(j sym.Expr) {
							b.Reduce(sum, loop.Add, loop.Apply(loop.Exp, in[0].Load(u.Mul(number(piece)).Add(j), i)))
						})
						b.Store(sums, []sym.Expr{i}, sum)
					})
				})
				b.Each("o", number(columns), func(i sym.Expr) { b.Store(out, []sym.Expr{i}, sums.Load(i)) })
			})
		})
	m := w.module
	fast, err := target.For("avx2", 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := Run(m, fast); err != nil {
		t.Fatal(err)
	}
	found := false
	loop.Walk(m.Kernels[0].Body, func(s loop.Stmt) bool {
		f, is := s.(*loop.For)
		if is && f.Kind == loop.Serial && f.Extent.Equal(n.FloorDiv(number(piece))) {
			loop.Walk(f.Body, func(s loop.Stmt) bool {
				inner, is := s.(*loop.For)
				found = found || is && inner.Kind == loop.Vector
				return true
			})
		}
		return true
	})
	if !found {
		t.Errorf("no lanes inside the loop over pieces:\n%s", m.Kernels[0])
	}
}
