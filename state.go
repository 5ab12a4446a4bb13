package weir

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/executor"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/sources"
)

// Update lends a tensor to a run that writes a new value into it. Inputs that are states (Info.State) require it, and
// other inputs refuse it. The tensor still belongs to the caller, and its memory must be writable. It has the new value
// when the run has returned; the output of that name is the same tensor. Nobody else may read or write it during the
// run: a second run that updates it is refused. See StateError for a run that fails.
func Update(t *Tensor) Arg {
	return given{kind: TensorKind, tensors: t.list(), owner: updating}
}

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
		if o := p.becomes[i]; o >= 0 {
			list = append(list, State{port.Name, prog.Outputs[o].Name,
				Size{p.memory.Arena.dims.Simplify(prog.Tensors[port.Tensor].Bytes()), p.memory.Arena.dims},
				p.compiled.StateInPlace(i), p.owner(i).Initial})
		}
	}
	return list
}

// addStates makes states of a module's inputs, as Options.States maps them to outputs.
func (p *Program) addStates(module *ir.Module, m *Model, states map[string]string) error {
	for _, in := range slices.Sorted(maps.Keys(states)) {
		out := states[in]
		i, is := p.input(in)
		if !is {
			return p.noInput(in)
		}
		o := slices.IndexFunc(p.outputs, func(info Info) bool { return info.Name == out })
		if o < 0 && slices.ContainsFunc(m.Outputs(), func(info Info) bool { return info.Name == out }) {
			continue // Options.Outputs leaves it out
		}
		if o < 0 {
			return diag.Inputf("no output %q, which is to be the state's new value; there are %s", out, infoList(p.outputs)).
				AtTensor(in)
		}
		if !p.inputs[i].simple() || !p.outputs[o].simple() {
			return diag.Inputf("%s cannot be a state that becomes %s: only tensors of numbers can", p.inputs[i], p.outputs[o]).
				AtTensor(in)
		}
		main := module.Main
		port, result := p.takes[i].Parts[0], p.gives[o].Parts[0]
		from, to := main.Body.Params[port], main.Body.Results[result]
		if slices.ContainsFunc(main.States, func(s ir.State) bool { return s.In == from || s.Out == result }) {
			return diag.Inputf("%s or %s is part of another state already", in, out).AtTensor(in)
		}
		if from.Type.String() != to.Type.String() {
			return diag.Inputf("it is %s, and %s, which is to be its new value, is %s", p.inputs[i], out, p.outputs[o]).
				AtTensor(in).
				WithFix("name an output of the same type and shape: a cache in place has all of its length from the beginning")
		}
		if from.Bound {
			return diag.Inputf("it gives dimensions their values, and cannot be a state").AtTensor(in)
		}
		main.States = append(main.States, ir.State{In: from, Out: result})
	}
	return nil
}

// narrowCaches stores the states that are caches as dt, and declares their inputs and outputs so. It returns the names
// of the outputs that it adds: scales.
func (p *Program) narrowCaches(module *ir.Module, names []string, dt DType) (more []string, err error) {
	if dt != BF16 && dt != I8 {
		return nil, nil
	}
	narrowed, why := 0, "a cache's output is its input with elements replaced by a scatter"
	body := module.Main.Body
	inputs, outputs := len(body.Params), len(body.Results)
	if dt == BF16 {
		narrowed, err = compiler.NarrowCaches(module)
	} else {
		var states []ir.State
		states, err = compiler.CachesInBytes(module)
		for i := range states {
			more = append(more, freeName(names, names[states[i].Out]+".scale"))
		}
		narrowed, why = len(states),
			"a cache's output is its input with vectors, whole along the last axis, replaced by a scatter"
	}
	if err != nil {
		return nil, err
	}
	if narrowed == 0 {
		return nil, diag.Inputf("no state of f32 is a cache, which is to be stored as %s", dt).
			WithFix("name the caches in Options.States (--state INPUT=OUTPUT): %s", why)
	}
	p.declareNarrow(body, dt)
	takes, gives := addedEdges(p.takes, body.Params, inputs), addedEdges(p.gives, body.Results, outputs)
	for i, name := range more {
		gives[len(gives)-len(more)+i].Info.Name = name
	}
	for i := len(p.takes); i < len(takes); i++ { // scales begin as zeros
		scale := &takes[i].Info
		at, ok := p.input(strings.TrimSuffix(scale.Name, ".scale"))
		scale.Initial = ok && p.inputs[at].Initial
	}
	p.setEdges(takes, gives)
	return more, nil
}

// freeName returns name, changed if necessary so that names does not contain it.
func freeName(names []string, name string) string {
	for slices.Contains(names, name) {
		name += "_"
	}
	return name
}

// addedEdges returns edges, with one more for each value after the first from.
func addedEdges(edges []edge, values []*ir.Value, from int) []edge {
	for i, info := range infosOf(sources.PortsOf(values[from:])) {
		edges = append(slices.Clip(edges), edge{info, []int{from + i}})
	}
	return edges
}

// declareNarrow declares the inputs and outputs of narrowed states with their new type.
func (p *Program) declareNarrow(body *ir.Block, dt DType) {
	for _, side := range []struct {
		infos  []Info
		edges  []edge
		values []*ir.Value
	}{{p.inputs, p.takes, body.Params}, {p.outputs, p.gives, body.Results}} {
		for k, e := range side.edges {
			if e.Info.simple() && e.Info.DType == F32 && side.values[e.Parts[0]].Type.DType == dt {
				side.edges[k].Info.DType, side.infos[k].DType = dt, dt
			}
		}
	}
}

// setStates records which outputs replace inputs.
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
		p.proved = append(p.proved, Condition{"nothing reads " + s.Input + " once " + s.Output + " is written over it",
			"state, written " + how})
	}
}

// maySupply returns an error unless every state, and no other input, is passed as Update.
func (p *Program) maySupply(info Info, g given) error {
	switch {
	case info.State != "" && g.owner != updating:
		return diag.Inputf("it is a state, which the run updates in place to %s, and is given as %s", info.State,
			ownerWords[g.owner]).AtTensor(info.Name).WithFix("give Update(t): t then holds the new value")
	case info.State == "" && g.owner == updating:
		return diag.Inputf("the run does not update it: it is no state").AtTensor(info.Name).WithFix("lend the tensor itself")
	}
	return nil
}

// ownerWords describe how a tensor is passed, for errors.
var ownerWords = map[ownership]string{lending: "a tensor that is lent", donating: "one that is donated",
	consuming: "one that is consumed", updating: "one to be updated"}

// updates are the byte ranges that runs are updating, in whichever tensors.
var updates struct {
	sync.Mutex
	list [][]byte
}

// update reserves memory for one run, until updated. It returns an error if another run is updating any of it.
func update(data []byte, name string) error {
	if len(data) == 0 {
		return nil
	}
	updates.Lock()
	defer updates.Unlock()
	for _, other := range updates.list {
		if sharing(data, other) {
			return diag.Inputf("another run is updating the tensor, or one that shares its memory").AtTensor(name).
				WithFix("one run at a time updates a state; wait for the other to return")
		}
	}
	updates.list = append(updates.list, data)
	return nil
}

// updated ends a reservation by update.
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

// writable returns an error if memory cannot be written. The caller has reserved it by update.
func writable(data []byte, name string) error {
	if !mem.Writable(data) {
		return diag.Inputf("its memory may not be written: it is mapped read-only").AtTensor(name).
			WithFix("copy it into a tensor made by weir.New first")
	}
	return nil
}

// torn returns err as a StateError if the run had begun to write states.
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
	return &StateError{names, p.full(err, c)}
}

// full adds to an error the state that an argument would have overflowed.
func (p *Program) full(err error, c *executor.Call) error {
	e, is := err.(*diag.Error)
	if !is || e.Kind != ErrInput || e.Tensor != "" || e.Fix != "" {
		return err
	}
	for i, o := range p.becomes {
		if o < 0 {
			continue
		}
		if shape := c.Writing(i); shape != nil {
			name := p.compiled.Program.Inputs[i].Name
			return e.AtTensor(name).WithFix("%s has the shape %d: give a longer one, or write where it has room", name, shape)
		}
	}
	return err
}
