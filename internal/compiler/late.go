package compiler

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/memplan"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
)

// Late is a storage for buffers whose size data decide without a bound. Its own plan is over all dimensions, including
// the dimensions that data decide.
type Late struct {
	Name   string
	Kind   program.StorageKind
	Device string // as a Storage's
	Plan   *memplan.Solution
	roots  []*loop.Buffer
}

// lateSize returns a buffer's size in bytes, with data dimensions that have limits at these, if that is proved to be an
// upper bound.
func lateSize(m *loop.Module, b *loop.Buffer) sym.Expr {
	size := live.BytesOf(b, sym.Product(b.Shape...))
	if limit, ok := live.AtMost(m, size); ok {
		return limit
	}
	return size
}

// groups returns the buffers of each late storage. Buffers whose last dimension is bound by the same step, and whose
// dimensions do not change while they are live, share a storage in each memory; every other buffer, and every output,
// has its own.
func (c *Compiled) groups(a *assembly) [][]*loop.Buffer {
	binds := binders(a.from, a.time)
	type when struct {
		step   int
		device string
	}
	var order []when
	together := map[when][]*loop.Buffer{}
	var alone [][]*loop.Buffer
	for _, b := range a.from.Buffers {
		life := a.time.Alive[b]
		if !live.Late(a.from, b) || life == nil && b.Kind != loop.Output {
			continue
		}
		step, settled := -1, b.Kind != loop.Output
		for _, name := range lateSize(a.from, b).Vars() {
			for _, at := range binds[name] {
				if settled = settled && !at.Meets(*life); at.Last < life.First {
					step = max(step, at.Last)
				}
			}
		}
		if !settled || step < 0 {
			alone = append(alone, []*loop.Buffer{b})
			continue
		}
		at := when{step, b.Device}
		if together[at] == nil {
			order = append(order, at)
		}
		together[at] = append(together[at], b)
	}
	var all [][]*loop.Buffer
	for _, at := range order {
		all = append(all, together[at])
	}
	return append(all, alone...)
}

// binders returns, by dimension, the steps that give it a value.
func binders(m *loop.Module, t *live.Timeline) map[sym.Name][]live.Interval {
	binds := map[sym.Name][]live.Interval{}
	loop.WalkSteps(m.Body, func(step loop.Step) {
		switch s := step.(type) {
		case *loop.Bind:
			binds[s.Dim] = append(binds[s.Dim], t.At[step])
		case *loop.Host:
			for _, b := range s.Out {
				if b == nil {
					continue
				}
				for _, e := range b.Shape {
					if name, ok := e.Name(); ok {
						binds[name] = append(binds[name], t.At[step])
					}
				}
			}
		case *loop.Loop:
			if !s.Count.None() {
				binds[s.Count] = append(binds[s.Count], t.At[step])
			}
		}
	})
	return binds
}

// planLate plans the late storages.
func (c *Compiled) planLate(a *assembly, solve solver) error {
	for i, roots := range c.groups(a) {
		l := Late{Name: fmt.Sprintf("late.%d", i), Kind: program.Arena, Device: roots[0].Device, roots: roots}
		p := memplan.Problem{Dims: a.from.Dims, Steps: max(1, a.time.Steps)}
		for _, b := range roots {
			life := a.time.Alive[b]
			if b.Kind == loop.Output {
				l.Kind = program.Results
				life = &live.Interval{First: 0, Last: p.Steps - 1}
				a.time.Alive[b] = life
			}
			p.Buffers = append(p.Buffers, memplan.Buffer{Name: b.Name, Size: lateSize(a.from, b), First: life.First,
				Last: life.Last})
		}
		live.Alias(a.from, a.time, roots, &p, nil)
		var err error
		if l.Plan, err = c.solve(a, l.Name, p, roots, memplan.Options{Prefix: l.Name + ".", Layouts: 1}, solve); err != nil {
			return err
		}
		at := len(a.to.Storages)
		s := program.Storage{Name: l.Name, Kind: l.Kind, Device: l.Device, Align: 64, Size: l.Plan.Height, Late: true}
		for _, let := range l.Plan.Layouts[0].Lets {
			s.Lets = append(s.Lets, program.Let{Name: let.Name, X: let.X})
		}
		a.to.Storages = append(a.to.Storages, s)
		for _, b := range roots {
			a.storage[b] = at
		}
		c.Late = append(c.Late, l)
		c.late = append(c.late, p)
	}
	return nil
}

// placeTakes inserts a Take before each step that uses late storage which is not taken, or not since one of its
// dimensions changed.
func placeTakes(p *program.Program) {
	w := &taker{p: p, dims: p.LateDims(), alone: p.Alone()}
	if slices.ContainsFunc(p.Storages, func(s program.Storage) bool { return s.Late }) {
		p.Steps = w.steps(p.Steps, map[int]bool{})
	}
}

type taker struct {
	p     *program.Program
	dims  [][]int
	alone []int
}

// steps returns a body with its takes. taken holds the storages that are taken before the body, and is updated. It
// builds new bodies from the state that each step leaves, which program.Walk cannot do.
func (w *taker) steps(list []program.Step, taken map[int]bool) []program.Step {
	var out []program.Step
	for _, step := range list {
		need := func(tensors ...int) {
			for _, t := range tensors {
				if s := w.storage(t); s >= 0 && !taken[s] {
					taken[s] = true
					out = append(out, &program.Take{Storage: s})
				}
			}
		}
		switch s := step.(type) {
		case *program.Carve:
			if at := w.storage(s.Tensor); at >= 0 && w.alone[at] < 0 {
				need(s.Tensor)
			}
		case *program.Launch:
			need(s.Args...)
		case *program.Copy:
			need(s.From, s.To, s.Pick.Of())
		case *program.Bind:
			need(s.From)
			w.changed(s.Dim, taken)
		case *program.Host:
			need(s.In...)
			for _, t := range s.Out {
				w.shaped(t, taken)
			}
			for _, t := range s.Out {
				if at := w.storage(t); at >= 0 && w.alone[at] >= 0 {
					taken[at] = true // it takes this itself
				}
			}
			need(s.Out...)
		case *program.If:
			need(s.Cond)
			other := maps.Clone(taken)
			step = &program.If{Cond: s.Cond, Then: w.steps(s.Then, taken), Else: w.steps(s.Else, other), Source: s.Source}
			keep(taken, other)
		case *program.Loop:
			need(s.Trip, s.Cond, s.Index)
			if s.Count >= 0 {
				w.changed(s.Count, taken)
			}
			step = w.loop(s, taken)
		}
		out = append(out, step)
	}
	return out
}

// loop returns a loop with takes that are right for every iteration, not only the first.
func (w *taker) loop(s *program.Loop, taken map[int]bool) program.Step {
	start := maps.Clone(taken)
	for {
		end := maps.Clone(start)
		body := w.steps(s.Body, end)
		if s.Count >= 0 {
			w.changed(s.Count, end)
		}
		again := maps.Clone(start)
		if keep(again, end); len(again) == len(start) {
			keep(taken, end) // there may be no iteration
			return &program.Loop{Trip: s.Trip, Cond: s.Cond, Index: s.Index, Count: s.Count, Body: body, Source: s.Source}
		}
		start = again
	}
}

// keep deletes from a the members that b does not have.
func keep(a, b map[int]bool) { maps.DeleteFunc(a, func(s int, _ bool) bool { return !b[s] }) }

// storage returns the late storage of a tensor; −1 if it has none.
func (w *taker) storage(t int) int {
	if t < 0 {
		return -1
	}
	if x := &w.p.Tensors[w.p.Root(t)]; x.Class == program.Carved && w.p.Storages[x.Of].Late {
		return x.Of
	}
	return -1
}

// shaped marks the dimensions that a host operator's result binds as changed.
func (w *taker) shaped(t int, taken map[int]bool) {
	for _, e := range w.p.Tensors[t].Shape {
		for i := range w.p.Dims {
			if name, ok := e.Name(); ok && w.p.Dims[i].Data && w.p.Dims[i].Name == name {
				w.changed(i, taken)
			}
		}
	}
}

// changed removes the storages that depend on a dimension from taken.
func (w *taker) changed(dim int, taken map[int]bool) {
	for s, dims := range w.dims {
		if slices.Contains(dims, dim) {
			delete(taken, s)
		}
	}
}
