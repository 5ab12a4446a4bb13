package batch

import (
	"context"
	"iter"

	"github.com/weirml/weir/internal/diag"
)

// Each calls run for every element, each on a goroutine of its own, at most so many at once, and yields their results
// in the order of the elements: with a run that calls Batcher.Run or RunWith, elements that are in progress at the same
// time share runs of the program. most should be twice Batcher.MostRows, for elements of one row, so that the next run
// can be filled during one. An element's error is yielded in its place, and the others go on. A panic of run is an
// ErrInternal.
//
// If ctx ends, Each reads no further elements, and those in progress yield their errors. If the caller stops, their
// context ends, and Each returns once run has returned for all of them.
func Each[E, R any](ctx context.Context, elements iter.Seq[E], most int,
	run func(ctx context.Context, element E) (R, error)) iter.Seq2[R, error] {
	type progress struct {
		result R
		err    error
		ended  chan struct{}
	}
	return func(yield func(R, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var line []*progress // the elements that are not yielded, in their order
		defer func() {
			cancel()
			for _, p := range line {
				<-p.ended
			}
		}()
		first := func() bool {
			p := line[0]
			<-p.ended
			line = line[1:]
			return yield(p.result, p.err)
		}
		for element := range elements {
			if ctx.Err() != nil {
				break
			}
			if len(line) >= max(1, most) && !first() {
				return
			}
			p := &progress{ended: make(chan struct{})}
			line = append(line, p)
			diag.Go("an element", func() (err error) {
				p.result, err = run(ctx, element)
				return err
			}, func(err error) {
				p.err = err
				close(p.ended)
			})
		}
		for len(line) > 0 {
			if !first() {
				return
			}
		}
	}
}
