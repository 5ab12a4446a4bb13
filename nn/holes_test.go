package nn_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/nn"
)

// TestResidualLeavesInputs: a residual layer around a layer that returns its inputs does not change the inputs of other
// layers.
func TestResidualLeavesInputs(t *testing.T) {
	array.AssertNoLeaks(t)
	same := nn.Lambdas(func(c *nn.Context, x ...*array.Array) []*array.Array { return x })
	for name, inner := range map[string]nn.Layer{"function": same, "nothing": nn.Sequential(),
		"nested": nn.Residual(same)} {
		net := nn.Sequential(nn.Parallel(nn.Residual(inner), nn.Identity), nn.Concat(0))
		p := nn.Init(net, 1)
		s := array.NewScope("call")
		y, err := nn.Predict(s, net, p, array.From(s, []float32{1, 2}))
		list, other := array.Copy[float32](y)
		if err := errors.Join(err, other, s.Close(), p.Close()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(list[2:], []float32{1, 2}) {
			t.Errorf("%s: the layer beside gives %v", name, list[2:])
		}
	}
}

// TestNilAndClosed: a nil network, store or array, and a closed store, are typed errors of Predict, with each kind of
// layer, and of Set; none is internal.
func TestNilAndClosed(t *testing.T) {
	array.AssertNoLeaks(t)
	net := nn.Linear(2, 3)
	p, closed := nn.Init(net, 1), nn.Init(net, 1)
	defer p.Close()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	s := array.NewScope("inputs")
	defer s.Close()
	x, w := s.Ones(weir.F32, 4, 2), s.Ones(weir.F32, 2, 3)
	predict := func(net nn.Layer, p *nn.Params, x ...*array.Array) func() error {
		return func() error {
			in := array.NewScope("call")
			defer in.Close()
			_, err := nn.Predict(in, net, p, x...)
			return err
		}
	}
	for name, call := range map[string]func() error{
		"no input":           predict(net, p, nil),
		"no network":         predict(nil, p, x),
		"no store":           predict(net, nil, x),
		"a closed store":     predict(net, closed, x),
		"no query":           predict(nn.MultiHeadAttention(2, 1), p, nil),
		"no image":           predict(nn.Conv2d(1, 1, 1), p, nil),
		"no steps":           predict(nn.LSTM(2, 3), p, nil),
		"nothing pooled":     predict(nn.AdaptiveAvgPool(1), p, nil),
		"nothing repeated":   predict(nn.Upsample(2), p, nil),
		"nothing normalised": predict(nn.BatchNorm(2), p, nil),
		"no ids":             predict(nn.Embedding(2, 3), p, nil),
		"no halves":          predict(nn.GLU(1), p, nil),
		"set to nothing":     func() error { return p.Set("weight", nil) },
		"set in a closed":    func() error { return closed.Set("weight", w) },
	} {
		var e *weir.Error
		if err := call(); !errors.As(err, &e) || errors.Is(err, weir.ErrInternal) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}
