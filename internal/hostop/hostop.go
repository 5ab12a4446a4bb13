// Package hostop holds what is neither an expansion into other operators nor a loop nest: functions on whole tensors
// whose results' sizes may depend on the data.
//
// A function asks for each result with the shape that it found, and writes it there: in a run that is the planned
// storage, in the reference it is Go's heap. Room to work in is a result too, which nobody reads, so that it is
// planned; what Go's heap must give is asked for by Reserve.
package hostop

import (
	"sort"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// Call is one application of a host operator.
type Call struct {
	Attrs map[string]any // symbolic attributes have become int64 and []int64
	In    []*tensor.Tensor
	// Types are the results' element types.
	Types []dtype.DType
	// Ask, where not nil, says whether to go on: its error ends the work.
	Ask func() error
	// Reserve, where not nil, is asked before the function takes so many bytes of Go's heap, which it gives back when it
	// returns. It refuses by an error.
	Reserve func(bytes int64) error
	// Split, where not nil, calls f for parts of [0, count) that make up the whole, on as many workers as the run has;
	// f is given a call of its own, with which it does not ask for results.
	Split func(count int64, f func(c *Call, from, to int64) error) error
	// Result is the memory of the i-th result under the given shape; each result is asked for once.
	Result func(i int, shape ...int64) (*tensor.Tensor, error)

	done int64 // since Ask was asked
}

// heap asks for memory of Go's heap: for room that is next to nothing beside the inputs, as a number for each text.
func (c *Call) heap(bytes int64) error {
	if c.Reserve == nil {
		return nil
	}
	return c.Reserve(bytes)
}

// split calls f for parts of [0, count), on the workers of the run. One of them is count·steps of some nanoseconds.
func (c *Call) split(count, steps int64, f func(c *Call, from, to int64) error) error {
	if c.Split == nil || count < 2 || steps*count < splitLeast {
		return f(c, 0, count)
	}
	return c.Split(count, func(c *Call, from, to int64) (err error) {
		defer ended(&err)
		return f(c, from, to)
	})
}

// splitLeast is the steps below which work is not divided.
const splitLeast = 1 << 14

// workMost is how much a function does between two calls of Ask: so many steps of some nanoseconds.
const workMost = 1 << 16

// work takes note of steps that are done, or about to be, and ends the function if Ask says so. A function calls it
// wherever its inputs decide how much is done.
func (c *Call) work(steps int64) {
	if c.done += steps; c.done < workMost || c.Ask == nil {
		return
	}
	c.done = 0
	if err := c.Ask(); err != nil {
		panic(stopped{err})
	}
}

// stopped is how a function that Ask ends is left.
type stopped struct{ err error }

// copyMost is how many bytes are moved or cleared at once: Go's collector waits for each such piece.
const copyMost = 1 << 20

// copy is Go's, a piece at a time.
func (c *Call) copy(to, from []byte) int {
	n := min(len(to), len(from))
	for at := 0; at < n; at += copyMost {
		end := min(at+copyMost, n)
		copy(to[at:end], from[at:end])
		c.work(int64(end-at) / 16)
	}
	return n
}

// zero clears a list, a piece at a time.
func zero[T any](c *Call, list []T) {
	const piece = copyMost / 8
	for ; len(list) > piece; list = list[piece:] {
		clear(list[:piece])
		c.work(piece / 8)
	}
	clear(list)
}

// counted is a comparison that is a step of work.
func (c *Call) counted(compare func(i, j int64) int) func(i, j int64) int {
	return func(i, j int64) int {
		c.work(1)
		return compare(i, j)
	}
}

// Func computes a host operator.
type Func func(c *Call) error

var table = map[string]Func{}

// register makes a function known; each file calls it from init.
func register(name string, f Func) {
	table[name] = func(c *Call) (err error) {
		defer ended(&err)
		return f(c)
	}
}

// ended, deferred, turns the panic by which work ends a function into its error.
func ended(err *error) {
	if r := recover(); r != nil {
		end, ok := r.(stopped)
		if !ok {
			panic(r)
		}
		*err = end.err
	}
}

// Lookup finds a function by name.
func Lookup(name string) (Func, error) {
	if f := table[name]; f != nil {
		return f, nil
	}
	return nil, diag.Unsupportedf("no host operator %q", name)
}

// Names lists the host operators.
func Names() []string {
	names := make([]string, 0, len(table))
	for name := range table {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Apply computes a host operator with results on Go's heap: what the reference does.
func Apply(name string, attrs map[string]any, in []*tensor.Tensor, types []dtype.DType) ([]*tensor.Tensor, error) {
	f, err := Lookup(name)
	if err != nil {
		return nil, err
	}
	out := make([]*tensor.Tensor, len(types))
	err = f(&Call{Attrs: attrs, In: in, Types: types, Result: func(i int, shape ...int64) (*tensor.Tensor, error) {
		t, err := tensor.New(types[i], shape...)
		out[i] = t
		return t, err
	}})
	return out, err
}
