package array

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
)

// Array is a tensor that a scope owns: an element type, a shape, and elements in row-major order outside Go's heap. Its
// elements do not change, but by the operations that say so. Several goroutines may read it.
//
// In a function that is traced, an array has no elements: it stands for those that it will have when the compiled
// function runs.
type Array struct {
	dtype  weir.DType
	shape  []int // a named extent is a negative number: see Dim
	bytes  int64
	tensor *weir.Tensor // nil in a trace, and of a number
	lent   bool         // the tensor is somebody else's: see Of
	value  *ir.Value    // in a trace
	of     *trace
	weak   bool // a number: it takes the type of what it is combined with
	number float64
	made   site
	temp   bool // an operation's own: it closes the array when it has run

	owner  atomic.Pointer[Scope]
	closed atomic.Bool
	end    site // where it was closed
	prev   *Array
	next   *Array

	lock    sync.Mutex
	loans   []*Loan
	changed *site // where the elements were changed, the last time
}

// DType is the element type: InvalidDType of nil.
func (a *Array) DType() weir.DType {
	if a == nil {
		return weir.InvalidDType
	}
	return a.dtype
}

// Shape is the extents. A named extent, of an array in a trace, is a negative number that stands for it: operations
// that take extents, such as Reshape and Zeros, take it as it is. Arithmetic with it is refused there.
func (a *Array) Shape() []int { return slices.Clone(a.extents()) }

// extents are the shape, not a copy; none of nil, so that who is given nil by a caller can say so instead of failing.
func (a *Array) extents() []int {
	if a == nil {
		return nil
	}
	return a.shape
}

// Dim is the extent of an axis, as Shape has it; a negative axis counts from the last. It is 0 for an axis that the
// array does not have.
func (a *Array) Dim(axis int) int {
	shape := a.extents()
	if axis < 0 {
		axis += len(shape)
	}
	if axis < 0 || axis >= len(shape) {
		return 0
	}
	return shape[axis]
}

// Rank is the number of axes.
func (a *Array) Rank() int { return len(a.extents()) }

// Len is the number of elements; −1 if an extent is named, 0 of nil.
func (a *Array) Len() int {
	if a == nil {
		return 0
	}
	n := 1
	for _, e := range a.shape {
		if e < 0 {
			return -1
		}
		n *= e
	}
	return n
}

// Scope is the scope that owns the array; nil of nil.
func (a *Array) Scope() *Scope {
	if a == nil {
		return nil
	}
	return a.owner.Load()
}

// String is like "f32[64,784]".
func (a *Array) String() string {
	if a == nil {
		return "no array"
	}
	list := make([]string, len(a.shape))
	for i, e := range a.shape {
		list[i] = fmt.Sprint(e)
		if e < 0 && a.of != nil {
			list[i] = a.of.extent(e)
		}
	}
	return fmt.Sprintf("%v[%s]", a.dtype, strings.Join(list, ","))
}

// Tensor is the array's elements as a weir.Tensor: it shares their storage, and is dead once the array is closed. It is
// nil for an array without elements: one in a trace, or one that is closed.
func (a *Array) Tensor() *weir.Tensor {
	if a == nil || a.closed.Load() {
		return nil
	}
	return a.tensor
}

// Close gives the array's memory back before its scope is closed. An array that is lent is not closed: that is an error
// which lists the loans. Closing twice is fine.
func (a *Array) Close() error {
	if a == nil || a.closed.Load() {
		return nil
	}
	var frames [1]uintptr
	at := among(frames[:runtime.Callers(2, frames[:])])
	a.lock.Lock()
	defer a.lock.Unlock()
	if len(a.loans) > 0 {
		return diag.Inputf("%v is lent %v", a, a.loans[len(a.loans)-1]).AtFile(at.line()).WithFix("end the loan first")
	}
	s := a.owner.Load()
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.closed.Load() || a.prev == nil && s.first != a { // or the scope does not have it: the operation failed
		return nil
	}
	s.drop(a)
	s.grow(-a.bytes)
	return a.free(at)
}

// Detach takes the array out of its scope and returns its tensor, which the caller closes. The array is closed from
// then on. An array that is lent, and one whose elements are somebody else's (see Of), cannot be detached.
func (a *Array) Detach() (*weir.Tensor, error) {
	t, err := a.elements()
	if err != nil {
		return nil, err
	}
	at := here()
	a.lock.Lock()
	defer a.lock.Unlock()
	if a.lent {
		return nil, diag.Inputf("the elements of %v are not its own", a).AtFile(at.line()).WithFix("copy them")
	}
	if len(a.loans) > 0 {
		return nil, diag.Inputf("%v is lent %v", a, a.loans[len(a.loans)-1]).AtFile(at.line()).WithFix("end the loan first")
	}
	s := a.owner.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.closed.Swap(true) {
		return nil, a.gone().AtFile(at.line())
	}
	s.drop(a)
	s.grow(-a.bytes)
	a.end = at
	return t, nil
}

// free gives the elements back, for who holds the owner's lock.
func (a *Array) free(at site) error {
	a.end = at
	if a.closed.Swap(true) || a.tensor == nil || a.lent {
		return nil
	}
	return a.tensor.Close()
}

// change notes that the elements are changed here.
func (a *Array) change() {
	at := here()
	a.lock.Lock()
	defer a.lock.Unlock()
	a.changed = &at
}

// gone is the error of a use of a closed array: it names where it was made and where it was closed.
func (a *Array) gone() *weir.Error {
	return diag.New(weir.ErrClosed, "%v, made at %s, was closed at %s", a, a.made.line(), a.end.line())
}

// dead reports whether an array cannot be used in an operation of a scope, which gets an error then: it is nil, or
// closed.
func (a *Array) dead(s *Scope, op string) bool {
	switch {
	case a == nil:
		s.failAt(op, diag.Inputf("an array is nil"))
	case a.closed.Load():
		s.failAt(op, a.gone())
	case a.of != nil && a.of != s.trace:
		s.failAt(op, diag.Inputf("%v belongs to another trace", a).
			WithFix("give it to the function, or return it from there"))
	case a.tensor == nil && a.value == nil && !a.weak:
		_, err := a.elements()
		s.failAt(op, err)
	default:
		return false
	}
	return true
}

// Copy returns the elements in Go's own memory. T must be the element type's.
func Copy[T weir.Element](a *Array) ([]T, error) {
	t, err := a.elements()
	if err != nil {
		return nil, err
	}
	return weir.Copy[T](t)
}

// View returns the elements themselves, without a copy; they are dead once the array is closed. T must be the element
// type's. Who writes them has to know that nobody reads the array.
func View[T weir.Element](a *Array) ([]T, error) {
	t, err := a.elements()
	if err != nil {
		return nil, err
	}
	return weir.View[T](t)
}

// Item returns the element of an array that has one.
func Item[T weir.Element](a *Array) (x T, err error) {
	list, err := View[T](a)
	if err == nil && len(list) != 1 {
		err = diag.Inputf("%v has %d elements, not one", a, len(list)).AtFile(here().line())
	}
	if err != nil {
		return x, err
	}
	return list[0], nil
}

// elements returns the tensor of an array that has one.
func (a *Array) elements() (*weir.Tensor, error) {
	switch {
	case a == nil:
		return nil, diag.Inputf("an array is nil").AtFile(here().line())
	case a.closed.Load():
		return nil, a.gone().AtFile(here().line())
	case a.tensor != nil:
		return a.tensor, nil
	case a.weak:
		return nil, diag.Inputf("a number takes its type from what it is combined with, and has no elements").
			AtFile(here().line())
	case a.of == nil:
		s := a.owner.Load()
		if s != nil && s.Err() != nil {
			return nil, s.Err()
		}
		return nil, diag.Inputf("the operation that was to compute the array failed").AtFile(here().line())
	}
	return nil, diag.Inputf("%v stands for elements that are computed later, when the function runs", a).
		AtFile(here().line())
}
