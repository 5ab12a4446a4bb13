package train_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/nn"
	"github.com/weirml/weir/train"
)

// table returns a network that sums the rows of a table over the ids of an example.
func table(rows, extent int) nn.Layer {
	return nn.Sequential(nn.Embedding(rows, extent), nn.Lambda(func(c *nn.Context, x *array.Array) *array.Array {
		return c.Sum(x, 1)
	}))
}

// TestLazyIsDense: SGD that updates only the rows of a batch's ids gives the same as SGD of the full table, with and
// without duplicate ids.
func TestLazyIsDense(t *testing.T) {
	array.AssertNoLeaks(t)
	run := func(o train.Options) []float32 {
		net := nn.Sequential(table(50, 4), nn.Linear(4, 3))
		p := nn.Init(net, 1)
		defer p.Close()
		tr, err := train.New(net, p, train.CrossEntropy, train.SGD(0.1), o)
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		s := array.NewScope("test")
		defer s.Close()
		for i := range 20 {
			ids, y := make([]int64, 5*3), make([]int32, 5)
			for k := range ids {
				ids[k] = int64((k*k*7 + i*13) % 50)
			}
			for k := range y {
				y[k] = int32((k + i) % 3)
			}
			if _, err := tr.Step(t.Context(), train.Batch{X: array.From(s, ids, 5, 3), Y: array.From(s, y)}); err != nil {
				t.Fatal(err)
			}
		}
		return floats(bits(t, p))
	}
	for _, o := range []train.Options{{}, {ClipNorm: 0.3}, {LossScale: 16}} {
		want := run(o)
		o.Lazy = []string{"0.0.*"}
		near(t, "parameters", run(o), want, 1e-5)
	}
}

// TestLazyAdam: after 15 steps the table equals that of Adam, computed in Go over the rows of the batches' ids, as do
// the norms of the gradients, and no other row has changed.
func TestLazyAdam(t *testing.T) {
	array.AssertNoLeaks(t)
	const rows, extent = 12, 3
	net := table(rows, extent)
	p := nn.Init(net, 1)
	defer p.Close()
	tr, err := train.New(net, p, train.MSE, train.Adam(0.05), train.Options{Lazy: []string{"*"}, Finite: true})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	w, _ := array.Copy[float32](p.Get("0.weight"))
	weights, mean, square := make([]float64, len(w)), make([]float64, len(w)), make([]float64, len(w))
	for i, x := range w {
		weights[i] = float64(x)
	}
	s := array.NewScope("test")
	defer s.Close()
	for step := 1; step <= 15; step++ {
		ids := []int32{int32(step % 5), 7, 7, int32(step % 3), 2, 2}
		target := make([]float32, 2*extent)
		for i := range target {
			target[i] = float32(math.Sin(float64(i * step)))
		}
		m, err := tr.Step(t.Context(), train.Batch{X: array.From(s, ids, 2, 3), Y: array.From(s, target, 2, extent)})
		if err != nil {
			t.Fatal(err)
		}
		grad := map[int][]float64{}
		norm := 0.0
		for e := range 2 {
			for d := range extent {
				sum := -float64(target[e*extent+d])
				for _, id := range ids[3*e : 3*e+3] {
					sum += weights[int(id)*extent+d]
				}
				for _, id := range ids[3*e : 3*e+3] {
					if grad[int(id)] == nil {
						grad[int(id)] = make([]float64, extent)
					}
					grad[int(id)][d] += 2 * sum / (2 * extent)
				}
			}
		}
		for id, list := range grad {
			for d, g := range list {
				i := id*extent + d
				norm += g * g
				mean[i] = 0.9*mean[i] + 0.1*g
				square[i] = 0.999*square[i] + 0.001*g*g
				root := math.Sqrt(square[i]/(1-math.Pow(0.999, float64(step)))) + 1e-8
				weights[i] -= 0.05 / (1 - math.Pow(0.9, float64(step))) * mean[i] / root
			}
		}
		if math.Abs(m.Norm-math.Sqrt(norm)) > 1e-4 {
			t.Errorf("step %d: the norm is %v, not %v", step, m.Norm, math.Sqrt(norm))
		}
	}
	got, _ := array.Copy[float32](p.Get("0.weight"))
	want := make([]float32, len(weights))
	for i, x := range weights {
		want[i] = float32(x)
	}
	near(t, "the table", got, want, 1e-4)
	for _, id := range []int{5, 6, 8, 9, 10, 11} {
		if !slices.Equal(got[id*extent:(id+1)*extent], w[id*extent:(id+1)*extent]) {
			t.Errorf("row %d changed, and no id names it", id)
		}
	}
}

// TestLazyTime: a step over a table of 100,000 rows, or of a million with -long, takes at most about 8 times as long as
// over a table of 1,000 rows, and its certified peak is at most 8 MiB.
func TestLazyTime(t *testing.T) {
	array.AssertNoLeaks(t)
	step := func(optimiser train.Optimiser, rows int) time.Duration {
		net := table(rows, 64)
		p := nn.Init(net, 1)
		defer p.Close()
		tr, err := train.New(net, p, train.MSE, optimiser, train.Options{Lazy: []string{"*"}, Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		s := array.NewScope("test")
		defer s.Close()
		ids := make([]int32, 1024)
		for i := range ids {
			ids[i] = int32(i*7919) % int32(rows)
			if ids[i] < 0 {
				ids[i] = -ids[i]
			}
		}
		b := train.Batch{X: array.From(s, ids, 1024, 1), Y: s.Zeros(weir.F32, 1024, 64)}
		best := time.Hour
		for range 20 {
			begin := time.Now()
			if _, err := tr.Step(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			best = min(best, time.Since(begin))
		}
		if peak, err := tr.Memory().Peak(1, weir.Dims{"batch": 1024}); err != nil || peak > 8<<20 {
			t.Errorf("%v, %d rows: a step takes %d bytes, error %v", optimiser, rows, peak, err)
		}
		return best
	}
	rows := 100_000
	if *long {
		rows = 1_000_000
	}
	for _, optimiser := range []train.Optimiser{train.SGD(0.1), train.SGD(0.1, train.Momentum(0.9)), train.Adam(0.01)} {
		few, many := step(optimiser, 1000), step(optimiser, rows)
		t.Logf("%.30v: %v for a thousand rows, %v for %d", optimiser, few, many, rows)
		if many > 8*few+time.Millisecond {
			t.Errorf("%v: %v for a thousand rows, %v for %d", optimiser, few, many, rows)
		}
	}
}

// TestLazyMisuse: New refuses Options.Lazy if a pattern matches no parameter, a parameter is not a table or is read
// otherwise than by ids, the optimiser has a slot of another shape, or gradients are accumulated.
func TestLazyMisuse(t *testing.T) {
	array.AssertNoLeaks(t)
	for says, test := range map[string]struct {
		net       nn.Layer
		optimiser train.Optimiser
		options   train.Options
	}{
		"matches":       {table(9, 4), train.SGD(1), train.Options{Lazy: []string{"3.*"}}},
		"another shape": {table(9, 4), train.Adafactor(1), train.Options{Lazy: []string{"*"}}},
		"added up":      {table(9, 4), train.SGD(1), train.Options{Lazy: []string{"*"}, Accumulate: 2}},
		"only its rows can be read": {nn.Linear(4, 4, nn.NoBias), train.SGD(1),
			train.Options{Lazy: []string{"*"}, Inputs: []array.Spec{array.SpecOf("x", weir.F32, 2, 4),
				array.SpecOf("y", weir.F32, 2, 4)}}},
		"a table, of rows": {nn.Linear(4, 4), train.SGD(1), train.Options{Lazy: []string{"*"}}},
		`matches "["`:      {table(9, 4), train.SGD(1), train.Options{Lazy: []string{"["}}},
	} {
		p := nn.Init(test.net, 1)
		tr, err := train.New(test.net, p, train.MSE, test.optimiser, test.options)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
			tr.Close()
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}
