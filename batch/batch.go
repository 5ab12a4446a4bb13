// Package batch joins the requests of many goroutines into runs of one program: a micro-batcher, for services whose
// model computes many rows in hardly more time than one.
//
// A Batcher is for a program whose inputs and outputs all have the same named dimension as their first axis, and whose
// rows do not depend on each other: Batcher.Proved proves it of most models. It joins requests along that dimension
// until the run has Options.Rows rows or the first request has waited for Options.Wait, runs them as one, and gives
// each request its own rows of the outputs.
//
// The batcher's memory is certified as the program's is: see Batcher.Memory.
package batch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
)

// Options are a batcher's settings. The zero value works: a run has as many rows as the program's dimension may have,
// and a request waits for others only while all of the program's calls are in use.
type Options struct {
	// Rows is the maximum number of rows in a run. 0 stands for the upper bound of the dimension (weir.Options.Dims),
	// which the certificate assumes in any case.
	Rows int
	// Measured limits a run to fewer rows if the times of earlier runs say that more rows together are no faster than
	// apart: such a run would only take more memory, and keep its requests for longer.
	Measured bool
	// Wait is the longest time that a request waits for others to fill its run while a call is free.
	Wait time.Duration
	// InFlight is the maximum number of rows that wait, run, or are in results that are not closed; Run blocks further
	// requests. It is at least Rows; 0 stands for four times the rows of all calls together.
	InFlight int
	// Account, if not nil, is asked for the joined inputs and the results of each run before it begins, in full pages, and
	// gets them back when they are closed. The program asks an account of its own, weir.Options.Account. If a joined run
	// is refused, each of its requests is run by itself. With an account the program's dimensions need no upper bounds.
	Account weir.Account
}

// Batcher joins requests. Any goroutine may use it.
type Batcher struct {
	program *weir.Program
	shape   *shape
	rows    int
	wait    time.Duration
	calls   int
	room    room
	account weir.Account // nil: none
	memory  Memory
	limit   int64
	blocked error // the reason if limit is not known
	counts  counts

	mu      sync.Mutex
	queue   []*request // in the order in which they came
	free    int        // calls that no run uses
	paces   *paces     // nil unless Options.Measured
	closing bool
	failed  error          // the first bug of a joined run
	begun   sync.WaitGroup // the requests that have been in the queue, until they end
}

// RowsError reports a request that has no rows, or more rows than a run may have. It is a weir.ErrInput.
type RowsError struct {
	Rows, Most int
	Dim        string // the program's name for the rows
}

// Error returns the number of rows, the limit and a fix.
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

// New returns a batcher for a program, which must stay open until the batcher is closed. The batcher uses all of the
// program's calls (weir.Options.Calls). New returns ErrInput or ErrUnsupported if the program's rows cannot be joined
// or, without Options.Account, its sizes have no upper bounds.
func New(p *weir.Program, o Options) (*Batcher, error) {
	if o.Rows < 0 || o.Wait < 0 || o.InFlight < 0 {
		return nil, diag.Inputf("%d rows, a wait of %v and %d rows in flight: none of them is negative", o.Rows, o.Wait,
			o.InFlight)
	}
	s, err := shapeOf(p, o.Account != nil)
	if err != nil {
		return nil, err
	}
	b := &Batcher{program: p, shape: s, rows: o.Rows, wait: o.Wait, calls: p.Stats().Calls, account: o.Account}
	b.free = b.calls
	if o.Measured {
		b.paces = &paces{}
	}
	if b.rows == 0 && s.unbounded != nil {
		return nil, diag.Inputf("a run has as many rows as there are: the program's dimension %s has no upper bound", s.dim).
			WithFix("set Options.Rows")
	}
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
	if b.room.most = b.room.left; b.room.left < b.rows {
		return nil, diag.Inputf("%d rows in flight are fewer than the %d of one run", b.room.left, b.rows)
	}
	if err := b.certify(); err != nil {
		return nil, err
	}
	return b, nil
}

// Proved returns nil if it is proved that the program's rows do not depend on each other; otherwise the reason why it
// is not, as weir.Program.Rows does. A batcher joins rows in any case: its user may know more.
func (b *Batcher) Proved() error { return b.program.Rows(b.shape.dim) }

// Run runs the program on a request's rows, together with the rows of other requests, and returns the request's own
// rows of the outputs. The inputs are tensors whose first axis is the rows; Run borrows them until it returns. If ctx
// ends, Run returns and the other requests of its run go on.
//
// If a joined run fails, each of its requests is run again by itself: a request at fault gets its own error, and the
// others get their results.
func (b *Batcher) Run(ctx context.Context, in weir.Inputs) (*Results, error) {
	return b.counted(ctx, in, nil)
}

// RunWith is Run for a caller that reads its results at once: it calls use with them, in the memory of the run itself,
// and returns use's error. The outputs are invalid when use returns; the run's call is in use until then. use may be
// called on another goroutine, while RunWith waits.
func (b *Batcher) RunWith(ctx context.Context, in weir.Inputs, use func(weir.Outputs) error) error {
	_, err := b.counted(ctx, in, use)
	return err
}

// counted runs a request and counts how it ends. use may be nil: then the results are copied, and returned.
func (b *Batcher) counted(ctx context.Context, in weir.Inputs, use func(weir.Outputs) error) (*Results, error) {
	begin := time.Now()
	results, how, err := b.run(ctx, in, use)
	b.counts.ends[how].Add(1)
	if how == answered {
		b.counts.took.add(int64(time.Since(begin)), shortest)
	}
	return results, err
}

// run is counted, and returns how the request ended too.
func (b *Batcher) run(ctx context.Context, in weir.Inputs, use func(weir.Outputs) error) (*Results, end, error) {
	if err := ctx.Err(); err != nil {
		return nil, departed, err
	}
	r, err := b.newRequest(ctx, in, use)
	if err != nil {
		if _, rows := errors.AsType[*RowsError](err); rows {
			return nil, wrongRows, err
		}
		return nil, wrongInput, err
	}
	switch err := b.room.take(ctx, r.rows); {
	case errors.Is(err, weir.ErrClosed):
		return nil, tooLate, err
	case err != nil:
		return nil, noRoom, err
	}
	if err := b.enqueue(r); err != nil {
		b.room.give(r.rows)
		return nil, tooLate, err
	}
	var wait <-chan time.Time
	if b.wait > 0 {
		timer := time.NewTimer(b.wait)
		defer timer.Stop()
		wait = timer.C
	}
	for waiting := true; waiting; {
		select {
		case <-r.alone:
			b.execute([]*request{r})
			return r.ended()
		case <-r.done:
			return r.ended()
		case <-wait:
			b.mu.Lock()
			b.begin()
			b.mu.Unlock()
		case <-ctx.Done():
			waiting = false
		}
	}
	switch {
	case b.withdraw(r): // it is in no run
		b.room.give(r.rows)
		return nil, departed, ctx.Err()
	case r.leave():
		return nil, departed, ctx.Err()
	}
	<-r.done // its results were made at the same time
	return r.ended()
}

// Close makes Run refuse further requests with weir.ErrClosed, runs the requests that wait, and returns when they have
// their results. The program stays open, and results that are not closed stay valid. Closing twice is harmless.
func (b *Batcher) Close() error {
	b.mu.Lock()
	b.closing = true
	b.begin()
	b.mu.Unlock()
	b.room.close()
	b.begun.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}

// Results are a request's rows of the outputs, in memory of their own. They count as rows in flight until they are
// closed.
type Results struct {
	names   []string
	tensors []*weir.Tensor
	close   func() error
}

var _ weir.Outputs = (*Results)(nil)

// Get returns the output with a name, nil if there is none. It is invalid after Close.
func (r *Results) Get(name string) *weir.Tensor {
	if i := slices.Index(r.names, name); i >= 0 {
		return r.tensors[i]
	}
	return nil
}

// At returns the output at an index of the program's outputs. It is invalid after Close.
func (r *Results) At(i int) *weir.Tensor { return r.tensors[i] }

// All iterates over the outputs by name, in the model's order. The tensors are invalid after Close.
func (r *Results) All() iter.Seq2[string, *weir.Tensor] {
	return func(yield func(string, *weir.Tensor) bool) {
		for i, name := range r.names {
			if !yield(name, r.tensors[i]) {
				return
			}
		}
	}
}

// Sequence returns nil: New refuses programs whose outputs are sequences.
func (r *Results) Sequence(string) []*weir.Tensor { return nil }

// Close frees the memory. Closing twice is harmless.
func (r *Results) Close() error { return r.close() }
