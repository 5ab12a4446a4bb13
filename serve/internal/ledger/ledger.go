// Package ledger divides a server's memory. Everything that the server holds outside Go's heap is taken from one limit
// before it is allocated: a take waits for room, asks for idle memory to be released, or is refused with the numbers.
//
// Memory is of six kinds, and owners wait for it in an order that excludes deadlocks. The memory of a model is held
// until it is unloaded. The owner of a request's body may wait for the memory of its response, the owner of a response
// for that of joined requests, and the owner of these for a call; a call needs nothing else to end. All bodies get at
// most an eighth of what models leave, all responses and all joined requests another each, and a call at most the
// rest, so that every wait for a call ends. The states of sequences are held between requests, so that nobody waits
// for them: they get at most half of the calls' part, and a call gets at most what they leave of it.
package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirml/weir"
)

// Kind is a kind of memory.
type Kind int

// The kinds of memory.
const (
	Model    Kind = iota // weights and code
	Call                 // arenas, outputs and scratch of runs, also of idle ones
	Body                 // requests, also idle buffers for them
	Response             // responses, also idle buffers for them
	Joined               // the inputs and results of joined requests
	Sequence             // the states of sequences; takes of it do not wait
	kinds
)

// String returns the kind's name, for metrics and errors.
func (k Kind) String() string {
	return [...]string{"model", "call", "body", "response", "joined", "sequence"}[k]
}

// Ledger is the list of a server's memory. Any goroutine may use it.
type Ledger struct {
	mu       sync.Mutex
	limit    int64
	held     [kinds]int64
	peak     int64
	accounts map[*Account]bool
	needs    map[*Account]int64 // by a model's account of calls: the bytes of its smallest call
	waiting  [queues][]*waiter  // in the order of arrival
	idle     [kinds][]func()
	refusals int64
	waiters  atomic.Int32 // takes that wait
}

// waiter is a Take that waits.
type waiter struct {
	account *Account
	bytes   int64
	ready   chan struct{} // closed once the bytes are taken, or can never be
	refused error
}

// Refused is the error of a take. It is a weir.ErrMemory.
type Refused struct {
	Kind        Kind
	Account     string // the name of the account
	Need        int64  // the bytes that were asked for
	Limit       int64  // the bytes that this kind may have at most, beside the loaded models
	Held        int64  // the bytes that the ledger holds; of a sequence: that states hold
	Never       bool   // it does not fit even when nothing else runs
	Waited      error  // the context's error, if the take waited
	Reclaimable int64  // of a model: the bytes of the other models
}

// Error returns the numbers.
func (r *Refused) Error() string {
	if r.Never {
		return fmt.Sprintf("%s needs %d bytes for a %s, and at most %d are there beside what models hold", r.Account, r.Need,
			r.Kind, r.Limit)
	}
	return fmt.Sprintf("%s needs %d bytes for a %s; %d of %d bytes are held, and none became free in time: %v", r.Account,
		r.Need, r.Kind, r.Held, r.Limit, r.Waited)
}

// Unwrap returns weir.ErrMemory, and the context's error if the take waited.
func (r *Refused) Unwrap() []error {
	if r.Waited != nil {
		return []error{weir.ErrMemory, r.Waited}
	}
	return []error{weir.ErrMemory}
}

// New returns a ledger with a limit in bytes.
func New(limit int64) *Ledger {
	return &Ledger{limit: limit, accounts: map[*Account]bool{}, needs: map[*Account]int64{}}
}

// Idle registers a function that releases idle memory of a kind, and gives it back to its account. It is called without
// locks, when a take does not fit that its bytes may help.
func (l *Ledger) Idle(kind Kind, release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle[kind] = append(l.idle[kind], release)
}

// atMost returns the most bytes of a kind that one take may get, under the lock.
func (l *Ledger) atMost(kind Kind) int64 {
	if kind == Model {
		return l.most(kind) - l.held[kind]
	}
	return l.most(kind)
}

// never returns the error of a take that does not fit even when nothing else runs, under the lock.
func (l *Ledger) never(a *Account, bytes int64) error {
	l.refusals++
	if states := l.held[Sequence]; a.kind == Call && bytes <= l.most(Call)+states {
		return &Refused{Kind: a.kind, Account: a.name, Need: bytes, Limit: l.limit, Held: l.sum(),
			Waited: fmt.Errorf("sequences hold %d bytes", states)}
	}
	return &Refused{Kind: a.kind, Account: a.name, Need: bytes, Limit: l.atMost(a.kind), Held: l.sum(), Never: true,
		Reclaimable: l.held[Model]}
}

// Settle has idle memory released for takes that wait. Whoever makes memory idle calls it afterwards.
func (l *Ledger) Settle() {
	if l.waiters.Load() == 0 {
		return
	}
	for queue := range l.waiting {
		var before *waiter
		for first := l.first(queue); first != nil && first != before; first = l.first(queue) {
			l.release(first.account.kind, first.bytes)
			before = first
		}
	}
}

// first returns the waiter that a queue serves next, nil if none waits.
func (l *Ledger) first(queue int) *waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting[queue]) == 0 {
		return nil
	}
	return l.waiting[queue][0]
}

// Account is the memory of one owner: a model's weights, its calls, or all bodies. It implements the interface that
// programs take their memory from.
type Account struct {
	ledger *Ledger
	kind   Kind
	name   string
	held   int64
}

// Account returns a new account. It is in lists until it is closed.
func (l *Ledger) Account(kind Kind, name string) *Account {
	a := &Account{ledger: l, kind: kind, name: name}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accounts[a] = true
	return a
}

// Require makes models leave room for a call of so many bytes, the smallest of the account's model, beside bodies. It
// returns a *Refused if they do not.
func (a *Account) Require(bytes int64) error {
	l := a.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.needs[a]
	if l.needs[a] = bytes; l.held[Model] <= l.most(Model) {
		return nil
	}
	held := l.held[Model]
	delete(l.needs, a)
	if before > 0 {
		l.needs[a] = before
	}
	l.refusals++
	return &Refused{Kind: Model, Account: a.name, Need: held + reserveFor(bytes), Limit: l.limit, Held: l.sum(),
		Never:       true,
		Reclaimable: held}
}

// reserveFor returns what models leave so that a call may have so many bytes beside bodies and responses.
func reserveFor(call int64) int64 {
	if call > 1<<60 {
		return 1 << 61
	}
	return call + call/5*3 + 16
}

// Close removes an account that holds nothing, and returns the bytes that it holds.
func (a *Account) Close() (held int64) {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	delete(a.ledger.accounts, a)
	delete(a.ledger.needs, a)
	return a.held
}

// Held returns the bytes that the account holds.
func (a *Account) Held() int64 {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	return a.held
}

// Most returns the bytes that an account of a kind could hold now if no other call ran and no body was held. States of
// sequences stay held, as models do.
func (l *Ledger) Most(kind Kind) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.most(kind)
}

// leastReserve is the least that models leave for requests, in bytes: a slab of buffers for bodies, and one for
// responses.
const leastReserve = 8 * slabBytes

// most is Most, under the lock. For models it is what all of them may hold together.
func (l *Ledger) most(kind Kind) int64 {
	free := l.limit - l.held[Model]
	calls := free - free/8*3 // and the states of sequences
	switch kind {
	case Body, Response, Joined:
		return free / 8
	case Call:
		return calls - l.held[Sequence]
	case Sequence:
		return max(0, min(calls/2, calls-l.smallest()))
	}
	return max(0, l.limit-max(l.limit/8, leastReserve, reserveFor(l.smallest()+l.held[Sequence])))
}

// smallest returns the bytes of the largest of the models' smallest calls, under the lock.
func (l *Ledger) smallest() (bytes int64) {
	for _, call := range l.needs {
		bytes = max(bytes, min(call, 1<<60+1))
	}
	return bytes
}

// fits reports whether bytes of a kind fit now, under the lock.
func (l *Ledger) fits(kind Kind, bytes int64) bool {
	return bytes <= l.free(kind) && bytes <= l.atMost(kind)
}

// free returns the bytes of a kind that can be taken now, under the lock.
func (l *Ledger) free(kind Kind) int64 {
	free := l.limit - l.sum()
	if kind != Call {
		free = min(free, l.most(kind)-l.held[kind])
	}
	return free
}

// Take takes bytes for the account. If they do not fit, it has idle memory released, and then waits until they fit or
// ctx ends. A context that has ended means that it does not wait. The error is a *Refused.
func (a *Account) Take(ctx context.Context, bytes int64) error {
	if bytes <= 0 {
		return nil
	}
	l := a.ledger
	if l.take(a, bytes) {
		return nil
	}
	l.mu.Lock()
	if bytes > l.atMost(a.kind) {
		defer l.mu.Unlock()
		return l.never(a, bytes)
	}
	w := &waiter{account: a, bytes: bytes, ready: make(chan struct{})}
	queue := &l.waiting[queueOf(a.kind)]
	*queue = append(*queue, w)
	l.waiters.Add(1)
	defer l.waiters.Add(-1)
	l.serve()
	l.mu.Unlock()
	l.Settle() // after it waits: memory that becomes idle later is released by whoever makes it so
	select {
	case <-w.ready:
		return w.refused
	case <-ctx.Done():
	}
	return l.leave(w, context.Cause(ctx))
}

// leave ends a take's wait for the cause. The error is nil if it was served at the same time.
func (l *Ledger) leave(w *waiter, cause error) error {
	defer l.Settle() // the next one in the queue may be content with less
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-w.ready:
		return w.refused
	default:
	}
	queue := &l.waiting[queueOf(w.account.kind)]
	*queue = slices.DeleteFunc(*queue, func(other *waiter) bool { return other == w })
	l.refusals++
	l.serve()
	r := &Refused{Kind: w.account.kind, Account: w.account.name, Need: w.bytes, Limit: l.limit, Held: l.sum(),
		Waited: cause}
	if r.Kind == Sequence { // whose share is what was short
		r.Limit, r.Held = l.most(Sequence), l.held[Sequence]
	}
	return r
}

// queues is the number of queues: models wait with calls.
const queues = 5

// queueOf returns the index of the queue for a kind: nobody waits behind an owner who may wait for it.
func queueOf(kind Kind) int { return max(0, int(kind-Call)) }

// take takes bytes if they fit and nobody waits for memory of the kind.
func (l *Ledger) take(a *Account, bytes int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting[queueOf(a.kind)]) > 0 || !l.fits(a.kind, bytes) {
		return false
	}
	l.hold(a, bytes)
	return true
}

// hold adds bytes to an account, under the lock.
func (l *Ledger) hold(a *Account, bytes int64) {
	a.held += bytes
	l.held[a.kind] += bytes
	l.peak = max(l.peak, l.sum())
}

// sum returns the bytes that are held, under the lock.
func (l *Ledger) sum() (all int64) {
	for _, bytes := range l.held {
		all += bytes
	}
	return all
}

// release has idle memory released until bytes fit or nothing is left. Memory of other kinds helps only if the whole
// limit is short, not the kind's own share.
func (l *Ledger) release(kind Kind, bytes int64) {
	for k := range kinds {
		l.mu.Lock()
		missing, idle := bytes > l.free(kind), l.idle[k]
		helps := k == kind || bytes > l.limit-l.sum()
		l.mu.Unlock()
		if !missing {
			return
		}
		for _, release := range idle {
			if helps {
				release()
			}
		}
	}
}

// Give returns bytes of the account.
func (a *Account) Give(bytes int64) {
	if bytes <= 0 {
		return
	}
	l := a.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.held -= bytes; a.held < 0 {
		panic(fmt.Sprintf("account %s gave back %d bytes more than it took", a.name, -a.held))
	}
	l.held[a.kind] -= bytes
	l.serve()
}

// serve gives waiters their bytes in the order of arrival, as far as they fit; those of runs first. It is called under
// the lock.
func (l *Ledger) serve() {
	for i := range l.waiting {
		for len(l.waiting[i]) > 0 {
			w := l.waiting[i][0]
			if l.fits(w.account.kind, w.bytes) {
				l.hold(w.account, w.bytes)
			} else if w.bytes > l.atMost(w.account.kind) { // a model was loaded meanwhile
				w.refused = l.never(w.account, w.bytes)
			} else {
				break
			}
			l.waiting[i] = l.waiting[i][1:]
			close(w.ready)
		}
	}
}

// Row is a line of the ledger.
type Row struct {
	Kind  Kind
	Name  string
	Bytes int64
}

// State is the ledger at an instant.
type State struct {
	Limit, Held, Peak int64
	Waiting           int   // takes that wait
	Refusals          int64 // takes that were refused
	Rows              []Row // the accounts, largest first
}

// State returns the ledger now.
func (l *Ledger) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := State{Limit: l.limit, Held: l.sum(), Peak: l.peak, Waiting: int(l.waiters.Load()),
		Refusals: l.refusals}
	for a := range maps.Keys(l.accounts) {
		s.Rows = append(s.Rows, Row{a.kind, a.name, a.held})
	}
	slices.SortFunc(s.Rows, func(x, y Row) int {
		switch {
		case x.Bytes != y.Bytes:
			return int(min(1, max(-1, y.Bytes-x.Bytes)))
		case x.Kind != y.Kind:
			return int(x.Kind - y.Kind)
		}
		return len(x.Name) - len(y.Name)
	})
	return s
}
