package embed

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/weirml/weir"
)

// TestTokens: Tokens and EmbedTokens give the vectors that Embed gives, with prompts and without; Room makes runs
// smaller, and changes no vector; nothing writes to the memory of a caller whose context has ended.
func TestTokens(t *testing.T) {
	room := atomic.Int64{}
	room.Store(1 << 40)
	m, err := Load(t.Context(), "testdata/models/bert", Options{Room: room.Load})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	texts := references(t)["bert"].Texts
	for name := range m.Prompts() {
		for _, name := range []string{name, ""} {
			want, err := m.Embed(t.Context(), texts)
			if name != "" {
				want, err = m.EmbedAs(t.Context(), name, texts)
			}
			if err != nil {
				t.Fatal(err)
			}
			ids, out, prompt := make([][]int32, len(texts)), make([][]float32, len(texts)), 0
			for i, text := range texts {
				if ids[i], prompt, err = m.Tokens(nil, name, text); err != nil {
					t.Fatal(err)
				}
				out[i] = make([]float32, m.Dimensions())
			}
			if err := m.EmbedTokens(t.Context(), prompt, ids, out); err != nil {
				t.Fatal(err)
			}
			for i := range texts {
				if d := distance(out[i], want[i]); d > 1e-5 {
					t.Errorf("%q, %q: the vector differs by %.2g", name, texts[i], d)
				}
			}
			before := m.Program().Stats().Runs
			room.Store(1) // one text at a time
			if err := m.EmbedTokens(t.Context(), prompt, ids, out); err != nil {
				t.Fatal(err)
			}
			room.Store(1 << 40)
			if runs := m.Program().Stats().Runs - before; runs != int64(len(texts)) {
				t.Errorf("%d runs of %d texts without room for two", runs, len(texts))
			}
			for i := range texts {
				if d := distance(out[i], want[i]); d > 1e-5 {
					t.Errorf("%q, %q alone: the vector differs by %.2g", name, texts[i], d)
				}
			}
		}
	}
	if len(m.Prompts()) == 0 {
		t.Error("the model has no prompts")
	}
	if _, _, err := m.Tokens(nil, "nobody", "x"); !errors.Is(err, weir.ErrInput) {
		t.Errorf("an unknown prompt: %v", err)
	}
	if err := m.EmbedTokens(t.Context(), 0, [][]int32{{1}}, [][]float32{{0}}); !errors.Is(err, weir.ErrInput) {
		t.Errorf("memory of another size: %v", err)
	}
	many := slices.Repeat([][]int32{{2, 5, 6, 7, 3}}, 2000)
	for range 20 {
		out := make([][]float32, len(many))
		for i := range out {
			out[i] = make([]float32, m.Dimensions())
		}
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		if err := m.EmbedTokens(ctx, 0, many, out); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		for i := range out {
			clear(out[i]) // it is ours again; the race detector and the next check see a late write
		}
		if _, err := m.Embed(t.Context(), texts); err != nil {
			t.Fatal(err)
		}
		for i := range out {
			if slices.ContainsFunc(out[i], func(x float32) bool { return x != 0 }) {
				t.Fatalf("vector %d was written after its request had ended", i)
			}
		}
		cancel()
	}
}

// TestShorten: the first elements, scaled to length 1 if the vector has length 1.
func TestShorten(t *testing.T) {
	for _, c := range []struct {
		v    []float32
		n    int
		want []float32
	}{{[]float32{0.6, 0.8}, 1, []float32{1}}, {[]float32{3, 4}, 1, []float32{3}}, {[]float32{3, 4}, 2, []float32{3, 4}},
		{[]float32{0, 1}, 1, []float32{0}}, {nil, 3, nil}} {
		if got := Shorten(slices.Clone(c.v), c.n); !slices.Equal(got, c.want) {
			t.Errorf("%v, %d: %v, want %v", c.v, c.n, got, c.want)
		}
	}
}
