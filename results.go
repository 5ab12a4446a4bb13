package weir

import (
	"iter"

	"github.com/weirml/weir/internal/session"
)

// Outputs are the outputs of a run: a program's Results, or those of a request to a batcher of the package batch. A
// function that takes Outputs reads either.
type Outputs interface {
	Get(name string) *Tensor
	At(i int) *Tensor
	Sequence(name string) []*Tensor
	All() iter.Seq2[string, *Tensor]
	Close() error
}

var _ Outputs = (*Results)(nil)

// Results are the outputs of a run. They occupy one of the program's calls until closed.
type Results session.Results

func (r *Results) inner() *session.Results { return (*session.Results)(r) }

// Get returns the output with this name. It is nil if there is no such output, if the output is an optional without a
// value, or if it is a sequence. The tensor is invalid after Close.
func (r *Results) Get(name string) *Tensor { return (*Tensor)(r.inner().Get(name)) }

// At returns the i-th output; nil if Get would return nil for its name. The tensor is invalid after Close.
func (r *Results) At(i int) *Tensor { return (*Tensor)(r.inner().At(i)) }

// All iterates over the outputs by name, in the model's order: nil for an optional without a value, and the tensors of
// a sequence one after another. The tensors are invalid after Close.
func (r *Results) All() iter.Seq2[string, *Tensor] {
	return func(yield func(string, *Tensor) bool) {
		for i, name := range r.inner().Names() {
			for _, t := range r.inner().List(i) {
				if !yield(name, (*Tensor)(t)) {
					return
				}
			}
		}
	}
}

// Sequence returns the tensors of the sequence with this name. It is nil if there is no such sequence, or if it is an
// optional without a value; an empty sequence is not nil. The tensors are invalid after Close.
func (r *Results) Sequence(name string) []*Tensor {
	list := r.inner().Sequence(name)
	if list == nil {
		return nil
	}
	return each(list, func(t *session.Tensor) *Tensor { return (*Tensor)(t) })
}

// Detach makes the outputs independent of their run: each gets memory of its own, which its Close releases, and the
// program gets its call back. Most outputs keep their memory; an output inside another output's memory is copied.
// Tensors from earlier calls of Get, At and Sequence are invalid: get them again. A state stays with its owner. If
// memory is refused, or someone reads or consumes an output at the same time, Detach returns an error and changes
// nothing. The outputs' bytes are then outside the program's certificate, until they are closed.
func (r *Results) Detach() error { return r.inner().Detach() }

// Close releases the run's memory for the next run. It does not wait for a run that consumes an output, nor for a copy
// that reads one: their memory is released when they end. Closing twice is allowed.
func (r *Results) Close() error { return r.inner().Close() }
