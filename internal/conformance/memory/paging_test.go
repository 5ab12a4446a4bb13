package memory

import (
	"bytes"
	"errors"
	"fmt"
	"math"
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
// budget, and the memory is as predicted, for every number of indices. In the smallest budget, the rows are computed
// one by one, and each reads the table's pieces.
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
		peak, _ := free.Memory().Peak(1, weir.Dims{"n": 40})
		least := weirtest.Smallest(t, m, o)
		for _, o.Budget = range []int64{peak - table, least} {
			pagedTable(t, m, free, o, table, o.Budget == least)
		}
		if err := free.Close(); err != nil {
			t.Error(err)
		}
	}
}

// pagedTable compiles the model of TestPagedTable within a budget, and compares its runs with those of free. one says
// that the rows are computed one by one.
func pagedTable(t *testing.T, m *weir.Model, free *weir.Program, o weir.Options, table int64, one bool) {
	where := fmt.Sprintf("target %q, a budget of %d", o.Target, o.Budget)
	tight := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, o))
	at := slices.IndexFunc(tight.Savings(), func(s weir.Saving) bool { return s.Bytes >= table })
	if at < 0 {
		t.Fatalf("%s: the table stays: %v", where, tight.Savings())
	}
	rows, pieces := int64(40), int64(4)
	if one {
		rows, pieces = 1, 2
	}
	if s := tight.Savings()[at]; s.Kind != "page" || s.Rows != rows || s.Pieces < pieces || s.Moved < s.Bytes ||
		!strings.Contains(s.String(), fmt.Sprintf("by rows, at most %d, in ", rows)) {
		t.Errorf("%s: %s", where, s)
	}
	whole, _ := free.Memory().Arena.At(weir.Dims{"n": 40})
	if arena, _ := tight.Memory().Arena.At(weir.Dims{"n": 40}); arena > whole+table/3 {
		t.Errorf("%s: an arena of %d bytes, and without a budget of %d, with a table of %d in its file", where, arena, whole,
			table)
	}
	loaded := throughFile(t, tight)
	for _, list := range [][]int64{{}, {3}, {-611, 610, 0, -1, 3, 3, 47, 48}, make([]int64, 40)} {
		x := weirtest.Must[*weir.Tensor](t)(weir.FromSlice(list, len(list)))
		in := weir.Inputs{"tokens": x}
		want := scores(t, free, in)
		for _, p := range []*weir.Program{tight, loaded} {
			if off := distance(scores(t, p, in), want); off != 0 && !(one && off <= 2e-6) {
				t.Errorf("%s, %d indices: other results, by %g of the largest", where, len(list), off)
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
				t.Errorf("%s, %d indices: %d bytes measured, %d predicted", where, len(list), got, predicted)
			}
		}
	}
	for _, wrong := range []int64{611, -612, 1 << 40} {
		in := weir.Inputs{"tokens": weirtest.Must[*weir.Tensor](t)(weir.FromSlice([]int64{0, wrong, 5}, 3))}
		_, want := free.Run(t.Context(), in)
		_, got := tight.Run(t.Context(), in)
		var e *weir.Error
		if !errors.As(got, &e) || !errors.Is(got, weir.ErrInput) || want == nil || got.Error() != want.Error() {
			t.Errorf("%s, index %d: %v, without a budget %v", where, wrong, got, want)
		}
	}
	for _, p := range []*weir.Program{tight, loaded} {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestPagedTableOfBranches leaves the tables of an If's branches in their file: a run reads the rows of the branch that
// it takes, in the smallest budget too.
func TestPagedTableOfBranches(t *testing.T) {
	const rows, columns = 300, 16
	table := func(element string) string { return strings.Repeat(element+", ", rows*columns-1) + "-1" }
	text := `weir 1
ir @branches {
  dim n in [0, inf]
  main @main(%i: i64[n], %c: bool[]) {
    const %u: f32[300, 16] = [` + table("0.5") + `]
    const %t: f32[300, 16] = [` + table("2") + `]
    %y: f32[n, 16] = if(%c) region () {
      %a: f32[n, 16] = gather(%t, %i) {axis = int 0}
      return %a
    } region () {
      %b: f32[n, 16] = gather(%u, %i) {axis = int 0}
      %d: f32[n, 16] = tanh(%b)
      return %d
    }
    return %y
  }
}
`
	m, err := weir.LoadBytes([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	o := weir.Options{Threads: 2, Calls: 1, Dims: map[string]weir.Range{"n": {Min: 0, Max: 5}}}
	o.Budget = weirtest.Smallest(t, m, o)
	if tables := int64(2 * rows * columns * 4); o.Budget > tables/2 {
		t.Errorf("the smallest budget is %d bytes for tables of %d", o.Budget, tables)
	}
	for _, c := range []bool{true, false} {
		in := weir.Inputs{"i": weirtest.Must[*weir.Tensor](t)(weir.FromSlice([]int64{0, 299, 7, 299}, 4)),
			"c": weirtest.Must[*weir.Tensor](t)(weir.FromSlice([]bool{c}, []int{}...))}
		free := o
		free.Budget = 0
		whole := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, free))
		budgeted(t, m, o, in, [][]float32{scores(t, whole, in)})
		whole.Close()
	}
}

// distance returns the largest difference between two results, divided by the largest magnitude of want.
func distance(got, want []float32) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	off, largest := 0.0, 1e-30
	for i, x := range want {
		off, largest = max(off, math.Abs(float64(got[i]-x))), max(largest, math.Abs(float64(x)))
	}
	return off / largest
}

// throughFile writes a program as an artefact and compiles the artefact.
func throughFile(t *testing.T, p *weir.Program) *weir.Program {
	m, err := weir.Load(artefactOf(t, p))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, weir.Options{Threads: 2}))
}

// artefactOf writes a program as an artefact, and returns its path.
func artefactOf(t *testing.T, p *weir.Program) (path string) {
	path = filepath.Join(t.TempDir(), "model.weir")
	var b bytes.Buffer
	if _, err := p.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
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
