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
// elements change only by operations whose documentation says so. Several goroutines may read it.
//
// In a traced function an array has no elements: it represents the elements that it will have when the compiled
// function runs.
type Array struct {
	dtype  weir.DType
	shape  []int // a named extent is a negative number: see Dim
	bytes  int64
	tensor *weir.Tensor // nil in a trace, and for a number
	lent   bool         // the tensor belongs to the caller: see Of
	value  *ir.Value    // in a trace
	of     *trace
	weak   bool // a number: it takes the type of the other operands
	number float64
	made   site
	temp   bool // the operation that reads the array closes it

	owner  atomic.Pointer[Scope]
	closed atomic.Bool
	end    site  // where it was closed
	why    error // of the result of an operation that failed on a capped scope

	ordinal uint64        // the number of the array among those that came to belong to its owner
	read    atomic.Uint64 // the owner's number of arrays when the array was last read; 0: never
	prev    *Array
	next    *Array

	lock    sync.Mutex
	loans   []*Loan
	changed *site // the last line that changed the elements
}

// DType returns the element type: InvalidDType if a is nil.
func (a *Array) DType() weir.DType {
	if a == nil {
		return weir.InvalidDType
	}
	return a.dtype
}

// Shape returns the extents. In a trace, a named extent is a negative number that represents it. Operations that take
// extents, such as Reshape and Zeros, accept this number, but not results of arithmetic with it.
func (a *Array) Shape() []int { return slices.Clone(a.extents()) }

// extents returns the shape without copying it; nil if a is nil, so that operations can report a nil array.
func (a *Array) extents() []int {
	if a == nil {
		return nil
	}
	return a.shape
}

// Dim returns the extent of an axis, as in Shape; a negative axis counts from the last. It is 0 for an axis that the
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

// Rank returns the number of axes.
func (a *Array) Rank() int { return len(a.extents()) }

// Len returns the number of elements; −1 if an extent is named, 0 if a is nil.
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

// Scope returns the scope that owns the array; nil if a is nil.
func (a *Array) Scope() *Scope {
	if a == nil {
		return nil
	}
	return a.owner.Load()
}

// String returns the type and shape, like "f32[64,784]".
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

// Tensor returns the array's elements as a weir.Tensor, which shares their storage and is invalid after the array is
// closed. It is nil for an array without elements: in a trace, or closed.
func (a *Array) Tensor() *weir.Tensor {
	if a == nil || a.closed.Load() {
		return nil
	}
	return a.tensor
}

// Close frees the array's memory before its scope is closed. If the array is lent, Close closes nothing and returns an
// error that names a loan. Closing twice is harmless.
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

// Detach removes the array from its scope and returns its tensor, which the caller must close. The array is then
// closed. An array that is lent, or whose elements belong to a caller (see Of), cannot be detached.
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

// free frees the elements. The caller holds the owner's lock.
func (a *Array) free(at site) error {
	a.end = at
	if a.closed.Swap(true) || a.tensor == nil || a.lent {
		return nil
	}
	return a.tensor.Close()
}

// change records that the caller's line changes the elements.
func (a *Array) change() {
	at := here()
	a.lock.Lock()
	defer a.lock.Unlock()
	a.changed = &at
}

// gone returns the error of a use of a closed array: it names the lines that made and closed it.
func (a *Array) gone() *weir.Error {
	return diag.New(weir.ErrClosed, "%v, made at %s, was closed at %s", a, a.made.line(), a.end.line())
}

// dead reports whether an array cannot be an operand in a scope, and gives the scope the error: the array is nil,
// closed, of another trace, or the result of a failed operation.
func (a *Array) dead(s *Scope, op string) bool {
	err := a.unfit(s.trace)
	if err != nil {
		s.failAt(op, err)
	}
	return err != nil
}

// unfit returns the error that an array cannot be an operand in a trace; t is nil outside of one.
func (a *Array) unfit(t *trace) error {
	switch {
	case a == nil:
		return diag.Inputf("an array is nil")
	case a.closed.Load():
		return a.gone()
	case a.of != nil && a.of != t:
		return diag.Inputf("%v belongs to another trace", a).WithFix("give it to the function, or return it from there")
	case a.tensor == nil && a.value == nil && !a.weak:
		_, err := a.elements()
		return err
	}
	a.touch()
	return nil
}

// touch records that the array is read. The counter of a capped scope, whose arrays many goroutines read, stands still,
// so that they do not write.
func (a *Array) touch() {
	if s := a.owner.Load(); s != nil {
		if n := s.made.Load(); a.read.Load() != n {
			a.read.Store(n)
		}
	}
}

// Copy returns the elements in Go's own memory. T must be the element type's.
func Copy[T weir.Element](a *Array) ([]T, error) {
	t, err := a.elements()
	if err != nil {
		return nil, err
	}
	return weir.Copy[T](t)
}

// View returns the elements without a copy; the slice is invalid after the array is closed. T must be the element
// type's. A caller that writes the elements must make sure that nobody reads the array meanwhile.
func View[T weir.Element](a *Array) ([]T, error) {
	t, err := a.elements()
	if err != nil {
		return nil, err
	}
	return weir.View[T](t)
}

// Item returns the element of an array with one element.
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

// elements returns the array's tensor, or the error why it has none.
func (a *Array) elements() (*weir.Tensor, error) {
	switch {
	case a == nil:
		return nil, diag.Inputf("an array is nil").AtFile(here().line())
	case a.closed.Load():
		return nil, a.gone().AtFile(here().line())
	case a.tensor != nil:
		a.touch()
		return a.tensor, nil
	case a.why != nil:
		return nil, a.why
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
