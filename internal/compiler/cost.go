package compiler

import (
	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/hostop"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/schedule"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// Cost is what one launch of a kernel comes to, over the inputs' dimensions: where data decide, at the limit.
type Cost struct {
	Operations sym.Expr // of the results: additions, multiplications and functions of single elements
	// what must at least be moved: of the operands once, or of the loads and stores where those are fewer
	Bytes sym.Expr
}

// Cost estimates kernel i of the program.
func (c *Compiled) Cost(i int) Cost {
	cost := loop.CostOf(c.Loop.Kernels[i])
	return Cost{Operations: sym.AtLimits(loop.WorkOf(c.Loop.Kernels[i]), c.Loop.Limits),
		Bytes: sym.AtLimits(cost.Footprint.Min(cost.Read.Add(cost.Written)), c.Loop.Limits)}
}

// Done counts what a launch of kernel i executes, for known dimensions. It is nothing if data decide the dimensions.
func (c *Compiled) Done(i int, known func(sym.Name) (int64, bool)) loop.Done {
	dot := c.Code.Machine.Dot
	done, err := loop.DoneBy(c.Loop.Kernels[i], known, loop.Widths{Bytes: dot.Bytes, BF16: dot.Brains})
	if err != nil {
		return loop.Done{}
	}
	return done
}

// Backend names the code generator that made kernel i: the machine's, unless the kernel itself says that it is
// another's.
func (c *Compiled) Backend(i int) string {
	if k, ok := c.Code.Kernels[i].(interface{ Backend() string }); ok {
		return k.Backend()
	}
	return c.Code.Machine.Name
}

// WhyHost says why an operator of the host is no kernel.
func WhyHost(op string) string { return hostop.Why(op) }

// Why says why kernel i is the code of a more general generator than the machine's, or else what of it is done more
// slowly than it was scheduled to be, or was scheduled outside lanes.
func (c *Compiled) Why(i int) (reasons []string) {
	name := c.Code.Kernels[i].Name()
	for _, list := range [][]target.Left{c.Code.Left, c.Code.Slower} {
		for _, left := range list {
			if left.Kernel == name {
				reasons = append(reasons, left.Reason)
			}
		}
	}
	switch {
	case c.Backend(i) == target.AMD64Name:
		return append(reasons, schedule.OutOfLanes(c.Loop.Kernels[i], c.Code.Machine, c.Loop.Dims)...)
	case reasons != nil:
		return reasons
	case c.Notes != nil:
		return c.Notes
	}
	return []string{"the program is for " + c.Code.Machine.Name}
}

// LargestStep is the step whose operands and results together take most of the arena, for one binding of the
// dimensions: as long as no step is computed in pieces, no plan's arena is smaller. It gives the bytes, and the model's
// nodes that the step computes.
func (c *Compiled) LargestStep(value func(name sym.Name) (int64, bool)) (bytes int64, source string, err error) {
	for _, step := range c.Loop.Body {
		sum := int64(0)
		seen := map[*loop.Buffer]bool{}
		loop.EachBuffer([]loop.Step{step}, func(b *loop.Buffer) {
			root := b.Root()
			if seen[root] || root.Kind != loop.Temp || live.Late(c.Loop, root) {
				return
			}
			seen[root] = true
			size, fault := live.AtLimits(c.Loop, root)
			if fault == nil {
				var v int64
				v, fault = size.Eval(value)
				sum += live.AlignUp(v)
			}
			if err == nil {
				err = fault
			}
		})
		if sum > bytes {
			bytes, source = sum, live.SourceOf(step)
		}
	}
	return bytes, source, err
}

// SourceAt names the model's node that runs at a step of the plan.
func (c *Compiled) SourceAt(step int) string {
	best, source := live.Span{First: -1, Last: 1 << 30}, ""
	for s, at := range c.time.At {
		if at.First <= step && step <= at.Last && at.Last-at.First <= best.Last-best.First {
			if l, ok := s.(*loop.Launch); ok {
				best, source = at, l.Source
			} else if h, ok := s.(*loop.Host); ok {
				best, source = at, h.Source
			}
		}
	}
	return source
}

// Operations is the arithmetic of one run, at the limits of what data decide. The bodies of loops count once, of a
// branch the first.
func (c *Compiled) Operations() sym.Expr {
	total := sym.Const(0)
	var add func(steps []loop.Step)
	add = func(steps []loop.Step) {
		for _, s := range steps {
			switch s := s.(type) {
			case *loop.Launch:
				total = total.Add(loop.WorkOf(s.Kernel))
			case *loop.If:
				add(s.Then)
			case *loop.Loop:
				add(s.Body)
			}
		}
	}
	add(c.Loop.Body)
	return sym.AtLimits(total, c.Loop.Limits)
}
