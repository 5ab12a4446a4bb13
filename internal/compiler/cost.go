package compiler

import (
	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/hostop"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/schedule"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// Cost is the cost of one launch of a kernel, over the inputs' dimensions; dimensions that data decide are at their
// limits.
type Cost struct {
	Operations sym.Expr // additions, multiplications and functions of single elements for the results
	// Bytes is the least number of bytes moved: of each operand once, or of all loads and stores if these are fewer.
	Bytes sym.Expr
}

// Cost estimates the cost of kernel i of the program.
func (c *Compiled) Cost(i int) Cost {
	cost := loop.CostOf(c.Loop.Kernels[i])
	return Cost{Operations: sym.AtLimits(loop.WorkOf(c.Loop.Kernels[i]), c.Loop.Limits),
		Bytes: sym.AtLimits(cost.Footprint.Min(cost.Read.Add(cost.Written)), c.Loop.Limits)}
}

// Done counts the operations that a launch of kernel i executes, for known dimensions; it returns the zero value if
// data decide the dimensions.
func (c *Compiled) Done(i int, known func(sym.Name) (int64, bool)) loop.Done {
	dot := c.Code.Machine.Dot
	done, err := loop.DoneBy(c.Loop.Kernels[i], known, loop.Widths{Bytes: dot.Bytes, BF16: dot.BF16})
	if err != nil {
		return loop.Done{}
	}
	return done
}

// Backend returns the name of the code generator that made kernel i: the machine's, unless the kernel names another.
func (c *Compiled) Backend(i int) string {
	if k, ok := c.Code.Kernels[i].(interface{ Backend() string }); ok {
		return k.Backend()
	}
	return c.Code.Machine.Name
}

// WhyHost returns the reason why a host operator is not a kernel.
func WhyHost(op string) string { return hostop.Why(op) }

// Why returns the reasons why a more general generator than the machine's generated kernel i; or else, why some of its
// loops are slower than scheduled, or are not vectorised.
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
	case c.Backend(i) == target.AMD64Name, c.Backend(i) == target.ARM64Name:
		return append(reasons, schedule.OutOfLanes(c.Loop.Kernels[i], c.Code.Machine, c.Loop.Dims)...)
	case c.Code.Machine.HasBlocks() && c.Backend(i) == c.Code.Machine.Name:
		if reason := schedule.WholeSequences(c.Loop.Kernels[i], c.Code.Machine, c.Loop.Dims); reason != "" {
			return append(reasons, reason)
		}
	}
	switch {
	case reasons != nil:
		return reasons
	case c.Notes != nil:
		return c.Notes
	}
	return []string{"the program is for " + c.Code.Machine.Name}
}

// Delays returns why a launch of kernel i may take much longer than its arithmetic and its bytes, for known dimensions.
func (c *Compiled) Delays(i int, known func(sym.Name) (int64, bool)) []string {
	k, sizes := c.Loop.Kernels[i], sym.NewDims()
	for _, name := range k.Dims {
		if size, ok := known(name); ok {
			sizes.Set(name, sym.Range{Min: size, Max: size})
		}
	}
	return schedule.Delays(k, c.Code.Machine, sizes)
}

// LargestStep returns the most arena bytes that one step's operands and results take together, for one binding of the
// dimensions, and the model's nodes that this step computes. Unless steps are computed in pieces, no plan's arena is
// smaller.
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

// SourceAt returns the name of the model's node that runs at a step number of the plan.
func (c *Compiled) SourceAt(step int) string {
	best, source := live.Interval{First: -1, Last: 1 << 30}, ""
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

// Operations returns the arithmetic operations of one run, with data dimensions at their limits. It counts the body of
// a loop once, and only the first body of a branch, so it does not use loop.WalkSteps.
func (c *Compiled) Operations() sym.Expr {
	total := sym.Const(0)
	var add func(steps []loop.Step)
	add = func(steps []loop.Step) {
		for _, s := range steps {
			if l, ok := s.(*loop.Launch); ok {
				total = total.Add(loop.WorkOf(l.Kernel))
			}
			if first := loop.StepBodies(s)[0]; first != nil {
				add(*first)
			}
		}
	}
	add(c.Loop.Body)
	return c.Loop.Dims.Simplify(sym.AtLimits(total, c.Loop.Limits))
}
