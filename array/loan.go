package array

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
)

// Loan is an array that one scope lends to another. Until the loan ends, the array cannot be closed or change its
// owner. Close, or closing the borrower, ends the loan.
type Loan struct {
	array *Array
	from  *Scope
	to    *Scope
	under *Loan // the loan through which from has the array; nil: from owns it
	at    site
	ended bool
}

// Lend lends an array to another scope. s must own the array or have it on loan; in the second case the new loan must
// end first. The same array cannot be lent to a scope twice. An earlier error of s does not matter.
//
// If the array cannot be lent, Lend returns nil and the borrower has an error; s has it if the borrower is nil, closed
// or capped.
func (s *Scope) Lend(a *Array, to *Scope) *Loan {
	l, err := s.tryLend(a, to)
	if err == nil {
		return l
	}
	if to.accepts() {
		to.failAt("lend", err)
	} else {
		s.failAt("lend", err)
	}
	return nil
}

// tryLend is Lend with the error.
func (s *Scope) tryLend(a *Array, to *Scope) (*Loan, error) {
	if err := a.unfit(s.trace); err != nil {
		return nil, err
	}
	if to == nil {
		return nil, nowhere(a)
	}
	l, err := a.lend(s, to)
	if err != nil {
		return nil, err
	}
	if err = to.borrow(l); err != nil {
		l.Close()
		return nil, s.unfit(a, err)
	}
	return l, nil
}

// accepts reports whether the scope is open and not capped.
func (s *Scope) accepts() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.shut && !s.capped
}

// nowhere returns the error that an array is given to a scope that is nil.
func nowhere(a *Array) error {
	return diag.Inputf("%v cannot go to a scope that is nil", a).WithFix("open the scope first")
}

// lend records a loan with the array.
func (a *Array) lend(from, to *Scope) (*Loan, error) {
	a.lock.Lock()
	defer a.lock.Unlock()
	owner := a.owner.Load()
	l := &Loan{array: a, from: from, to: to, at: here()}
	for _, other := range a.loans {
		if other.to == from {
			l.under = other
		}
		if other.to == to {
			return nil, diag.Inputf("%v is lent to %v already, at %s", a, to, other.at.line())
		}
	}
	switch {
	case a.closed.Load():
		return nil, a.gone()
	case to == owner:
		return nil, diag.Inputf("%v belongs to %v, and cannot be lent to it", a, to)
	case from != owner && l.under == nil:
		return nil, diag.Inputf("%v belongs to %v, and is not lent to %v", a, owner, from)
	}
	a.loans = append(a.loans, l)
	return l, nil
}

// borrow records a loan with the borrower.
func (s *Scope) borrow(l *Loan) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.shut:
		return s.gone()
	case s.capped:
		return diag.Inputf("%v is capped: nothing is lent to it", s)
	}
	s.borrowed = append(s.borrowed, l)
	return nil
}

// borrowAll lends arrays from their owners to the scope.
func (s *Scope) borrowAll(arrays []*Array) error {
	for _, a := range arrays {
		l, err := a.lend(a.owner.Load(), s)
		if err == nil {
			err = s.borrow(l)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Close ends the loan. If the borrower has lent the array on, Close returns an error: that loan must end first. Closing
// twice is harmless.
func (l *Loan) Close() error {
	if l == nil {
		return nil
	}
	a := l.array
	a.lock.Lock()
	for _, other := range a.loans {
		if other.under == l {
			a.lock.Unlock()
			return diag.Inputf("%v was lent on, %v", a, other).AtFile(here().line()).WithFix("end that loan first")
		}
	}
	ended := l.ended
	l.ended = true
	a.loans = slices.DeleteFunc(a.loans, func(other *Loan) bool { return other == l })
	a.lock.Unlock()
	if ended {
		return nil
	}
	l.to.mu.Lock()
	defer l.to.mu.Unlock()
	l.to.borrowed = slices.DeleteFunc(l.to.borrowed, func(other *Loan) bool { return other == l })
	return nil
}

// String returns the lender, the borrower and the line of the loan.
func (l *Loan) String() string {
	return fmt.Sprintf("to %v by %v at %s", l.to, l.from, l.at.line())
}

// inside reports whether a scope is other, or lies inside it.
func (s *Scope) inside(other *Scope) bool {
	for ; s != nil; s = s.parent {
		if s == other {
			return true
		}
	}
	return false
}

// loansOut returns an error if the scope, or a scope inside it, has lent an array to an open scope outside. done
// reports that the scope is closed already.
func (s *Scope) loansOut(at site) (done bool, err error) {
	s.mu.Lock()
	done = s.shut
	s.mu.Unlock()
	if done {
		return true, nil
	}
	var out []string
	s.each(func(inner *Scope) { out = append(out, inner.lentOutside(s)...) })
	said := ""
	if out != nil {
		said = fmt.Sprintf("at %s: %s", at.line(), strings.Join(out, "; "))
		err = diag.Inputf("%v cannot be closed with loans out: %s", s, strings.Join(out, "; ")).AtFile(at.line()).
			WithFix("close the scopes, or the loans, first; nothing was closed")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = said
	return false, err
}

// each calls f with the scope and all scopes inside it.
func (s *Scope) each(f func(s *Scope)) {
	f(s)
	s.mu.Lock()
	children := slices.Clone(s.children)
	s.mu.Unlock()
	for _, child := range children {
		child.each(f)
	}
}

// lentOutside returns the loans by this scope to scopes outside of another.
func (s *Scope) lentOutside(of *Scope) (out []string) {
	owned, borrowed := s.holds()
	for _, l := range borrowed {
		owned = append(owned, l.array)
	}
	for _, a := range owned {
		a.lock.Lock()
		for _, l := range a.loans {
			if l.from == s && !l.to.inside(of) {
				out = append(out, fmt.Sprintf("%v %v", a, l))
			}
		}
		a.lock.Unlock()
	}
	return out
}

// holds returns copies of the list of arrays that the scope owns, newest first, and of the loans to it. An array's lock
// must be taken before a scope's, so callers use the copies after this function has released the scope's lock.
func (s *Scope) holds() (owned []*Array, borrowed []*Loan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := s.first; a != nil; a = a.next {
		owned = append(owned, a)
	}
	return owned, slices.Clone(s.borrowed)
}

// endInside ends all loans to the scope and to the scopes inside it, none of which has lent an array outside.
func (s *Scope) endInside() {
	s.each(func(inner *Scope) {
		inner.mu.Lock()
		list := slices.Clone(inner.borrowed)
		inner.mu.Unlock()
		for _, l := range slices.Backward(list) {
			l.unwind()
		}
	})
}

// unwind ends the loan, after the loans by which the borrower lent the array on.
func (l *Loan) unwind() {
	l.array.lock.Lock()
	list := slices.Clone(l.array.loans)
	l.array.lock.Unlock()
	for _, other := range slices.Backward(list) {
		if other.under == l {
			other.unwind()
		}
	}
	l.Close()
}

// Return moves arrays to the scope around this one, and returns the first, so that a function may end with return
// s.Return(y). Arrays of the scopes around this one are left as they are. An array that is lent, or that belongs to
// another scope, is an error.
func (s *Scope) Return(arrays ...*Array) *Array {
	for _, a := range arrays {
		switch {
		case s.stopped() || a.dead(s, "return"):
		case s.parent == nil:
			s.failAt("return", diag.Inputf("%v has no scope around it", s).WithFix("Transfer the array to a scope, or Copy it"))
		case a.owner.Load() != s && s.inside(a.owner.Load()):
		default:
			s.move("return", a, s.parent)
		}
	}
	if len(arrays) == 0 {
		return nil
	}
	return arrays[0]
}

// Transfer moves an array that the scope owns to another scope. An array that is lent is an error.
func (s *Scope) Transfer(a *Array, to *Scope) {
	switch {
	case s.stopped() || a.dead(s, "transfer"):
	case to == nil:
		s.failAt("transfer", nowhere(a))
	default:
		s.move("transfer", a, to)
	}
}

// move changes an array's owner, or changes nothing and keeps an error.
func (s *Scope) move(op string, a *Array, to *Scope) {
	if err := s.tryMove(a, to); err != nil {
		s.failAt(op, err)
	}
}

// tryMove changes an array's owner, or changes nothing and returns an error.
func (s *Scope) tryMove(a *Array, to *Scope) error {
	if owner := a.owner.Load(); owner != s {
		return diag.Inputf("%v belongs to %v, not to %v", a, owner, s)
	}
	if to == s || to == nil {
		return nil
	}
	if err := to.room(a.bytes); err != nil {
		return s.unfit(a, err)
	}
	a.lock.Lock()
	defer a.lock.Unlock()
	if len(a.loans) > 0 {
		to.grow(-a.bytes)
		return diag.Inputf("%v is lent %v", a, a.loans[len(a.loans)-1]).WithFix("end the loan first")
	}
	// The owner changes under the array's lock, so that other goroutines never see an array without an owner.
	s.mu.Lock()
	s.drop(a)
	s.mu.Unlock()
	if err := to.own(a); err != nil {
		to.grow(-a.bytes)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.back(a)
		return s.unfit(a, err)
	}
	s.grow(-a.bytes)
	return nil
}

// unfit returns the error that another scope does not accept an array, with the array and this scope, its owner.
func (s *Scope) unfit(a *Array, why error) error {
	e := *diag.As(why, weir.ErrInput)
	e.Detail = fmt.Sprintf("%v of %v: %s", a, s, e.Detail)
	return &e
}

// back restores an array to the list from which drop removed it, even if the scope is capped. If another goroutine has
// closed the scope meanwhile, back frees the array. The caller holds the lock.
func (s *Scope) back(a *Array) {
	capped := s.capped
	s.capped = false
	err := s.take(a)
	if s.capped = capped; err != nil {
		a.free(s.closed)
		return
	}
}
