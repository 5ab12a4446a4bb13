package batch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
)

// room is the number of rows that may still be in flight. Requests get room in the order in which they ask for it.
type room struct {
	mu     sync.Mutex
	left   int
	most   int // the rows that may be in flight
	line   []*waiter
	closed bool
	waits  int64         // requests that waited for room, those that still wait too
	waited time.Duration // the sum of the waits that have ended
}

// waiter is a request that waits for room. Its channel receives nil when it has room, or an error if the room is
// closed.
type waiter struct {
	rows  int
	since time.Time
	ready chan error
}

// take waits for room for a number of rows. It returns ErrClosed if the room is closed, or ctx's error if ctx ends
// first.
func (r *room) take(ctx context.Context, rows int) error {
	r.mu.Lock()
	switch {
	case r.closed:
		r.mu.Unlock()
		return errClosed()
	case len(r.line) == 0 && rows <= r.left:
		r.left -= rows
		r.mu.Unlock()
		return nil
	}
	w := &waiter{rows: rows, since: time.Now(), ready: make(chan error, 1)}
	r.waits++
	r.line = append(r.line, w)
	r.mu.Unlock()
	select {
	case err := <-w.ready:
		return err
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := slices.Index(r.line, w); at >= 0 {
		r.line = slices.Delete(r.line, at, at+1)
		r.waited += time.Since(w.since)
	} else if err := <-w.ready; err == nil { // it got room at the same time
		r.left += rows
	}
	r.admit()
	return fmt.Errorf("%w: too many rows wait, run, or are in results that are not closed", ctx.Err())
}

// give returns the room of a number of rows.
func (r *room) give(rows int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left += rows
	r.admit()
}

// admit gives room to the requests that wait for it. The caller holds the lock.
func (r *room) admit() {
	for len(r.line) > 0 && r.line[0].rows <= r.left {
		w := r.line[0]
		r.line = r.line[1:]
		r.left -= w.rows
		r.waited += time.Since(w.since)
		w.ready <- nil
	}
}

// close refuses the requests that wait and all later ones.
func (r *room) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, w := range r.line {
		r.waited += time.Since(w.since)
		w.ready <- errClosed()
	}
	r.line = nil
}

// errClosed returns the error of a closed batcher.
func errClosed() error { return diag.New(weir.ErrClosed, "the batcher is closed") }
