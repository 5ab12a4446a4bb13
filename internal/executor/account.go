package executor

import (
	"context"

	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/program"
)

// A call asks its account once for all memory that the inputs' dimensions decide, and later for what data decide and
// for outputs that it has handed on. Blocks give their pages back when they are closed.

// ask asks the account for the call's memory: arena, outputs and scratch.
func (c *Call) ask(ctx context.Context) error {
	x := c.x
	if x.account == nil {
		return nil
	}
	promised := make([]int64, len(x.program.Storages))
	scratch, err := x.ScratchBytes(c.values)
	if err != nil {
		return err
	}
	total := mem.WholePages(scratch) * int64(x.threads)
	for i := range x.program.Storages {
		s := &x.program.Storages[i]
		if s.Late || s.Device != "" || s.Kind == program.Spill {
			continue
		}
		size, err := x.layout.sizes[i].Eval(c.values)
		if err != nil {
			return err
		}
		if most := mem.Machine(); size < 0 || size > most || total > most {
			return nil // the allocation is refused, with its own words
		}
		if total += mem.WholePages(size); s.Kind == program.Results {
			promised[i] = mem.WholePages(size)
		}
	}
	if err := mem.Ask(ctx, x.account, total); err != nil {
		return err
	}
	c.granted, c.promised = total, promised
	for _, bytes := range promised {
		c.granted -= bytes
	}
	return nil
}

// returnGranted gives back what was granted and no block has.
func (c *Call) returnGranted() {
	for _, bytes := range c.promised {
		c.granted += bytes
	}
	mem.Return(c.x.account, c.granted)
	clear(c.promised)
	c.granted = 0
}

// charge makes a block give its pages, which the account has granted, back when it is closed.
func (c *Call) charge(b *mem.Block) {
	if c.x.account != nil {
		c.granted -= b.Mapped()
		b.Charge(c.x.account)
	}
}

// unpromise gives the pages back that were granted for the storage of an output, which now lies elsewhere.
func (c *Call) unpromise(s int) {
	if c.promised != nil {
		mem.Return(c.x.account, c.promised[s])
		c.promised[s] = 0
	}
}

// taking is a function that allocates a block, such as mem.Map.
type taking = func(kind mem.Kind, label string, bytes int64) (*mem.Block, error)

// granting returns a function that allocates memory after the account has granted it to the present run.
func (c *Call) granting(take taking) taking {
	return func(k mem.Kind, label string, bytes int64) (*mem.Block, error) {
		ctx := c.ctx
		if ctx == nil {
			ctx = mem.Now // the call has not run yet
		}
		return mem.Granted(ctx, c.x.account, bytes, func() (*mem.Block, error) { return take(k, label, bytes) })
	}
}

// HeldPages returns the bytes of the pages that closing the call frees.
func (c *Call) HeldPages() (bytes int64) {
	for _, blocks := range [][]*mem.Block{c.storages, c.scratch} {
		for _, b := range blocks {
			if b != nil {
				bytes += b.Mapped()
			}
		}
	}
	return bytes
}
