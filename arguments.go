package weir

import (
	"maps"
	"slices"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/session"
	"github.com/weirml/weir/internal/strided"
)

// Inputs are the arguments of a run by name.
type Inputs map[string]Arg

// Arg is an argument of a run: a *Tensor, which the run borrows; the result of Donate, Consume, Update, Sequence or
// Strided; or Absent.
type Arg interface{ given() given }

// given is an argument as package session has it.
type given session.Argument

func (t *Tensor) given() given { return given(session.Lend(t.inner())) }

func (g given) given() given { return g }

// String describes the argument for errors, such as "a sequence of 2 tensors".
func (g given) String() string { return session.Argument(g).String() }

// Consume gives a tensor to a run for good: the run releases its memory after the last step that reads it, or when the
// run fails. The tensor is invalid from the call of Run on, unless Run refuses its arguments. It must have memory of
// its own, as tensors of New do, or be an output of an earlier run: when all tensors of its Results are consumed,
// donated or closed, the Results are closed and release their call.
func Consume(t *Tensor) Arg { return given(session.Consume(t.inner())) }

// Donate gives a tensor to a run for good, and its memory to one of the run's outputs: the run allocates that much less
// (Memory.Donating). The output has as many bytes as the tensor, and is written after the last read of the tensor, or
// in place; if there is no such output, the run is refused. The output may be donated again, so that weights go from
// step to step without a copy. The tensor is invalid from the call of Run on, unless Run refuses its arguments. It must
// have memory as for Consume, and the memory must be writable.
func Donate(t *Tensor) Arg { return given(session.Donate(t.inner())) }

// Update lends a tensor to a run that writes a new value into it. Inputs that are states (Info.State) require it, and
// other inputs refuse it. The tensor still belongs to the caller, and its memory must be writable. It has the new value
// when the run has returned; the output of that name is the same tensor. Nobody else may read or write it during the
// run: a second run that updates it is refused. See StateError for a run that fails.
func Update(t *Tensor) Arg { return given(session.Update(t.inner())) }

// Sequence returns the argument for an input that is a sequence: the run borrows the tensors.
func Sequence(tensors ...*Tensor) Arg { return given(session.Sequence(each(tensors, (*Tensor).inner))) }

// Absent is the argument for an optional input without a value.
var Absent Arg = given(session.Absent())

// Strided returns an argument in memory that other code lends for a run: data is the address of the first element, and
// strides are distances in elements, which may be negative or 0; nil is row-major order. A run reads the memory in
// place if its order is the input's (Options.Layouts, or row-major) and it is aligned to the element's size. Otherwise
// the run copies it into memory that it allocates when it begins and releases when it ends: see Memory.Copies. A copy
// beyond SetLimit is ErrMemory, and beyond Options.Budget ErrBudget. All elements must lie in memory that does not
// change until the run has returned.
func Strided(dt DType, data unsafe.Pointer, shape, strides []int) (a Arg, err error) {
	defer diag.Recover(&err, "describing memory")
	if dt == StringType {
		return nil, diag.Unsupportedf("strings in memory that other code made").WithFix("copy them by FromSlice")
	}
	var steps []int64
	if strides != nil {
		steps = sizesOf(strides)
	}
	l, err := strided.Describe(dt, data, sizesOf(shape), steps)
	if err != nil {
		return nil, err
	}
	return given(session.Strided(l)), nil
}

// arguments are Inputs as a session finds them.
type arguments Inputs

// Find implements session.Arguments.
func (in arguments) Find(name string) (session.Argument, bool) {
	a, ok := in[name]
	if t, tensor := a.(*Tensor); a == nil || tensor && t == nil {
		return session.Argument{}, ok
	}
	return session.Argument(a.given()), true
}

// Names implements session.Arguments.
func (in arguments) Names() []string { return slices.Collect(maps.Keys(in)) }

// Len implements session.Arguments.
func (in arguments) Len() int { return len(in) }

// lent returns the arguments as a run borrows them.
func (in Inputs) lent() session.List {
	list := session.List{}
	for name := range in {
		a, _ := arguments(in).Find(name)
		list[name] = a.Lent()
	}
	return list
}
