package memory

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/weirtest"
)

// TestBudgets compiles models for budgets from the unconstrained peak down to the smallest that works: each program
// keeps within its budget, takes the bytes that it says, and computes the same bits, except for sums over a batch that
// is computed in pieces.
func TestBudgets(t *testing.T) {
	for _, c := range []struct {
		name  string
		n     int64
		kinds []string
		least float64 // the arena at the smallest budget, as a share of the unconstrained one
	}{
		{"training_step", 256, []string{"recompute", "batch"}, 0.15},
		{"long_skips", 2, []string{"page", "spill"}, 0.6},
		{"attention_23", 2, nil, 1},
		{"image_rows", 1, []string{"chunk"}, 0.7},
		{"image_rows", 3, []string{"chunk"}, 0.7},
		{"tied_table", 6, []string{"page"}, 8},
	} {
		t.Run(fmt.Sprint(c.name, "/", c.n), func(t *testing.T) {
			before := mem.Usage()
			m, err := weir.Load("testdata/onnx/" + c.name + "/model.onnx")
			if err != nil {
				t.Fatal(err)
			}
			o := weir.Options{Threads: 2, Calls: 2, Dims: map[string]weir.Range{}}
			for _, in := range m.Inputs() {
				for _, e := range in.Shape {
					if e.Dim != "" {
						o.Dims[e.Dim] = weir.Range{Min: c.n, Max: c.n}
					}
				}
			}
			in, drop := weirtest.Random(t, m, c.n)
			free := budgeted(t, m, o, in, nil)
			least := weirtest.Smallest(t, m, o)
			kinds := map[string]bool{}
			for i := range int64(11) {
				if testing.Short() && !slices.Contains([]int64{0, 1, 5, 10}, i) {
					continue
				}
				o.Budget = free.peak - (free.peak-least)*i/10
				tight := budgeted(t, m, o, in, free.results)
				if tight.peak > o.Budget {
					t.Errorf("budget %d: the peak is %d", o.Budget, tight.peak)
				}
				for _, s := range tight.savings {
					kinds[s.Kind] = true
					if s.Tensor == "" || s.At == "" || s.Bytes <= 0 || s.Operations+s.Moved+s.Pieces <= 0 {
						t.Errorf("budget %d: %s", o.Budget, s)
					}
				}
				if (tight.peak == free.peak) != (len(tight.savings) == 0) {
					t.Errorf("budget %d: the peak is %d with %v", o.Budget, tight.peak, tight.savings)
				}
				if i == 10 && float64(tight.arena) > c.least*float64(free.arena) {
					t.Errorf("the arena goes down to %d of %d", tight.arena, free.arena)
				}
			}
			for _, k := range c.kinds {
				if !kinds[k] {
					t.Errorf("no budget made the plan %s", k)
				}
			}
			o.Budget = least - 1
			if _, err := weir.Compile(t.Context(), m, o); !errors.Is(err, weir.ErrBudget) {
				t.Errorf("a byte less than the smallest budget: %v", err)
			}
			drop()
			m.Close()
			if after := mem.Usage(); after.All != before.All || after.Spilled != before.Spilled || after.Spilled < 0 {
				t.Errorf("%d bytes of memory and %d of files are left", after.All-before.All, after.Spilled-before.Spilled)
			}
		})
	}
}

// TestBudgetOfTiles checks that a convolution in tiles of Winograd's algorithm, which reads its weights transformed and
// as they were, reads both in pieces within its smallest budget, each byte once, and that its results are the same bits
// with outliers, for which tiles are computed with the weights as they were.
func TestBudgetOfTiles(t *testing.T) {
	const channels, size = 128, 14
	r := rand.New(rand.NewPCG(3, 5))
	var list strings.Builder
	for range channels * channels * 9 {
		fmt.Fprintf(&list, ", %g", float32(r.NormFloat64()))
	}
	m := weirtest.Must[*weir.Model](t)(weir.LoadBytes(fmt.Appendf(nil, `weir 1
ir @convolution {
main @main(%%x: f32[1, %d, %d, %d]) {
  const %%w: f32[%[1]d, %[1]d, 3, 3] = [%[4]s]
  %%y: f32[1, %[1]d, %[2]d, %[3]d] = convolution(%%x, %%w) {begin = syms [1, 1], dilations = ints [1, 1], end = syms [1, 1], groups = int 1, kernel = ints [3, 3], strides = ints [1, 1]}
  return %%y
}
}`, channels, size, size, list.String()[2:])))
	defer m.Close()
	x := make([]float32, channels*size*size)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	for i, outlier := range []float64{1e6, 1e30, math.Inf(1), math.NaN()} {
		x[i*channels*size*size/5] = float32(outlier)
	}
	input := weirtest.Must[*weir.Tensor](t)(weir.FromSlice(x, 1, channels, size, size))
	defer input.Close()
	in := weir.Inputs{"x": input}
	o := weir.Options{Threads: 2, Calls: 1, Dims: map[string]weir.Range{}}
	free := budgeted(t, m, o, in, nil)
	o.Budget = weirtest.Smallest(t, m, o)
	tight := budgeted(t, m, o, in, free.results)
	if here := weir.HostProcessor(); here.CPU == "avx2" && o.Budget == free.peak {
		t.Skip("code for AVX2 does not read the weights of these tiles in pieces")
	}
	if len(tight.savings) != 2 || slices.ContainsFunc(tight.savings, func(s weir.Saving) bool {
		return s.Kind != "page" || s.Pieces < 2 || s.Moved != s.Bytes
	}) {
		t.Errorf("the savings are %v", tight.savings)
	}
}

// TestArtefactBudgets compiles artefacts for the budgets that their models keep, except those for which the model is
// computed in pieces. An artefact that was made within a budget takes no more than its model.
func TestArtefactBudgets(t *testing.T) {
	for _, c := range []struct {
		name  string
		n     int64
		kinds []string
	}{{"training_step", 256, []string{"recompute"}}, {"long_skips", 2, []string{"page", "spill"}}} {
		t.Run(c.name, func(t *testing.T) {
			before := mem.Usage()
			m, err := weir.Load("testdata/onnx/" + c.name + "/model.onnx")
			if err != nil {
				t.Fatal(err)
			}
			o := weir.Options{Threads: 2, Calls: 2}
			in, drop := weirtest.Random(t, m, c.n)
			saved := func(o weir.Options) (*weir.Model, []weir.Saving) {
				p, err := weir.Compile(t.Context(), m, o)
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				var b bytes.Buffer
				if _, err := p.WriteTo(&b); err != nil {
					t.Fatal(err)
				}
				a, err := weir.LoadBytes(b.Bytes())
				if err != nil {
					t.Fatal(err)
				}
				return a, p.Savings()
			}
			a, _ := saved(o) // for all sizes
			o.Dims = map[string]weir.Range{}
			for _, d := range a.Inputs() {
				for _, e := range d.Shape {
					if e.Dim != "" {
						o.Dims[e.Dim] = weir.Range{Min: c.n, Max: c.n}
					}
				}
			}
			free := budgeted(t, a, o, in, nil)
			if len(free.savings) > 0 {
				t.Errorf("without a budget: %v", free.savings)
			}
			least := weirtest.Smallest(t, a, o)
			kinds := map[string]bool{}
			for i := range int64(4) {
				o.Budget = free.peak - (free.peak-least)*i/3
				tight := budgeted(t, a, o, in, free.results)
				if tight.peak > o.Budget {
					t.Errorf("budget %d: the peak is %d", o.Budget, tight.peak)
				}
				for _, s := range tight.savings {
					kinds[s.Kind] = true
				}
			}
			for _, k := range c.kinds {
				if !kinds[k] {
					t.Errorf("no budget made the plan %s", k)
				}
			}
			o.Budget = least - 1
			var e *weir.Error
			if _, err := weir.Compile(t.Context(), a, o); !errors.As(err, &e) || !errors.Is(err, weir.ErrBudget) ||
				!strings.Contains(e.Fix, "weir compile MODEL --budget") {
				t.Errorf("a byte less than the smallest budget: %v", err)
			}
			a.Close()
			o.Budget = least
			made, want := saved(o)
			o.Budget = 0
			again := budgeted(t, made, o, in, free.results)
			if again.peak > least || !slices.Equal(again.savings, want) {
				t.Errorf("made within %d it takes %d, with %v, not %v", least, again.peak, again.savings, want)
			}
			made.Close()
			drop()
			m.Close()
			if after := mem.Usage(); after.All != before.All || after.Spilled != before.Spilled {
				t.Errorf("%d bytes of memory and %d of files are left", after.All-before.All, after.Spilled-before.Spilled)
			}
		})
	}
}

// TestBudgetOfWrittenMemory compiles a text that carves some tensors: the others are computed again, spilled or paged,
// and its storages stay.
func TestBudgetOfWrittenMemory(t *testing.T) {
	weights := strings.TrimSuffix(strings.Repeat("0.25, -0.125, ", 512), ", ")
	m, err := weir.LoadBytes([]byte(strings.NewReplacer("[0.5, WEIGHTS]", "["+strings.Replace(weights, "0.25", "0.5", 1)+"]", "WEIGHTS", weights).Replace(`weir 1
ir @memory {
  main @main(%x: f32[256, 32]) {
    const %w1: f32[32, 32] = [WEIGHTS]
    const %w2: f32[32, 32] = [0.5, WEIGHTS]
    storage %s: 65536 bytes
    %a: f32[256, 32] = matmul(%x, %w1)
    %b: f32[256, 32] = softmax(%a) {axis = int 1}
    %t: f32[256, 32] = matmul(%b, %w2) carve %s at 0
    %u: f32[256, 32] = softmax(%t) {axis = int 1} carve %s at 32768
    release %t
    %v: f32[256, 32] = matmul(%u, %w1) carve %s at 0
    %c: f32[256, 32] = softmax(%v) {axis = int 1}
    %d: f32[256, 32] = matmul(%c, %w2)
    %e: f32[256, 32] = add(%d, %b)
    %f: f32[256, 32] = mul(%e, %a)
    return %f
  }
}`)))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	o := weir.Options{Threads: 1, Calls: 2}
	in, drop := weirtest.Random(t, m, 1)
	defer drop()
	free := budgeted(t, m, o, in, nil)
	o.Budget = weirtest.Smallest(t, m, o)
	tight := budgeted(t, m, o, in, free.results)
	if tight.peak > o.Budget || tight.arena >= free.arena || tight.arena < 65536 || len(tight.savings) == 0 {
		t.Errorf("a budget of %d: the peak is %d of %d, the arena %d of %d, with %v", o.Budget, tight.peak, free.peak,
			tight.arena, free.arena, tight.savings)
	}
	o.Budget--
	if _, err := weir.Compile(t.Context(), m, o); !errors.Is(err, weir.ErrBudget) ||
		!strings.Contains(err.Error(), "the storages that its text lays out stay as they are") {
		t.Errorf("a byte less: %v", err)
	}
}

// TestSpillOfDecidedSize spills a result whose shape the data decide, and fetches it back at its size.
func TestSpillOfDecidedSize(t *testing.T) {
	m, err := weir.Load("testdata/onnx/reductions/model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	o := weir.Options{Threads: 1, Dims: map[string]weir.Range{"k": {Min: 1, Max: 1}, "m": {Min: 40, Max: 40},
		"n": {Min: 40, Max: 40}}}
	x, err := weir.New(weir.F32, 40, 40, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	data, err := weir.View[float32](x)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		data[i] = float32(i%17) - 8
	}
	run := func(o weir.Options, axis int64) (out string, spilled bool) {
		axes, err := weir.FromSlice([]int64{axis}, 1)
		if err != nil {
			t.Fatal(err)
		}
		p, err := weir.Compile(t.Context(), m, o)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		r, err := p.Run(t.Context(), weir.Inputs{"x": x, "axes": axes})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for i := range p.Outputs() {
			out += fmt.Sprint(r.At(i).Shape(), r.At(i).Bytes())
		}
		return out, slices.ContainsFunc(p.Savings(), func(s weir.Saving) bool { return s.Kind == "spill" && s.Bytes > 1<<10 })
	}
	for axis := range int64(3) {
		want, _ := run(o, axis)
		tight := o
		tight.Budget = weirtest.Smallest(t, m, o)
		got, spilled := run(tight, axis)
		if !spilled {
			t.Fatal("no result of a size that the data decide is spilled")
		}
		if got != want {
			t.Errorf("axis %d: other results within %d bytes", axis, tight.Budget)
		}
	}
}

// TestSmallestBudget compiles with the budget that a refusal names, for the machine and as portable code. It works, and
// every smaller budget is refused and names the same.
func TestSmallestBudget(t *testing.T) {
	for model, ranges := range map[string]map[string]weir.Range{
		"microsoft_attention": {"n": {Min: 8, Max: 8}, "p": {Min: 8, Max: 8}, "s": {Min: 8, Max: 8}},
		"microsoft_fused": {"h": {Min: 40, Max: 40}, "m": {Min: 40, Max: 40}, "n": {Min: 40, Max: 40},
			"w": {Min: 40, Max: 40}},
		"attention_two_dims":  {"batch": {Min: 1, Max: 5}, "seq": {Min: 2, Max: 37}},
		"kv_cache":            {"past": {Min: 0, Max: 20}, "batch": {Min: 1, Max: 2}, "step": {Min: 1, Max: 3}},
		"long_skips":          {"n": {Min: 1, Max: 30}},
		"qdq_int8":            {"n": {Min: 1, Max: 9}},
		"tied_embedding_int8": {"n": {Min: 1, Max: 30}},
		"tied_table":          {"n": {Min: 6, Max: 6}},
		"training_step":       {"n": {Min: 7, Max: 7}},
	} {
		for _, cpu := range []string{"portable", weir.HostProcessor().CPU} {
			t.Run(model+"/"+cpu, func(t *testing.T) {
				m, err := weir.Load("testdata/onnx/" + model + "/model.onnx")
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				o := weir.Options{Threads: 2, CPU: cpu, Dims: map[string]weir.Range{}}
				known := dimsOf(m)
				for name, r := range ranges {
					if o.Dims[name] = r; !known[name] {
						t.Fatalf("there is no dimension %s: %v", name, known)
					}
				}
				least := weirtest.Smallest(t, m, o)
				for _, budget := range []int64{least, least - 1, least - least/100, least / 2} {
					o.Budget = budget
					p, err := weir.Compile(t.Context(), m, o)
					var e *weir.Error
					switch {
					case err == nil:
						if peak, err := p.Memory().Max(1); err != nil || peak > budget || budget < least {
							t.Errorf("a budget of %d bytes, and %d for one of 1: the peak is %d, %v", budget, least, peak, err)
						}
						p.Close()
					case budget == least || !errors.As(err, &e) || e.Budget != least:
						t.Errorf("a budget of %d bytes, and %d for one of 1: %v", budget, least, err)
					}
				}
			})
		}
	}
}

// dimsOf returns the names of the dimensions of a model's inputs.
func dimsOf(m *weir.Model) map[string]bool {
	names := map[string]bool{}
	for _, in := range m.Inputs() {
		for _, e := range in.Shape {
			names[e.Dim] = e.Dim != ""
		}
	}
	return names
}

// within is the outcome of a budget.
type within struct {
	peak, arena int64
	savings     []weir.Saving
	results     [][]float32
}

// budgeted compiles, measures, and runs o.Calls times at once. If want is not nil, the results must equal it by
// sameResults.
func budgeted(t *testing.T, m *weir.Model, o weir.Options, in weir.Inputs, want [][]float32) within {
	p, err := weir.Compile(t.Context(), m, o)
	if err != nil {
		t.Fatalf("budget %d: %v", o.Budget, err)
	}
	defer p.Close()
	d, err := p.Bind(in)
	if err != nil {
		t.Fatal(err)
	}
	w := within{savings: p.Savings()}
	if w.peak, err = p.Memory().Peak(o.Calls, d); err != nil {
		t.Fatal(err)
	}
	if w.arena, err = p.Memory().Arena.At(d); err != nil {
		t.Fatal(err)
	}
	seen, err := p.Measure(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if got := seen.Peak(o.Calls); got != w.peak {
		t.Errorf("budget %d: %d bytes were predicted, %d measured", o.Budget, w.peak, got)
	}
	var open []*weir.Results
	for range o.Calls {
		r, err := p.Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, r)
	}
	for _, r := range open {
		w.results = nil
		for i := range p.Outputs() {
			numbers, err := weir.Copy[float32](r.At(i))
			if err != nil {
				t.Fatal(err)
			}
			w.results = append(w.results, numbers)
		}
		if want != nil && !weirtest.SameResults(w.results, want, w.savings) {
			t.Errorf("budget %d: other results", o.Budget)
		}
		r.Close()
	}
	return w
}

// TestBudgetRange computes a bounded batch in pieces of each image's rows: every batch within the bounds gives the same
// bits, and takes the certified bytes.
func TestBudgetRange(t *testing.T) {
	m, err := weir.Load("testdata/onnx/image_rows/model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	o := weir.Options{Threads: 2, Calls: 1, Dims: map[string]weir.Range{"n": {Min: 1, Max: 4}}}
	free, err := weir.Compile(t.Context(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	peak, err := free.Memory().Peak(1, weir.Dims{"n": 4})
	if err != nil {
		t.Fatal(err)
	}
	arena, err := free.Memory().Arena.At(weir.Dims{"n": 4})
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	for _, n := range []int64{1, 2, 4} {
		in, drop := weirtest.Random(t, m, n)
		o.Budget = 0
		whole := budgeted(t, m, o, in, nil)
		o.Budget = peak - arena/3
		tight := budgeted(t, m, o, in, whole.results)
		if len(tight.savings) == 0 || tight.savings[0].Kind != "chunk" || tight.savings[0].Operators < 2 ||
			tight.savings[0].Rows < tight.savings[0].Pieces {
			t.Errorf("n = %d: %v", n, tight.savings)
		}
		drop()
	}
}
