package budget

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// optimal returns the steps with the cheapest set of results recomputed that brings the live bytes to target or below,
// of all sets. It returns nil if no set does, none is needed, or there are more than s.choices results to choose from.
func (s *squeezer) optimal(body []loop.Step, target int64) []loop.Step {
	p := s.profile(body)
	if peak, _ := p.peak(); peak <= target {
		return nil
	}
	type option struct {
		b *loop.Buffer
		g gap
	}
	var options []option
	for _, b := range p.roots {
		for i := range p.uses[b] {
			if b.Reserved || i == 0 {
				continue
			}
			g, ok := p.idle(body, b, p.time.At[body[p.uses[b][i-1]]].Last+1)
			if !ok || slices.Contains(options, option{b, g}) || s.recompute(body, p, b, g) == nil {
				continue
			}
			if options = append(options, option{b, g}); len(options) > s.choices {
				return nil
			}
		}
	}
	// From the last gap to the first, so that a change does not move the steps of the gaps that follow.
	slices.SortStableFunc(options, func(a, b option) int { return b.g.next - a.g.next })
	type choice struct {
		body  []loop.Step
		saved []Saving
		made  []*loop.Buffer
		cost  float64
	}
	best := choice{cost: math.Inf(1)}
	buffers := s.m.Buffers
	var try func(c choice, rest []option)
	try = func(c choice, rest []option) {
		s.m.Buffers = slices.Concat(buffers, c.made)
		p := s.profile(c.body)
		if peak, _ := p.peak(); peak <= target {
			best = c
			return
		}
		for i, o := range rest {
			next := s.recompute(c.body, p, o.b, o.g)
			if next == nil || c.cost+next.saving.Seconds() >= best.cost {
				continue
			}
			s.name(next.made, true)
			try(choice{next.body, slices.Concat(c.saved, []Saving{next.saving}), slices.Concat(c.made, next.made),
				c.cost + next.saving.Seconds()}, rest[i+1:])
			s.name(next.made, false)
		}
	}
	try(choice{body: body}, options)
	s.m.Buffers = buffers
	if best.body == nil {
		return nil
	}
	s.keep(best.made, best.saved...)
	return best.body
}

// recompute returns the change that computes a buffer again after a gap, together with its operands that are no longer
// live. It returns nil if that cannot be done, or if a spill to a file costs less.
func (s *squeezer) recompute(body []loop.Step, p *profile, b *loop.Buffer, g gap) *change {
	c := newChange(Saving{Kind: Recompute, Tensor: live.TensorName(b), At: live.SourceOf(body[g.next]), Bytes: s.bytes[b]})
	start := p.time.At[body[g.next]].First
	anew := map[*loop.Buffer]*loop.Buffer{}
	var steps []loop.Step
	var need func(b *loop.Buffer, depth int) bool
	need = func(b *loop.Buffer, depth int) bool {
		if anew[b] != nil {
			return true
		}
		at := p.maker(body, g.next, b)
		if at < 0 || depth > deepest || s.bytes[b] < 0 {
			return false
		}
		reads, writes, _ := live.Operands(body[at])
		for _, x := range writes {
			if x.View != nil || x.Kind != loop.Temp || p.maker(body, len(body), x) != at {
				return false
			}
		}
		for _, x := range reads {
			root := x.Root()
			if out := live.Replaced(s.m, root); out != nil && slices.ContainsFunc(body[:g.next], func(step loop.Step) bool {
				return live.Mentions(step, out)
			}) {
				return false // the state is overwritten before the gap ends
			}
			if root.Kind != loop.Temp || anew[root] != nil {
				continue
			}
			if slices.ContainsFunc(p.uses[root], func(i int) bool {
				return i >= at && i < g.next && !p.reads(body, i, root)
			}) {
				return false // a step between overwrites the operand
			}
			if life := p.time.Alive[root]; life.Last >= start && root != b {
				continue
			}
			if x.View != nil || !need(root, depth+1) {
				return false
			}
		}
		step := body[at]
		for _, x := range writes {
			anew[x] = s.fresh(c, x, loop.Temp, "again")
		}
		for old, new := range anew {
			step = s.replaced(c, step, old, new)
		}
		steps = append(steps, step)
		if l, is := step.(*loop.Launch); is {
			operations, err := sym.AtLimits(loop.CostOf(l.Kernel).Operations, s.m.Limits).Eval(s.value)
			if err != nil {
				return false
			}
			c.saving.Operations += operations
		} else {
			c.saving.Moved += s.bytes[b]
		}
		return true
	}
	if !need(b, 0) {
		return nil
	}
	if file := (Saving{Moved: spillMoves * s.bytes[b]}); c.saving.Seconds() > file.Seconds() {
		return nil
	}
	c.body = slices.Concat(body[:g.next], steps, s.after(c, body[g.next:], b, anew[b]))
	return c
}

// maker returns the index of the only step before another that writes a root buffer, if it may run twice: a launch that
// updates no argument, or a copy out of a file. It returns −1 otherwise.
func (p *profile) maker(body []loop.Step, before int, b *loop.Buffer) int {
	all := p.writers(body, b)
	if len(all) == 0 || all[0] >= before || len(all) > 1 && all[1] < before {
		return -1
	}
	switch step := body[all[0]].(type) {
	case *loop.Launch:
		if slices.ContainsFunc(step.Kernel.Params, func(p *loop.Param) bool { return p.Access == loop.Update }) {
			return -1
		}
		return all[0]
	case *loop.Copy:
		if step.From.Away() {
			return all[0]
		}
	}
	return -1
}
