package weir

import (
	"context"

	"github.com/weirml/weir/internal/certificate"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/executor"
	"github.com/weirml/weir/internal/report"
	"github.com/weirml/weir/internal/sym"
)

// Plan is the position and live range of every buffer of one call, for one binding of the dimensions: the source of the
// certificate's numbers, and of the drawing by `weir plan --html`. Sizes and offsets are in bytes.
type Plan struct {
	Dims Dims `json:"dims"` // the binding; sizes that data determine are at their bounds, or as observed

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
	Least      int64 `json:"least_bytes"`       // the best proved lower bound of Arena: see Memory.Least
	Proven     bool  `json:"proven"`            // the arena equals Least for every binding
	PeakStep   int   `json:"peak_step"`         // the first step at which LowerBound is reached; −1 if there are no steps

	Steps    []PlanStep    `json:"steps"`
	Storages []PlanStorage `json:"storages"`
	Buffers  []PlanBuffer  `json:"buffers"` // in the order of their first steps
	Actual   *PlanActual   `json:"actual,omitempty"`
}

// PlanStep is a step of a run. The body of a loop appears once, the bodies of a branch one after the other.
type PlanStep struct {
	Kind  string `json:"kind"`            // "launch", "host", "copy", "bind", "if", "loop", or "end" for the end of a loop
	Nodes string `json:"nodes,omitempty"` // the model's nodes that it computes
	Name  string `json:"name,omitempty"`  // the kernel, the host operator, or the dimension that is bound
	Depth int    `json:"depth,omitempty"` // the number of loops and branches around it
	Live  int64  `json:"live"`            // bytes of the arena that are live at this step
}

// PlanStorage is one block of a call's memory.
type PlanStorage struct {
	Name          string `json:"name"`
	Kind          string `json:"kind"` // "arena", "outputs", or "spill": a file, no memory
	Bytes         int64  `json:"bytes"`
	DataDependent bool   `json:"late,omitempty"` // a run allocates it when data have determined its size
}

// PlanBuffer is a range of a storage that belongs to a tensor from step First to step Last, both included. The buffer
// of a result lives until the last step.
type PlanBuffer struct {
	Name    string   `json:"name"`             // the compiler's name, unique in the plan
	Tensor  string   `json:"tensor,omitempty"` // the model's name; empty if the model has none
	DType   string   `json:"dtype"`
	Shape   []int64  `json:"shape"`
	Storage int      `json:"storage"` // index in Plan.Storages
	Offset  int64    `json:"offset"`
	Bytes   int64    `json:"bytes"`
	First   int      `json:"first"`
	Last    int      `json:"last"`
	Over    []int    `json:"over,omitempty"`  // buffers that it overwrites: their last step is its first
	Parts   []string `json:"parts,omitempty"` // the model's names of tensors within it
	// Reached is, in a plan by Observe, the number of bytes that launches accessed; −1 if no executed step used the
	// buffer.
	Reached int64 `json:"reached"`
}

// PlanActual is the use of the planned memory by one watched run.
type PlanActual struct {
	// Equal reports whether the run accessed all live buffers to their last bytes, and nothing else, and data decided
	// for none of them fewer bytes than are planned.
	Equal bool `json:"equal"`
	// Ranges counts the operands in the call's storage that launches, copies and host operators received, each once a
	// step.
	Ranges  int          `json:"ranges"`
	Outside []PlanAccess `json:"outside,omitempty"`
	Short   []int        `json:"short,omitempty"` // buffers whose last byte was not accessed
	Unused  int          `json:"unused"`          // buffers of branches and loops that were not entered
	Bounded int          `json:"bounded"`         // buffers for which data decided fewer bytes than are planned
	Arena   int64        `json:"arena_bytes"`     // the measured terms of the certificate
	Outputs int64        `json:"outputs_bytes"`
	Scratch int64        `json:"scratch_bytes"` // the scratch of one worker
	Weights int64        `json:"weights_bytes"`
}

// PlanAccess is a range of a storage that a step received.
type PlanAccess struct {
	Step    int   `json:"step"`
	Storage int   `json:"storage"`
	Offset  int64 `json:"offset"`
	Bytes   int64 `json:"bytes"`
}

// Plan returns the plan of one call for a binding of the dimensions. d needs a value for each dimension of Dims, and
// for each unbounded dimension of Decided.
func (p *Program) Plan(d Dims) (plan *Plan, err error) {
	defer diag.Recover(&err, "laying out the plan")
	joint, err := report.Cases(p.compiled.Program, p.labels.Bindings(d), func(name sym.Name) bool {
		_, given := d[p.labels.Of[name]]
		return given
	})
	if err != nil {
		return nil, err
	}
	plan, l, err := p.layout(d, joint)
	if err != nil {
		return nil, err
	}
	plan.lay(l)
	return plan, nil
}

// layout returns the sizes of a plan, and the positions of its buffers; joint has values that dimensions have together.
func (p *Program) layout(d Dims, joint []executor.Joint) (*Plan, *report.Layout, error) {
	at, err := certificate.Complete(p.compiled.Program, p.labels, p.decidedDims(), d)
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
	l, err := report.LayoutOf(p.compiled.Program, p.labels, inside, joint)
	if err != nil {
		return nil, nil, err
	}
	if c, err := p.compiled.Certify(inside.Lookup); err == nil && c.Step < len(l.Steps) && len(l.Steps) > 0 {
		plan.PeakStep = c.Step
	}
	return plan, l, nil
}

// lay sets the plan's steps, storages and buffers.
func (p *Plan) lay(l *report.Layout) {
	p.Steps = each(l.Steps, func(s report.Step) PlanStep { return PlanStep(s) })
	p.Storages = each(l.Storages, func(s report.Storage) PlanStorage {
		return PlanStorage{s.Name, s.Kind, s.Bytes, s.Late}
	})
	p.Buffers = each(l.Buffers, func(b report.Buffer) PlanBuffer { return PlanBuffer(b) })
}

// each applies a function to each element of a list. The result is never nil.
func each[From, To any](list []From, of func(From) To) []To {
	out := make([]To, len(list))
	for i, x := range list {
		out[i] = of(x)
	}
	return out
}

// Observe runs the program on the inputs, watched as in Measure, and returns its plan at the sizes of this run. Actual,
// and Reached of each buffer, come from the operands that launches, copies and host operators received, not from the
// plan.
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
	plan, l, err := p.layout(d, m.joint)
	if err != nil {
		return nil, err
	}
	a := l.Observe(ranges)
	plan.Actual = &PlanActual{Equal: a.Equal, Ranges: a.Ranges, Short: a.Short, Unused: a.Unused, Bounded: a.Bounded,
		Arena: m.Arena, Outputs: m.Outputs, Scratch: m.Scratch / int64(max(1, plan.Workers)), Weights: m.Weights}
	for _, x := range a.Outside {
		plan.Actual.Outside = append(plan.Actual.Outside, PlanAccess(x))
	}
	plan.lay(l)
	return plan, nil
}
