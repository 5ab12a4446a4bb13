package weir_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/mem"
)

// compileFile compiles a model of testdata for one call at a time.
func compileFile(t *testing.T, name string, o weir.Options) *weir.Program {
	t.Helper()
	m, err := weir.Load("testdata/onnx/" + name + "/model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	p, err := weir.Compile(t.Context(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// filled is a tensor of its own memory with small numbers in it.
func filled(t *testing.T, shape ...int) *weir.Tensor {
	t.Helper()
	x, err := weir.New(weir.F32, shape...)
	if err != nil {
		t.Fatal(err)
	}
	data, err := weir.View[float32](x)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		data[i] = float32(i%7)/8 - 0.4
	}
	return x
}

// steps is how many training steps the tests take: all 10⁵ where WEIR_LONG asks for them.
func steps() int {
	if os.Getenv("WEIR_LONG") != "" {
		return 100_000
	}
	return 3000
}

// flat fails once what the process holds is not what it held when it was first asked, 1000 steps in.
func flat(t *testing.T) func(step int) {
	var first mem.Totals
	return func(step int) {
		if step%1000 != 999 {
			return
		}
		now := mem.Usage()
		if step == 999 {
			first = now
		}
		if now.Current != first.Current || now.Blocks != first.Blocks || now.AllPeak != first.AllPeak {
			t.Fatalf("after %d steps %v in %d blocks, peak %d; after 1000 %v in %d, peak %d", step+1, now.Current, now.Blocks, now.AllPeak, first.Current, first.Blocks, first.AllPeak)
		}
	}
}

// TestForwardBackward: what a forward program keeps for a backward one is consumed there, so that both go on with one call each.
func TestForwardBackward(t *testing.T) {
	forward, backward := compileFile(t, "training_forward", weir.Options{Threads: 1}), compileFile(t, "training_backward", weir.Options{Threads: 1})
	x, y := filled(t, 3, 16), filled(t, 3, 16)
	defer x.Close()
	defer y.Close()
	var w []*weir.Tensor
	for range 3 {
		w = append(w, filled(t, 16, 16))
		defer w[len(w)-1].Close()
	}
	check := flat(t)
	for step := range steps() {
		saved, err := forward.Run(t.Context(), weir.Inputs{"x": x, "w0": w[0], "w1": w[1], "w2": w[2]})
		if err != nil {
			t.Fatal(err)
		}
		kept := []*weir.Tensor{saved.Get("h1"), saved.Get("h2"), saved.Get("h3")}
		updated, err := backward.Run(t.Context(), weir.Inputs{"x": x, "y": y, "h1": weir.Consume(kept[0]), "h2": weir.Consume(kept[1]), "h3": weir.Consume(kept[2]), "w0": w[0], "w1": w[1], "w2": w[2]})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range kept {
			if k.Bytes() != nil {
				t.Fatal("a consumed tensor lives on")
			}
		}
		updated.Close()
		check(step)
	}
}

// TestConsumed: a consumed tensor's memory is gone when the run ends, however it ends, and it is refused from then on.
func TestConsumed(t *testing.T) {
	p := compileFile(t, "training_forward", weir.Options{Threads: 1})
	before := mem.Usage()
	w := []*weir.Tensor{filled(t, 16, 16), filled(t, 16, 16), filled(t, 16, 16)}
	in := func(x weir.Arg) weir.Inputs { return weir.Inputs{"x": x, "w0": w[0], "w1": w[1], "w2": w[2]} }
	held := mem.Usage().Current[mem.Tensors]
	x := filled(t, 3, 16)
	r, err := p.Run(t.Context(), in(weir.Consume(x)))
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if now := mem.Usage().Current[mem.Tensors]; now != held {
		t.Errorf("%d bytes of tensors before, %d after", held, now)
	}
	if _, err := p.Run(t.Context(), in(x)); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("lent after it was consumed: %v", err)
	}
	if _, err := p.Run(t.Context(), in(weir.Consume(x))); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("consumed twice: %v", err)
	}
	if err := x.Close(); err != nil {
		t.Errorf("closing it: %v", err)
	}
	// A run that is refused takes nothing, one that is stopped takes all.
	x = filled(t, 3, 16)
	wrong := in(weir.Consume(x))
	wrong["w2"] = x
	if _, err := p.Run(t.Context(), wrong); !errors.Is(err, weir.ErrInput) || x.Bytes() == nil {
		t.Errorf("refused: %v", err)
	}
	twice := weir.Inputs{"x": x, "w0": weir.Consume(w[0]), "w1": w[0], "w2": w[2]}
	var e *weir.Error
	if _, err := p.Run(t.Context(), twice); !errors.Is(err, weir.ErrInput) || !errors.As(err, &e) || e.Tensor != "w0" || !strings.Contains(e.Detail, "w1") {
		t.Errorf("consumed and lent: %v", err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := p.Run(stopped, in(weir.Consume(x))); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
	if now := mem.Usage().Current[mem.Tensors]; now != held {
		t.Errorf("%d bytes of tensors before, %d after it was stopped", held, now)
	}
	borrowed, err := weir.FromSlice(make([]float32, 48), 3, 16)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(t.Context(), in(weir.Consume(borrowed))); !errors.Is(err, weir.ErrInput) || !errors.As(err, &e) || !strings.Contains(e.Fix, "weir.New") {
		t.Errorf("memory of Go's: %v", err)
	}
	for _, x := range w {
		x.Close()
	}
	if now := mem.Usage().Current[mem.Tensors]; now != before.Current[mem.Tensors] {
		t.Errorf("%d bytes of tensors are left", now-before.Current[mem.Tensors])
	}
}
