package executor

import (
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/program"
)

// With Options.Poison a released range holds poisonPattern: as numbers enormous, as indices illegal.

const poisonPattern = 0xDB

// poison knows, by tensor, whose range another was carved over while it lived: that one has it from then on. Nil does
// nothing.
type poison map[int]bool

func (x *Executable) newPoison() poison {
	if !x.poison {
		return nil
	}
	return poison{}
}

func (p poison) carve(s *program.Carve) {
	if p == nil {
		return
	}
	delete(p, s.Tensor)
	for _, t := range s.Over {
		p[t] = true
	}
}

// release fills what is nobody's now. A watched call is left alone: it is measured by what it writes.
func (p poison) release(c *Call, s *program.Release) {
	if p == nil || c.watch != nil {
		return
	}
	for _, t := range s.Tensors {
		if c.x.program.Tensors[t].Place != program.Carved || p[t] || c.file(t) != nil {
			continue
		}
		if o, err := c.operand(t); err == nil && o.Base != nil {
			mem.FillBytes(bytesOf(o), poisonPattern)
		}
	}
}
