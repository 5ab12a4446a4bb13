// Package open holds resources that are not closed on some path.
package open

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/metrics"
	"github.com/weirml/weir/nn"
	"github.com/weirml/weir/train"
)

func never(data []float32) float32 {
	s := array.NewScope("never") // want `the scope from array.NewScope is not closed if the function returns at line 22: defer s.Close\(\), or call it on this path too`
	total, _ := array.Item[float32](s.Sum(array.From(s, data)))
	return total
}

func earlyReturn(data []float32) error {
	s := array.NewScope("early") // want `the scope from array.NewScope is not closed if the function returns at line 29`
	x := array.From(s, data)
	if x.Dim(0) == 0 {
		return errors.New("empty")
	}
	return s.Close()
}

func errorOfAnother(ctx context.Context) error {
	m, err := weir.Load("a.onnx") // want `the model from weir.Load is not closed if the function returns at line 41: defer m.Close\(\)`
	if err != nil {
		return err
	}
	p, err := weir.Compile(ctx, m, weir.Options{})
	if err != nil {
		return err
	}
	defer p.Close()
	return m.Close()
}

func subScope(parent *array.Scope, x *array.Array) {
	s := array.NewScope("sub", array.In(parent)) // want `the scope from array.NewScope is not closed if the function runs to its end`
	fmt.Println(s.Relu(x).Shape())
}

func loop(ctx context.Context, p *weir.Program, n int) error {
	for range n {
		r, err := p.Run(ctx, nil) // want `the results from Program.Run are not closed`
		if err != nil {
			return err
		}
		fmt.Println(r.Get("y").Shape())
	}
	return nil
}

func inTurn(list [][]float32) {
	for _, data := range list {
		s := array.NewScope("turn") // want `the scope from array.NewScope is not closed`
		x := array.From(s, data)
		if x.Dim(0) > 3 {
			continue
		}
		s.Close()
	}
}

func reassigned(ctx context.Context, m *weir.Model) error {
	p, err := weir.Compile(ctx, m, weir.Options{Calls: 1}) // want `the program from weir.Compile is not closed if`
	if err != nil {
		return err
	}
	p, err = weir.Compile(ctx, m, weir.Options{Calls: 2})
	if err != nil {
		return err
	}
	return p.Close()
}

func shadowed(ctx context.Context, m *weir.Model, again bool) error {
	p, err := weir.Compile(ctx, m, weir.Options{})
	if err != nil {
		return err
	}
	defer p.Close()
	if again {
		p, err := weir.Compile(ctx, m, weir.Options{Calls: 2}) // want `the program from weir.Compile is not closed if`
		if err != nil {
			return err
		}
		fmt.Println(p.Outputs())
	}
	return nil
}

func switched(kind string) error {
	c, err := array.Jit(nil, array.Options{}) // want `the compiled function from array.Jit is not closed if`
	if err != nil {
		return err
	}
	switch kind {
	case "a":
		return c.Close()
	case "b":
		return nil
	default:
		return c.Close()
	}
}

func trainer(ctx context.Context, l nn.Layer, b train.Batch) error {
	store := nn.Init(l, nil)
	defer store.Close()
	t, err := train.New(l, store, train.Options{}) // want `the trainer from train.New is not closed if`
	if err != nil {
		return err
	}
	if _, err := t.Step(ctx, b); err != nil {
		return err
	}
	return t.Close()
}

func tensor() ([]float32, error) {
	t, err := weir.New(weir.F32, 2, 2) // want `the tensor from weir.New is not closed if`
	if err != nil {
		return nil, err
	}
	return weir.Copy[float32](t)
}

func called(p *weir.Program) error {
	c, err := p.NewCall(nil) // want `the call from Program.NewCall is not closed if`
	if err != nil {
		return err
	}
	return c.Run(context.Background())
}

// helper gives a program away, so that its callers must close it.
func helper(ctx context.Context, m *weir.Model) (*weir.Program, error) {
	p, err := weir.Compile(ctx, m, weir.Options{})
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	return p, nil
}

func byHelper(ctx context.Context, m *weir.Model) error {
	p, err := helper(ctx, m) // want `the program from open.helper is not closed if`
	if err != nil {
		return err
	}
	_, err = p.WriteTo(io.Discard)
	return err
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

func byMust() {
	m := must(weir.Load("a.onnx")) // want `the model from weir.Load is not closed`
	fmt.Println(m.Inputs())
}

func borrowed(ctx context.Context, m *weir.Model) {
	look(m)
	t, _ := weir.New(weir.F32) // want `the tensor from weir.New is not closed`
	in := weir.Inputs{"x": t}
	p := must(weir.Compile(ctx, m, weir.Options{}))
	defer p.Close()
	if r, err := p.Run(ctx, in); err == nil {
		r.Close()
	}
}

func look(m *weir.Model) { fmt.Println(m.Metadata()) }

func asInterface(name string) error {
	m, err := weir.Load(name) // want `the model from weir.Load is not closed`
	if err != nil {
		return err
	}
	var c io.Closer = m
	if name == os.Args[0] {
		return c.Close()
	}
	return nil
}

func closureThatOnlyReads(n int) {
	s := array.NewScope("closure") // want `the scope from array.NewScope is not closed`
	f := func(x *array.Array) *array.Array { return s.Relu(x) }
	fmt.Println(f(nil).Shape())
}

func deferredTooLate(ok bool) error {
	s := array.NewScope("late") // want `the scope from array.NewScope is not closed`
	if !ok {
		return errors.New("not now")
	}
	defer s.Close()
	return s.Err()
}

func methodValueNotCalled() {
	s := array.NewScope("value") // want `the scope from array.NewScope is not closed`
	relu := s.Relu
	fmt.Println(relu(nil).Shape())
}

func carriedNotClosed(n int) {
	last := array.NewScope("first") // want `the scope from array.NewScope is not closed if the function runs to its end`
	for range n {
		s := array.NewScope("turn") // want `the scope from array.NewScope is not closed`
		last = s
	}
	last.Close()
}

func carriedLost(list [][]float32) error {
	last := array.NewScope("first")
	defer func() { last.Close() }()
	for _, data := range list {
		s := array.NewScope("turn") // want `the scope from array.NewScope is not closed if the function returns at line`
		array.From(s, data).Shape()
		if err := s.Err(); err != nil {
			return err
		}
		last.Close()
		last = s
	}
	return nil
}

func timedRun(ctx context.Context, timed metrics.Runner, in weir.Inputs) (int, error) {
	r, err := timed.Run(ctx, in) // want `the results from Runner.Run are not closed if the function returns at line 251: defer r.Close\(\), or call it on this path too`
	if err != nil {
		return 0, err
	}
	return r.At(0).Len(), nil
}
