package executor

import (
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/program"
)

// With Options.Poison a released range holds poisonPattern, which is a huge number and an index out of range.

const poisonPattern = 0xDB

// poison is the set of live tensors whose range another tensor was carved over; their release does not poison it. A
// nil poison does nothing.
type poison map[int]bool

// newPoison returns an empty set; nil without Options.Poison.
func (x *Executable) newPoison() poison {
	if !x.poison {
		return nil
	}
	return poison{}
}

// carve records the tensors that a carve overlaps.
func (p poison) carve(s *program.Carve) {
	if p == nil {
		return
	}
	delete(p, s.Tensor)
	for _, t := range s.Over {
		p[t] = true
	}
}

// release fills released memory with poisonPattern, except in a watched call, whose writes are measured.
func (p poison) release(c *Call, s *program.Release) {
	if p == nil || c.watch != nil {
		return
	}
	for _, t := range s.Tensors {
		if c.x.program.Tensors[t].Class != program.Carved || p[t] || c.file(t) != nil {
			continue
		}
		if o, err := c.operand(t); err == nil && o.Base != nil {
			mem.FillBytes(bytesOf(o), poisonPattern)
		}
	}
}
