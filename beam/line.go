package beamweir

import (
	"context"

	"github.com/weirml/weir/batch"
	"github.com/weirml/weir/internal/diag"
)

// line runs the elements of a bundle: as they come, many at once, with results in their order.
type line[T, R any] struct {
	in     chan T // closed after the last element
	out    chan outcome[R]
	cancel context.CancelFunc
}

// outcome is what becomes of an element.
type outcome[R any] struct {
	result R
	err    error
}

// newLine returns a line with at most so many elements in progress. Close in, or call stop.
func newLine[T, R any](ctx context.Context, most int, run func(context.Context, T) (R, error)) *line[T, R] {
	ctx, cancel := context.WithCancel(ctx)
	l := &line[T, R]{in: make(chan T), out: make(chan outcome[R]), cancel: cancel}
	elements := func(yield func(T) bool) {
		for {
			select {
			case element, more := <-l.in:
				if !more || !yield(element) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
	diag.Go("a bundle", func() error {
		for result, err := range batch.Each(ctx, elements, most, run) {
			select {
			case l.out <- outcome[R]{result, err}:
			case <-ctx.Done():
				return nil
			}
		}
		return nil
	}, func(error) {
		cancel()
		close(l.out)
	})
	return l
}

// put gives the line an element, and first calls emit for the results that are ready.
func (l *line[T, R]) put(ctx context.Context, element T, emit func(outcome[R]) error) error {
	for {
		select {
		case l.in <- element:
			return nil
		case o, more := <-l.out:
			if !more {
				return diag.Internalf("a bundle's line ended before the bundle")
			}
			if err := emit(o); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// end calls emit for the results that are left.
func (l *line[T, R]) end(emit func(outcome[R]) error) error {
	close(l.in)
	for o := range l.out {
		if err := emit(o); err != nil {
			return err
		}
	}
	return nil
}

// stop gives up what is left, and returns once nothing runs.
func (l *line[T, R]) stop() {
	l.cancel()
	for range l.out {
	}
}
