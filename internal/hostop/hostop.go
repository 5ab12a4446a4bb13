// Package hostop has the operators that are neither expansions into other operators nor loop nests: functions on
// tensors whose results' sizes may depend on the data.
//
// A function allocates each result with the shape that it computed: in a run in planned storage, in the reference on
// Go's heap. Scratch is a result too, which nothing reads, so that its memory is planned. A function calls Reserve
// before it allocates on Go's heap.
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
	// Ask, if not nil, is called every workMost steps. Its error ends the function.
	Ask func() error
	// Reserve, if not nil, is called before the function allocates bytes of Go's heap, which it frees when it returns.
	// Its error ends the function.
	Reserve func(bytes int64) error
	// Split, if not nil, calls f for ranges that cover [0, count), on the workers of the run. f has a call of its own,
	// which allocates no results.
	Split func(count int64, f func(c *Call, from, to int64) error) error
	// Result allocates the i-th result with the given shape. A function calls it once for each result.
	Result func(i int, shape ...int64) (*tensor.Tensor, error)

	done int64 // since Ask was asked
}

// heap asks Reserve for bytes of Go's heap. It is for small scratch, such as one number for each string.
func (c *Call) heap(bytes int64) error {
	if c.Reserve == nil {
		return nil
	}
	return c.Reserve(bytes)
}

// split calls f for ranges that cover [0, count), on the run's workers. Each element takes the given number of steps,
// of some nanoseconds. split calls f once if the work is small or c has no Split.
func (c *Call) split(count, steps int64, f func(c *Call, from, to int64) error) error {
	if c.Split == nil || count < 2 || steps*count < splitLeast {
		return f(c, 0, count)
	}
	return c.Split(count, func(c *Call, from, to int64) (err error) {
		defer ended(&err)
		return f(c, from, to)
	})
}

// splitLeast is the number of steps below which work is not divided.
const splitLeast = 1 << 14

// workMost is the number of steps, of some nanoseconds each, between two calls of Ask.
const workMost = 1 << 16

// work counts steps that are done or about to be done, calls Ask every workMost steps, and ends the function if Ask
// returns an error. A function calls it in every loop whose length the inputs decide.
func (c *Call) work(steps int64) {
	if c.done += steps; c.done < workMost || c.Ask == nil {
		return
	}
	c.done = 0
	if err := c.Ask(); err != nil {
		panic(stopped{err})
	}
}

// stopped is the panic that ends a function when Ask returns err.
type stopped struct{ err error }

// copyMost is the largest number of bytes that are moved or cleared at once: Go's collector waits for each move.
const copyMost = 1 << 20

// copy copies as Go's copy does, copyMost bytes at a time.
func (c *Call) copy(to, from []byte) int {
	n := min(len(to), len(from))
	for at := 0; at < n; at += copyMost {
		end := min(at+copyMost, n)
		copy(to[at:end], from[at:end])
		c.work(int64(end-at) / 16)
	}
	return n
}

// zero clears a list, copyMost bytes at a time.
func zero[T any](c *Call, list []T) {
	const piece = copyMost / 8
	for ; len(list) > piece; list = list[piece:] {
		clear(list[:piece])
		c.work(piece / 8)
	}
	clear(list)
}

// counted returns compare, with one step of work for each comparison.
func (c *Call) counted(compare func(i, j int64) int) func(i, j int64) int {
	return func(i, j int64) int {
		c.work(1)
		return compare(i, j)
	}
}

// Func computes a host operator.
type Func func(c *Call) error

// table has the functions by their names.
var table = map[string]Func{}

// register adds a function to the table; each file calls it from init.
func register(name string, f Func) {
	table[name] = func(c *Call) (err error) {
		defer ended(&err)
		return f(c)
	}
}

// ended recovers the panic of Call.work and stores its error. It is deferred.
func ended(err *error) {
	if r := recover(); r != nil {
		end, ok := r.(stopped)
		if !ok {
			panic(r)
		}
		*err = end.err
	}
}

// Lookup returns the function of a name, or ErrUnsupported.
func Lookup(name string) (Func, error) {
	if f := table[name]; f != nil {
		return f, nil
	}
	return nil, diag.Unsupportedf("no host operator %q", name)
}

// Names returns the names of all host operators, sorted.
func Names() []string {
	names := make([]string, 0, len(table))
	for name := range table {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Apply computes a host operator with results on Go's heap, as the reference does.
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
