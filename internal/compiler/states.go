package compiler

import (
	"fmt"
	"slices"

	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/loop"
)

// A state's new value is written where the old one lies. No step may read the old value then, but for the step that
// writes the new one and reads each element only if it writes. Where the steps do not come so, the new value is
// computed in the arena, and copied when all else is done.

// computeApart has the new values that cannot be written where they are to lie computed in the arena, and copied there
// by the last steps. It gives the steps; undo makes the buffers what they were.
func (c *Compiled) computeApart(body []loop.Step) (with []loop.Step, undo func()) {
	m := c.Loop
	buffers, outside := m.Buffers, m.Body
	var moved []*loop.Buffer
	var t *live.Timeline
	for _, out := range buffers {
		if out.State == nil {
			continue
		}
		if t == nil {
			m.Body = body
			t = live.Ranges(m)
		}
		if t.Replaces(m, out) {
			continue
		}
		t = nil
		last := &loop.Buffer{Name: freshName(m, out.Name+".state"), Kind: loop.Output, DType: out.DType, Shape: out.Shape,
			Source: out.Source, State: out.State}
		m.Buffers = slices.Clone(m.Buffers)
		m.Buffers[slices.Index(m.Buffers, out)] = last // in its place: outputs are in order
		m.Buffers = append(m.Buffers, out)
		out.Kind, out.State = loop.Temp, nil
		body = append(slices.Clip(body), &loop.Copy{To: last, From: out})
		moved = append(moved, out, last)
	}
	m.Body = outside
	return body, func() {
		m.Buffers = buffers
		for i := 0; i < len(moved); i += 2 {
			moved[i].Kind, moved[i].State = loop.Output, moved[i+1].State
		}
	}
}

// freshName is a name that no buffer has.
func freshName(m *loop.Module, hint string) string {
	name := hint
	for i := 1; slices.ContainsFunc(m.Buffers, func(b *loop.Buffer) bool { return b.Name == name }); i++ {
		name = fmt.Sprintf("%s.%d", hint, i)
	}
	return name
}

// StateInPlace reports whether the run computes the new value of an input that is a state where it lies, and not in the
// arena, to be copied at the end.
func (c *Compiled) StateInPlace(input int) bool {
	from := c.Program.Inputs[input].Tensor
	for _, b := range c.Loop.Buffers {
		if b.State == nil || c.Program.Tensors[from].Name != b.State.Name {
			continue
		}
		copied := slices.ContainsFunc(c.Loop.Body, func(s loop.Step) bool {
			c, is := s.(*loop.Copy)
			return is && c.To == b && c.From.Root() != b.State
		})
		return !copied
	}
	return false
}
