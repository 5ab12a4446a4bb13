package train_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/nn"
	"github.com/weirml/weir/train"
)

// pytorch is the file that bench/training/optimisers.py wrote.
type pytorch struct {
	W, B, X, Y []float32
	Optimisers map[string]struct{ W, B, Losses []float32 }
	Losses     map[string]json.RawMessage
}

// fixtures reads testdata/pytorch.json.
func fixtures(t *testing.T) (p pytorch) {
	t.Helper()
	text, err := os.ReadFile("testdata/pytorch.json")
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// affine is the layer x·w + b.
type affine struct{ w, b []float32 }

// Declare declares w and b with the layer's elements.
func (l *affine) Declare(d *nn.Declaration) {
	given := func(list []float32) nn.Initializer {
		t, _ := weir.FromSlice(list)
		return nn.Elements(t)
	}
	d.Param("w", weir.F32, given(l.w), len(l.w)/len(l.b), len(l.b))
	d.Param("b", weir.F32, given(l.b), len(l.b))
}

func (l *affine) Apply(c *nn.Context, x ...*array.Array) []*array.Array {
	return []*array.Array{c.Add(c.MatMul(x[0], c.Param("w")), c.Param("b"))}
}

// near fails t if two lists differ by more than tolerance, relative to the larger of 1 and the elements.
func near(t *testing.T, what string, got, want []float32, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, not %d", what, len(got), len(want))
	}
	for i := range got {
		d := math.Abs(float64(got[i]) - float64(want[i]))
		if !(d <= tolerance*max(1, math.Abs(float64(want[i])))) {
			t.Errorf("%s: element %d is %v, not %v", what, i, got[i], want[i])
			return
		}
	}
}

// TestOptimisersAgainstPyTorch compares parameters after steps of each optimiser with PyTorch's.
func TestOptimisersAgainstPyTorch(t *testing.T) {
	array.AssertNoLeaks(t)
	f := fixtures(t)
	decay := train.WeightDecay
	optimisers := map[string]train.Optimiser{
		"sgd": train.SGD(0.05), "sgd_decay": train.SGD(0.05, decay(0.1)),
		"momentum": train.SGD(0.02, train.Momentum(0.9)), "nesterov": train.SGD(0.02, train.Momentum(0.9), train.Nesterov(),
			decay(0.01)),
		"adam": train.Adam(0.01), "adam_decay": train.Adam(0.01, train.Betas(0.8, 0.95), train.Epsilon(1e-6), decay(0.1)),
		"adamw": train.AdamW(0.01), "adamw_decay": train.AdamW(0.01, decay(0.3)),
		"lion": train.Lion(0.003, decay(0.1)), "rmsprop": train.RMSProp(0.01),
		"rmsprop_all": train.RMSProp(0.01, train.Smoothing(0.9), train.Momentum(0.9), train.Centred(), decay(0.01)),
		"adagrad":     train.Adagrad(0.1), "adagrad_decay": train.Adagrad(0.1, train.RateDecay(0.1), decay(0.05)),
		"adafactor": train.Adafactor(0.05), "adafactor_decay": train.Adafactor(0.05, decay(0.1)),
		"clip_norm": train.SGD(0.05), "clip_value": train.SGD(0.05),
	}
	for name, want := range f.Optimisers {
		optimiser := optimisers[name]
		if optimiser == nil {
			t.Errorf("%s is not tested", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			o := train.Options{Threads: 1}
			switch name {
			case "clip_norm":
				o.ClipNorm = 0.5
			case "clip_value":
				o.ClipValue = 0.1
			}
			net := &affine{f.W, f.B}
			p := nn.Init(net, 1)
			defer p.Close()
			tr, err := train.New(net, p, train.MSE, optimiser, o)
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close()
			s := array.NewScope("batch")
			defer s.Close()
			b := train.Batch{X: array.From(s, f.X, 6, 3), Y: array.From(s, f.Y, 6, 4)}
			for i, loss := range want.Losses {
				m, err := tr.Step(t.Context(), b)
				if err != nil {
					t.Fatal(err)
				}
				near(t, "the loss", []float32{float32(m.Loss)}, []float32{loss}, 2e-6)
				if m.Step != int64(i+1) || !m.Updated {
					t.Errorf("step %d is %+v", i+1, m)
				}
			}
			w, _ := array.Copy[float32](p.Get("w"))
			b0, _ := array.Copy[float32](p.Get("b"))
			near(t, "w", w, want.W, 2e-6)
			near(t, "b", b0, want.B, 2e-6)
		})
	}
}

// TestLossesAgainstPyTorch compares losses and their derivatives with PyTorch's.
func TestLossesAgainstPyTorch(t *testing.T) {
	array.AssertNoLeaks(t)
	f := fixtures(t)
	take := func(name string, into any) {
		if err := json.Unmarshal(f.Losses[name], into); err != nil {
			t.Fatal(name, err)
		}
		delete(f.Losses, name)
	}
	var ids []int32
	var signs, shares, weights []float32
	take("ids", &ids)
	take("signs", &signs)
	take("shares", &shares)
	take("class_weights", &weights)
	s := array.NewScope("test")
	defer s.Close()
	id, share, y := array.From(s, ids), array.From(s, shares, 6, 4), array.From(s, f.Y, 6, 4)
	sign := array.From(s, signs, 6, 4)
	with := func(o train.CrossEntropyOptions) train.Loss { return train.CrossEntropyOf(o) }
	type test struct {
		loss   train.Loss
		target *array.Array
	}
	tests := map[string]test{
		"cross_entropy": {train.CrossEntropy, id}, "cross_entropy_shares": {train.CrossEntropy, share},
		"smoothing":        {with(train.CrossEntropyOptions{Smoothing: 0.2}), id},
		"smoothing_shares": {with(train.CrossEntropyOptions{Smoothing: 0.2}), share},
		"weights":          {with(train.CrossEntropyOptions{Weights: weights}), id},
		"weights_shares":   {with(train.CrossEntropyOptions{Weights: weights}), share},
		"ignore":           {with(train.CrossEntropyOptions{Ignore: 3, HasIgnore: true}), id},
		"all": {with(train.CrossEntropyOptions{Weights: weights, Ignore: 3, HasIgnore: true, Smoothing: 0.1}),
			id},
		"nll": {train.NLL, id}, "mse": {train.MSE, y}, "l1": {train.L1, y}, "huber": {train.Huber(0.7), y},
		"bce": {train.BCE, share}, "bce_logits": {train.BCEWithLogits, share}, "kl": {train.KL, share},
		"cosine": {train.CosineDistance, y}, "hinge": {train.Hinge(1.5), sign}, "triplet": {train.Triplet(0.8), nil},
	}
	for name, text := range f.Losses {
		test, ok := tests[name]
		if !ok {
			t.Errorf("%s is not tested", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			var want struct {
				X, Gradient []float32
				Loss        float32
			}
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			s := array.NewScope(name)
			defer s.Close()
			shape := []int{6, 4}
			if len(want.X) == 72 {
				shape = []int{6, 3, 4}
			}
			x := array.From(s, want.X, shape...)
			out := array.ValueAndGrad(func(s *array.Scope, in ...*array.Array) []*array.Array {
				return []*array.Array{test.loss(s, in[0], test.target)}
			})(s, x)
			if err := s.Err(); err != nil {
				t.Fatal(err)
			}
			loss, _ := array.Copy[float32](out[0])
			gradient, _ := array.Copy[float32](out[1])
			near(t, "the loss", loss, []float32{want.Loss}, 2e-6)
			near(t, "the gradient", gradient, want.Gradient, 2e-6)
		})
	}
}
