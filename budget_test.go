package weir_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/mem"
)

// TestBudgets: from the unconstrained peak down to the smallest budget that works, a program keeps within it, takes what it says, and computes the very same bits.
func TestBudgets(t *testing.T) {
	for _, c := range []struct {
		name  string
		n     int64
		kinds []string
		least float64 // of the unconstrained arena, what is left at the smallest budget
	}{
		{"training_step", 256, []string{"recompute"}, 0.4},
		{"long_skips", 2, []string{"page", "spill"}, 0.6},
		{"attention_23", 2, nil, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
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
			in, drop := random(t, m, c.n)
			free := budgeted(t, m, o, in, nil)
			least := smallest(t, m, o)
			kinds := map[string]bool{}
			for i := range int64(11) {
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

// smallest is the smallest budget that works.
func smallest(t *testing.T, m *weir.Model, o weir.Options) (bytes int64) {
	o.Budget = 1
	_, err := weir.Compile(t.Context(), m, o)
	var e *weir.Error
	if !errors.As(err, &e) || !errors.Is(err, weir.ErrBudget) {
		t.Fatalf("a budget of one byte: %v", err)
	}
	if _, err := fmt.Sscanf(e.Fix, "a budget of %d bytes works", &bytes); err != nil {
		t.Fatalf("it does not say what works: %q", e.Fix)
	}
	return bytes
}

// within is what a budget led to.
type within struct {
	peak, arena int64
	savings     []weir.Saving
	results     [][]byte
}

// budgeted compiles, measures and runs, twice at once; the results must be want, where that is given, to the bit.
func budgeted(t *testing.T, m *weir.Model, o weir.Options, in weir.Inputs, want [][]byte) within {
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
			bytes, err := weir.Copy[float32](r.At(i))
			if err != nil {
				t.Fatal(err)
			}
			w.results = append(w.results, fmt.Append(nil, bytes))
		}
		if want != nil && !slices.EqualFunc(w.results, want, slices.Equal) {
			t.Errorf("budget %d: other results", o.Budget)
		}
		r.Close()
	}
	return w
}

// random is inputs for a model of floats whose free dimensions all are n.
func random(t *testing.T, m *weir.Model, n int64) (weir.Inputs, func()) {
	r := rand.New(rand.NewPCG(1, 2))
	in := weir.Inputs{}
	var made []*weir.Tensor
	for _, info := range m.Inputs() {
		var shape []int
		for _, e := range info.Shape {
			size := e.Size
			if e.Dim != "" {
				size = n
			}
			shape = append(shape, int(size))
		}
		x, err := weir.New(info.DType, shape...)
		if err != nil {
			t.Fatal(err)
		}
		data, err := weir.View[float32](x)
		if err != nil {
			t.Fatal(err)
		}
		for i := range data {
			data[i] = float32(r.NormFloat64()) / 2
		}
		in[info.Name] = x
		made = append(made, x)
	}
	return in, func() {
		for _, x := range made {
			x.Close()
		}
	}
}
