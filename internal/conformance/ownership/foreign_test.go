package ownership

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/weirml/weir"
)

// lent is memory that a test lends, and the number of times that it was released.
type lent struct {
	data     []float32
	released int
}

// tensor returns a foreign tensor over the memory, which lasts until the test ends.
func (l *lent) tensor(t *testing.T, access weir.Access, shape ...int) *weir.Tensor {
	t.Helper()
	x, err := weir.Foreign(weir.F32, unsafe.Pointer(unsafe.SliceData(l.data)), access, func() { l.released++ }, shape...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

const detachText = `weir 1
ir @detach {
  dim n in [0, 1000]
  main @main(%x: f32[n], %y: f32[n]) {
    %sum: f32[n] = add(%x, %y)
    %twice: f32[n] = add(%sum, %sum)
    %head: f32[n] = mul(%twice, %x)
    return %sum, %head
  }
}
`

// detachProgram compiles a text; the program is closed when the test ends.
func detachProgram(t *testing.T, text string, o weir.Options) *weir.Program {
	t.Helper()
	m, err := weir.LoadBytes([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	p, err := weir.Compile(context.Background(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// TestForeign lends, consumes and closes memory of other code: it is released once, after its last reader.
func TestForeign(t *testing.T) {
	p := detachProgram(t, detachText, weir.Options{})
	before := weir.Usage()
	a, b := &lent{data: []float32{1, 2, 3}}, &lent{data: []float32{10, 20, 30}}
	x, y := a.tensor(t, weir.ReadOnly, 3), b.tensor(t, weir.ReadWrite, 3)
	if got := weir.Usage(); got.Foreign-before.Foreign != 24 || got.Current != before.Current {
		t.Errorf("the ledger counts %d foreign bytes and %d more of its own, not 24 and 0", got.Foreign-before.Foreign,
			got.Current-before.Current)
	}
	r, err := p.Run(context.Background(), weir.Inputs{"x": x, "y": weir.Consume(y)})
	if err != nil {
		t.Fatal(err)
	}
	if a.released != 0 || b.released != 1 {
		t.Errorf("lent memory is released %d times, consumed memory %d times, before Close", a.released, b.released)
	}
	if got, _ := weir.Copy[float32](r.At(0)); !slices.Equal(got, []float32{11, 22, 33}) {
		t.Errorf("x+y = %v", got)
	}
	r.Close()
	for range 2 {
		if err := errors.Join(x.Close(), y.Close()); err != nil {
			t.Error(err)
		}
	}
	if a.released != 1 || b.released != 1 {
		t.Errorf("memory is released %d and %d times", a.released, b.released)
	}
	if got := weir.Usage(); got.Foreign != before.Foreign {
		t.Errorf("%d foreign bytes are left", got.Foreign-before.Foreign)
	}
}

// TestForeignWrites donates and updates memory that is lent for reading: both are refused.
func TestForeignWrites(t *testing.T) {
	p := detachProgram(t, detachText, weir.Options{})
	for _, access := range []weir.Access{weir.ReadOnly, weir.ReadWrite} {
		a, b := &lent{data: make([]float32, 4)}, &lent{data: make([]float32, 4)}
		x, y := a.tensor(t, access, 4), b.tensor(t, access, 4)
		r, err := p.Run(context.Background(), weir.Inputs{"x": x, "y": weir.Donate(y)})
		if refused := errors.Is(err, weir.ErrInput); refused != (access == weir.ReadOnly) {
			t.Errorf("a donation of memory with access %v gives %v", access, err)
		}
		if x.Fixed() != (access == weir.ReadOnly) {
			t.Errorf("Fixed is %v", x.Fixed())
		}
		if err == nil {
			r.Close()
		}
		x.Close()
		y.Close()
		if a.released != 1 || b.released != 1 {
			t.Errorf("memory is released %d and %d times", a.released, b.released)
		}
	}
}

// TestForeignRefused gives memory and shapes that cannot be a tensor: the memory is not released.
func TestForeignRefused(t *testing.T) {
	data := make([]float64, 4)
	at := unsafe.Pointer(unsafe.SliceData(data))
	released := func() { t.Error("refused memory was released") }
	for _, c := range []struct {
		why     string
		dt      weir.DType
		data    unsafe.Pointer
		release func()
		shape   []int
	}{
		{"a negative extent", weir.F32, at, released, []int{2, -1}},
		{"more elements than there are", weir.F32, at, released, []int{math.MaxInt / 2, math.MaxInt / 2}},
		{"beyond the last address", weir.F64, at, released, []int{math.MaxInt / 8}},
		{"no memory", weir.F32, nil, released, []int{1}},
		{"an odd address", weir.F32, unsafe.Add(at, 2), released, []int{1}},
		{"strings", weir.StringType, at, released, []int{1}},
		{"no type", weir.InvalidDType, at, released, []int{1}},
	} {
		if x, err := weir.Foreign(c.dt, c.data, weir.ReadOnly, c.release, c.shape...); err == nil {
			t.Errorf("%s: %v", c.why, x)
		}
	}
	borrowed, err := weir.Foreign(weir.F64, at, weir.ReadWrite, nil, 4)
	if err != nil {
		t.Fatal(err)
	}
	p := detachProgram(t, strings.ReplaceAll(detachText, "f32", "f64"), weir.Options{})
	if _, err := p.Run(context.Background(), weir.Inputs{"x": borrowed, "y": weir.Consume(borrowed)}); !errors.Is(err,
		weir.ErrInput) {
		t.Errorf("borrowed memory is consumed: %v", err)
	}
	n := 0
	x, err := weir.Foreign(weir.F32, nil, weir.ReadOnly, func() { n++ }, 0, 3)
	if err != nil {
		t.Fatal(err)
	}
	if x.Close(); n != 1 {
		t.Errorf("an empty tensor is released %d times", n)
	}
}

// TestDetach runs a program of one call again and again, and keeps all outputs.
func TestDetach(t *testing.T) {
	p := detachProgram(t, detachText, weir.Options{Calls: 1})
	before := weir.Usage().Current
	var kept []*weir.Results
	for i := range 20 {
		n := 100 + i%3*100
		x, y := make([]float32, n), make([]float32, n)
		for k := range x {
			x[k], y[k] = float32(i), float32(k)
		}
		fx, _ := weir.FromSlice(x)
		fy, _ := weir.FromSlice(y)
		r, err := p.Run(context.Background(), weir.Inputs{"x": fx, "y": fy})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(r.Detach(), r.Detach()); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, r)
	}
	for i, r := range kept {
		sum, err := weir.View[float32](r.Get("sum"))
		if err != nil {
			t.Fatal(err)
		}
		head, _ := weir.View[float32](r.At(1))
		for k := range sum {
			if want := float32(i + k); sum[k] != want || head[k] != 2*want*float32(i) {
				t.Fatalf("run %d: element %d is %v and %v", i, k, sum[k], head[k])
			}
		}
		if i%2 == 0 {
			r.At(0).Close()
		}
		if err := errors.Join(r.Close(), r.Close()); err != nil {
			t.Error(err)
		}
		if r.At(1).Bytes() != nil {
			t.Error("an output is open after Close")
		}
	}
	p.Close()
	if now := weir.Usage().Current; now > before {
		t.Errorf("%d bytes are left", now-before)
	}
}

// TestDetachRefused detaches closed results, and results that another goroutine reads.
func TestDetachRefused(t *testing.T) {
	p := detachProgram(t, detachText, weir.Options{})
	x, _ := weir.FromSlice([]float32{1, 2})
	run := func() *weir.Results {
		r, err := p.Run(context.Background(), weir.Inputs{"x": x, "y": x})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := run()
	r.Close()
	if err := r.Detach(); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("closed results: %v", err)
	}
	r = run()
	r.At(0).Close() // a closed output is not detached
	if err := r.Detach(); err != nil {
		t.Error(err)
	}
	if got, _ := weir.Copy[float32](r.At(1)); !slices.Equal(got, []float32{4, 16}) {
		t.Errorf("the other output is %v", got)
	}
	r.Close()
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 200 {
				r := run()
				var inner sync.WaitGroup
				first := r.At(1)
				inner.Go(func() { weir.Copy[float32](first) })
				err := r.Detach()
				if err != nil && !errors.Is(err, weir.ErrInput) {
					t.Error(err)
				}
				got, _ := weir.Copy[float32](r.At(1))
				if !slices.Equal(got, []float32{4, 16}) {
					t.Errorf("after Detach with %v: %v", err, got)
				}
				inner.Wait()
				r.Close()
			}
		})
	}
	readers.Wait()
}

// TestNegativeOptions compiles with negative counts and bytes: each is refused.
func TestNegativeOptions(t *testing.T) {
	m, err := weir.LoadBytes([]byte(detachText))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, o := range []weir.Options{{Threads: -1}, {Calls: -1}, {Budget: -1}} {
		if p, err := weir.Compile(context.Background(), m, o); !errors.Is(err, weir.ErrInput) {
			t.Errorf("%d threads, %d calls, budget %d: %v, %v", o.Threads, o.Calls, o.Budget, p, err)
		}
	}
}
