package array

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
)

// Scope owns arrays and runs operations on them: its methods. An operation's result belongs to the scope that ran it,
// even if another scope owns the operands, and lives until the scope is closed. Only one goroutine may use a scope at a
// time; other goroutines may read its arrays meanwhile.
//
// Operations do not return errors. The scope keeps the first error, with the line that caused it; after it, operations
// do nothing, and Err and Close return it. An error does not stop a scope that is capped, because many requests share
// it: the operation's result has the error, and later operations and loans work.
//
// An operation that begins while another goroutine is inside one of the same scope is an error that names both lines.
// As with Go's maps, this is found if the two happen to overlap, and not otherwise.
type Scope struct {
	name      string
	component string // see At
	parent    *Scope
	opened    site
	trace     *trace // nil: operations run at once
	// quiet: Close of the parent closes the scope without an error. onClose is called without locks, with the line that
	// closed the scope.
	quiet   bool
	onClose func(at site)

	mu       sync.Mutex
	first    *Array   // the list of arrays that the scope owns, newest first
	children []*Scope // the open scopes inside, in the order in which they were opened
	borrowed []*Loan  // loans to this scope, in the order in which they were lent
	count    int
	bytes    int64
	limit    int64 // of bytes, including the scopes inside; 0: none
	capped   bool
	err      error
	latest   error // if capped: the error of the latest operation that failed
	shut     bool
	closed   site   // if shut: the line that closed the scope
	refused  string // the last error of Close, if loans kept the scope from closing

	made    atomic.Uint64  // the number of arrays that came to belong to the scope
	running atomic.Uintptr // the line of the operation that runs; 0 if none does
}

// Option is a setting of NewScope.
type Option struct{ set func(s *Scope) }

// In opens the scope inside another, which must be open and must be closed after this one.
func In(parent *Scope) Option { return Option{func(s *Scope) { s.parent = parent }} }

// Limit sets the maximum number of bytes that the scope's arrays and those of scopes inside it take together. An
// operation whose result exceeds it is an ErrMemory.
func Limit(bytes int64) Option { return Option{func(s *Scope) { s.limit = bytes }} }

// NewScope opens a scope. The name appears in errors and dumps. If the parent that In gives is closed, the new scope
// has an error.
func NewScope(name string, options ...Option) *Scope {
	var frames [1]uintptr
	s := &Scope{name: name, opened: among(frames[:runtime.Callers(2, frames[:])])}
	for _, option := range options {
		if option.set != nil {
			option.set(s)
		}
	}
	if s.parent == nil {
		roots.add(s)
		return s
	}
	s.trace = s.parent.trace
	if !s.parent.adopt(s) {
		s.fail(s.parent.gone().AtTensor(""))
		s.parent = nil
		roots.add(s)
	}
	return s
}

// adopt adds a scope inside; it returns false if s is closed.
func (s *Scope) adopt(child *Scope) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut {
		return false
	}
	s.children = append(s.children, child)
	return true
}

// Name returns the name given to NewScope.
func (s *Scope) Name() string { return s.name }

// String returns the name and the line that opened the scope.
func (s *Scope) String() string { return fmt.Sprintf("scope %q (%s)", s.name, s.opened.line()) }

// Cap ends the scope's growth: afterwards it accepts no array, neither as owner nor on loan. Scopes inside it may still
// be opened, and arrays that it lent come back.
func (s *Scope) Cap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capped = true
}

// Err returns the scope's first error; nil if there is none.
func (s *Scope) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// fail keeps an error if it is the first.
func (s *Scope) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest = err
	if s.err == nil {
		s.err = err
	}
}

// failAt keeps an operation's error, with the user's line that called the operation.
func (s *Scope) failAt(op string, err error) {
	e := diag.As(err, weir.ErrInput)
	if e.File == "" {
		e = e.AtFile(here().line())
	}
	placed := *e.AtNode("", op)
	if placed.Node == "" {
		placed.Node = s.component
	}
	s.fail(&placed)
}

// Fail reports an error to the scope, for code that computes with it. It is kept as errors of operations are.
func (s *Scope) Fail(err error) {
	s.failAt("", err)
}

// At names the component of a larger computation, as a layer of a network, that the following operations belong to:
// errors contain the name. It returns the previous name; "" is none.
func (s *Scope) At(place string) (before string) {
	before, s.component = s.component, place
	return before
}

// Dead returns an array without elements, like the result of an operation that failed.
func (s *Scope) Dead() *Array { return s.none(1)[0] }

// failed reports whether the scope has an error; being closed is one.
func (s *Scope) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && s.shut {
		s.err = s.gone()
	}
	return s.err != nil
}

// stopped reports whether operations do nothing: the scope is closed, or has an error and is not capped. Operations ask
// this once, at the beginning. Later they look at the errors of their own steps, because another request may have
// failed on a capped scope.
func (s *Scope) stopped() bool {
	if !s.failed() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shut || !s.capped
}

// enter begins an operation on behalf of a line, which leave ends. It returns an error if another goroutine is inside
// one. Operations that call others do not enter themselves.
func (s *Scope) enter(at site) error {
	if s.running.CompareAndSwap(0, max(at[0], 1)) {
		return nil
	}
	other := site{s.running.Load()}
	return diag.Inputf("%v is used by another goroutine at the same time, at %s", s, other.line()).
		WithFix("open a scope for each goroutine, in this one or beside it; all of them may read its arrays")
}

// leave ends an operation.
func (s *Scope) leave() { s.running.Store(0) }

// gone returns the error of a use of the closed scope. opened and closed no longer change, so it needs no lock.
func (s *Scope) gone() *weir.Error {
	return diag.New(weir.ErrClosed, "%v was closed at %s", s, s.closed.line()).AtFile(here().line())
}

// Close frees all arrays that the scope owns, after it closes the scopes inside that are still open, newest first. It
// returns the scope's first error joined with errors of closing; a scope inside that was still open is one, because its
// user will find it closed. If an array of the scope, or of a scope inside, is lent to an open scope outside, Close
// closes nothing and returns an error that lists the loans, which Dump also shows until Close succeeds. Closing twice
// is harmless.
func (s *Scope) Close() error {
	if s == nil {
		return nil
	}
	var frames [1]uintptr
	at := among(frames[:runtime.Callers(2, frames[:])])
	if done, err := s.loansOut(at); done || err != nil {
		return err
	}
	s.endInside()
	return s.finish(at)
}

// finish closes the scope and the scopes inside. None of them has lent an array to a scope outside.
func (s *Scope) finish(at site) error {
	errs := []error{nil}
	for child := s.newest(); child != nil; child = s.newest() {
		if !child.quiet {
			errs = append(errs, diag.New(weir.ErrInput, "%v was still open inside of %v", child, s).AtFile(at.line()).
				WithFix("close it first: defer its Close after opening it"))
		}
		errs = append(errs, child.finish(at))
	}
	if s.onClose != nil {
		s.onClose(at)
	}
	growths.record(s)
	errs[0] = s.release(at)
	s.detach()
	return errors.Join(errs...)
}

// newest returns the open scope inside that was opened last, nil if there is none.
func (s *Scope) newest() *Scope {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.children); n > 0 {
		return s.children[n-1]
	}
	return nil
}

// release closes the arrays, and returns the scope's error and the first error of closing.
func (s *Scope) release(at site) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut, s.closed = true, at
	var failed error
	for a := s.first; a != nil; a = a.next {
		if err := a.free(at); err != nil && failed == nil {
			failed = err
		}
	}
	s.grow(-s.bytes)
	s.first, s.count, s.bytes = nil, 0, 0
	return errors.Join(s.err, failed)
}

// detach removes the scope from its parent's list, or from the roots.
func (s *Scope) detach() {
	if s.parent == nil {
		roots.remove(s)
		return
	}
	s.parent.mu.Lock()
	defer s.parent.mu.Unlock()
	list := s.parent.children
	for i := len(list) - 1; i >= 0; i-- {
		if list[i] == s {
			s.parent.children = append(list[:i], list[i+1:]...)
			return
		}
	}
}

// own makes the scope the owner of an array. It returns an error if the scope is closed or capped.
func (s *Scope) own(a *Array) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.take(a)
}

// take is own for a caller that holds the lock.
func (s *Scope) take(a *Array) error {
	switch {
	case s.shut:
		return s.gone()
	case s.capped:
		return diag.Inputf("%v is capped: no array comes to belong to it", s).WithFix("compute in a scope inside of it")
	}
	a.owner.Store(s)
	a.ordinal = s.made.Add(1)
	a.read.Store(0)
	a.prev, a.next = nil, s.first
	if s.first != nil {
		s.first.prev = a
	}
	s.first = a
	s.count++
	s.bytes += a.bytes
	return nil
}

// drop removes an array from the list. The caller holds the lock.
func (s *Scope) drop(a *Array) {
	if a.prev != nil {
		a.prev.next = a.next
	} else {
		s.first = a.next
	}
	if a.next != nil {
		a.next.prev = a.prev
	}
	a.prev, a.next = nil, nil
	s.count--
	s.bytes -= a.bytes
}

// held counts the bytes of scopes with a limit, including the scopes inside them.
var held = struct {
	sync.Mutex
	bytes map[*Scope]int64
}{bytes: map[*Scope]int64{}}

// limited returns the nearest scope with a limit, s or one around it; nil if there is none.
func (s *Scope) limited() *Scope {
	for ; s != nil && s.limit == 0; s = s.parent {
	}
	return s
}

// room counts bytes against all limits that apply to the scope, or against none and returns an error.
func (s *Scope) room(bytes int64) error {
	top := s.limited()
	if top == nil {
		return nil
	}
	held.Lock()
	defer held.Unlock()
	for l := top; l != nil; l = l.parent.limited() {
		if have := held.bytes[l]; bytes > l.limit-have {
			return diag.New(weir.ErrMemory, "%v may hold %d bytes; it holds %d, and %d more are asked for", l, l.limit, have,
				bytes)
		}
	}
	for l := top; l != nil; l = l.parent.limited() {
		held.bytes[l] += bytes
	}
	return nil
}

// grow changes the bytes that are counted against limits, without a check.
func (s *Scope) grow(bytes int64) {
	top := s.limited()
	if top == nil || bytes == 0 {
		return
	}
	held.Lock()
	defer held.Unlock()
	for l := top; l != nil; l = l.parent.limited() {
		if held.bytes[l] += bytes; held.bytes[l] == 0 {
			delete(held.bytes, l)
		}
	}
}
