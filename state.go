package weir

import (
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/executor"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/program"
)

// Update lends a tensor to a run that leaves a new value in it: what an input that is a state is given (Info.State), and no other input. The tensor is its caller's as before, of whatever memory
// that may be written, and holds the new value when the run has returned; the output of that name is the same tensor. Nobody else may read or write it meanwhile: a second run that is to
// update it is refused. See StateError for a run that fails.
func Update(t *Tensor) Arg {
	return given{kind: TensorKind, tensors: []*Tensor{t}, owner: program.State}
}

// StateError is the error of a run that failed when it had begun to write states: it stands around what ended the run, which errors.Is and errors.As see. Each of those that it names
// has its new value, or a part of it; every other state has its old one. A run that fails earlier leaves all states as they were, and its error is no StateError.
type StateError struct {
	States []string // the inputs' names
	Err    error
}

// Error is what ended the run, and the states' names.
func (e *StateError) Error() string {
	return fmt.Sprintf("%v; the run had begun to update %s", e.Err, strings.Join(e.States, ", "))
}

// Unwrap is what ended the run.
func (e *StateError) Unwrap() error { return e.Err }

// State is an input that each run updates in place.
type State struct {
	Input, Output string // Output is the name of the new value
	Bytes         Size   // the caller's, in no term of the certificate
	// InPlace: the new value is computed where the old one lies. Otherwise it is computed in the arena, and copied when nothing reads the old one any more.
	InPlace bool
}

// States lists the inputs that each run updates in place.
func (p *Program) States() (list []State) {
	prog := p.compiled.Program
	for i, port := range prog.Inputs {
		if o := p.becomes[i]; o >= 0 {
			list = append(list, State{port.Name, prog.Outputs[o].Name, Size{p.memory.Arena.dims.Simplify(prog.Tensors[port.Tensor].Bytes()), p.memory.Arena.dims}, p.compiled.StateInPlace(i)})
		}
	}
	return list
}

// setStates notes which outputs replace inputs.
func (p *Program) setStates() {
	prog := p.compiled.Program
	p.becomes, p.replaces = make([]int, len(prog.Inputs)), make([]int, len(prog.Outputs))
	for o := range p.replaces {
		p.replaces[o] = -1
	}
	for i := range prog.Inputs {
		if p.becomes[i] = prog.NewValue(i); p.becomes[i] >= 0 {
			p.replaces[p.becomes[i]] = i
		}
	}
	for k, e := range p.takes {
		p.inputs[k].State = ""
		if e.Info.simple() && p.becomes[e.Parts[0]] >= 0 {
			p.inputs[k].State = prog.Outputs[p.becomes[e.Parts[0]]].Name
		}
		p.takes[k].Info.State = p.inputs[k].State
	}
	for _, s := range p.States() {
		how := "in its place"
		if !s.InPlace {
			how = "by a copy at the end"
		}
		p.proved = append(p.proved, Condition{"nothing reads " + s.Input + " once " + s.Output + " is written over it", "state, written " + how})
	}
}

// maySupply checks that an input is given what becomes of it: a state an Update, and nothing else one.
func (p *Program) maySupply(info Info, g given) error {
	switch {
	case info.State != "" && g.owner != program.State:
		return diag.Inputf("it is a state, which the run updates in place to %s, and is given as %s", info.State, ownerWords[g.owner]).AtTensor(info.Name).WithFix("give Update(t): t then holds the new value")
	case info.State == "" && g.owner == program.State:
		return diag.Inputf("the run does not update it: it is no state").AtTensor(info.Name).WithFix("lend the tensor itself")
	}
	return nil
}

// ownerWords say how a tensor is given.
var ownerWords = map[program.Ownership]string{program.Borrow: "a tensor that is lent", program.Donate: "one that is donated", program.Consume: "one that is consumed", program.State: "one to be updated"}

// updates are the ranges of memory that runs are updating, whatever tensors lie there.
var updates struct {
	sync.Mutex
	list [][]byte
}

// update has memory updated by one run at a time, until updated.
func update(data []byte, name string) error {
	if len(data) == 0 {
		return nil
	}
	updates.Lock()
	defer updates.Unlock()
	for _, other := range updates.list {
		if sharing(data, other) {
			return diag.Inputf("another run is updating the tensor, or one that shares its memory").AtTensor(name).WithFix("one run at a time updates a state; wait for the other to return")
		}
	}
	updates.list = append(updates.list, data)
	return nil
}

// updated ends what update began.
func updated(data []byte) {
	if len(data) == 0 {
		return
	}
	updates.Lock()
	defer updates.Unlock()
	for i, other := range updates.list {
		if unsafe.SliceData(other) == unsafe.SliceData(data) {
			last := len(updates.list) - 1
			updates.list[i], updates.list[last] = updates.list[last], nil
			updates.list = updates.list[:last]
			return
		}
	}
}

// writable refuses memory that may not be written. Nobody else may be updating it.
func writable(data []byte, name string) error {
	if !mem.Writable(data) {
		return diag.Inputf("its memory may not be written: it is mapped read-only").AtTensor(name).WithFix("copy it into a tensor made by weir.New first")
	}
	return nil
}

// torn is the error of a run with the states that it had begun to write.
func (p *Program) torn(err error, c *executor.Call) error {
	if err == nil {
		return nil
	}
	var names []string
	for i, o := range p.becomes {
		if o >= 0 && c.Begun(i) {
			names = append(names, p.compiled.Program.Inputs[i].Name)
		}
	}
	if names == nil {
		return err
	}
	return &StateError{names, err}
}
