package catalogue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/serve/internal/oip"
)

// queueOptions bound a model's queue.
type queueOptions struct {
	most       int           // requests that wait; 0: the default
	priorities int           // the number of priority levels, 1 the most urgent; 0: one level
	usual      int           // the level of requests without one
	timeout    time.Duration // how long a request waits without a timeout of its own; 0: until the client leaves
	own        bool          // a request may have a shorter or longer timeout of its own
}

const defaultQueue = 1024 // requests that wait for a model

// queueOptionsOf reads the queue's part of a configuration.
func queueOptionsOf(d *oip.ModelDynamicBatching) queueOptions {
	p := d.GetDefaultQueuePolicy()
	return queueOptions{most: int(p.GetMaxQueueSize()), priorities: int(min(d.PriorityLevels, 64)),
		usual: int(d.DefaultPriorityLevel), timeout: time.Duration(p.GetDefaultTimeoutMicroseconds()) * time.Microsecond,
		own: p == nil || p.AllowTimeoutOverride}
}

// FullError reports a request that was refused because too many wait. It is a weir.ErrMemory, which a later request may
// not meet.
type FullError struct {
	Model   string
	Waiting int
}

// Error returns the number of requests that wait.
func (e *FullError) Error() string {
	return fmt.Sprintf("model %s: %d requests wait already", e.Model, e.Waiting)
}

// Unwrap returns weir.ErrMemory.
func (e *FullError) Unwrap() error { return weir.ErrMemory }

// queue admits requests to a model: the most urgent first, and among equals one client after the other. A client is a
// connection's address or a token.
type queue struct {
	options queueOptions
	model   string

	mu      sync.Mutex
	atOnce  func() int // the most rows that may be inside
	inside  int        // rows
	waiting int        // requests
	levels  []level
}

// level is the requests of one priority.
type level struct {
	clients []*client // in the order of their turns
}

// client is the requests of one client.
type client struct {
	name     string
	requests []*ticket
}

// ticket is a request that waits.
type ticket struct {
	rows  int
	ready chan struct{}
	given bool
}

// start makes the queue admit a number of rows at a time, which may change.
func (q *queue) start(model string, o queueOptions, atOnce func() int) {
	if o.most == 0 {
		o.most = defaultQueue
	}
	o.priorities = max(1, o.priorities)
	if o.usual < 1 || o.usual > o.priorities {
		o.usual = (o.priorities + 1) / 2
	}
	q.options, q.model, q.atOnce, q.levels = o, model, atOnce, make([]level, o.priorities)
}

// Enter waits for a request's turn, until ctx ends. rows is what it adds to joined runs, 1 for models without them. The
// caller calls Done with the same rows afterwards, unless there is an error.
func (v *Version) Enter(ctx context.Context, priority int, from string, rows int) error {
	q := &v.queue
	if priority < 1 || priority > q.options.priorities {
		priority = q.options.usual
	}
	q.mu.Lock()
	if q.waiting == 0 && q.has(rows, q.atOnce()) {
		q.inside += rows
		q.mu.Unlock()
		return nil
	}
	if q.waiting >= q.options.most {
		defer q.mu.Unlock()
		return &FullError{q.model, q.waiting}
	}
	t := &ticket{rows: rows, ready: make(chan struct{})}
	q.waiting++
	q.levels[priority-1].add(from, t)
	q.mu.Unlock()
	select {
	case <-t.ready:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.given { // at the same time
		q.inside -= rows
		q.next()
		return context.Cause(ctx)
	}
	q.levels[priority-1].remove(from, t)
	q.waiting--
	return context.Cause(ctx)
}

// Done ends a request that Enter admitted.
func (v *Version) Done(rows int) {
	q := &v.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inside -= rows
	q.next()
}

// has reports whether a request may enter, under the lock.
func (q *queue) has(rows, most int) bool { return q.inside == 0 || q.inside+rows <= most }

// Waiting returns the number of requests that wait for the version.
func (v *Version) Waiting() int {
	v.queue.mu.Lock()
	defer v.queue.mu.Unlock()
	waiting := v.queue.waiting
	if v.Sequences != nil {
		waiting += v.Sequences.Stats().Waiting
	}
	return waiting
}

// Timeout returns how long a request waits at most, 0 for as long as its client does. own is the request's own timeout,
// 0 if it has none.
func (v *Version) Timeout(own time.Duration) time.Duration {
	o := v.queue.options
	if own > 0 && (o.own || o.timeout == 0) {
		return own
	}
	return o.timeout
}

// next admits requests that wait, under the lock.
func (q *queue) next() {
	if q.waiting == 0 {
		return
	}
	most := q.atOnce()
	for i := range q.levels {
		for {
			t := q.levels[i].first()
			if t == nil {
				break
			}
			if !q.has(t.rows, most) {
				return // no other one overtakes it
			}
			q.levels[i].take()
			t.given = true
			q.waiting--
			q.inside += t.rows
			close(t.ready)
		}
	}
}

// add puts a request at the end of its client's.
func (l *level) add(from string, t *ticket) {
	for _, c := range l.clients {
		if c.name == from {
			c.requests = append(c.requests, t)
			return
		}
	}
	l.clients = append(l.clients, &client{name: from, requests: []*ticket{t}})
}

// first returns the next request, nil if there is none.
func (l *level) first() *ticket {
	if len(l.clients) == 0 {
		return nil
	}
	return l.clients[0].requests[0]
}

// take removes the next request, and puts its client behind the others.
func (l *level) take() {
	c := l.clients[0]
	c.requests = c.requests[1:]
	l.clients = l.clients[1:]
	if len(c.requests) > 0 {
		l.clients = append(l.clients, c)
	}
}

// remove removes a request.
func (l *level) remove(from string, t *ticket) {
	for i, c := range l.clients {
		if c.name != from {
			continue
		}
		for j := range c.requests {
			if c.requests[j] == t {
				c.requests = append(c.requests[:j], c.requests[j+1:]...)
				break
			}
		}
		if len(c.requests) == 0 {
			l.clients = append(l.clients[:i], l.clients[i+1:]...)
		}
		return
	}
}
