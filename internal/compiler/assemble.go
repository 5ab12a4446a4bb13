package compiler

import (
	"fmt"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
)

// assembly turns a scheduled module and its plan into a program.
type assembly struct {
	from    *loop.Module
	to      *program.Program
	time    *timeline
	tensors map[*loop.Buffer]int
	kernels map[*loop.Kernel]int
	dims    map[string]int
	storage map[*loop.Buffer]int // of root buffers that live in a storage
	offset  map[*loop.Buffer]sym.Expr
	begins  map[int][]*loop.Buffer // root buffers by the step before which they are carved
	ends    map[int][]*loop.Buffer // and by the last step of their lives
	step    int
}

// assemble writes the program; layout fills in storages, plans, and where each root buffer lies.
func assemble(m *loop.Module, t *timeline, layout func(a *assembly) error) (*program.Program, error) {
	a := &assembly{from: m, time: t, to: &program.Program{Name: m.Name}, tensors: map[*loop.Buffer]int{}, kernels: map[*loop.Kernel]int{}, dims: map[string]int{},
		storage: map[*loop.Buffer]int{}, offset: map[*loop.Buffer]sym.Expr{}, begins: map[int][]*loop.Buffer{}, ends: map[int][]*loop.Buffer{}}
	for _, name := range m.Dims.Names() {
		r, _ := m.Dims.Get(name)
		limit, data := m.Limits[name]
		a.dims[name] = len(a.to.Dims)
		a.to.Dims = append(a.to.Dims, program.Dim{Name: name, Range: r, Data: data, Limit: limit})
	}
	for _, r := range m.Requires {
		a.to.Requires = append(a.to.Requires, program.Require(r))
	}
	for i, k := range m.Kernels {
		a.kernels[k] = i
		a.to.Kernels = append(a.to.Kernels, k.Name)
	}
	if err := layout(a); err != nil {
		return nil, err
	}
	for _, b := range m.Buffers {
		a.tensor(b)
	}
	for _, b := range m.Buffers {
		switch b.Kind {
		case loop.Input:
			a.to.Inputs = append(a.to.Inputs, program.Port{Name: b.Source, Tensor: a.tensors[b]})
		case loop.Output:
			a.to.Outputs = append(a.to.Outputs, program.Port{Name: b.Source, Tensor: a.tensors[b]})
		case loop.Weight:
			if b.View == nil {
				a.to.Weights = append(a.to.Weights, program.Weight{Name: b.Name, Tensor: a.tensors[b], Data: b.Data.Bytes()})
			}
		}
		if life := t.alive[b]; life != nil && b.View == nil {
			if _, carved := a.storage[b]; carved {
				a.begins[life.first] = append(a.begins[life.first], b)
				a.ends[life.last] = append(a.ends[life.last], b)
			}
		}
	}
	a.to.Steps = a.steps(m.Body)
	return a.to, nil
}

// tensor is a buffer's place, made when first asked for: what it lies in comes first.
func (a *assembly) tensor(b *loop.Buffer) int {
	if i, ok := a.tensors[b]; ok {
		return i
	}
	t := program.Tensor{Name: b.Name, DType: b.DType, Shape: b.Shape, Source: b.Source}
	switch {
	case b.View != nil:
		t.Place, t.Of, t.Strides = program.Part, a.tensor(b.View.Of), b.View.Strides
		t.Offset = bytesOf(b, b.View.Offset)
	case b.Kind == loop.Input:
		t.Place = program.Argument
	case b.Kind == loop.Weight:
		t.Place = program.Constant
	default:
		t.Place, t.Of, t.Offset = program.Carved, a.storage[b], a.offset[b]
	}
	a.tensors[b] = len(a.to.Tensors)
	a.to.Tensors = append(a.to.Tensors, t)
	return a.tensors[b]
}

// bytesOf is the size of so many elements of b's type.
func bytesOf(b *loop.Buffer, elements sym.Expr) sym.Expr {
	bits := int64(b.DType.Bits())
	if bits%8 == 0 {
		return elements.Mul(sym.Const(bits / 8))
	}
	return elements.Mul(sym.Const(bits)).CeilDiv(sym.Const(8))
}

func (a *assembly) list(buffers []*loop.Buffer) []int {
	out := make([]int, len(buffers))
	for i, b := range buffers {
		out[i] = a.optional(b)
	}
	return out
}

func (a *assembly) optional(b *loop.Buffer) int {
	if b == nil {
		return -1
	}
	return a.tensors[b]
}

// steps translates a body, with the carves before and the releases after each step. Its numbering is the timeline's.
func (a *assembly) steps(body []loop.Step) []program.Step {
	var out []program.Step
	for _, step := range body {
		first := a.step
		a.step++
		for _, b := range a.begins[first] {
			out = append(out, &program.Carve{Tensor: a.tensors[b]})
		}
		out = append(out, a.one(step))
		// A step with a body spans several numbers: what ends anywhere within it, having begun before it, ends after it.
		var ended []int
		for at := first; at < a.step; at++ {
			for _, b := range a.ends[at] {
				if a.time.alive[b].first <= first {
					ended = append(ended, a.tensors[b])
				}
			}
		}
		if ended != nil {
			out = append(out, &program.Release{Tensors: ended})
		}
	}
	return out
}

func (a *assembly) one(step loop.Step) program.Step {
	switch s := step.(type) {
	case *loop.Launch:
		l := &program.Launch{Kernel: a.kernels[s.Kernel], Args: a.list(s.Args), Source: s.Source}
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
		return &program.If{Cond: a.tensors[s.Cond], Then: a.steps(s.Then), Else: a.steps(s.Else), Source: s.Source}
	case *loop.Loop:
		l := &program.Loop{Trip: a.optional(s.Trip), Cond: a.optional(s.Cond), Index: a.optional(s.Index), Count: -1, Source: s.Source}
		if s.Count != "" {
			l.Count = a.dims[s.Count]
		}
		l.Body = a.steps(s.Body)
		a.step++
		return l
	case *loop.Copy:
		return &program.Copy{To: a.tensors[s.To], From: a.tensors[s.From]}
	}
	panic(fmt.Sprintf("compiler: no translation of a %T", step))
}
