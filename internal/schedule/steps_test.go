package schedule

import (
	"math/rand"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// stepping returns a module of one kernel that runs through n steps in a number of chains; each step is a product with
// weights and a function. With separate, each chain has its own nest; otherwise a loop runs over the chains.
func stepping(n sym.Expr, units, chains int64, separate bool) *loop.Module {
	w := newWriter()
	w.module.Dims.Set(sym.User("n"), sym.Range{Min: 0, Max: 64})
	u, d := number(units), number(chains)
	x, weights := w.buffer(loop.Input, dtype.F32, shape(n, d, u)), w.buffer(loop.Input, dtype.F32, shape(d, u, u))
	w.launch("stepping", loop.Output, dtype.F32, shape(n, d, u), []*loop.Buffer{x, weights},
		func(b *loop.Builder, in []*loop.Memory, out *loop.Memory) {
			build := func(at sym.Expr) {
				state, next := b.Local("state", dtype.F32, one, u), b.Local("next", dtype.F32, one, u)
				b.Nest(loop.Each, "z", state.Shape, func(i []sym.Expr) { b.Store(state, i, f32(0.5)) })
				b.Serial("s", n, func(s sym.Expr) {
					b.Each("once", one, func(sym.Expr) {
						sums := b.Local("sums", dtype.F32, one, u)
						b.Nest(loop.Each, "x", sums.Shape, func(i []sym.Expr) { b.Store(sums, i, in[0].Load(s, at, i[1])) })
						b.Contract(one, u, u, sums.Tile(zeros(2), unit(2, 0), unit(2, 1)), state.Tile(zeros(2), unit(2, 0), unit(2, 1)),
							in[1].Tile([]sym.Expr{at, zero, zero}, unit(3, 1), unit(3, 2)))
						b.Nest(loop.Each, "g", sums.Shape, func(i []sym.Expr) { b.Store(next, i, sums.Load(i...)) })
					})
					b.Nest(loop.Each, "u", state.Shape, func(i []sym.Expr) {
						v := b.Let("v", loop.Apply(loop.Tanh, next.Load(i...)))
						b.Store(state, i, v)
						b.Store(out, []sym.Expr{s, at, i[1]}, v)
					})
				})
			}
			if separate {
				for c := range chains {
					b.Each("d", one, func(sym.Expr) { build(number(c)) })
				}
				return
			}
			b.Each("d", d, build)
		})
	return w.module
}

// TestSteps: kernels of steps become courses if their tiles keep too few workers busy and a step is long enough; they
// compute the same.
func TestSteps(t *testing.T) {
	for _, c := range []struct {
		name             string
		threads          int
		units, chains    int64
		separate, course bool
	}{
		{"one worker", 1, 256, 1, false, false},
		{"one chain", 2, 256, 1, false, true},
		{"as many chains as workers", 2, 256, 2, false, false},
		{"fewer chains than workers", 4, 256, 2, false, true},
		{"fewer separate chains than workers", 4, 256, 2, true, true},
		{"as many separate chains as workers", 2, 256, 2, true, false},
		{"steps of a microsecond", 4, 16, 1, false, false},
	} {
		for _, n := range []sym.Expr{dim("n"), number(3)} {
			m := stepping(n, c.units, c.chains, c.separate)
			in := inputs(rand.New(rand.NewSource(1)), m, 3)
			for _, x := range in {
				for i := range x.Len() {
					x.SetFloat(i, x.Float(i)/16)
				}
			}
			want, err := (&loop.Runner{}).Run(m, in)
			if err != nil {
				t.Fatal(err)
			}
			fast, err := target.For("avx2", c.threads)
			if err != nil {
				t.Fatal(err)
			}
			if err := Run(m, fast); err != nil {
				t.Fatal(err)
			}
			if _, err := loop.VerifyModule(m); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			course := 0
			for _, k := range m.Kernels {
				if _, ok := loop.CourseOf(k); ok {
					course++
				}
			}
			if course > 0 != c.course {
				t.Errorf("%s, %s steps: %d courses, want %v:\n%s", c.name, n, course, c.course, m.Kernels[0])
			}
			got, err := (&loop.Runner{}).Run(m, in)
			if err != nil {
				t.Fatal(err)
			}
			for name, x := range want {
				if err := tensor.Compare(got[name], x, 1e-5, 1e-6); err != nil {
					t.Errorf("%s, %s steps: %v", c.name, n, err)
				}
			}
		}
	}
}
