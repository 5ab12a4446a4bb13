package weir

import (
	"context"
	"time"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/report"
	"github.com/weirml/weir/internal/sym"
)

// KernelTime is the profile of one kernel launch, host operator or copy.
type KernelTime struct {
	Nodes  string `json:"nodes"`  // the model's nodes that it computes
	Kernel string `json:"kernel"` // the kernel's name, or the host operator's, or "copy"
	// Backend made the code: "amd64" or another machine's name, "portable", "reference", or "host".
	Backend string `json:"backend"`
	// Why says why it is not machine code, or which parts of the code are slower than scheduled.
	Why []string `json:"why,omitempty"`
	// Count is the number of executions in a run: several in a loop, 0 in a branch that is not taken.
	Count int           `json:"count"`
	Time  time.Duration `json:"nanoseconds"`
	// Operations is the arithmetic of the results by the operators' definitions: without padding, and the same for every
	// algorithm. Done is the arithmetic that the launch executes, and Slots the same in f32 operations: narrow products
	// that one instruction sums count as one. Bytes is the least number of bytes to move, of which Weights belong to
	// constants. All are 0 for host operators.
	Operations int64 `json:"operations"`
	Done       int64 `json:"done"`
	Slots      int64 `json:"slots"`
	Bytes      int64 `json:"bytes"`
	Weights    int64 `json:"weights"`
}

// Kernels lists the launches as Profile does, without a run: counts and times are 0, and the other fields are for
// dimensions of 1, or their minimum.
func (p *Program) Kernels() (list []KernelTime) {
	dims := make([]int64, len(p.compiled.Program.Dims))
	for i, d := range p.compiled.Program.Dims {
		dims[i] = max(d.Range.Min, 1)
	}
	p.launches(&list, dims)
	return list
}

// Profile runs the program runs times and returns the shortest time of each launch. The time of a launch in a loop is
// the sum over the iterations.
func (p *Program) Profile(ctx context.Context, in Inputs, runs int) (list []KernelTime, err error) {
	dims, times, err := p.session.Times(ctx, arguments(in), runs)
	if err != nil {
		return nil, err
	}
	defer diag.Recover(&err, "profiling")
	at := p.launches(&list, dims)
	for run, steps := range times {
		for step, i := range at {
			t := steps[step]
			if list[i].Count = t.Count; run == 0 || t.Time < list[i].Time {
				list[i].Time = t.Time
			}
		}
	}
	return list, nil
}

// launches appends the program's launches to list, without times, and returns the index of each.
func (p *Program) launches(list *[]KernelTime, dims []int64) map[program.Step]int {
	known := func(name sym.Name) (int64, bool) {
		for i, d := range p.compiled.Program.Dims {
			if d.Name == name {
				return dims[i], true
			}
		}
		return 0, false
	}
	at := map[program.Step]int{}
	report.WalkBodies(p.compiled.Program.Steps, func(program.Step) uint8 { return 3 }, func(s program.Step, _ uint8) {
		var l KernelTime
		switch s := s.(type) {
		case *program.Launch:
			l = KernelTime{Nodes: report.Once(s.Source), Kernel: p.compiled.Program.Kernels[s.Kernel],
				Backend: p.compiled.Backend(s.Kernel), Why: p.compiled.Why(s.Kernel)}
			cost := p.compiled.Cost(s.Kernel)
			l.Operations, _ = cost.Operations.Eval(known) // 0 if data decide it
			done := p.compiled.Done(s.Kernel, known)
			l.Done, l.Slots = done.Operations, done.Slots
			l.Bytes, _ = cost.Bytes.Eval(known)
			l.Weights = min(l.Bytes, p.weights(s))
		case *program.Host:
			l = KernelTime{Nodes: s.Source, Kernel: s.Op, Backend: "host", Why: []string{compiler.WhyHost(s.Op)}}
		case *program.Copy:
			l = KernelTime{Kernel: "copy", Backend: "host"}
		default:
			return
		}
		at[s] = len(*list)
		*list = append(*list, l)
	})
	return at
}

// weights returns the bytes of a launch's constant operands.
func (p *Program) weights(s *program.Launch) (total int64) {
	for _, i := range s.Args {
		t := &p.compiled.Program.Tensors[i]
		bytes, ok := t.Bytes().Const()
		if p.compiled.Program.Tensors[p.compiled.Program.Root(i)].Class == program.Constant && ok {
			total += bytes
		}
	}
	return total
}
