package array

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
)

// Scope owns arrays, and is where operations on arrays run: its methods. An operation's result belongs to the scope
// that ran it, whoever owns the operands, and lives until the scope is closed. One goroutine uses a scope; other
// goroutines may read its arrays meanwhile.
//
// An operation does not return an error. The scope keeps the first error with the line that caused it; from then on its
// operations do nothing, and Err and Close return that error.
type Scope struct {
	name   string
	place  string // see At
	parent *Scope
	opened site
	trace  *trace // nil: operations run at once
	// quiet: it is closed with its parent, which need not be told. onClose is told where it was closed, by whom holds no
	// lock.
	quiet   bool
	onClose func(at site)

	mu       sync.Mutex
	first    *Array   // of those that the scope owns: a list, the newest first
	children []*Scope // that are open, in the order in which they were opened
	borrowed []*Loan  // to this scope, in the order in which they were lent
	count    int
	bytes    int64
	limit    int64 // of bytes, with what sub-scopes hold; 0: none
	capped   bool
	err      error
	shut     bool
	closed   site   // where, if shut
	refused  string // what Close said last, if loans kept the scope from closing
}

// Option is a setting of NewScope. It says nothing of a scope that is open already.
type Option struct{ set func(s *Scope) }

// In opens the scope inside of another, which must be open: Close of the parent comes after Close of this one.
func In(parent *Scope) Option { return Option{func(s *Scope) { s.parent = parent }} }

// Limit is the most bytes that the scope's arrays, and those of scopes inside of it, may take together. An operation
// whose result would take more is refused: an ErrMemory.
func Limit(bytes int64) Option { return Option{func(s *Scope) { s.limit = bytes }} }

// NewScope opens a scope. Names are for people: errors and dumps have them. If the parent that In gives is closed, that
// is the new scope's error.
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

// adopt notes a sub-scope; it reports false if the scope is closed.
func (s *Scope) adopt(child *Scope) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut {
		return false
	}
	s.children = append(s.children, child)
	return true
}

// Name is what NewScope was given.
func (s *Scope) Name() string { return s.name }

// String is the name and the line that opened the scope.
func (s *Scope) String() string { return fmt.Sprintf("scope %q (%s)", s.name, s.opened.line()) }

// Cap ends the scope's growth: from here on no array comes to belong to it, nor is lent to it. Scopes inside of it may
// still be opened, and arrays that it lent come back.
func (s *Scope) Cap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capped = true
}

// Err returns the first error of the scope; nil if all went well so far.
func (s *Scope) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// fail keeps an error, if it is the first.
func (s *Scope) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

// failAt keeps an error of an operation, with the line outside of this module that asked for it.
func (s *Scope) failAt(op string, err error) {
	e := diag.As(err, weir.ErrInput)
	if e.File == "" {
		e = e.AtFile(here().line())
	}
	placed := *e.AtNode("", op)
	if placed.Node == "" {
		placed.Node = s.place
	}
	s.fail(&placed)
}

// Fail keeps an error of what computes with the scope, as those of operations are kept.
func (s *Scope) Fail(err error) {
	s.failAt("", err)
}

// At says where in a larger computation the operations that follow stand, as a layer of a network: errors name it. It
// returns the place before; "" is none.
func (s *Scope) At(place string) (before string) {
	before, s.place = s.place, place
	return before
}

// Dead is an array without elements: what an operation that failed returns.
func (s *Scope) Dead() *Array { return s.none(1)[0] }

// failed reports whether the scope has an error, or is closed: that is its error then.
func (s *Scope) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && s.shut {
		s.err = s.gone()
	}
	return s.err != nil
}

// gone is the error of a use of the closed scope. Nobody changes opened and closed any more.
func (s *Scope) gone() *weir.Error {
	return diag.New(weir.ErrClosed, "%v was closed at %s", s, s.closed.line()).AtFile(here().line())
}

// Close closes the scopes inside that are still open, the newest first, and gives back every byte of the arrays that
// the scope owns. It returns the scope's first error, joined with those of closing: a scope inside that was still open
// is one, since whoever uses it finds it closed. Arrays of the scope, or of one inside, that are lent to a scope
// outside, which is still open, keep the scope from closing: then nothing is closed, the error lists the loans, and so
// does Dump until Close succeeds. Closing twice is fine.
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

// finish closes the scope and those inside, of which none lent anything outside.
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
	errs[0] = s.release(at)
	s.leave()
	return errors.Join(errs...)
}

// newest returns the scope inside that was opened last and is open.
func (s *Scope) newest() *Scope {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.children); n > 0 {
		return s.children[n-1]
	}
	return nil
}

// release closes the arrays, and returns the first error of the scope.
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

// leave takes the scope out of its parent's list, or out of the roots.
func (s *Scope) leave() {
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

// own makes an array the scope's. It reports false, and keeps why, if the scope takes no arrays any more.
func (s *Scope) own(a *Array) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.take(a)
}

// take is own, for who holds the lock.
func (s *Scope) take(a *Array) error {
	switch {
	case s.shut:
		return s.gone()
	case s.capped:
		return diag.Inputf("%v is capped: no array comes to belong to it", s).WithFix("compute in a scope inside of it")
	}
	a.owner.Store(s)
	a.prev, a.next = nil, s.first
	if s.first != nil {
		s.first.prev = a
	}
	s.first = a
	s.count++
	s.bytes += a.bytes
	return nil
}

// drop takes an array out of the list, for who holds the lock.
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

// held counts the bytes of scopes that have a limit, and of those inside of them.
var held = struct {
	sync.Mutex
	bytes map[*Scope]int64
}{bytes: map[*Scope]int64{}}

// limited returns the nearest scope with a limit, this one or one around it; nil if there is none.
func (s *Scope) limited() *Scope {
	for ; s != nil && s.limit == 0; s = s.parent {
	}
	return s
}

// room takes bytes of every limit that holds for the scope, or none of them and an error.
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

// grow changes what is counted against limits; it never refuses.
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
