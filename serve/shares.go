package serve

import (
	"context"
	"slices"
	"sync"

	"github.com/weirml/weir/serve/internal/ledger"
)

// shares divides something among clients: the memory for bodies that are being sent, that for responses, or the
// requests in progress. One who sends or reads slowly, on many connections, leaves enough to others: of k clients that
// hold or want some, each gets at most one of k+1 parts, or whatever a single one of its requests needs.
type shares struct {
	whole func() int64 // what there is

	mu       sync.Mutex
	clients  map[string]*sharer
	waiting  int // takes that wait
	refusals int64
}

// sharer is a client that holds something or waits for it.
type sharer struct {
	held    int64
	waiting []*share // in the order of arrival
}

// share is what a request waits for.
type share struct {
	own, amount int64
	ready       chan struct{}
}

// newShares returns shares of something.
func newShares(whole func() int64) *shares {
	return &shares{whole: whole, clients: map[string]*sharer{}}
}

// take waits until a client may hold so much more, of which own is its own request's. If ctx ends before, it returns
// false and what the client holds.
func (s *shares) take(ctx context.Context, from string, own, amount int64) (held int64, ok bool) {
	s.mu.Lock()
	c := s.clients[from]
	if c == nil {
		c = &sharer{}
		s.clients[from] = c
	}
	w := &share{own, amount, nil}
	if len(c.waiting) == 0 && s.fits(c, w) || amount > s.whole() { // which does not get better by waiting
		c.held += amount
		s.mu.Unlock()
		return 0, true
	}
	w.ready = make(chan struct{})
	c.waiting = append(c.waiting, w)
	s.waiting++
	s.mu.Unlock()
	select {
	case <-w.ready:
		return 0, true
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(c.waiting, w)
	if at < 0 { // at the same time
		return 0, true
	}
	c.waiting = slices.Delete(c.waiting, at, at+1)
	s.waiting--
	s.refusals++
	defer s.serve()
	return c.held, false
}

// most returns the most that a client may hold, under the lock.
func (s *shares) most() int64 { return s.whole() / int64(len(s.clients)+1) }

// fits reports whether a client may hold more, under the lock.
func (s *shares) fits(c *sharer, w *share) bool {
	return c.held == w.own || c.held+w.amount <= s.most()
}

// serve gives those that wait what they may hold, under the lock.
func (s *shares) serve() {
	for from, c := range s.clients {
		for len(c.waiting) > 0 && s.fits(c, c.waiting[0]) {
			c.held += c.waiting[0].amount
			close(c.waiting[0].ready)
			c.waiting = c.waiting[1:]
			s.waiting--
		}
		if c.held == 0 && len(c.waiting) == 0 {
			delete(s.clients, from)
		}
	}
}

// give takes something back from a client.
func (s *shares) give(from string, amount int64) {
	if amount == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[from]
	if c.held -= amount; c.held == 0 && len(c.waiting) == 0 {
		delete(s.clients, from)
	}
	if s.waiting > 0 {
		s.serve()
	}
}

// share takes bytes for a request out of its client's share.
func (x *exchange) share(ctx context.Context, of *shares, kind ledger.Kind, own *int64, bytes int64) error {
	size := min(ledger.Size(max(bytes, 1)), mostOutput)
	if held, ok := of.take(ctx, x.from, *own, size); !ok {
		return &ledger.Refused{Kind: kind, Account: "client " + x.from, Need: bytes, Limit: x.server.options.Limit,
			Held: held, Waited: context.Cause(ctx)}
	}
	*own += size
	return nil
}

// add adds the takes that wait, and those that were refused, to a ledger's state.
func (s *shares) add(state *ledger.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state.Waiting += s.waiting
	state.Refusals += s.refusals
}

// state returns the ledger's state with the takes that wait for their clients' shares.
func (s *Server) state() ledger.State {
	state := s.ledger.State()
	s.sending.add(&state)
	s.reading.add(&state)
	s.joining.add(&state)
	return state
}
