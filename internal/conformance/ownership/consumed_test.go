package ownership

import (
	"context"
	"errors"
	"testing"
	"unsafe"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/weirtest"
)

// late is a text whose last step does not read x; it has a small output, of x, and a large one, of w and the small one.
const late = `weir 1
ir @late {
  dim n in [1, inf]
  main @main(%x: f32[n, 64], %w: f32[n, 64]) {
    %s: f32[64] = reduce_sum(%x) {axes = ints [0], keep = bool false}
    %u: f32[64] = softmax(%s) {axis = int 0}
    %y: f32[n, 64] = mul(%w, %u)
    return %u, %y
  }
}
`

// TestOutputsAfterConsumed: a consumed input is released before outputs that are written later get their memory.
func TestOutputsAfterConsumed(t *testing.T) {
	const n = 4096
	p, err := weirtest.CompileText(t, late, weir.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	w := weirtest.Filled(t, n, 64)
	defer w.Close()
	var want []float32
	for _, consumes := range []bool{false, true, true} {
		lent, calls, held := weirtest.Filled(t, n, 64), 0, int64(0)
		before := mem.Usage().Current[mem.Outputs]
		x, err := weir.Foreign(weir.F32, unsafe.Pointer(&lent.Bytes()[0]), weir.ReadOnly, func() {
			calls, held = calls+1, mem.Usage().Current[mem.Outputs]-before
		}, n, 64)
		if err != nil {
			t.Fatal(err)
		}
		in := weir.Inputs{"x": x, "w": w}
		if consumes {
			in["x"] = weir.Consume(x)
		}
		r, err := p.Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if consumes && (calls != 1 || held >= n*64*4) {
			t.Errorf("released %d times, when outputs had %d bytes", calls, held)
		}
		got, _ := weir.Copy[float32](r.Get("y"))
		if want == nil {
			want = got
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("element %d is %v, not %v", i, got[i], want[i])
			}
		}
		if err := errors.Join(r.Detach(), r.Close(), x.Close(), lent.Close()); err != nil || calls != 1 {
			t.Errorf("released %d times: %v", calls, err)
		}
	}
}

// TestConsumedWithoutMemory: a run that is refused an output's memory on its way has released its consumed input, and
// the next run is right.
func TestConsumedWithoutMemory(t *testing.T) {
	const n = 1 << 18
	p, err := weirtest.CompileText(t, late, weir.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	w := weirtest.Filled(t, n, 64)
	defer w.Close()
	run := func() error {
		r, err := p.Run(context.Background(), weir.Inputs{"x": weir.Consume(weirtest.Filled(t, n, 64)), "w": w})
		if err != nil {
			return err
		}
		return errors.Join(r.Detach(), r.Close())
	}
	if err := run(); err != nil {
		t.Fatal(err)
	}
	weir.Trim()
	mapped := func() int64 { return mem.Usage().MappedAll + mem.Usage().Cached }
	old := weir.SetLimit(mapped() + n*64*4 + 1<<20)
	x := weirtest.Filled(t, n, 64)
	weir.SetLimit(mapped())
	held := mem.Usage().Current[mem.Tensors]
	_, err = p.Run(context.Background(), weir.Inputs{"x": w, "w": weir.Consume(x)})
	weir.SetLimit(old)
	if !errors.Is(err, weir.ErrMemory) {
		t.Errorf("without memory: %v", err)
	}
	if now := mem.Usage().Current[mem.Tensors]; now != held-n*64*4 {
		t.Errorf("%d bytes of tensors before, %d after", held, now)
	}
	if err := run(); err != nil {
		t.Error(err)
	}
}

// TestOutputsKept: the memory of detached outputs is kept for the next run, however large, until Trim or the program's
// Close.
func TestOutputsKept(t *testing.T) {
	const n, bytes = 1 << 19, 1 << 19 * 64 * 4 // 128 MiB
	if unsafe.Sizeof(uintptr(0)) < 8 {
		t.Skip("too much for a small system")
	}
	p, err := weirtest.CompileText(t, late, weir.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	x := weirtest.Filled(t, n, 64)
	defer x.Close()
	run := func() {
		t.Helper()
		r, err := p.Run(t.Context(), weir.Inputs{"x": x, "w": x})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(r.Detach(), r.Close()); err != nil {
			t.Fatal(err)
		}
	}
	run() // the first outputs have a mapping of their own
	run()
	if kept := weir.Usage().Cached; kept < bytes {
		t.Errorf("%d bytes are kept", kept)
	}
	weir.Trim()
	if kept := weir.Usage().Cached; kept >= bytes {
		t.Errorf("%d bytes are kept after Trim", kept)
	}
	run()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if kept := weir.Usage().Cached; kept >= bytes {
		t.Errorf("%d bytes are kept after the program was closed", kept)
	}
}
