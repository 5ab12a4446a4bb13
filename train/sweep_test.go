package train_test

import (
	"cmp"
	"errors"
	"slices"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/weirtest"
	"github.com/weirml/weir/train"
)

// TestSweep refuses each taking of memory of training in turn: each error is typed, nothing leaks, and parameters are
// intact, or named as torn.
func TestSweep(t *testing.T) {
	array.AssertNoLeaks(t)
	s := learnable(t, train.DataOptions{})
	dir := t.TempDir()
	// The first attempt fills the memory that the process keeps, such as its cache of programs.
	if stage, err := attempt(t, s, dir); err != nil {
		t.Fatal(stage, err)
	}
	held := mem.Usage()
	refusals := 0
	every := int64(3)
	if *long {
		every = 1
	}
	for n := int64(0); ; n += every {
		before := bits(t, s.params)
		restore := mem.FailAfter(n)
		stage, err := attempt(t, s, dir)
		restore()
		if now := mem.Usage(); now.All > held.All {
			t.Fatalf("taking %d, %s: %d bytes became %d", n, stage, held.All, now.All)
		}
		if err == nil {
			break
		}
		refusals++
		var e *weir.Error
		var torn *train.Torn
		if !errors.As(err, &e) && !errors.As(err, &torn) {
			t.Errorf("taking %d, %s: the error %v has no type", n, stage, err)
		}
		if stage == "first" && !errors.As(err, &torn) && !slices.Equal(before, bits(t, s.params)) {
			t.Errorf("taking %d: a step that failed changed parameters: %v", n, err)
		}
		if n > 5000 {
			t.Fatal("there is no end")
		}
	}
	if refusals < 5 {
		t.Errorf("%d refusals", refusals)
	}
	t.Logf("%d takings refused", refusals)
}

// attempt makes a trainer, calls its methods and closes it. It returns the first error and the stage in which it
// occurred.
func attempt(t *testing.T, s *small, dir string) (stage string, err error) {
	tr, err := train.New(s.net, s.params, train.CrossEntropy, train.AdamW(0.01), train.Options{})
	if err != nil {
		return "new", err
	}
	defer tr.Close()
	scope := array.NewScope("batch")
	defer scope.Close()
	for i, size := range []int{100, 60, 100} {
		b := train.Batch{X: array.From(scope, s.points[:2*size], size, 2), Y: array.From(scope, s.inside[:size])}
		if err := scope.Err(); err != nil {
			return "batch", err
		}
		if _, err := tr.Step(t.Context(), b); err != nil {
			if i == 0 {
				return "first", err
			}
			return "step", err
		}
	}
	if err := tr.Save(dir); err != nil {
		return "save", err
	}
	if _, err := tr.Evaluate(t.Context(), s.data.Batches(50)); err != nil {
		return "evaluate", err
	}
	if err := tr.Restore(dir); err != nil {
		return "restore", err
	}
	return "", s.data.Err()
}

// TestSweepOnce refuses each taking of memory of the calls of one trainer, once: the error is typed, nothing leaks,
// parameters are intact, and the same call then works.
func TestSweepOnce(t *testing.T) {
	array.AssertNoLeaks(t)
	defer array.CacheLimit(array.CacheLimit(0))
	s := learnable(t, train.DataOptions{})
	dir := t.TempDir()
	for i, o := range []train.Options{{}, {Accumulate: 2, ClipNorm: 1}} {
		refused, every := 0, int64(3+4*i)*int64(weirtest.Trials(1, 3))
		if *long {
			every = 1
		}
		for n := int64(1); ; n += every {
			var tr *train.Trainer
			var batches map[int]train.Batch
			calls := []struct {
				name string
				call func() error
			}{
				{"new", func() (err error) {
					tr, err = train.New(s.net, s.params, train.CrossEntropy, train.AdamW(0.01), o)
					return err
				}},
				{"step", func() error { _, err := tr.Step(t.Context(), batches[100]); return err }},
				{"step", func() error { _, err := tr.Step(t.Context(), batches[60]); return err }},
				{"step", func() error { _, err := tr.Step(t.Context(), batches[60]); return err }},
				{"save", func() error { return tr.Save(dir) }},
				{"evaluate", func() error {
					_, err := tr.Evaluate(t.Context(), s.data.Batches(50))
					return cmp.Or(s.data.Err(), err) // Evaluate does not return the error that ended the data before the first batch
				}},
				{"restore", func() error { return tr.Restore(dir) }},
				{"step", func() error { _, err := tr.Step(t.Context(), batches[30]); return err }},
				{"close", func() error { return tr.Close() }},
			}
			held := mem.Usage()
			scope := array.NewScope("batches")
			batches = map[int]train.Batch{}
			for _, size := range []int{100, 60, 30} {
				batches[size] = train.Batch{X: array.From(scope, s.points[:2*size], size, 2), Y: array.From(scope, s.inside[:size])}
			}
			faults := mem.Fail(n, n)
			for _, c := range calls {
				before := bits(t, s.params)
				err := c.call()
				var e *weir.Error
				var torn *train.Torn
				switch {
				case err == nil:
					continue
				case errors.As(err, &torn):
					t.Errorf("%d, %s: %v", n, c.name, err)
				case !errors.As(err, &e) || !errors.Is(err, weir.ErrMemory) || !slices.Equal(before, bits(t, s.params)):
					t.Errorf("%d, %s: the error is %v", n, c.name, err)
				}
				refused++
				if err := c.call(); err != nil {
					t.Fatalf("%d, %s again: %v", n, c.name, err)
				}
			}
			faults.Restore()
			if err := scope.Close(); err != nil {
				t.Error(err)
			}
			if now := mem.Usage(); now.All != held.All {
				t.Fatalf("%d: %d bytes became %d", n, held.All, now.All)
			}
			if faults.Count() < n {
				break
			}
		}
		t.Logf("%d refused", refused)
	}
}
