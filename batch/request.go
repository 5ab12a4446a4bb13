package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
)

// request is a caller's rows, from Run to its end.
type request struct {
	ctx    context.Context
	in     []*weir.Tensor // by input of the program
	rows   int
	dims   weir.Dims
	others string // the values of the other dimensions: only requests with equal values are joined
	since  time.Time

	done    chan struct{} // closed once results or err are set
	results *Results
	err     error

	mu    sync.Mutex // also held while the inputs are read, so that Run does not return meanwhile
	state progress
	run   *joint // the joined run that contains the request, or nil
}

// progress is the state of a request.
type progress uint8

const (
	waiting progress = iota
	left             // the caller has left
	made
)

// newRequest checks a caller's inputs as Program.Run does, and returns a request for them.
func (b *Batcher) newRequest(ctx context.Context, in weir.Inputs) (*request, error) {
	r := &request{ctx: ctx, done: make(chan struct{})}
	for _, info := range b.shape.inputs {
		switch a := in[info.Name].(type) {
		case *weir.Tensor:
			r.in = append(r.in, a)
		case nil:
			return nil, diag.Inputf("no value is given").AtTensor(info.Name)
		default:
			return nil, diag.Unsupportedf("an argument that is no tensor to borrow").AtTensor(info.Name).
				WithFix("give a tensor itself")
		}
	}
	if x := r.in[0]; x != nil && len(x.Shape()) > 0 {
		if r.rows = x.Shape()[0]; r.rows == 0 || r.rows > b.rows {
			return nil, &RowsError{Rows: r.rows, Most: b.rows, Dim: b.shape.dim}
		}
	}
	dims, err := b.program.Bind(in)
	if err != nil {
		return nil, err
	}
	r.dims = dims
	names := make([]string, 0, len(dims))
	for name, v := range dims {
		if name != b.shape.dim {
			names = append(names, fmt.Sprintf("%s=%d", name, v))
		}
	}
	slices.Sort(names)
	r.others = strings.Join(names, ",")
	return r, nil
}

// leave waits until nobody reads the inputs and marks the request as left; it returns false if the results are already
// made.
func (r *request) leave() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == made {
		return false
	}
	r.state = left
	if r.run != nil {
		r.run.lost()
	}
	return true
}

// ended returns what Run returns once done is closed. A run of the request alone stops when its context ends, and may
// compare the deadline with the clock before the context does.
func (r *request) ended() (*Results, end, error) {
	switch {
	case r.err == nil:
		return r.results, answered, nil
	case errors.Is(r.err, context.Canceled) || errors.Is(r.err, context.DeadlineExceeded):
		return nil, departed, r.err
	}
	return nil, failed, r.err
}

// joint is a run of several requests. It is cancelled when all of their callers have left.
type joint struct {
	callers atomic.Int64
	cancel  context.CancelFunc
}

// lost counts a caller that has left.
func (j *joint) lost() {
	if j.callers.Add(-1) == 0 {
		j.cancel()
	}
}

// enqueue appends a request to the queue and wakes a worker. It returns ErrClosed if the batcher is closing.
func (b *Batcher) enqueue(r *request) error {
	b.mu.Lock()
	if b.closing {
		b.mu.Unlock()
		return errClosed()
	}
	r.since = time.Now()
	b.queue = append(b.queue, r)
	b.mu.Unlock()
	b.signal()
	return nil
}

// withdraw removes a request from the queue; it returns false if the request is no longer there.
func (b *Batcher) withdraw(r *request) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.Index(b.queue, r)
	if at >= 0 {
		b.queue = slices.Delete(b.queue, at, at+1)
	}
	return at >= 0
}

// signal makes the worker that has the turn look at the queue again.
func (b *Batcher) signal() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// next takes the requests of the next run out of the queue. If no run can begin yet, wait is the time until one can, or
// 0 if that depends on further requests. ended reports that there will be no further runs.
func (b *Batcher) next() (run []*request, wait time.Duration, ended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		return nil, 0, b.closing
	}
	seen, now := map[string]bool{}, time.Now()
	for i, first := range b.queue {
		if seen[first.others] {
			continue
		}
		seen[first.others] = true
		rows, full := 0, false
		run = run[:0]
		for _, r := range b.queue[i:] {
			switch {
			case r.others != first.others:
			case rows+r.rows > b.rows:
				full = true
			default:
				run, rows = append(run, r), rows+r.rows
			}
		}
		age := now.Sub(first.since)
		if full || rows == b.rows || b.closing || age >= b.wait {
			b.queue = slices.DeleteFunc(b.queue, func(r *request) bool { return slices.Contains(run, r) })
			for _, r := range run {
				b.counts.queued.add(int64(now.Sub(r.since)), shortest)
			}
			return run, 0, false
		}
		if wait == 0 || b.wait-age < wait {
			wait = b.wait - age
		}
	}
	return nil, wait, false
}

// serve is a worker. One worker at a time waits for the next run; all workers run concurrently.
func (b *Batcher) serve() error {
	for {
		<-b.turn
		run, ended := b.await()
		b.turn <- struct{}{}
		if ended {
			return nil
		}
		b.execute(run)
	}
}

// await waits for the next run. ended reports that there will be none.
func (b *Batcher) await() (run []*request, ended bool) {
	for {
		run, wait, ended := b.next()
		if run != nil || ended {
			return run, ended
		}
		if wait == 0 {
			<-b.changed
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-b.changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}
