package train_test

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/weirtest"
	"github.com/weirml/weir/nn"
	"github.com/weirml/weir/train"
)

// budgetedNets returns networks whose steps are compiled for smaller budgets: with sums and statistics over the batch,
// with values that depend on these, and with operations that cannot be computed in pieces.
func budgetedNets() map[string]certified {
	mean := nn.Lambda(func(c *nn.Context, x *array.Array) *array.Array { return c.Mean(x, 1) })
	between := nn.Lambda(func(c *nn.Context, x *array.Array) *array.Array { return c.Add(x, c.Tanh(c.Mean(x, 0))) })
	pairs := nn.Lambda(func(c *nn.Context, x *array.Array) *array.Array {
		return c.MatMul(c.Softmax(c.MatMul(x, c.Transpose(x)), 1), x)
	})
	counts := []weir.Dims{{"batch": 1}, {"batch": 23}, {"batch": 5}, {"batch": 16}}
	wide := weir.Options{Dims: map[string]weir.Range{"batch": {Min: 1, Max: 23}}}
	images, rows, tokens := array.SpecOf("x", weir.F32, "batch", 2, 12, 12), array.SpecOf("x", weir.F32, "batch", 24),
		array.SpecOf("x", weir.I64, "batch", 12)
	block := func() nn.Layer {
		return nn.TransformerEncoderLayer(16, 2, 48, nn.NormFirst, nn.Causal, nn.Activation(nn.Gelu))
	}
	return map[string]certified{
		"batch norms": {nn.Sequential(nn.Conv2d(2, 8, 3, nn.Padding(1)), nn.BatchNorm(8), nn.Relu, nn.MaxPool2d(2),
			nn.Conv2d(8, 16, 3, nn.Padding(1)), nn.BatchNorm(16), nn.Relu,
			nn.Flatten(1), nn.Linear(16*36, 4)), train.Options{Compile: wide}, images, 0, counts},
		"residual": {nn.Sequential(nn.Conv2d(2, 8, 3),
			nn.Residual(nn.Sequential(nn.Conv2d(8, 8, 3, nn.Padding(1)), nn.GroupNorm(2, 8), nn.Silu)), nn.MaxPool2d(2),
			nn.Flatten(1), nn.Linear(8*25, 4)),
			train.Options{Compile: wide}, images, 0, counts},
		"transformer": {nn.Sequential(nn.Embedding(11, 16), nn.Positions(12, 16), block(), block(), mean, nn.Linear(16, 4)),
			train.Options{Compile: wide}, tokens, 11, counts},
		"statistics": {nn.Sequential(nn.Linear(24, 32), between, nn.BatchNorm(32), nn.Gelu, between, nn.Linear(32, 4)),
			train.Options{Compile: wide}, rows, 0, counts[1:]},
		"pairs": {nn.Sequential(nn.Linear(24, 64), nn.Tanh, pairs, nn.Linear(64, 64), nn.Relu, nn.Linear(64, 4)),
			train.Options{Compile: wide}, rows, 0, counts},
		"dropout": {nn.Sequential(nn.Linear(24, 96), nn.LayerNorm(96), nn.Relu, nn.Dropout(0.3), nn.Linear(96, 4)),
			train.Options{Compile: wide}, rows, 0, counts},
		"gru": {nn.Sequential(nn.Embedding(11, 12), nn.GRU(12, 12), mean, nn.Linear(12, 4)),
			train.Options{Compile: wide}, tokens, 11, counts},
	}
}

// steps trains a network within a budget, a few steps for each size of batch, and returns the losses, the parameters
// and the peak.
func (c certified) steps(t *testing.T, budget int64) (losses []float64, values []float32, peak int64, err error) {
	t.Helper()
	weir.Trim()
	before := mem.Usage()
	p := nn.Init(c.net, 5)
	defer p.Close()
	o := c.o
	o.Budget, o.Inputs = budget, []array.Spec{c.x, array.SpecOf("y", weir.I32, "batch")}
	tr, err := train.New(c.net, p, train.CrossEntropy, train.SGD(0.05, train.Momentum(0.5)), o)
	if err != nil {
		return nil, nil, 0, err
	}
	defer tr.Close()
	if peak, err = tr.Memory().Max(1); err != nil {
		t.Fatal(err)
	}
	for _, d := range c.counts {
		c.step(t, tr, d, before)
		s := array.NewScope("batch")
		for range 2 {
			loss, err := tr.Step(t.Context(), c.batch(s, d))
			if err != nil {
				t.Fatal(err)
			}
			losses = append(losses, loss.Loss)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range p.Names() {
		list, err := array.Copy[float32](p.Get(name))
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, list...)
	}
	return losses, values, peak, nil
}

// TestBudgets compiles steps for budgets from the unconstrained peak down to the smallest that a refusal names: a step
// takes the bytes of its certificate, within the budget, and trains to the same parameters, up to the order of sums,
// with batches of every size.
func TestBudgets(t *testing.T) {
	shares := map[string]float64{"batch norms": 0.3, "residual": 0.3, "transformer": 0.3, "statistics": 0.8}
	for name, test := range budgetedNets() {
		t.Run(name, func(t *testing.T) {
			losses, values, free, err := test.steps(t, 0)
			if err != nil {
				t.Fatal(err)
			}
			_, _, _, err = test.steps(t, 1)
			var e *weir.Error
			if !errors.As(err, &e) || !errors.Is(err, weir.ErrBudget) {
				t.Fatal(err)
			}
			least, err := strconv.ParseInt(regexp.MustCompile(`\d+`).FindString(e.Fix), 10, 64)
			if err != nil {
				t.Fatal(e.Fix)
			}
			t.Logf("%d bytes, with budgets down to %d, %.0f %%", free, least, 100*float64(least)/float64(free))
			if share, held := shares[name]; held && float64(least) > share*float64(free) {
				t.Errorf("the least is %d of %d bytes", least, free)
			}
			for _, i := range weirtest.Part([]int64{0, 1, 2}, 3) {
				budget := least + (free-least)*i/3
				got, end, peak, err := test.steps(t, budget)
				if err != nil {
					t.Fatalf("within %d bytes: %v", budget, err)
				}
				if peak > budget {
					t.Errorf("within %d bytes: it takes %d", budget, peak)
				}
				if err := nearly(got, losses, 1e-4); err != nil {
					t.Errorf("within %d bytes: losses: %v", budget, err)
				}
				if err := nearly(end, values, 1e-3); err != nil {
					t.Errorf("within %d bytes: parameters: %v", budget, err)
				}
			}
		})
	}
}

// nearly returns an error if two lists differ by more than most.
func nearly[F float32 | float64](got, want []F, most float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d numbers, want %d", len(got), len(want))
	}
	at := slices.IndexFunc(got, func(F) bool { return false })
	for i := range got {
		if d := math.Abs(float64(got[i] - want[i])); !(d <= most*max(1, math.Abs(float64(want[i])))) {
			at = i
		}
	}
	if at >= 0 {
		return fmt.Errorf("number %d is %v, want %v", at, got[at], want[at])
	}
	return nil
}
