package executor

import (
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/program"
)

// reserveHeap counts what a host function takes of Go's heap while it runs: in the ledger, and in what a budget leaves.
func (c *Call) reserveHeap(s *program.Host, bytes int64) error {
	if err := c.grow(bytes); err != nil {
		return err
	}
	block, err := c.x.owned(mem.Reserve(mem.Scratch, s.Op, bytes))
	if err != nil {
		c.shrink(bytes)
		return err
	}
	c.heap = append(c.heap, block)
	return nil
}

// freeHeap ends what reserveHeap began.
func (c *Call) freeHeap() {
	for _, b := range c.heap {
		c.shrink(b.Size())
		b.Close()
	}
	c.heap = c.heap[:0]
}
