package memory

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/weirtest"
)

// TestPagedTable leaves a table that is both gathered from and multiplied with in its file, on every target: a run
// reads the rows of its indices, and computes the product in pieces. Results and errors are the same as without a
// budget, and the memory is as predicted, for every number of indices.
func TestPagedTable(t *testing.T) {
	m, err := weir.Load("testdata/onnx/tied_table/model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	const table = 611 * 48 * 4
	for _, where := range []weir.Target{weir.Best, weir.Portable} {
		o := weir.Options{Threads: 2, Target: where, Dims: map[string]weir.Range{"n": {Min: 0, Max: 40}}}
		free := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, o))
		o.Budget = weirtest.Smallest(t, m, o)
		tight := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, o))
		at := slices.IndexFunc(tight.Savings(), func(s weir.Saving) bool { return s.Bytes >= table })
		if at < 0 {
			t.Fatalf("target %q: the table stays: %v", where, tight.Savings())
		}
		if s := tight.Savings()[at]; s.Kind != "page" || s.Rows != 40 || s.Pieces < 4 || s.Moved < s.Bytes ||
			!strings.Contains(s.String(), "by rows, at most 40, in ") {
			t.Errorf("target %q: %s", where, s)
		}
		whole, _ := free.Memory().Arena.At(weir.Dims{"n": 40})
		if arena, _ := tight.Memory().Arena.At(weir.Dims{"n": 40}); arena > whole+table/3 {
			t.Errorf("target %q: an arena of %d bytes, and without a budget of %d, with a table of %d in its file", where, arena,
				whole, table)
		}
		loaded := throughFile(t, tight)
		for _, list := range [][]int64{{}, {3}, {-611, 610, 0, -1, 3, 3, 47, 48}, make([]int64, 40)} {
			x := weirtest.Must[*weir.Tensor](t)(weir.FromSlice(list, len(list)))
			in := weir.Inputs{"tokens": x}
			want := scores(t, free, in)
			for _, p := range []*weir.Program{tight, loaded} {
				if got := scores(t, p, in); !slices.Equal(got, want) {
					t.Errorf("target %q, %d indices: other results", where, len(list))
				}
				predicted, err := p.Memory().Peak(1, weir.Dims{"n": int64(len(list))})
				if err != nil {
					t.Fatal(err)
				}
				seen, err := p.Measure(t.Context(), in)
				if err != nil {
					t.Fatal(err)
				}
				if got := seen.Peak(1); got != predicted || got > o.Budget {
					t.Errorf("target %q, %d indices: %d bytes measured, %d predicted, %d allowed", where, len(list), got, predicted,
						o.Budget)
				}
			}
		}
		for _, wrong := range []int64{611, -612, 1 << 40} {
			in := weir.Inputs{"tokens": weirtest.Must[*weir.Tensor](t)(weir.FromSlice([]int64{0, wrong, 5}, 3))}
			_, want := free.Run(t.Context(), in)
			_, got := tight.Run(t.Context(), in)
			var e *weir.Error
			if !errors.As(got, &e) || !errors.Is(got, weir.ErrInput) || want == nil || got.Error() != want.Error() {
				t.Errorf("target %q, index %d: %v, without a budget %v", where, wrong, got, want)
			}
		}
		for _, p := range []*weir.Program{free, tight, loaded} {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// throughFile writes a program as an artefact and compiles the artefact.
func throughFile(t *testing.T, p *weir.Program) *weir.Program {
	path := filepath.Join(t.TempDir(), "model.weir")
	var b bytes.Buffer
	if _, err := p.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	m, err := weir.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, weir.Options{Threads: 2}))
}

// scores returns a run's first output.
func scores(t *testing.T, p *weir.Program, in weir.Inputs) []float32 {
	r, err := p.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	return weirtest.Copy[float32](t, r.At(0))
}

// TestPagedTableAllocatesNothing: a call reads its rows and pieces without allocating.
func TestPagedTableAllocatesNothing(t *testing.T) {
	m, err := weir.Load("testdata/onnx/tied_table/model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	o := weir.Options{Threads: 1, Dims: map[string]weir.Range{"n": {Min: 5, Max: 5}}}
	o.Budget = weirtest.Smallest(t, m, o)
	p := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, o))
	defer p.Close()
	c := weirtest.Must[*weir.Call](t)(p.NewCall(weir.Dims{"n": 5}))
	defer c.Close()
	if err := c.Bind("tokens", weirtest.Must[*weir.Tensor](t)(weir.FromSlice([]int64{4, -1, 0, 7, 610}, 5))); err != nil {
		t.Fatal(err)
	}
	run := func() {
		if err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if n := testing.AllocsPerRun(20, run); n != 0 {
		t.Errorf("%v allocations a run", n)
	}
}
