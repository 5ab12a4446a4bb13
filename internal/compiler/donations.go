package compiler

import (
	"slices"

	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/loop"
)

// updateLast moves a step that could write an output over an input after the other readers of that input, unless the
// arena grows. A run that donates the input then updates it in place, and states need no arena memory.
func (c *Compiled) updateLast() error {
	own := c.Loop.Body
	body := slices.Clone(own)
	for _, in := range c.Loop.Buffers {
		if in.Kind != loop.Input || in.View != nil {
			continue
		}
		last := lastMention(body, in)
		for i := range max(last, 0) {
			if c.updatesAny(body[i], in) && movable(body, i, last) {
				step := body[i]
				copy(body[i:last], body[i+1:last+1])
				body[last] = step
				break
			}
		}
	}
	if slices.Equal(own, body) {
		return nil
	}
	before, err := c.arenaWithStates(own)
	if err != nil {
		return err
	}
	after, err := c.arenaWithStates(body)
	c.Loop.Body = body
	for i := range after {
		if after[i] > before[i] {
			c.Loop.Body = own
		}
	}
	return err
}

// arenaWithStates is arenaOf, with the arena memory that states need.
func (c *Compiled) arenaWithStates(body []loop.Step) ([]int64, error) {
	with, undo := c.copyStates(body)
	defer undo()
	return c.arenaOf(with)
}

// updatesAny reports whether a step may write an output over an input; for a state, the output that replaces it.
func (c *Compiled) updatesAny(step loop.Step, in *loop.Buffer) bool {
	if out := live.Replaced(c.Loop, in); out != nil {
		return live.Updates(step, in, out)
	}
	return slices.ContainsFunc(c.Loop.Buffers, func(b *loop.Buffer) bool {
		return b.Kind == loop.Output && b.View == nil && b.State == nil && live.Updates(step, in, b) &&
			live.SameBytes(c.Loop, in, b)
	})
}

// lastMention returns the index of the last step that mentions a buffer; −1 if none does.
func lastMention(body []loop.Step, b *loop.Buffer) int {
	for i, step := range slices.Backward(body) {
		if live.Mentions(step, b) {
			return i
		}
	}
	return -1
}

// movable reports whether step from may run after step to instead: no step in between writes its operands or mentions
// its results.
func movable(body []loop.Step, from, to int) bool {
	reads, writes, simple := live.Operands(body[from])
	if !simple {
		return false
	}
	in := func(list []*loop.Buffer, b *loop.Buffer) bool {
		return slices.ContainsFunc(list, func(x *loop.Buffer) bool { return x.Root() == b.Root() })
	}
	for _, step := range body[from+1 : to+1] {
		_, writing, still := live.Operands(step)
		free := still
		loop.EachBuffer([]loop.Step{step}, func(b *loop.Buffer) {
			free = free && !in(writes, b) && !(in(reads, b) && in(writing, b))
		})
		if !free {
			return false
		}
	}
	return true
}
