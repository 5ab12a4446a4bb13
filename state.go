package weir

import (
	"fmt"
	"strings"
)

// StateError is the error of a run that failed after it had begun to write states. It wraps the cause, for errors.Is
// and errors.As. The states that it names have new values, in full or in part; all other states have their old values.
// A run that fails earlier changes no state, and its error is not a StateError.
type StateError struct {
	States []string // the inputs' names
	Err    error
}

// Error returns the cause, and the states' names.
func (e *StateError) Error() string {
	return fmt.Sprintf("%v; the run had begun to update %s", e.Err, strings.Join(e.States, ", "))
}

// Unwrap returns the cause.
func (e *StateError) Unwrap() error { return e.Err }

// State is an input that each run updates in place.
type State struct {
	Input, Output string // Output is the name of the new value
	// Bytes is the size of the tensor, which belongs to the caller and is in no term of the certificate; see Info.Initial
	// for states that belong to the program.
	Bytes Size
	// InPlace reports whether the new value is computed in the memory of the old one. Otherwise it is computed in the
	// arena, and copied after the last read of the old value.
	InPlace bool
	Initial bool // the program has a tensor of its own for it: see Info.Initial
}

// States lists the inputs that each run updates in place.
func (p *Program) States() (list []State) {
	prog := p.compiled.Program
	for i, port := range prog.Inputs {
		if o := p.session.NewValue(i); o >= 0 {
			list = append(list, State{port.Name, prog.Outputs[o].Name,
				p.memory.size(prog.Tensors[port.Tensor].Bytes()),
				p.compiled.StateInPlace(i), p.session.Owner(i).Initial})
		}
	}
	return list
}

// Initial returns a new tensor with a state's first value in the model's file (Info.Initial). Pass it to Update to keep
// the state outside the program, or to start again. It is ErrInput if the file has no first value.
func (p *Program) Initial(input string) (*Tensor, error) { return outer(p.session.Initial(input)) }

// stateProofs returns the conditions that hold since states are written after their last read.
func (p *Program) stateProofs() (list []Condition) {
	for _, s := range p.States() {
		how := "in its place"
		if !s.InPlace {
			how = "by a copy at the end"
		}
		list = append(list, Condition{"nothing reads " + s.Input + " once " + s.Output + " is written over it",
			"state, written " + how})
	}
	return list
}
