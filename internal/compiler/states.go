package compiler

import (
	"fmt"
	"slices"

	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/loop"
)

// A state's new value overwrites the old one. After that no step may read the old value; the writing step may read each
// element before it writes it. If the order of the steps does not allow that, the new value is computed in the arena,
// and the last steps copy it.

// copyStates makes the new values of states that cannot be written in place temporary buffers, and appends steps that
// copy them to the states. It returns the steps; undo restores the buffers.
func (c *Compiled) copyStates(body []loop.Step) (with []loop.Step, undo func()) {
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

// freshName returns a name that no buffer has.
func freshName(m *loop.Module, hint string) string {
	name := hint
	for i := 1; slices.ContainsFunc(m.Buffers, func(b *loop.Buffer) bool { return b.Name == name }); i++ {
		name = fmt.Sprintf("%s.%d", hint, i)
	}
	return name
}

// StateInPlace reports whether the run computes a state's new value in place; otherwise it computes it in the arena and
// copies it at the end.
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
