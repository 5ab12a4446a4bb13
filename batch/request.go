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
	ctx  context.Context
	in   []*weir.Tensor // by input of the program
	rows int
	// rowBytes are the bytes of one row of all inputs, counted at once: a caller may close its tensors at any time.
	rowBytes int
	dims     weir.Dims
	others   string // the values of the other dimensions: only requests with equal values are joined
	since    time.Time
	full     bool // of a run's first request: all calls were in use when the run began

	use     func(weir.Outputs) error // gets the results once; nil: they are copied for the caller
	lent    bool                     // use has had them: the request was run alone
	used    chan struct{}            // closed once use has returned, if a joined run lends the results to it
	alone   chan struct{}            // has an entry once the caller may run the request by itself
	done    chan struct{}            // closed once results or err are set
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
func (b *Batcher) newRequest(ctx context.Context, in weir.Inputs, use func(weir.Outputs) error) (*request, error) {
	r := &request{ctx: ctx, use: use, used: make(chan struct{}), alone: make(chan struct{}, 1), done: make(chan struct{})}
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
	for _, x := range r.in {
		r.rowBytes += x.Len() / max(1, r.rows) * x.DType().Size()
	}
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
	if r.use != nil && !r.lent && r.err == nil {
		r.err = r.lend()
	}
	switch {
	case r.err == nil:
		return r.results, answered, nil
	case errors.Is(r.err, context.Canceled) || errors.Is(r.err, context.DeadlineExceeded):
		return nil, departed, r.err
	}
	return nil, failed, r.err
}

// lend passes the results of a joined run to the caller's function.
func (r *request) lend() error {
	defer close(r.used)
	defer r.results.Close()
	return r.use(r.results)
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

// enqueue appends a request to the queue and begins the runs that can begin. It returns ErrClosed if the batcher is
// closing.
func (b *Batcher) enqueue(r *request) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closing {
		return errClosed()
	}
	r.since = time.Now()
	b.queue = append(b.queue, r)
	b.begun.Add(1)
	b.begin()
	return nil
}

// withdraw removes a request that is in no run, or that its caller was about to run by itself; it returns false if the
// request is in a joined run.
func (b *Batcher) withdraw(r *request) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.Index(b.queue, r)
	if at >= 0 {
		b.queue = slices.Delete(b.queue, at, at+1)
		b.begun.Done()
		return true
	}
	select {
	case <-r.alone:
		b.finish(1)
		return true
	default:
		return false
	}
}

// begin begins the runs for which calls are free: a request's caller runs it by itself, and joined requests get a
// goroutine. The batcher is locked.
func (b *Batcher) begin() {
	for b.free > 0 {
		run := b.next()
		if run == nil {
			return
		}
		b.free--
		run[0].full = b.free == 0
		if len(run) == 1 {
			run[0].alone <- struct{}{}
			continue
		}
		diag.Go("a batch", func() error { b.execute(run); return nil }, func(err error) { b.failRun(run, err) })
	}
}

// finish gives back the call of a run of so many requests, which have ended. The batcher is locked.
func (b *Batcher) finish(requests int) {
	b.free++
	b.begin()
	b.begun.Add(-requests)
}

// next takes the requests of the next run out of the queue, nil if no run can begin yet. The batcher is locked.
func (b *Batcher) next() (run []*request) {
	if len(b.queue) == 0 {
		return nil
	}
	seen, now := map[string]bool{}, time.Now()
	for i, first := range b.queue {
		if seen[first.others] {
			continue
		}
		seen[first.others] = true
		rows, full, most := 0, false, b.mostRows(first)
		run = nil
		for _, r := range b.queue[i:] {
			switch {
			case r.others != first.others:
			case len(run) > 0 && rows+r.rows > most:
				full = true
			default:
				run, rows = append(run, r), rows+r.rows
			}
		}
		if full || rows >= most || b.closing || now.Sub(first.since) >= b.wait {
			b.queue = slices.DeleteFunc(b.queue, func(r *request) bool { return slices.Contains(run, r) })
			for _, r := range run {
				b.counts.queued.add(int64(now.Sub(r.since)), shortest)
			}
			return run
		}
	}
	return nil
}
