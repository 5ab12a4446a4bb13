// Package timing measures the launches of programs. It describes each launch with the operations and bytes of its
// kernel, and tries alternatives to the kernels that the scheduler's tables choose.
package timing

import (
	"context"
	"time"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/report"
	"github.com/weirml/weir/internal/session"
	"github.com/weirml/weir/internal/sym"
)

// Launch is a kernel launch, host operator or copy, with the fields of weir.KernelTime.
type Launch struct {
	Nodes, Kernel, Backend                  string
	Why, Delays                             []string
	Count                                   int
	Time                                    time.Duration
	Operations, Done, Slots, Bytes, Weights int64
	Tiles                                   int64
	Alone                                   string
}

// Launches returns the launches, host operators and copies of a program, without counts and times, and the index in
// list of each step. dims are the sizes of the program's dimensions.
func Launches(c *compiler.Compiled, dims []int64) (list []Launch, at map[program.Step]int) {
	known := func(name sym.Name) (int64, bool) {
		for i, d := range c.Program.Dims {
			if d.Name == name {
				return dims[i], true
			}
		}
		return 0, false
	}
	at = map[program.Step]int{}
	report.WalkBodies(c.Program.Steps, func(program.Step) uint8 { return 3 }, func(s program.Step, _ uint8) {
		var l Launch
		switch s := s.(type) {
		case *program.Launch:
			l = Launch{Nodes: report.Once(s.Source), Kernel: c.Program.Kernels[s.Kernel], Backend: c.Backend(s.Kernel),
				Why: c.Why(s.Kernel), Delays: c.Delays(s.Kernel, known)}
			cost := c.Cost(s.Kernel)
			l.Operations, _ = cost.Operations.Eval(known) // 0 if it depends on data
			done := c.Done(s.Kernel, known)
			l.Done, l.Slots = done.Operations, done.Slots
			l.Bytes, _ = cost.Bytes.Eval(known)
			l.Weights = min(l.Bytes, weights(c.Program, s))
			values := make([]int64, len(s.Dims))
			for i, d := range s.Dims {
				values[i] = dims[d]
			}
			l.Tiles, _ = c.Code.Kernels[s.Kernel].Tiles(values) // 0 if the sizes do not fit
		case *program.Host:
			l = Launch{Nodes: s.Source, Kernel: s.Op, Backend: "host", Why: []string{compiler.WhyHost(s.Op)}}
		case *program.Copy:
			l = Launch{Kernel: "copy", Backend: "host"}
		default:
			return
		}
		at[s] = len(list)
		list = append(list, l)
	})
	return list, at
}

// weights returns the bytes of a launch's constant operands.
func weights(p *program.Program, s *program.Launch) (total int64) {
	for _, i := range s.Args {
		bytes, ok := p.Tensors[i].Bytes().Const()
		if p.Tensors[p.Root(i)].Class == program.Constant && ok {
			total += bytes
		}
	}
	return total
}

// Profile runs a program runs times and returns its launches, each with its shortest time in a run: the sum over the
// iterations, if it is in a loop.
func Profile(ctx context.Context, c *compiler.Compiled, s *session.Session, in session.Arguments,
	runs int) (list []Launch,
	err error) {
	defer diag.Recover(&err, "profiling")
	dims, times, err := s.Times(ctx, in, runs)
	if err != nil {
		return nil, err
	}
	list, at := Launches(c, dims)
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
