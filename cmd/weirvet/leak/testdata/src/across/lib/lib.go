// Package lib is what across/user knows only by facts.
package lib

import (
	"context"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

type Service struct{ program *weir.Program }

// Open gives a program to the caller.
func Open(path string) (*weir.Program, error) {
	m, err := weir.Load(path)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return weir.Compile(context.Background(), m, weir.Options{})
}

// NewService keeps the program.
func NewService(p *weir.Program) *Service { return &Service{p} }

// Program lends the program.
func (s *Service) Program() *weir.Program { return s.program }

// Look reads.
func Look(p *weir.Program) int { return len(p.Outputs()) }

// Finish closes.
func Finish(p *weir.Program) {
	if p != nil {
		p.Close()
	}
}

// Block computes in the scope.
func Block(s *array.Scope, x *array.Array) *array.Array { return s.Relu(s.Relu(x)) }

// Inner computes in a scope of its own and gives to the outer one.
func Inner(s *array.Scope, x *array.Array) *array.Array {
	in := array.NewScope("inner", array.In(s))
	defer in.Close()
	return in.Return(in.Relu(x))
}
