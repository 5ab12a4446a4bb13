package schedule

import (
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// TestRandomLimits schedules random modules for machines with random limits. Results must be right, and no kernel may
// exceed a hard limit. No kernel may have more operands than the limit or the unscheduled kernel with the most, not
// counting locals that were moved out of their kernels; none may keep more values than the limit.
func TestRandomLimits(t *testing.T) {
	r := rand.New(rand.NewSource(5))
	outside, unfused := 0, 0
	for range 120 {
		m := random(r, r.Intn(2) == 0)
		in := inputs(r, m, 9)
		on := []target.Machine{machine, registers}[r.Intn(2)]
		on.Limits.Scratch = 8 << r.Intn(8)
		on.Limits.Operands, on.Limits.Values = int64(2+r.Intn(8)), int64(2+r.Intn(20))
		if on.Limits.Registers > 0 {
			on.Limits.Registers = int64(3 + r.Intn(14))
		}
		most := on.Limits.Operands
		for _, k := range m.Kernels {
			most = max(most, int64(len(k.Params)))
		}
		scheduled := sameOn(t, m, on, Options{}, in)
		if err := Verify(scheduled, on); err != nil {
			t.Fatalf("limits %+v: %v", on.Limits, err)
		}
		moved := 0
		for _, step := range scheduled.Body {
			l := step.(*loop.Launch)
			own := 0
			for _, b := range l.Args {
				if !slices.Contains(m.Buffers, b) {
					own++
				}
			}
			moved += own
			if need := NeedOf(l.Kernel, on, m.Dims); need.Operands-int64(own) > most || need.Values > on.Limits.Values {
				t.Fatalf("limits %+v, of %+v:\n%s", on.Limits, need, l.Kernel)
			}
		}
		if moved > 0 {
			outside++
		}
		if len(scheduled.Body) > len(same(t, m, Options{}, in).Body) {
			unfused++
		}
	}
	if outside < 10 || unfused < 10 {
		t.Errorf("%d schedules had locals outside of their kernels, %d had more launches because of limits: too few for "+
			"this test to show anything", outside, unfused)
	}
}

// TestLadder: if a local does not fit, tiles are first made smaller, and only then does the local become a buffer; no
// more tiles run at once than the buffer has slices.
func TestLadder(t *testing.T) {
	first := func(scratch int64, build func(w *writer)) (string, *loop.Module) {
		w := newWriter()
		build(w)
		on := registers
		on.Limits.Scratch = scratch
		if err := Run(w.module, on); err != nil {
			t.Fatal(err)
		}
		if err := Verify(w.module, on); err != nil {
			t.Fatal(err)
		}
		if _, err := loop.VerifyModule(w.module); err != nil {
			t.Fatal(err)
		}
		return w.module.Kernels[0].String(), w.module
	}
	product := func(w *writer) {
		x, y := w.buffer(loop.Input, dtype.F32, shape(number(512), number(64))),
			w.buffer(loop.Input, dtype.F32, shape(number(64), number(512)))
		w.matmul(loop.Output, x, y)
	}
	for _, c := range []struct {
		scratch int64
		sums    string
		buffers int
	}{
		{0, "local %acc: f32[128, 16]", 3},
		{8 << 10, "local %acc: f32[128, 16]", 3},
		{4 << 10, "local %acc: f32[64, 16]", 3},
		{64, "local %acc: f32[1, 16]", 3},
		{32, "%acc: f32[512, 1, 16] work", 4},
	} {
		text, m := first(c.scratch, product)
		if !strings.Contains(text, c.sums) || len(m.Buffers) != c.buffers {
			t.Errorf("%d bytes of scratch, %d buffers:\n%s", c.scratch, len(m.Buffers), text)
		}
	}
	// For a local of a megabyte and 40 tiles, the buffer has only as many slices as 16 megabytes hold.
	text, m := first(1<<10, func(w *writer) {
		x := w.buffer(loop.Input, dtype.F32, shape(number(40), number(1<<18)))
		w.launch("twice", loop.Output, dtype.F32, x.Shape, []*loop.Buffer{x},
			func(b *loop.Builder, in []*loop.Memory, out *loop.Memory) {
				b.Each("i", out.Shape[0], func(i sym.Expr) {
					line := b.Local("line", dtype.F32, out.Shape[1])
					b.Each("j", out.Shape[1], func(j sym.Expr) { b.Store(line, shape(j), loop.Apply(loop.Tanh, in[0].Load(i, j))) })
					b.Each("j", out.Shape[1], func(j sym.Expr) {
						b.Store(out, shape(i, j), loop.Apply2(loop.Add, line.Load(j), line.Load(out.Shape[1].Sub(one).Sub(j))))
					})
				})
			})
	})
	if slices := m.Buffers[len(m.Buffers)-1].Shape; !slices[0].Equal(number(14)) || strings.Contains(text, "local") {
		t.Errorf("the buffer is %v:\n%s", slices, text)
	}
}
