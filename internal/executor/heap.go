package executor

import (
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/program"
)

// reserveHeap counts Go heap that a host function uses while it runs, in the ledger and against the budget.
func (c *Call) reserveHeap(s *program.Host, bytes int64) error {
	if err := c.grow(bytes); err != nil {
		return err
	}
	block, err := c.x.owned(c.granting(mem.Reserve)(mem.Scratch, s.Op, bytes))
	if err != nil {
		c.shrink(bytes)
		return err
	}
	c.heap = append(c.heap, block)
	return nil
}

// freeHeap undoes reserveHeap after the function has returned.
func (c *Call) freeHeap() {
	for _, b := range c.heap {
		c.shrink(b.Size())
		b.Close()
	}
	c.heap = c.heap[:0]
}
