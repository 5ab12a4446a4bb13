package session

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/signature"
	"github.com/weirml/weir/internal/sources"
	"github.com/weirml/weir/internal/strided"
	"github.com/weirml/weir/internal/tensor"
)

// Argument is a value for an input: one tensor, several tensors, or no value.
type Argument struct {
	kind    sources.Kind // Tensor, Sequence, or Optional for no value
	tensors []*Tensor
	lent    *strided.Memory  // memory with strides, instead of tensors; or nil
	data    []*tensor.Tensor // the tensors' elements, after a run has entered them
	owner   ownership        // how the tensor is passed
}

// Lend returns a tensor as an argument that the run borrows; Donate, Consume and Update pass a tensor as weir.Donate,
// weir.Consume and weir.Update do.
func Lend(t *Tensor) Argument    { return Argument{tensors: t.list()} }
func Donate(t *Tensor) Argument  { return Argument{tensors: t.list(), owner: donating} }
func Consume(t *Tensor) Argument { return Argument{tensors: t.list(), owner: consuming} }
func Update(t *Tensor) Argument  { return Argument{tensors: t.list(), owner: updating} }

// Sequence returns tensors as the argument for a sequence. The argument keeps the slice.
func Sequence(tensors []*Tensor) Argument { return Argument{kind: sources.Sequence, tensors: tensors} }

// Absent returns the argument for an optional without a value.
func Absent() Argument { return Argument{kind: sources.Optional} }

// Strided returns memory with strides as an argument.
func Strided(l *strided.Memory) Argument { return Argument{lent: l} }

// Lent returns the same argument, lent instead of donated, consumed or updated.
func (g Argument) Lent() Argument {
	g.owner = lending
	return g
}

// Arguments are the arguments of a run by name.
type Arguments interface {
	// Find returns the argument with this name; ok is false if there is none. A nil argument is the zero Argument.
	Find(name string) (a Argument, ok bool)
	// Names returns the names of all arguments.
	Names() []string
	// Len returns the number of arguments.
	Len() int
}

// String describes the argument for errors, such as "a sequence of 2 tensors".
func (g Argument) String() string {
	switch g.kind {
	case sources.Sequence:
		return fmt.Sprintf("a sequence of %d tensors", len(g.tensors))
	case sources.Optional:
		return "nothing"
	}
	if g.lent != nil {
		return g.lent.String()
	}
	return g.tensors[0].String()
}

// missing reports whether the argument is the zero Argument: no value was given, not even Absent.
func (g Argument) missing() bool {
	return g.kind == sources.Tensor && g.tensors == nil && g.lent == nil
}

// shape returns the shape of an argument that is one tensor; nil for others.
func (g Argument) shape() []int64 {
	switch {
	case g.lent != nil:
		return g.lent.Shape
	case len(g.tensors) == 1:
		return g.tensors[0].shape
	}
	return nil
}

// List is a map from names to arguments. It implements Arguments.
type List map[string]Argument

// Find implements Arguments.
func (l List) Find(name string) (Argument, bool) {
	a, ok := l[name]
	return a, ok
}

// Names implements Arguments.
func (l List) Names() []string { return slices.Collect(maps.Keys(l)) }

// Len implements Arguments.
func (l List) Len() int { return len(l) }

// packing holds the tensors of a run's input ports while the run uses them. It makes copies of arguments that are not
// in the form that the program reads; release frees them. The ledger counts the copies as the user's.
type packing struct {
	ctx     context.Context  // of the run
	account mem.Account      // is asked for the copies; nil: none
	parts   []*tensor.Tensor // by input port
	entered []*Tensor        // the arguments in use until release
	blocks  []*mem.Block     // the memory of copies
	parted  []*parted        // the arguments that the caller gives away
	states  []state          // the tensors that the run updates
	held    int              // states[:held] are reserved for this run, by update
	copies  []copying        // the arguments that are copied when the run begins
	// by is the session from whose budget the copies have taken reserved bytes; nil if they took none.
	by       *Session
	reserved int64
}

// state is a tensor that a run updates, and its input port.
type state struct {
	t    *Tensor
	data *tensor.Tensor
	port int
}

// fetchStates copies the elements of states that lie on a device to the host.
func (p *packing) fetchStates() error {
	for _, s := range p.states {
		if err := s.t.stays.fetch(s.data, reading); err != nil {
			return err
		}
	}
	return nil
}

// release frees the copies, and ends the use of the arguments. A second call does nothing.
func (p *packing) release() {
	for _, b := range p.blocks {
		b.Close()
	}
	p.blocks, p.copies = nil, nil
	if p.by != nil {
		_ = p.by.Reserve(-p.reserved)
		p.by, p.reserved = nil, 0
	}
	for _, a := range p.parted {
		a.done()
	}
	for _, s := range p.states[:p.held] {
		updated(s.data.Bytes())
	}
	for _, t := range p.entered {
		t.Leave()
	}
	p.parted, p.states, p.held, p.entered = nil, nil, 0, nil
}

// allocate returns an allocator for copies, whose blocks release frees. name is their label in the ledger.
func (p *packing) allocate(name string) tensor.Allocate {
	return func(dt dtype.DType, shape ...int64) (*tensor.Tensor, error) {
		count, err := tensor.Count(shape)
		if err != nil {
			return nil, err
		}
		bytes, err := dt.Bytes(count)
		if err != nil {
			return nil, err
		}
		block, err := mem.MapGranted(p.ctx, p.account, mem.Tensors, name, bytes)
		if err != nil {
			return nil, err
		}
		p.blocks = append(p.blocks, block)
		return tensor.Over(dt, shape, block.Bytes())
	}
}

// pack sets parts for the ports of input e from its argument. nothing is the shape of the tensor that represents an
// absent optional.
func (p *packing) pack(e signature.Edge, g Argument, nothing []int64) error {
	if e.Info.Simple() && g.kind == sources.Tensor {
		p.parts[e.Parts[0]] = g.data[0]
		return nil
	}
	list := make([]*tensor.Tensor, len(g.tensors))
	for i, t := range g.tensors {
		if list[i] = g.data[i]; t.dtype != e.Info.DType {
			return diag.Inputf("tensor %d of it is %s, it must be %s", i, t, e.Info.DType)
		}
	}
	switch {
	case g.kind == sources.Optional && !e.Info.Form().Optional():
		return diag.Inputf("nothing is given, %s is expected", e.Info)
	case g.kind != sources.Optional && e.Info.Form().Sequence() != (g.kind == sources.Sequence):
		return diag.Inputf("%s is given, %s is expected", g, e.Info)
	case g.kind == sources.Optional && !e.Info.Form().Sequence():
		t, err := tensor.New(e.Info.DType, nothing...)
		if err != nil {
			return err
		}
		list = append(list, t)
	}
	parts, err := e.Info.Form().Pack(p.allocate(e.Info.Name), g.kind == sources.Optional, list)
	if err != nil {
		return err
	}
	for i, part := range parts {
		p.parts[e.Parts[i]] = part
	}
	return nil
}
