package report

import (
	"cmp"
	"slices"

	"github.com/weirml/weir/internal/executor"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
)

// Layout is the positions and live ranges of all buffers of one call, for one binding of the dimensions.
type Layout struct {
	Steps    []Step
	Storages []Storage
	Buffers  []Buffer // in the order of their first steps

	at      map[program.Step]int
	planned []int64 // beside Buffers: the bytes at the bounds of the dimensions that data decide
}

// Step is a step of a run. The body of a loop appears once, the bodies of a branch one after the other.
type Step struct {
	Kind  string // "launch", "host", "copy", "bind", "if", "loop" or "end", of a loop
	Nodes string
	Name  string // the kernel, the host operator, or the dimension that is bound
	Depth int    // the number of loops and branches around it
	Live  int64  // bytes of the arena that are live at this step
}

// Storage is one block of a call's memory.
type Storage struct {
	Name  string
	Kind  string // "arena", "outputs", or "spill"
	Bytes int64
	Late  bool // a run allocates it when data have determined its size
}

// Buffer is a range of one storage that belongs to a tensor from step First to step Last, both included.
type Buffer struct {
	Name    string
	Tensor  string // the model's name; empty if it has none
	DType   string
	Shape   []int64
	Storage int // index in Layout.Storages
	Offset  int64
	Bytes   int64
	First   int
	Last    int
	Over    []int    // buffers that it overwrites
	Parts   []string // the model's names of tensors within it
	Reached int64    // set by Observe: the bytes that launches accessed; −1 if no executed step used it
}

// Actual is the use of the planned memory by a run.
type Actual struct {
	Equal   bool // it accessed all live buffers to their last bytes, and nothing else, and none is smaller than planned
	Ranges  int
	Outside []Access
	Short   []int // buffers whose last byte was not accessed
	Unused  int   // buffers of branches and loops that were not entered
	Bounded int   // buffers for which data decided fewer bytes than are planned
}

// Access is a range that a step received.
type Access struct {
	Step    int
	Storage int
	Offset  int64
	Bytes   int64
}

// LayoutOf returns the layout of one call for values of all dimensions; joint has values that dimensions have together.
func LayoutOf(p *program.Program, labels *Labels, at Bindings, joint []executor.Joint) (*Layout, error) {
	names, err := offsetNames(p, at)
	if err != nil {
		return nil, err
	}
	l := &Layout{at: map[program.Step]int{}}
	for i, s := range p.Storages {
		bytes, err := s.Size.Eval(names[i])
		if err != nil {
			return nil, err
		}
		l.Storages = append(l.Storages, Storage{Name: s.Name, Kind: storageKinds[s.Kind], Bytes: bytes, Late: s.Late})
	}
	w := &planner{plan: l, program: p, labels: labels, at: l.at, buffer: map[int]int{}}
	w.walk(p.Steps, 0)
	for t, i := range w.buffer {
		if err := fill(&l.Buffers[i], p, t, at, joint, names); err != nil {
			return nil, err
		}
	}
	l.planned = make([]int64, len(l.Buffers))
	for t, i := range w.buffer {
		if l.planned[i] = l.Buffers[i].Bytes; p.Bounded(&p.Tensors[t]) {
			if l.planned[i], err = p.Most(&p.Tensors[t], at.Lookup); err != nil {
				return nil, err
			}
		}
	}
	for i := range p.Tensors {
		root := p.Root(i)
		b, ok := w.buffer[root]
		if name := p.Tensors[i].Source; ok && i != root && name != "" && name != l.Buffers[b].Tensor &&
			!slices.Contains(l.Buffers[b].Parts, name) {
			l.Buffers[b].Parts = append(l.Buffers[b].Parts, name)
		}
	}
	l.measureLive()
	return l, nil
}

// storageKinds are the names of Storage.Kind.
var storageKinds = map[program.StorageKind]string{program.Arena: "arena", program.Results: "outputs",
	program.Spill: "spill"}

// planner walks a program. It numbers the steps as the compiler's planner does.
type planner struct {
	plan    *Layout
	program *program.Program
	labels  *Labels
	at      map[program.Step]int
	buffer  map[int]int // by carved tensor
}

// add appends a step to the layout.
func (w *planner) add(s program.Step, step Step) {
	w.at[s] = len(w.plan.Steps)
	w.plan.Steps = append(w.plan.Steps, step)
}

// walk visits a list of steps at a depth of loops and branches.
func (w *planner) walk(steps []program.Step, depth int) {
	for _, step := range steps {
		switch s := step.(type) {
		case *program.Carve:
			w.carve(s)
		case *program.Release:
			w.release(s)
		case *program.Launch:
			w.add(s, Step{Kind: "launch", Nodes: Once(s.Source), Name: w.program.Kernels[s.Kernel], Depth: depth})
		case *program.Host:
			w.add(s, Step{Kind: "host", Nodes: s.Source, Name: s.Op, Depth: depth})
		case *program.Copy:
			w.add(s, Step{Kind: "copy", Name: w.program.Tensors[s.From].Name + " to " + w.program.Tensors[s.To].Name,
				Depth: depth})
		case *program.Bind:
			w.add(s, Step{Kind: "bind", Nodes: s.Source, Name: w.labels.Of[w.program.Dims[s.Dim].Name], Depth: depth})
		case *program.If:
			w.add(s, Step{Kind: "if", Nodes: s.Source, Depth: depth})
			// buffers that end with the condition are released at the beginning of both bodies
			for _, body := range [][]program.Step{s.Then, s.Else} {
				if r, ok := first(body).(*program.Release); ok {
					w.release(r)
				}
			}
			for _, body := range [][]program.Step{s.Then, s.Else} {
				if _, ok := first(body).(*program.Release); ok {
					body = body[1:]
				}
				w.walk(body, depth+1)
			}
		case *program.Loop:
			w.add(s, Step{Kind: "loop", Nodes: s.Source, Depth: depth})
			w.walk(s.Body, depth+1)
			w.plan.Steps = append(w.plan.Steps, Step{Kind: "end", Nodes: s.Source, Depth: depth})
		}
	}
	for i := range w.plan.Buffers {
		if depth == 0 && w.plan.Buffers[i].Last < 0 { // the caller has a buffer that is never released
			w.plan.Buffers[i].Last = max(w.plan.Buffers[i].First, len(w.plan.Steps)-1)
		}
	}
}

// first returns the first step of a body, or nil if it is empty.
func first(body []program.Step) program.Step {
	if len(body) == 0 {
		return nil
	}
	return body[0]
}

// release ends live ranges at the previous step.
func (w *planner) release(s *program.Release) {
	for _, t := range s.Tensors {
		if b, ok := w.buffer[t]; ok {
			w.plan.Buffers[b].Last = max(w.plan.Buffers[b].First, len(w.plan.Steps)-1)
		}
	}
}

// carve begins a buffer's live range, or resumes it in the second body of a branch.
func (w *planner) carve(s *program.Carve) {
	w.at[s] = len(w.plan.Steps)
	if _, again := w.buffer[s.Tensor]; again {
		return
	}
	b := Buffer{First: len(w.plan.Steps), Last: -1, Reached: -1}
	for _, t := range s.Over {
		if of, ok := w.buffer[t]; ok {
			b.Over = append(b.Over, of)
		}
	}
	w.buffer[s.Tensor] = len(w.plan.Buffers)
	w.plan.Buffers = append(w.plan.Buffers, b)
}

// fill evaluates a buffer's size and offset.
func fill(b *Buffer, p *program.Program, tensor int, at Bindings, joint []executor.Joint,
	names []func(sym.Name) (int64, bool)) (err error) {
	t := &p.Tensors[tensor]
	var with Bindings
	if b.Bytes, with, err = largest(t, at, joint); err != nil {
		return err
	}
	b.Name, b.Tensor, b.DType, b.Storage, b.Shape = t.Name, t.Source, t.DType.String(), t.Of, make([]int64, len(t.Shape))
	for axis, extent := range t.Shape {
		if b.Shape[axis], err = extent.Eval(with.Lookup); err != nil {
			return err
		}
	}
	b.Offset, err = t.Offset.Eval(names[t.Of])
	return err
}

// measureLive computes, for each step, the live bytes of the arena. A buffer and the buffer that it overwrites count
// once.
func (l *Layout) measureLive() {
	var list []*Buffer
	for s := range l.Steps {
		list = list[:0]
		for i := range l.Buffers {
			if b := &l.Buffers[i]; b.First <= s && s <= b.Last && b.Bytes > 0 && l.Storages[b.Storage].Kind == "arena" {
				list = append(list, b)
			}
		}
		slices.SortFunc(list, func(a, b *Buffer) int { return cmp.Or(a.Storage-b.Storage, cmp.Compare(a.Offset, b.Offset)) })
		storage, end := -1, int64(0)
		for _, b := range list {
			if b.Storage != storage {
				storage, end = b.Storage, 0
			}
			l.Steps[s].Live += max(0, b.Offset+b.Bytes-max(end, b.Offset))
			end = max(end, b.Offset+b.Bytes)
		}
	}
}

// Observe compares the layout with the ranges that the steps of a run received.
func (l *Layout) Observe(ranges []executor.Access) Actual {
	a := Actual{Ranges: len(ranges)}
	for _, r := range ranges {
		step, ok := l.at[r.Step]
		inside := false
		for i := range l.Buffers {
			b := &l.Buffers[i]
			if ok && b.Storage == r.Storage && b.First <= step && step <= b.Last && b.Offset <= r.Begin && r.End <= b.Offset+
				b.Bytes {
				b.Reached, inside = max(b.Reached, r.End-b.Offset), true
			}
		}
		if !inside {
			a.Outside = append(a.Outside, Access{step, r.Storage, r.Begin, r.End - r.Begin})
		}
	}
	for i, b := range l.Buffers {
		if b.Bytes < l.planned[i] {
			a.Bounded++
		}
		switch {
		case b.Bytes == 0 || b.Reached == b.Bytes:
		case b.Reached < 0 && l.optional(b.First):
			a.Unused++
		default:
			a.Short = append(a.Short, i)
		}
	}
	a.Equal = len(a.Outside) == 0 && len(a.Short) == 0 && a.Bounded == 0
	return a
}

// optional reports whether a run may skip a step and the buffers that begin there: it is in a loop or branch, or is
// one.
func (l *Layout) optional(step int) bool {
	return step < len(l.Steps) && (l.Steps[step].Depth > 0 || l.Steps[step].Kind == "loop" || l.Steps[step].Kind == "if")
}
