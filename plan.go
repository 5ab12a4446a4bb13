package weir

import (
	"context"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/report"
)

// Plan is where every buffer of one call lies, and when, for one binding of the dimensions: what the certificate's
// numbers are made of, and what `weir plan --html` draws. Sizes and offsets are in bytes.
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

// PlanBuffer is a range of one storage that belongs to a tensor from step First to step Last, both included. One that a
// result lies in has the last step of all.
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
	// of a plan by Observe: how far launches really reached into it; −1 where no step that ran had it
	Reached int64 `json:"reached"`
}

// PlanActual is what one watched run really did with the memory.
type PlanActual struct {
	// Equal: the run touched just what was planned, nothing outside the buffers alive at each step, and each of them to
	// its last byte.
	Equal bool `json:"equal"`
	// operands that launches, copies and host operators received in the call's storage, each once a step
	Ranges  int          `json:"ranges"`
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

// Plan lays out one call for a binding of the dimensions. It needs a value for each that the inputs' shapes mention,
// and for each of Decided's that nothing bounds.
func (p *Program) Plan(d Dims) (plan *Plan, err error) {
	defer diag.Recover(&err, "laying out the plan")
	plan, l, err := p.layout(d)
	if err != nil {
		return nil, err
	}
	plan.lay(l)
	return plan, nil
}

// layout is the plan's numbers, and where its buffers lie.
func (p *Program) layout(d Dims) (*Plan, *report.Layout, error) {
	at, err := p.complete(d)
	if err != nil {
		return nil, nil, err
	}
	m := p.memory
	plan := &Plan{Dims: at, Calls: p.options.Calls, Workers: m.Workers, Proven: m.Proven, PeakStep: -1}
	for _, term := range []struct {
		to *int64
		x  Size
	}{{&plan.Weights, m.Weights}, {&plan.Code, m.Code}, {&plan.Arena, m.Arena}, {&plan.Outputs, m.Outputs},
		{&plan.Scratch, m.Scratch},
		{&plan.LowerBound, m.LowerBound}, {&plan.Least, m.Least}, {&plan.Peak, m.Formula(plan.Calls)}} {
		if *term.to, err = term.x.At(at); err != nil {
			return nil, nil, err
		}
	}
	inside := p.labels.Bindings(at)
	l, err := report.LayoutOf(p.compiled.Program, p.labels, inside)
	if err != nil {
		return nil, nil, err
	}
	if c, err := p.compiled.Certify(inside.Lookup); err == nil && c.Step < len(l.Steps) && len(l.Steps) > 0 {
		plan.PeakStep = c.Step
	}
	return plan, l, nil
}

// lay says where a plan's buffers lie.
func (p *Plan) lay(l *report.Layout) {
	p.Steps = each(l.Steps, func(s report.Step) PlanStep { return PlanStep(s) })
	p.Storages = each(l.Storages, func(s report.Storage) PlanStorage {
		return PlanStorage{s.Name, s.Kind, s.Bytes, s.Late}
	})
	p.Buffers = each(l.Buffers, func(b report.Buffer) PlanBuffer { return PlanBuffer(b) })
}

// each is what a function makes of each element of a list: a list, even if it is empty.
func each[From, To any](list []From, of func(From) To) []To {
	out := make([]To, len(list))
	for i, x := range list {
		out[i] = of(x)
	}
	return out
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
			if limit, err := dim.Limit.Eval(p.labels.Values(at)); err == nil && !dim.Late() {
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

// Observe runs the program on the inputs, watched as by Measure, and lays out its plan with the sizes that this run
// had: Actual, and each buffer's Reached, are what launches, copies and host operators really received. None of that is
// read from the plan.
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
	plan, l, err := p.layout(d)
	if err != nil {
		return nil, err
	}
	a := l.Observe(ranges)
	plan.Actual = &PlanActual{Equal: a.Equal, Ranges: a.Ranges, Short: a.Short, Unused: a.Unused,
		Arena: m.Arena, Outputs: m.Outputs, Scratch: m.Scratch / int64(max(1, plan.Workers)), Weights: m.Weights}
	for _, x := range a.Outside {
		plan.Actual.Outside = append(plan.Actual.Outside, PlanAccess(x))
	}
	plan.lay(l)
	return plan, nil
}
