package schedule

import (
	"strings"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// TestOutOfLanes: nests that run in lanes or seldom have no reason, and other nests have one: the value that they
// carry, or the limit that lanes would exceed.
func TestOutOfLanes(t *testing.T) {
	carried := func(count int64) func(b *loop.Builder, in []*loop.Memory, out *loop.Memory) {
		return func(b *loop.Builder, in []*loop.Memory, out *loop.Memory) {
			sum := b.Var("sum", f32(0))
			b.Serial("i", number(count), func(i sym.Expr) {
				b.Set(sum, loop.Apply2(loop.Div, loop.Apply2(loop.Add, sum, in[0].Load(i)), f32(2)))
				b.Store(out, []sym.Expr{i}, sum)
			})
		}
	}
	single := func(b *loop.Builder, in []*loop.Memory, out *loop.Memory) {
		b.Each("i", number(4096), func(i sym.Expr) {
			b.Store(out, []sym.Expr{i}, loop.Apply(loop.Exp, loop.Apply2(loop.Add, in[0].Load(i), f32(1))))
		})
	}
	none, narrow := func(*target.Machine) {}, func(m *target.Machine) { m.Limits.Values = 1 }
	for _, c := range []struct {
		name   string
		change func(m *target.Machine)
		write  func(b *loop.Builder, in []*loop.Memory, out *loop.Memory)
		want   string
	}{
		{"in lanes", none, single, ""},
		{"no vectors", func(m *target.Machine) { *m = target.Machine{} }, carried(4096), ""},
		{"carried, and seldom", none, carried(fewIterations - 1), ""},
		{"carried", none, carried(4096), "carries a value"},
		{"a limit", narrow, single, "that would take 2 of values, at most 1"},
	} {
		w := newWriter()
		x := w.buffer(loop.Input, dtype.F32, shape(number(4096)))
		w.launch("nest", loop.Output, dtype.F32, shape(number(4096)), []*loop.Buffer{x}, c.write)
		machine, err := target.For("avx2", 1)
		if err != nil {
			t.Fatal(err)
		}
		c.change(&machine)
		if err := Run(w.module, machine); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(OutOfLanes(w.module.Kernels[0], machine, w.module.Dims), "; ")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, not %q\n%s", c.name, got, c.want, w.module.Kernels[0])
		}
	}
}
