package compiler

import (
	"fmt"
	"maps"

	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
)

// assembly turns a scheduled module and its plan into a program.
type assembly struct {
	from    *loop.Module
	to      *program.Program
	time    *live.Timeline
	tensors map[*loop.Buffer]int
	kernels map[*loop.Kernel]int
	dims    map[sym.Name]int
	storage map[*loop.Buffer]int // by root buffer: the index of its storage
	offset  map[*loop.Buffer]sym.Expr
	begins  map[int][]*loop.Buffer        // root buffers, by the step before which they are carved
	ends    map[int][]*loop.Buffer        // root buffers, by the last step of their live ranges
	over    map[*loop.Buffer]*loop.Buffer // the buffer that a buffer may be written over
	live    map[*loop.Buffer]bool         // carved, not released
	pending bool                          // copies between memories may be under way
	step    int
}

// newAssembly returns an empty assembly of a module with its timeline.
func newAssembly(m *loop.Module, t *live.Timeline) *assembly {
	return &assembly{from: m, time: t, to: &program.Program{Name: m.Name, Operators: m.Operators},
		tensors: map[*loop.Buffer]int{},
		kernels: map[*loop.Kernel]int{}, dims: map[sym.Name]int{},
		storage: map[*loop.Buffer]int{}, offset: map[*loop.Buffer]sym.Expr{}, begins: map[int][]*loop.Buffer{},
		ends: map[int][]*loop.Buffer{},
		over: map[*loop.Buffer]*loop.Buffer{}, live: map[*loop.Buffer]bool{}}
}

// assemble returns the program of a scheduled module. layout sets the storages, the plans, and each root buffer's
// storage and offset.
func assemble(m *loop.Module, t *live.Timeline, layout func(a *assembly) error) (*program.Program, error) {
	a := newAssembly(m, t)
	for _, name := range m.Dims.Names() {
		r, _ := m.Dims.Get(name)
		limit, data := m.Limits[name]
		a.dims[name] = len(a.to.Dims)
		a.to.Dims = append(a.to.Dims, program.Dim{Name: name, Range: r, Data: data, Limit: limit, Origin: m.Origins[name]})
	}
	for _, r := range m.Requires {
		a.to.Requires = append(a.to.Requires, program.Require(r))
	}
	binds := binders(m, t)
	for _, c := range m.Choices {
		if c, ok := c.Only(func(name sym.Name) bool { return binds[name] != nil }); ok {
			a.to.Requires = append(a.to.Requires, program.Require{Cond: c.Cond(), From: c.From})
		}
	}
	for i, k := range m.Kernels {
		a.kernels[k] = i
		a.to.Kernels = append(a.to.Kernels, k.Name)
	}
	if err := live.KeepsStates(m, t); err != nil {
		return nil, err
	}
	gives := live.Donations(m, t)
	if err := layout(a); err != nil {
		return nil, err
	}
	for _, b := range m.Buffers {
		a.tensor(b)
	}
	for _, b := range m.Buffers {
		switch b.Kind {
		case loop.Input:
			port := program.Port{Name: b.Source, Tensor: a.tensors[b]}
			if live.Replaced(m, b) != nil {
				port.Ownership, port.Device = program.State, b.Device
			}
			for _, name := range b.Elements {
				port.Elements = append(port.Elements, a.dims[name])
			}
			for _, to := range gives[b] {
				port.Gives = append(port.Gives, a.tensors[to])
			}
			a.to.Inputs = append(a.to.Inputs, port)
		case loop.Output:
			a.to.Outputs = append(a.to.Outputs, program.Port{Name: b.Source, Tensor: a.tensors[b]})
		case loop.Weight:
			if b.View == nil {
				a.to.Weights = append(a.to.Weights, program.Weight{Name: b.Name, Tensor: a.tensors[b],
					Paged: b.Paged, Device: b.Device})
			}
		}
		if life := t.Alive[b]; life != nil && b.View == nil {
			if _, carved := a.storage[b]; carved {
				a.begins[life.First] = append(a.begins[life.First], b)
				if b.Kind != loop.Output { // the caller has the outputs
					a.ends[life.Last] = append(a.ends[life.Last], b)
				}
			}
		}
	}
	a.to.Steps = a.finish(a.steps(m.Body))
	placeTakes(a.to)
	return a.to, nil
}

// giveContents gives the program's weights their contents, which are final once they are laid out; before, without
// those that are laid out anew.
func (c *Compiled) giveContents(laidOut bool) {
	next := 0
	for _, b := range c.Loop.Buffers {
		if b.Kind == loop.Weight && b.View == nil {
			if laidOut || !c.laidAnew(b) {
				c.Program.Weights[next].Data = b.Data.Bytes()
			}
			next++
		}
	}
}

// tensor returns the index of a buffer's tensor. If the tensor is new, it is added, after the tensor that it is a view
// of.
func (a *assembly) tensor(b *loop.Buffer) int {
	if i, ok := a.tensors[b]; ok {
		return i
	}
	t := program.Tensor{Name: b.Name, DType: b.DType, Shape: b.Shape, Source: b.Source, Reserved: b.Reserved}
	switch {
	case b.View != nil:
		t.Class, t.Of, t.Strides = program.View, a.tensor(b.View.Of), b.View.Strides
		t.Offset = live.BytesOf(b, b.View.Offset)
	case b.State != nil:
		t.Class, t.Of, t.Offset = program.View, a.tensor(b.State), sym.Const(0)
	case b.Kind == loop.Input:
		t.Class = program.Argument
	case b.Kind == loop.Weight:
		t.Class = program.Constant
	default:
		t.Class, t.Of, t.Offset = program.Carved, a.storage[b], a.offset[b]
	}
	a.tensors[b] = len(a.to.Tensors)
	a.to.Tensors = append(a.to.Tensors, t)
	return a.tensors[b]
}

// list returns the indices of buffers' tensors; −1 for nil.
func (a *assembly) list(buffers []*loop.Buffer) []int {
	out := make([]int, len(buffers))
	for i, b := range buffers {
		out[i] = a.optional(b)
	}
	return out
}

// optional returns the tensor of a buffer; −1 for nil.
func (a *assembly) optional(b *loop.Buffer) int {
	if b == nil {
		return -1
	}
	return a.tensors[b]
}

// steps translates a body, and adds carves before and releases after each step. It numbers steps as the timeline does.
func (a *assembly) steps(body []loop.Step) []program.Step {
	var out []program.Step
	for _, step := range body {
		first := a.step
		a.step++
		out = a.await(out, step)
		for _, b := range a.begins[first] {
			out = append(out, a.carve(b))
		}
		out = append(out, a.one(step))
		// A step with a body has several numbers: buffers that end within it and are still live end after it.
		var ended []*loop.Buffer
		for at := first; at < a.step; at++ {
			for _, b := range a.ends[at] {
				if a.live[b] {
					ended = append(ended, b)
				}
			}
		}
		out = a.release(out, ended)
	}
	return out
}

// carve makes a buffer live and returns its Carve.
func (a *assembly) carve(b *loop.Buffer) program.Step {
	c := &program.Carve{Tensor: a.tensors[b]}
	if x := a.over[b]; x != nil && a.live[x] {
		c.Over = []int{a.tensors[x]}
	}
	a.live[b] = true
	return c
}

// release appends a Release of the buffers, if there are any.
func (a *assembly) release(steps []program.Step, list []*loop.Buffer) []program.Step {
	if list == nil {
		return steps
	}
	for _, b := range list {
		delete(a.live, b)
	}
	return append(steps, &program.Release{Tensors: a.list(list)})
}

// branch translates an If. Only one of its bodies runs, so both must end with the same tensors live: buffers that Then
// carves and leaves live are carved at Else's beginning, and buffers that one body releases are released by the other
// too.
func (a *assembly) branch(s *loop.If) program.Step {
	out := &program.If{Cond: a.tensors[s.Cond], Source: s.Source}
	var head []*loop.Buffer // buffers that end with the condition: both bodies may use their space
	for _, b := range a.ends[a.step-1] {
		if a.live[b] {
			head = append(head, b)
		}
	}
	before := maps.Clone(a.live)
	out.Then = a.finish(append(a.release(nil, head), a.steps(s.Then)...))
	then := a.live
	a.live = maps.Clone(before)
	var gone []*loop.Buffer
	for _, b := range a.from.Buffers {
		if before[b] && !then[b] {
			gone = append(gone, b)
		}
	}
	out.Else = a.release(nil, gone)
	for _, b := range a.from.Buffers {
		if then[b] && !before[b] {
			out.Else = append(out.Else, a.carve(b))
		}
	}
	out.Else = a.finish(append(out.Else, a.steps(s.Else)...))
	var left, late []*loop.Buffer
	for _, b := range a.from.Buffers {
		if then[b] && !a.live[b] {
			left = append(left, b)
		}
		if a.live[b] && !then[b] {
			late = append(late, b)
		}
	}
	otherwise := a.live
	a.live = then
	for _, b := range late {
		out.Then = append(out.Then, a.carve(b))
	}
	out.Then = a.release(out.Then, left)
	a.live = otherwise
	return out
}

// one translates one step, with its bodies.
func (a *assembly) one(step loop.Step) program.Step {
	switch s := step.(type) {
	case *loop.Launch:
		l := &program.Launch{Kernel: a.kernels[s.Kernel], Args: a.list(s.Args), Source: s.Source, Stream: a.stream(s.Device)}
		for _, p := range s.Kernel.Params {
			l.Writes = append(l.Writes, p.Access != loop.Read)
		}
		for _, name := range s.Kernel.Dims {
			l.Dims = append(l.Dims, a.dims[name])
		}
		return l
	case *loop.Host:
		return &program.Host{Op: s.Op, Attrs: s.Attrs, In: a.list(s.In), Out: a.list(s.Out), Source: s.Source}
	case *loop.Bind:
		return &program.Bind{Dim: a.dims[s.Dim], From: a.optional(s.From), At: s.At, Value: s.Value, Source: s.Source}
	case *loop.If:
		return a.branch(s)
	case *loop.Loop:
		l := &program.Loop{Trip: a.optional(s.Trip), Cond: a.optional(s.Cond), Index: a.optional(s.Index), Count: -1,
			Source: s.Source}
		if !s.Count.None() {
			l.Count = a.dims[s.Count]
		}
		l.Body = a.finish(a.steps(s.Body))
		a.step++
		return l
	case *loop.Copy:
		c := &program.Copy{To: a.tensors[s.To], From: a.tensors[s.From], Stream: a.stream(s.To.Memory() + s.From.Memory())}
		if s.Pick != nil {
			c.Pick = &program.Pick{Index: a.tensors[s.Pick.Index], Rows: s.Pick.Rows, Source: s.Pick.Source}
		}
		return c
	}
	panic(fmt.Sprintf("compiler: no translation of a %T", step))
}
