package encoder

import (
	"cmp"
	"context"
	"runtime"

	"github.com/weirml/weir/internal/diag"
)

// Parallel calls f for 0 to n−1 on as many goroutines as run at once. It returns the error of the least index, or that
// of ctx.
func Parallel(ctx context.Context, n int, f func(i int) error) error {
	errs := make([]error, n)
	workers := max(1, min(n/8, runtime.GOMAXPROCS(0)))
	work := func(first int) error {
		for i := first; i < n && ctx.Err() == nil; i += workers {
			errs[i] = f(i)
		}
		return nil
	}
	if workers == 1 {
		work(0)
	} else {
		var group diag.Group
		for first := range workers {
			group.Go("reading texts", func() error { return work(first) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return cmp.Or(errs...)
}
