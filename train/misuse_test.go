package train_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/nn"
	"github.com/weirml/weir/train"
)

// refuses fails t unless an error is typed, not internal, and contains all of says.
func refuses(t *testing.T, what string, err error, says ...string) {
	t.Helper()
	var e *weir.Error
	if !errors.As(err, &e) || errors.Is(err, weir.ErrInternal) {
		t.Errorf("%s: the error is %v", what, err)
		return
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%s: the error %q does not say %q", what, err, s)
		}
	}
}

// TestAfterClose: every method of a closed trainer returns an error or a zero value.
func TestAfterClose(t *testing.T) {
	array.AssertNoLeaks(t)
	s := learnable(t, train.DataOptions{})
	tr := s.trainer(t, train.Options{Accumulate: 2})
	scope := array.NewScope("batch")
	defer scope.Close()
	x, y := array.From(scope, s.points, 100, 2), array.From(scope, s.inside)
	good := train.Batch{X: x, Y: y}
	steps(t, tr, s.data, 2, 50)
	before := bits(t, s.params)
	if err := errors.Join(tr.Close(), tr.Close()); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func() error{
		"step":     func() error { _, err := tr.Step(t.Context(), good); return err },
		"predict":  func() error { _, err := tr.Predict(t.Context(), x); return err },
		"evaluate": func() error { _, err := tr.Evaluate(t.Context(), s.data.Batches(50)); return err },
		"fit": func() error {
			_, err := tr.Fit(t.Context(), s.data, train.FitOptions{Epochs: 100, BatchSize: 50})
			return err
		},
		"save":    func() error { return tr.Save(t.TempDir()) },
		"restore": func() error { return tr.Restore(t.TempDir(), s.data) },
	} {
		err := call()
		if refuses(t, name, err, "the trainer is closed"); !errors.Is(err, weir.ErrClosed) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	tr.SetFactor(2)
	if tr.Memory() != nil || !strings.Contains(tr.Certificate(), "closed") || tr.Steps() != 1 || tr.Params() != s.params {
		t.Errorf("%v, %s, %d steps", tr.Memory(), tr.Certificate(), tr.Steps())
	}
	_, err := tr.Peak(weir.Dims{"batch": 1})
	refuses(t, "peak", err, "closed")
	if !slices.Equal(before, bits(t, s.params)) {
		t.Error("parameters changed")
	}
}

// TestClosedWhileRunning: Close during a step is an error and closes nothing, or the next step is an error.
func TestClosedWhileRunning(t *testing.T) {
	array.AssertNoLeaks(t)
	s := learnable(t, train.DataOptions{})
	scope := array.NewScope("batch")
	defer scope.Close()
	b := train.Batch{X: array.From(scope, s.points, 100, 2), Y: array.From(scope, s.inside)}
	for range 5 {
		tr, err := train.New(s.net, s.params, train.CrossEntropy, train.AdamW(0.01), train.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		began := make(chan bool)
		all.Go(func() {
			for i := 0; ; i++ {
				if _, err := tr.Step(t.Context(), b); err != nil {
					if i == 0 {
						close(began)
					}
					if errors.Is(err, weir.ErrClosed) {
						return
					}
					refuses(t, "step", err, "another goroutine is using the trainer")
				} else if i == 0 {
					close(began)
				}
			}
		})
		<-began
		for err = tr.Close(); err != nil; err = tr.Close() {
			refuses(t, "close", err, "another goroutine is using the trainer")
		}
		all.Wait()
	}
}

// TestParamsUnderTrainer: parameters of an open trainer cannot be closed, together or one by one, and closed parameters
// cannot get a trainer.
func TestParamsUnderTrainer(t *testing.T) {
	array.AssertNoLeaks(t)
	s := learnable(t, train.DataOptions{})
	tr := s.trainer(t, train.Options{})
	for name, call := range map[string]func() error{
		"store":     func() error { return s.params.Close() },
		"scope":     func() error { return s.params.Scope().Close() },
		"parameter": func() error { return s.params.Get("0.weight").Close() },
	} {
		refuses(t, name, call(), "training", "misuse_test.go:", "train_test.go:")
	}
	steps(t, tr, s.data, 3, 50)
	// Two trainers of the same parameters are allowed: each step begins with the result of the last one.
	other := s.trainer(t, train.Options{})
	steps(t, other, s.data, 3, 50)
	p := nn.Init(s.net, 1)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := train.New(s.net, p, train.CrossEntropy, train.AdamW(0.01), train.Options{})
	if refuses(t, "closed parameters", err, "closed"); !errors.Is(err, weir.ErrClosed) {
		t.Error(err)
	}
	_, err = train.New(nn.Linear(3, 5), s.params, train.CrossEntropy, train.AdamW(0.01), train.Options{
		Inputs: []array.Spec{array.SpecOf("x", weir.F32, 4, 3), array.SpecOf("y", weir.I32, 4)}})
	refuses(t, "parameters of another network", err)
}

// TestClosedBatch: the error of a batch's closed array names the lines that made and closed it.
func TestClosedBatch(t *testing.T) {
	array.AssertNoLeaks(t)
	s := learnable(t, train.DataOptions{})
	for _, compiled := range []bool{false, true} {
		tr := s.trainer(t, train.Options{})
		if compiled {
			steps(t, tr, s.data, 1, 50)
		}
		scope := array.NewScope("batch")
		y := array.From(scope, s.inside)
		closed := array.From(scope, s.points, 100, 2)
		closed.Close()
		_, err := tr.Step(t.Context(), train.Batch{X: closed, Y: y})
		refuses(t, "closed", err, "made at", "was closed at", "misuse_test.go:", "x")
		_, err = tr.Step(t.Context(), train.Batch{X: y, Y: nil, More: []*array.Array{nil}})
		refuses(t, "nil", err)
		_, err = tr.Predict(t.Context())
		refuses(t, "nothing", err, "no arrays")
		failed := array.From(scope, s.points, 3, 3)
		_, err = tr.Step(t.Context(), train.Batch{X: failed, Y: y})
		refuses(t, "failed", err, "op from", "misuse_test.go:")
		scope.Close()
	}
}

// TestLossAxes: an output with a last axis of extent 1 and a target without it, or the reverse, are an error that says
// how to change the target. Other differences are an error without that advice.
func TestLossAxes(t *testing.T) {
	array.AssertNoLeaks(t)
	scope := array.NewScope("batch")
	defer scope.Close()
	x, row, column := scope.Zeros(weir.F32, 4, 3), scope.Zeros(weir.F32, 4), scope.Zeros(weir.F32, 4, 1)
	flat := nn.Sequential(nn.Linear(3, 1), nn.Flatten(0))
	for name, test := range map[string]struct {
		net  nn.Layer
		y    *array.Array
		says []string
	}{
		"column by row": {nn.Linear(3, 1), row, []string{"their shapes differ", "train.Column(y, 1)"}},
		"row by column": {flat, column, []string{"their shapes differ", "train.Column(y)"}},
		"pairs":         {nn.Linear(3, 2), row, []string{"their shapes differ"}},
	} {
		for _, loss := range []train.Loss{train.MSE, train.CosineDistance} {
			p := nn.Init(test.net, 1)
			tr, err := train.New(test.net, p, loss, train.SGD(1), train.Options{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = tr.Step(t.Context(), train.Batch{X: x, Y: test.y})
			refuses(t, name, err, test.says...)
			if name == "pairs" && strings.Contains(err.Error(), "Column") {
				t.Errorf("%s: %v", name, err)
			}
			if err := errors.Join(tr.Close(), p.Close()); err != nil {
				t.Error(err)
			}
		}
	}
}
