package compiler

import (
	"cmp"
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// donations finds, for each input, the outputs that may lie in its storage where a run donates it, best first. They have as many bytes for every binding, and are first written
// after the input was last read, or by a step that reads each of its elements only where it writes. It needs the timeline as the steps alone make it.
func donations(m *loop.Module, t *timeline) map[*loop.Buffer][]*loop.Buffer {
	out := map[*loop.Buffer][]*loop.Buffer{}
	for _, in := range m.Buffers {
		if in.Kind != loop.Input || in.View != nil || replaced(m, in) != nil {
			continue
		}
		type place struct {
			b     *loop.Buffer
			first int
		}
		var places []place
		for _, b := range m.Buffers {
			if b.Kind == loop.Output && b.View == nil && b.State == nil && sameBytes(m, in, b) && t.after(m, in, b) {
				places = append(places, place{b, t.whole(*t.alive[b]).first})
			}
		}
		slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(a.first, b.first) })
		for _, p := range places {
			out[in] = append(out[in], p.b)
		}
	}
	return out
}

// whole is a span with every loop and branch that it meets: they may go round, or be left out.
func (t *timeline) whole(s span) span {
	for _, body := range t.loops {
		if s.meets(body) {
			s = span{min(s.first, body.first), max(s.last, body.last)}
		}
	}
	for _, f := range t.forks {
		if s.meets(f.whole) {
			s = span{min(s.first, f.whole.first), max(s.last, f.whole.last)}
		}
	}
	return s
}

// writesOver reports whether the step that last reads an input may write an output in its place.
func (t *timeline) writesOver(steps []loop.Step, in, out *loop.Buffer) bool {
	for _, step := range steps {
		if at := t.at[step]; at.first != t.alive[in].last || at.first != at.last {
			continue
		}
		return updates(step, in, out)
	}
	return false
}

// updates reports whether a step may write an output over the input that it reads.
func updates(step loop.Step, in, out *loop.Buffer) bool {
	switch s := step.(type) {
	case *loop.Copy:
		return s.Pick == nil && wholeOf(s.To) == out && wholeOf(s.From) == in // onto itself
	case *loop.Launch:
		r, w := slices.Index(s.Args, in), slices.Index(s.Args, out)
		return r >= 0 && w >= 0 && s.Kernel.Params[r].Access == loop.Read && s.Kernel.Params[w].Access != loop.Read && s.Kernel.Params[w].Access != loop.Work &&
			onlyOperand(s, in) && onlyOperand(s, out) && inPlace(s.Kernel, r, w)
	}
	return false
}

// wholeOf is the buffer that b is all of, in order; nil if b is a part of one, or views one in another order.
func wholeOf(b *loop.Buffer) *loop.Buffer {
	for ; b.View != nil; b = b.View.Of {
		of := b.View.Of
		if offset, is := b.View.Offset.Const(); !is || offset != 0 || b.View.Strides != nil ||
			!sym.Product(b.Shape...).Equal(sym.Product(of.Shape...)) || b.DType != of.DType {
			return nil
		}
	}
	return b
}

// sameBytes reports whether an output has as many bytes as an input for every binding.
func sameBytes(m *loop.Module, in, out *loop.Buffer) bool {
	return !decided(m, out) && m.Dims.EQ(bytesOf(in, sym.Product(in.Shape...)), bytesOf(out, sym.Product(out.Shape...))) == sym.Yes
}

// updateLast moves steps that could write an output over an input behind the other readers of that input, where the arena is no larger for it: a run that donates it then updates
// it in place, and states need no place in the arena.
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
	before, err := c.arenaApart(own)
	if err != nil {
		return err
	}
	after, err := c.arenaApart(body)
	c.Loop.Body = body
	for i := range after {
		if after[i] > before[i] {
			c.Loop.Body = own
		}
	}
	return err
}

// arenaApart is arenaOf with what states need there.
func (c *Compiled) arenaApart(body []loop.Step) ([]int64, error) {
	with, undo := c.computeApart(body)
	defer undo()
	return c.arenaOf(with)
}

// updatesAny reports whether a step may write one of the outputs over an input, of a state the one that replaces it.
func (c *Compiled) updatesAny(step loop.Step, in *loop.Buffer) bool {
	if out := replaced(c.Loop, in); out != nil {
		return updates(step, in, out)
	}
	return slices.ContainsFunc(c.Loop.Buffers, func(b *loop.Buffer) bool {
		return b.Kind == loop.Output && b.View == nil && b.State == nil && updates(step, in, b) && sameBytes(c.Loop, in, b)
	})
}

// lastMention is the place of the last step that mentions a buffer; −1 where none does.
func lastMention(body []loop.Step, b *loop.Buffer) int {
	for i, step := range slices.Backward(body) {
		if mentions(step, b) {
			return i
		}
	}
	return -1
}

// movable reports whether a step may be done after another instead: none up to it writes what it reads, or mentions what it writes.
func movable(body []loop.Step, from, to int) bool {
	reads, writes, plain := operands(body[from])
	if !plain {
		return false
	}
	in := func(list []*loop.Buffer, b *loop.Buffer) bool {
		return slices.ContainsFunc(list, func(x *loop.Buffer) bool { return x.Root() == b.Root() })
	}
	for _, step := range body[from+1 : to+1] {
		_, writing, still := operands(step)
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

// decided reports whether data decide a buffer's extents.
func decided(m *loop.Module, b *loop.Buffer) bool {
	return slices.ContainsFunc(b.Shape, func(e sym.Expr) bool {
		return slices.ContainsFunc(e.Vars(), func(name sym.Name) bool { _, data := m.Limits[name]; return data })
	})
}
