// Package batch joins the requests of many goroutines into runs of one program: a micro-batcher, for services whose
// model computes many rows in hardly more time than one.
//
// A Batcher is for a program whose inputs and outputs all have one named dimension first, and whose rows do not depend
// on each other. It joins requests along that dimension, up to so many rows, or until the first of them has waited for
// so long, runs them as one, and gives each its own rows of the outputs.
//
// What the batcher takes is certified as the program is: see Batcher.Memory.
package batch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
)

// Options of a batcher. The zero value works: a run has as many rows as the program's dimension may have, and a request
// waits for others only while all of the program's calls are taken.
type Options struct {
	// Rows is the most rows that are run at once; 0: the upper bound of the dimension (weir.Options.Dims), which the
	// certificate reckons with in any case.
	Rows int
	// Wait is how long a request waits, at most, for others to fill its run, while a call is free.
	Wait time.Duration
	// InFlight is the most rows that may wait, run, or be in results that are not closed; further requests wait outside.
	// 0: four times the rows of all calls together. It is at least Rows.
	InFlight int
}

// Batcher joins requests. Any goroutine may use it.
type Batcher struct {
	program *weir.Program
	shape   *shape
	rows    int
	wait    time.Duration
	calls   int
	room    room
	memory  Memory
	limit   int64
	blocked error // why limit is not known

	mu      sync.Mutex
	queue   []*request // in the order in which they came
	closing bool
	changed chan struct{} // has an entry after queue or closing has changed
	turn    chan struct{} // whoever has its entry looks for the next run
	workers diag.Group
	ended   chan struct{} // closed once the workers have ended
	failed  error         // of them
}

// RowsError says that a request has more rows than one run may have, or none. It is a weir.ErrInput.
type RowsError struct {
	Rows, Most int
	Dim        string // the program's name for the rows
}

// Error says what is wrong and what would be right.
func (e *RowsError) Error() string {
	if e.Rows == 0 {
		return fmt.Sprintf("dimension %s: the request has no rows", e.Dim)
	}
	return fmt.Sprintf("dimension %s: the request has %d rows, a run has at most %d; divide the request, or compile the "+
		"program for more",
		e.Dim, e.Rows, e.Most)
}

// Unwrap returns weir.ErrInput.
func (e *RowsError) Unwrap() error { return weir.ErrInput }

// New returns a batcher for a program, which must stay open until the batcher is closed. It uses all of the program's
// calls (weir.Options.Calls). A program whose rows cannot be joined, or whose sizes have no upper bounds, is ErrInput
// or ErrUnsupported.
func New(p *weir.Program, o Options) (*Batcher, error) {
	if o.Rows < 0 || o.Wait < 0 || o.InFlight < 0 {
		return nil, diag.Inputf("%d rows, a wait of %v and %d rows in flight: none of them is negative", o.Rows, o.Wait,
			o.InFlight)
	}
	s, err := shapeOf(p)
	if err != nil {
		return nil, err
	}
	b := &Batcher{program: p, shape: s, rows: o.Rows, wait: o.Wait, calls: p.Stats().Calls,
		changed: make(chan struct{}, 1), turn: make(chan struct{}, 1), ended: make(chan struct{})}
	if b.rows == 0 {
		b.rows = s.most
	}
	if b.rows > s.most {
		return nil, diag.Inputf("%d rows, and the program takes at most %d", b.rows, s.most).AtDim(s.dim).
			WithFix("compile it with Options.Dims{%q: …}", s.dim)
	}
	if b.room.left = o.InFlight; b.room.left == 0 {
		b.room.left = 4 * b.rows * b.calls
	}
	if b.room.left < b.rows {
		return nil, diag.Inputf("%d rows in flight are fewer than the %d of one run", b.room.left, b.rows)
	}
	if err := b.certify(); err != nil {
		return nil, err
	}
	for range b.calls {
		b.workers.Go("a batcher", b.serve)
	}
	diag.Go("closing a batcher", b.workers.Wait, func(err error) {
		b.failed = err
		close(b.ended)
	})
	b.turn <- struct{}{}
	return b, nil
}

// Run runs the program on a request's rows, with those of other requests, and returns its own rows of the outputs. The
// inputs are tensors, which it borrows until it returns: their first axis is the rows. When ctx ends it returns, and
// the others of its run go on.
//
// A request that is at fault gets an error of its own, and its neighbours their results: they are run again without it.
func (b *Batcher) Run(ctx context.Context, in weir.Inputs) (*Results, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r, err := b.newRequest(ctx, in)
	if err != nil {
		return nil, err
	}
	if err := b.room.take(ctx, r.rows); err != nil {
		return nil, err
	}
	if err := b.enqueue(r); err != nil {
		b.room.give(r.rows)
		return nil, err
	}
	select {
	case <-r.done:
		return r.results, r.err
	case <-ctx.Done():
	}
	switch {
	case b.withdraw(r): // it is in no run
		b.room.give(r.rows)
		return nil, ctx.Err()
	case r.leave():
		return nil, ctx.Err()
	}
	<-r.done // its results were made at the same time
	return r.results, r.err
}

// Close has Run refuse further requests with weir.ErrClosed, runs those that wait, and returns when they have their
// results. The program stays open, and results that were not closed stay theirs. Closing twice is fine.
func (b *Batcher) Close() error {
	b.mu.Lock()
	b.closing = true
	b.mu.Unlock()
	b.room.close()
	b.signal()
	<-b.ended
	return b.failed
}

// Results are a request's rows of the outputs, in memory of their own. They take room among the rows in flight until
// they are closed.
type Results struct {
	names   []string
	tensors []*weir.Tensor
	close   func() error
}

// Get returns the output of that name; nil if there is none. It is dead after Close.
func (r *Results) Get(name string) *weir.Tensor {
	for i, n := range r.names {
		if n == name {
			return r.tensors[i]
		}
	}
	return nil
}

// At returns an output by its place among the program's outputs. It is dead after Close.
func (r *Results) At(i int) *weir.Tensor { return r.tensors[i] }

// Close gives the memory back. Closing twice is fine.
func (r *Results) Close() error { return r.close() }
