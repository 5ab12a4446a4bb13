package memory

import (
	"context"
	"errors"
	"testing"

	"github.com/weirml/weir"
)

// TestReady: a program without free dimensions has the memory of its first call from the start, at most the certified
// bytes; a program with a dimension that a run binds has none, and its run fails if the limit is too low. A program
// whose first call exceeds the limit is refused.
func TestReady(t *testing.T) {
	m, err := weir.Load("examples/digits/data/digits.onnx")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	taken := func(o weir.Options) (p *weir.Program, bytes int64) {
		t.Helper()
		before := weir.Usage()
		p, err := weir.Compile(t.Context(), m, o)
		if err != nil {
			t.Fatal(err)
		}
		now := weir.Usage()
		return p, now.Arenas + now.Outputs + now.Scratch - before.Arenas - before.Outputs - before.Scratch
	}
	p, bytes := taken(weir.Options{})
	if p.Close(); bytes != 0 {
		t.Errorf("%d bytes of a call whose batch is not known", bytes)
	}
	static := weir.Options{Threads: 2, Dims: map[string]weir.Range{"batch": {Min: 64, Max: 64}}}
	p, bytes = taken(static)
	dims := weir.Dims{"batch": 64}
	arena, _ := p.Memory().Arena.At(dims)
	scratch, err := p.Memory().Scratch.At(dims)
	if err != nil {
		t.Fatal(err)
	}
	if want := arena + 2*scratch; bytes != want {
		t.Errorf("compiling took %d bytes for a call, not its %d", bytes, want)
	}
	p.Close()

	weir.Trim()
	u := weir.Usage()
	limit := weir.SetLimit(u.Current + u.Cached + 400<<10)
	defer weir.SetLimit(limit)
	if p, err := weir.Compile(t.Context(), m, static); !errors.Is(err, weir.ErrMemory) {
		p.Close()
		t.Fatalf("compiled, though the limit does not leave the arena's %d bytes: %v", arena, err)
	}
	p, _ = taken(weir.Options{})
	defer p.Close()
	x, err := weir.New(weir.F32, 64, 1, 8, 8)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	in := weir.Inputs{p.Inputs()[0].Name: x}
	if _, err := p.Run(context.Background(), in); !errors.Is(err, weir.ErrMemory) {
		t.Errorf("a run without room: %v", err)
	}
	weir.SetLimit(limit)
	r, err := p.Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
}
