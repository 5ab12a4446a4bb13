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

// KernelTime is what a profile says of one launch of a kernel, one host operator or one copy, in the order of the
// program.
type KernelTime struct {
	Nodes  string `json:"nodes"`  // the model's nodes that it stands for
	Kernel string `json:"kernel"` // the kernel's name, or the host operator's, or "copy"
	// what made its code: a machine's name such as "amd64", "portable", "reference", or "host"
	Backend string `json:"backend"`
	// why it is not the machine's code, or what in that code is slower than it was scheduled to be
	Why []string `json:"why,omitempty"`
	// how often a run gets there: more than once in a loop, 0 in a branch not taken
	Count int           `json:"count"`
	Time  time.Duration `json:"nanoseconds"`
	// Operations is the arithmetic of the results, as the operators are defined: without padding, and for any algorithm
	// the same. Done is what the launch executes, and Slots the same in terms of f32: products of narrow elements that
	// an instruction adds up together take one place. Bytes is what must at least be moved, of which Weights are of the
	// program's constants. All are 0 for host operators.
	Operations int64 `json:"operations"`
	Done       int64 `json:"done"`
	Slots      int64 `json:"slots"`
	Bytes      int64 `json:"bytes"`
	Weights    int64 `json:"weights"`
}

// Kernels lists what a run launches as Profile does, but runs nothing: counts and times are 0, and the rest is for
// dimensions of 1, or what they are at least.
func (p *Program) Kernels() (list []KernelTime) {
	dims := make([]int64, len(p.compiled.Program.Dims))
	for i, d := range p.compiled.Program.Dims {
		dims[i] = max(d.Range.Min, 1)
	}
	p.launches(&list, dims)
	return list
}

// Profile runs the program so many times and tells where the time goes: of each launch, the shortest of its times in
// those runs. Of a loop's iterations the sum counts.
func (p *Program) Profile(ctx context.Context, in Inputs, runs int) (list []KernelTime, err error) {
	defer diag.Recover(&err, "profiling")
	args, dims, err := p.bindInputs(in)
	defer args.release()
	if err != nil {
		return nil, err
	}
	b, err := p.acquire(ctx, dims)
	if err != nil {
		return nil, err
	}
	defer p.release(b)
	if err := args.copyAll(p); err != nil {
		return nil, err
	}
	if err := p.unchanged(); err != nil {
		return nil, err
	}
	at := p.launches(&list, dims)
	defer b.call.Time(nil)
	for run := range runs {
		now := make([]KernelTime, len(list))
		b.call.Time(func(s program.Step, took time.Duration) {
			if i, ok := at[s]; ok {
				now[i].Count++
				now[i].Time += took
			}
		})
		if err := p.run(ctx, b.call, args.parts); err != nil {
			return nil, err
		}
		for i, n := range now {
			if list[i].Count = n.Count; run == 0 || n.Time < list[i].Time {
				list[i].Time = n.Time
			}
		}
	}
	return list, nil
}

// launches lists the program's steps that take time, without their times, and where each is in the list.
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

// weights are the bytes of a launch's operands that are constants.
func (p *Program) weights(s *program.Launch) (total int64) {
	for _, i := range s.Args {
		t := &p.compiled.Program.Tensors[i]
		bytes, ok := t.Bytes().Const()
		if p.compiled.Program.Tensors[p.compiled.Program.Root(i)].Place == program.Constant && ok {
			total += bytes
		}
	}
	return total
}
