// Package turn holds loops that open something in each turn and close it at the end of the function.
package turn

import (
	"context"
	"iter"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/train"
)

func scopes(list [][]float32) {
	for _, data := range list {
		s := array.NewScope("turn") // want `the scope from array.NewScope is opened in each turn of a loop, and closed by a defer only when the function returns: close in the turn, or make the loop's body a function`
		defer s.Close()
		array.From(s, data).Shape()
	}
}

func closures(n int) {
	for i := 0; i < n; i++ {
		s := array.NewScope("turn") // want `opened in each turn of a loop`
		defer func() { _ = s.Close() }()
		_ = s.Err()
	}
}

func results(ctx context.Context, p *weir.Program, list []weir.Inputs) error {
	for _, in := range list {
		r, err := p.Run(ctx, in) // want `the results from Program.Run are opened in each turn of a loop`
		if err != nil {
			return err
		}
		defer r.Close()
	}
	return nil
}

func forever(ctx context.Context, paths <-chan string) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case path := <-paths:
			m, err := weir.Load(path) // want `the model from weir.Load is opened in each turn of a loop`
			if err != nil {
				continue
			}
			defer m.Close()
		}
	}
}

func jump(n int) {
again:
	s := array.NewScope("again") // want `opened in each turn of a loop`
	defer s.Close()
	if n--; n > 0 {
		goto again
	}
}

func sequence(ctx context.Context, batches iter.Seq[[]float32], t *train.Trainer) error {
	for data := range batches {
		s := array.NewScope("batch") // want `opened in each turn of a loop`
		defer s.Close()
		if _, err := t.Step(ctx, train.Batch{X: array.From(s, data)}); err != nil {
			return err
		}
	}
	return nil
}

func inInner(list [][]float32, n int) {
	for range n {
		func() {
			for range list {
				s := array.NewScope("inner") // want `opened in each turn of a loop`
				defer s.Close()
			}
		}()
	}
}
