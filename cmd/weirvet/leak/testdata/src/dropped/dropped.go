// Package dropped holds results that nobody holds.
package dropped

import (
	"context"
	"fmt"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/nn"
	"github.com/weirml/weir/train"
)

func statements(s *array.Scope, x *array.Array, n nn.Layer) *array.Array {
	s.Relu(x)                      // want `the result of Scope.Relu is dropped: use it, or leave the call out`
	s.Add(x, x)                    // want `the result of Scope.Add is dropped`
	(s.Zeros(weir.F32, 2))         // want `the result of Scope.Zeros is dropped`
	array.From(s, []float32{1, 2}) // want `the result of array.From is dropped`
	defer s.Sum(x)                 // want `the result of Scope.Sum is dropped`
	s.Return(x)
	return n.Forward(s, x)
}

func inGoroutine(s *array.Scope, x *array.Array) {
	go s.Relu(x) // want `the result of Scope.Relu is dropped`
}

func program(ctx context.Context, m *weir.Model) error {
	_, err := weir.Compile(ctx, m, weir.Options{}) // want `the program from weir.Compile is dropped, so that nobody can call Close: keep the value and close it`
	return err
}

func results(ctx context.Context, p *weir.Program) {
	if _, err := p.Run(ctx, nil); err != nil { // want `the results from Program.Run are dropped`
		fmt.Println(err)
	}
}

func scope() {
	array.NewScope("nobody's") // want `the scope from array.NewScope is dropped`
}

func both(path string) {
	_, _ = weir.Load(path) // want `the model from weir.Load is dropped`
}

func statement(path string) {
	train.Resume(path) // want `the trainer from train.Resume is dropped`
}

func chained(parent *array.Scope, x *array.Array) []int {
	return array.NewScope("chain", array.In(parent)).Relu(x).Shape() // want `the scope from array.NewScope is not closed`
}

func call(p *weir.Program) error {
	_, err := p.NewCall(nil) // want `the call from Program.NewCall is dropped`
	if err != nil {
		return fmt.Errorf("a call: %w", err)
	}
	return nil
}

func detached(x *array.Array) error {
	_, err := x.Detach() // want `the tensor from Array.Detach is dropped`
	return err
}
