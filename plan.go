package weir

import (
	"cmp"
	"context"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/executor"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
)

// Plan is where every buffer of one call lies, and when, for one binding of the dimensions: what the certificate's numbers are made of, and what `weir plan --html`
// draws. Sizes and offsets are in bytes.
type Plan struct {
	Dims Dims `json:"dims"` // the binding, with what data decide at its limit or as it was observed

	// The certificate's terms at this binding: Peak = Weights + Code + Calls × (Arena + Outputs + Workers × Scratch).
	Weights int64 `json:"weights_bytes"`
	Code    int64 `json:"code_bytes"`
	Calls   int   `json:"calls"`
	Arena   int64 `json:"arena_bytes"`
	Outputs int64 `json:"outputs_bytes"`
	Workers int   `json:"workers"`
	Scratch int64 `json:"scratch_bytes"`
	Peak    int64 `json:"peak_bytes"`

	LowerBound int64 `json:"lower_bound_bytes"` // no plan of this arena is smaller
	Least      int64 `json:"least_bytes"`       // nor smaller than this: compare Arena with it, see Memory.Least
	Proven     bool  `json:"proven"`            // the arena equals Least for every binding
	PeakStep   int   `json:"peak_step"`         // the first step at which it is reached; −1 where there are no steps

	Steps    []PlanStep    `json:"steps"`
	Storages []PlanStorage `json:"storages"`
	Buffers  []PlanBuffer  `json:"buffers"` // in the order in which they come to life
	Actual   *PlanActual   `json:"actual,omitempty"`
}

// PlanStep is one thing that a run does. The body of a loop stands once, those of a branch one after the other.
type PlanStep struct {
	Kind  string `json:"kind"`            // "launch", "host", "copy", "bind", "if", "loop" or "end", of a loop
	Nodes string `json:"nodes,omitempty"` // the model's nodes that it stands for
	Name  string `json:"name,omitempty"`  // the kernel, the host operator, or the dimension that is bound
	Depth int    `json:"depth,omitempty"` // bodies that it stands in
	Live  int64  `json:"live"`            // bytes of the arena that hold something meanwhile
}

// PlanStorage is one block of a call's memory.
type PlanStorage struct {
	Name          string `json:"name"`
	Kind          string `json:"kind"` // "arena", "outputs", or "spill": a file, no memory
	Bytes         int64  `json:"bytes"`
	DataDependent bool   `json:"late,omitempty"` // a run takes it when data have decided its size
}

// PlanBuffer is a range of one storage that belongs to a tensor from step First to step Last, both included. One that a result lies in has the last step of all.
type PlanBuffer struct {
	Name    string   `json:"name"`             // the compiler's, unique in the plan
	Tensor  string   `json:"tensor,omitempty"` // the model's own name; empty for what the model does not name
	DType   string   `json:"dtype"`
	Shape   []int64  `json:"shape"`
	Storage int      `json:"storage"` // index in Plan.Storages
	Offset  int64    `json:"offset"`
	Bytes   int64    `json:"bytes"`
	First   int      `json:"first"`
	Last    int      `json:"last"`
	Over    []int    `json:"over,omitempty"`  // buffers in whose place it is computed: their last step is its first
	Parts   []string `json:"parts,omitempty"` // the model's names of what lies within it
	Reached int64    `json:"reached"`         // of a plan by Observe: how far launches really reached into it; −1 where no step that ran had it
}

// PlanActual is what one watched run really did with the memory.
type PlanActual struct {
	// Equal: the run touched just what was planned, nothing outside the buffers alive at each step, and each of them to its last byte.
	Equal   bool         `json:"equal"`
	Ranges  int          `json:"ranges"` // operands that launches, copies and host operators received in the call's storage, each once a step
	Outside []PlanAccess `json:"outside,omitempty"`
	Short   []int        `json:"short,omitempty"` // buffers whose last byte nothing reached
	Unused  int          `json:"unused"`          // buffers of branches and loops that were not entered
	Arena   int64        `json:"arena_bytes"`     // the certificate's terms, as they were measured
	Outputs int64        `json:"outputs_bytes"`
	Scratch int64        `json:"scratch_bytes"` // of one worker
	Weights int64        `json:"weights_bytes"`
}

// PlanAccess is a range that a step received.
type PlanAccess struct {
	Step    int   `json:"step"`
	Storage int   `json:"storage"`
	Offset  int64 `json:"offset"`
	Bytes   int64 `json:"bytes"`
}

// Plan lays out one call for a binding of the dimensions. It needs a value for each that the inputs' shapes mention, and for each of Decided's that nothing bounds.
func (p *Program) Plan(d Dims) (plan *Plan, err error) {
	defer diag.Recover(&err, "laying out the plan")
	plan, _, err = p.plan(d)
	return plan, err
}

// storageKinds are PlanStorage's words.
var storageKinds = map[program.StorageKind]string{program.Arena: "arena", program.Results: "outputs", program.Spill: "spill"}

// plan is Plan, and which of its steps a step of the program is.
func (p *Program) plan(d Dims) (*Plan, map[program.Step]int, error) {
	prog := p.compiled.Program
	at, err := p.complete(d)
	if err != nil {
		return nil, nil, err
	}
	m := p.memory
	plan := &Plan{Dims: at, Calls: p.options.Calls, Workers: m.Workers, Proven: m.Proven, PeakStep: -1, Steps: []PlanStep{}, Buffers: []PlanBuffer{}, Storages: []PlanStorage{}}
	for _, term := range []struct {
		to *int64
		x  Size
	}{{&plan.Weights, m.Weights}, {&plan.Code, m.Code}, {&plan.Arena, m.Arena}, {&plan.Outputs, m.Outputs}, {&plan.Scratch, m.Scratch}, {&plan.LowerBound, m.LowerBound}, {&plan.Least, m.Least}, {&plan.Peak, m.Formula(plan.Calls)}} {
		if *term.to, err = term.x.At(at); err != nil {
			return nil, nil, err
		}
	}
	inside := p.labels.bindings(at)
	places, err := placesOf(prog, inside)
	if err != nil {
		return nil, nil, err
	}
	for i, s := range prog.Storages {
		bytes, err := s.Size.Eval(places[i])
		if err != nil {
			return nil, nil, err
		}
		plan.Storages = append(plan.Storages, PlanStorage{Name: s.Name, Kind: storageKinds[s.Kind], Bytes: bytes, DataDependent: s.Late})
	}
	w := &planner{plan: plan, program: prog, labels: p.labels, at: map[program.Step]int{}, buffer: map[int]int{}}
	w.walk(prog.Steps, 0)
	for t, i := range w.buffer {
		if err := fill(&plan.Buffers[i], prog, t, inside, places); err != nil {
			return nil, nil, err
		}
	}
	for i := range prog.Tensors {
		root := rootOf(prog, i)
		b, ok := w.buffer[root]
		if name := prog.Tensors[i].Source; ok && i != root && name != "" && name != plan.Buffers[b].Tensor && !slices.Contains(plan.Buffers[b].Parts, name) {
			plan.Buffers[b].Parts = append(plan.Buffers[b].Parts, name)
		}
	}
	plan.measureLive()
	if c, err := p.compiled.Certify(inside.lookup); err == nil && c.Step < len(plan.Steps) && len(plan.Steps) > 0 {
		plan.PeakStep = c.Step
	}
	return plan, w.at, nil
}

// complete checks a binding, and adds what data decide where something bounds it.
func (p *Program) complete(d Dims) (Dims, error) {
	if err := p.Check(d); err != nil {
		return nil, err
	}
	at := Dims{}
	list := p.compiled.Program.Dims
	for i := range list {
		if v, ok := d[p.label(i)]; ok {
			at[p.label(i)] = v
		}
	}
	for i := range list {
		dim, label := &list[i], p.label(i)
		v, ok := at[label]
		if !ok && dim.Data {
			if limit, err := dim.Limit.Eval(p.labels.values(at)); err == nil && !dim.Late() {
				v, ok = min(limit, dim.Range.Max), true
			} else if !p.decidedDims()[label] {
				v, ok = dim.Range.Min, true // no size depends on it
			}
		}
		if !ok {
			return nil, diag.Inputf("dimension %s has no value", label).AtDim(label).WithFix("add Dims{%q: …}", label)
		}
		if v < dim.Range.Min || v > dim.Range.Max {
			return nil, p.compiled.Program.Outside(i, v)
		}
		at[label] = v
	}
	return at, nil
}

// rootOf is the tensor that a part, or a part of a part, lies in.
func rootOf(p *program.Program, t int) int {
	for p.Tensors[t].Place == program.Part {
		t = p.Tensors[t].Of
	}
	return t
}

// planner walks a program. It numbers its steps as the compiler did when it planned them.
type planner struct {
	plan    *Plan
	program *program.Program
	labels  *labels
	at      map[program.Step]int
	buffer  map[int]int // by carved tensor
}

func (w *planner) add(s program.Step, step PlanStep) {
	w.at[s] = len(w.plan.Steps)
	w.plan.Steps = append(w.plan.Steps, step)
}

func (w *planner) walk(steps []program.Step, depth int) {
	for _, step := range steps {
		switch s := step.(type) {
		case *program.Carve:
			w.carve(s)
		case *program.Release:
			w.release(s)
		case *program.Launch:
			w.add(s, PlanStep{Kind: "launch", Nodes: once(s.Source), Name: w.program.Kernels[s.Kernel], Depth: depth})
		case *program.Host:
			w.add(s, PlanStep{Kind: "host", Nodes: s.Source, Name: s.Op, Depth: depth})
		case *program.Copy:
			w.add(s, PlanStep{Kind: "copy", Name: w.program.Tensors[s.From].Name + " to " + w.program.Tensors[s.To].Name, Depth: depth})
		case *program.Bind:
			w.add(s, PlanStep{Kind: "bind", Nodes: s.Source, Name: w.labels.of[w.program.Dims[s.Dim].Name], Depth: depth})
		case *program.If:
			w.add(s, PlanStep{Kind: "if", Nodes: s.Source, Depth: depth})
			for _, body := range [][]program.Step{s.Then, s.Else} { // what ends with the condition is released first thing in both
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
			w.add(s, PlanStep{Kind: "loop", Nodes: s.Source, Depth: depth})
			w.walk(s.Body, depth+1)
			w.plan.Steps = append(w.plan.Steps, PlanStep{Kind: "end", Nodes: s.Source, Depth: depth})
		}
	}
	for i := range w.plan.Buffers {
		if depth == 0 && w.plan.Buffers[i].Last < 0 { // never released: the caller has it
			w.plan.Buffers[i].Last = max(w.plan.Buffers[i].First, len(w.plan.Steps)-1)
		}
	}
}

func first(body []program.Step) program.Step {
	if len(body) == 0 {
		return nil
	}
	return body[0]
}

// release ends lives with the step before.
func (w *planner) release(s *program.Release) {
	for _, t := range s.Tensors {
		if b, ok := w.buffer[t]; ok {
			w.plan.Buffers[b].Last = max(w.plan.Buffers[b].First, len(w.plan.Steps)-1)
		}
	}
}

// carve begins a buffer's life, or, in the second body of a branch, begins it again.
func (w *planner) carve(s *program.Carve) {
	w.at[s] = len(w.plan.Steps)
	if _, again := w.buffer[s.Tensor]; again {
		return
	}
	b := PlanBuffer{First: len(w.plan.Steps), Last: -1, Reached: -1}
	for _, t := range s.Over {
		if of, ok := w.buffer[t]; ok {
			b.Over = append(b.Over, of)
		}
	}
	w.buffer[s.Tensor] = len(w.plan.Buffers)
	w.plan.Buffers = append(w.plan.Buffers, b)
}

// fill evaluates a buffer's size and place.
func fill(b *PlanBuffer, p *program.Program, tensor int, at bindings, places []func(sym.Name) (int64, bool)) (err error) {
	t := &p.Tensors[tensor]
	b.Name, b.Tensor, b.DType, b.Storage, b.Shape = t.Name, t.Source, t.DType.String(), t.Of, make([]int64, len(t.Shape))
	for axis, extent := range t.Shape {
		if b.Shape[axis], err = extent.Eval(at.lookup); err != nil {
			return err
		}
	}
	if b.Bytes, err = t.Bytes().Eval(at.lookup); err == nil {
		b.Offset, err = t.Offset.Eval(places[t.Of])
	}
	return err
}

// measureLive counts, for each step, the bytes of the arena that a buffer holds: once where one is computed in the place of another.
func (p *Plan) measureLive() {
	var list []*PlanBuffer
	for s := range p.Steps {
		list = list[:0]
		for i := range p.Buffers {
			if b := &p.Buffers[i]; b.First <= s && s <= b.Last && b.Bytes > 0 && p.Storages[b.Storage].Kind == "arena" {
				list = append(list, b)
			}
		}
		slices.SortFunc(list, func(a, b *PlanBuffer) int { return cmp.Or(a.Storage-b.Storage, cmp.Compare(a.Offset, b.Offset)) })
		storage, end := -1, int64(0)
		for _, b := range list {
			if b.Storage != storage {
				storage, end = b.Storage, 0
			}
			p.Steps[s].Live += max(0, b.Offset+b.Bytes-max(end, b.Offset))
			end = max(end, b.Offset+b.Bytes)
		}
	}
}

// Observe runs the program on the inputs, watched as by Measure, and lays out its plan with the sizes that this run had: Actual, and each buffer's Reached, are what
// launches, copies and host operators really received. None of that is read from the plan.
func (p *Program) Observe(ctx context.Context, in Inputs) (plan *Plan, err error) {
	d, err := p.Bind(in)
	if err != nil {
		return nil, err
	}
	m, ranges, err := p.measure(ctx, in)
	if err != nil {
		return nil, err
	}
	defer diag.Recover(&err, "laying out the plan")
	for name, v := range m.Decided {
		d[name] = v
	}
	plan, steps, err := p.plan(d)
	if err != nil {
		return nil, err
	}
	plan.observe(m, ranges, steps)
	return plan, nil
}

// observe compares the plan with what a run received.
func (p *Plan) observe(m Measurement, ranges []executor.Access, steps map[program.Step]int) {
	a := &PlanActual{Ranges: len(ranges), Arena: m.Arena, Outputs: m.Outputs, Scratch: m.Scratch / int64(max(1, p.Workers)), Weights: m.Weights}
	p.Actual = a
	for _, r := range ranges {
		step, ok := steps[r.Step]
		inside := false
		for i := range p.Buffers {
			b := &p.Buffers[i]
			if ok && b.Storage == r.Storage && b.First <= step && step <= b.Last && b.Offset <= r.Begin && r.End <= b.Offset+b.Bytes {
				b.Reached, inside = max(b.Reached, r.End-b.Offset), true
			}
		}
		if !inside {
			a.Outside = append(a.Outside, PlanAccess{step, r.Storage, r.Begin, r.End - r.Begin})
		}
	}
	for i, b := range p.Buffers {
		switch {
		case b.Bytes == 0 || b.Reached == b.Bytes:
		case b.Reached < 0 && p.optional(b.First):
			a.Unused++
		default:
			a.Short = append(a.Short, i)
		}
	}
	a.Equal = len(a.Outside) == 0 && len(a.Short) == 0
}

// optional reports whether a run may pass a step by, or what begins there: it stands in a body, or it is a loop or a branch, whose bodies a run need not enter.
func (p *Plan) optional(step int) bool {
	return step < len(p.Steps) && (p.Steps[step].Depth > 0 || p.Steps[step].Kind == "loop" || p.Steps[step].Kind == "if")
}
