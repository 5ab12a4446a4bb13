package compiler

import (
	"slices"

	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/loop"
)

// carryInPlace removes copies of loop-carried values at the end of an iteration, if one launch computes the new value
// and may write it over the old one, and no later step reads the old one.
func (c *Compiled) carryInPlace() {
	writers := map[*loop.Buffer]int{}
	count := func(step loop.Step) {
		_, writes, _ := live.Operands(step)
		for _, b := range writes {
			writers[b.Root()]++
		}
	}
	live.Each(c.Loop.Body, func(s *loop.Launch) { count(s) })
	live.Each(c.Loop.Body, func(s *loop.Copy) { count(s) })
	live.Each(c.Loop.Body, func(s *loop.Host) { count(s) })
	live.Each(c.Loop.Body, func(l *loop.Loop) {
		l.Body = slices.DeleteFunc(slices.Clone(l.Body), func(step loop.Step) bool {
			end, is := step.(*loop.Copy)
			if !is || end.Pick != nil || !c.madeInPlace(l, end, writers[end.From]) {
				return false
			}
			end.From.View = &loop.View{Of: end.To}
			return true
		})
	})
}

// madeInPlace reports whether the source of a copy at the end of a loop's body may be computed in the copy's target.
// writers is the number of steps that write the source.
func (c *Compiled) madeInPlace(l *loop.Loop, end *loop.Copy, writers int) bool {
	to, from := end.To, end.From
	if to.Kind != loop.Temp || from.Kind != loop.Temp || to.View != nil || from.View != nil || to.Reserved ||
		from.Reserved || writers != 1 ||
		live.Late(c.Loop, to) || live.Late(c.Loop, from) || !live.SameBytes(c.Loop, from, to) || to.DType != from.DType {
		return false
	}
	if slices.Contains([]*loop.Buffer{l.Trip, l.Cond, l.Index}, to) {
		return false
	}
	at := slices.IndexFunc(l.Body, func(step loop.Step) bool {
		launch, is := step.(*loop.Launch)
		return is && slices.ContainsFunc(launch.Args, func(b *loop.Buffer) bool { return b == from })
	})
	if at < 0 {
		return false
	}
	launch := l.Body[at].(*loop.Launch)
	w := slices.Index(launch.Args, from)
	if launch.Kernel.Params[w].Access != loop.Write || !live.OnlyOperand(launch, from) {
		return false
	}
	for _, step := range l.Body[at+1:] {
		if step != loop.Step(end) && live.Mentions(step, to) {
			return false
		}
	}
	if !live.Mentions(launch, to) {
		return true
	}
	r := slices.Index(launch.Args, to)
	return r >= 0 && live.OnlyOperand(launch, to) && launch.Kernel.Params[r].Access == loop.Read &&
		(live.InPlace(launch.Kernel, r, w) || live.InPlaceByBoxes(launch.Kernel, c.Loop.Dims, r, w))
}

// resultsInPlace removes copies to outputs if the same list of steps computes the source and no step reads it after the
// copy.
func (c *Compiled) resultsInPlace() {
	for at := 0; at < len(c.Loop.Body); at++ {
		end, is := c.Loop.Body[at].(*loop.Copy)
		if !is || end.Pick != nil || !c.madeForResult(end, at) {
			continue
		}
		end.From.View = &loop.View{Of: end.To}
		c.Loop.Body = slices.Delete(slices.Clone(c.Loop.Body), at, at+1)
		at--
	}
}

// madeForResult reports whether the source of the copy at index at may be computed in the output that the copy writes.
func (c *Compiled) madeForResult(end *loop.Copy, at int) bool {
	to, from := end.To, end.From
	if to.Kind != loop.Output || from.Kind != loop.Temp || to.View != nil || from.View != nil || to.State != nil ||
		from.Reserved ||
		live.Late(c.Loop, to) || live.Late(c.Loop, from) || !live.SameBytes(c.Loop, from, to) || to.DType != from.DType {
		return false
	}
	for i, step := range c.Loop.Body {
		switch step.(type) {
		case *loop.Launch, *loop.Copy, *loop.Host:
		default:
			if live.Mentions(step, to) || live.Mentions(step, from) {
				return false
			}
		}
		if i < at && live.Mentions(step, to) || i > at && live.Mentions(step, from) {
			return false
		}
	}
	return true
}
