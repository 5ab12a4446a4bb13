// Package hostop holds what is neither an expansion into other operators nor a loop nest: functions on whole tensors whose
// results' sizes may depend on the data.
//
// A function asks for each result with the shape that it found, and writes it there: in a run that is the planned storage,
// in the reference it is Go's heap. It keeps no other large memory.
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
	// Result is the memory of the i-th result under the given shape; each result is asked for once.
	Result func(i int, shape ...int64) (*tensor.Tensor, error)
}

// Func computes a host operator.
type Func func(c *Call) error

var table = map[string]Func{}

// register makes a function known; each file calls it from init.
func register(name string, f Func) { table[name] = f }

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
