package arguments

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/weirml/weir"
)

// TestNil: what is nil is an error that says so, or nothing.
func TestNil(t *testing.T) {
	var none *weir.Tensor
	for name, do := range map[string]func() error{
		"Copy":      func() error { _, err := weir.Copy[float32](none); return err },
		"View":      func() error { _, err := weir.View[float32](none); return err },
		"Floats":    func() error { _, err := none.Floats(); return err },
		"SetFloats": func() error { return none.SetFloats(nil) },
	} {
		if err := do(); !errors.Is(err, weir.ErrInput) || !strings.Contains(err.Error(), "nil") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := none.Close(); err != nil {
		t.Error(err)
	}
}

// TestWords: int and uint are elements, as the types of their width.
func TestWords(t *testing.T) {
	x, err := weir.FromSlice([]int{-1, 2, 3}, 3)
	if err != nil {
		t.Fatal(err)
	}
	u, err := weir.FromSlice([]uint{1})
	if err != nil || u.DType() != weir.U64 && u.DType() != weir.U32 {
		t.Errorf("%v, %v", u, err)
	}
	if got, err := weir.Copy[int](x); err != nil || got[0] != -1 || x.DType() != weir.I64 && x.DType() != weir.I32 {
		t.Errorf("%v of %v, %v", got, x, err)
	}
}

// TestCallsTaken: NewCall does not wait for a call that is taken, and names the line that holds it.
func TestCallsTaken(t *testing.T) {
	m, err := weir.Load("testdata/onnx/passthrough/model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := weir.Compile(t.Context(), m, weir.Options{Calls: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	first, err := p.NewCall(weir.Dims{"n": 3})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.NewCall(weir.Dims{"n": 3})
	if !errors.Is(err, weir.ErrInput) || errors.Is(err, context.Canceled) ||
		!strings.Contains(err.Error(), "nothing_test.go:") {
		t.Errorf("%v", err)
	}
	first.Close()
	again, err := p.NewCall(weir.Dims{"n": 3})
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// TestLoadContext: a context that has ended ends Load.
func TestLoadContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	const path = "testdata/onnx/passthrough/model.onnx"
	m, err := weir.LoadContext(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := weir.LoadContext(ctx, path); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	defer m.Close()
	p, err := weir.Compile(t.Context(), m, weir.Options{})
	if err != nil {
		t.Fatalf("the context of loading ends the model: %v", err)
	}
	p.Close()
}
