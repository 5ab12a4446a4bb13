package executor

import (
	"context"
	"errors"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/program"
)

// takeScratch allocates the workers' and the device's scratch: the most that any kernel needs, with data dimensions at
// their limits.
func (c *Call) takeScratch(ctx context.Context) error {
	most, err := c.x.ScratchBytes(c.values)
	if err != nil {
		return err
	}
	if err := c.mapScratch(ctx, most); err != nil {
		return err
	}
	return c.takeDeviceScratch()
}

// ScratchBytes returns one worker's scratch bytes for the given dimensions; it leaves out launches whose dimensions
// have no limit.
func (x *Executable) ScratchBytes(values []int64) (int64, error) {
	return x.scratchOf(values, false, nil)
}

// ScratchOf returns one worker's scratch bytes for the launches for which some returns true.
func (x *Executable) ScratchOf(values []int64, some func(s *program.Launch) bool) (int64, error) {
	return x.scratchOf(values, false, some)
}

// scratchOf returns the most scratch bytes that launches on the device, or on the host, need. some selects launches;
// nil selects those whose dimensions have limits.
func (x *Executable) scratchOf(values []int64, device bool, some func(s *program.Launch) bool) (int64, error) {
	most := int64(0)
	for s, dims := range x.layout.launches {
		if x.onDevice(s.Stream) != device || some == nil && x.layout.unknown[s] || some != nil && !some(s) {
			continue
		}
		vector := make([]int64, len(dims))
		for i, d := range dims {
			vector[i] = values[d]
		}
		k := x.code.Kernels[s.Kernel]
		if tiles, err := k.Tiles(vector); err != nil {
			return 0, err
		} else if tiles == 0 {
			continue // a launch without tiles does not run
		}
		size, err := k.Scratch(vector)
		if err != nil {
			return 0, err
		}
		most = max(most, size)
	}
	return most, nil
}

// moreScratch enlarges the workers' scratch if a launch with data dimensions needs more: it has no limit, or may need
// more than at its limits.
func (c *Call) moreScratch(b *bound, source string) error {
	need, err := b.Kernel.Scratch(b.Args.Dims)
	if err != nil {
		return at(err, source)
	}
	return c.enlargeScratch(need, source)
}

// enlargeScratch gives each worker at least need bytes of scratch.
func (c *Call) enlargeScratch(need int64, source string) error {
	if len(c.scratch) == 0 || need <= c.scratch[0].Size() {
		return nil
	}
	if most := mem.Machine(); need > most {
		return diag.New(diag.ErrMemory, "scratch of %d bytes, and the machine has %d", need, most).AtNode(source, "")
	}
	more := (need - c.scratch[0].Size()) * int64(len(c.scratch))
	if err := c.grow(more); err != nil {
		return at(err, source)
	}
	c.grown += more
	if err := c.dropScratch(); err != nil {
		return at(err, source)
	}
	if err := c.mapScratch(c.ctx, need); err != nil {
		c.dropScratch() // the next run begins with the scratch of every run
		return at(err, source)
	}
	return nil
}

// beginAgain restores the scratch that the call had before its first run, after a run was refused more.
func (c *Call) beginAgain() error {
	c.shrink(c.grown)
	c.grown = 0
	c.recheckScratch()
	if err := c.dropScratch(); err != nil {
		return err
	}
	if err := c.takeScratch(c.ctx); err != nil {
		c.dropScratch()
		return err
	}
	return nil
}

// recheckScratch makes launches with data dimensions check their scratch again.
func (c *Call) recheckScratch() {
	for s, b := range c.args {
		if c.x.layout.asks[s] {
			b.ready = false
		}
	}
}

// mapScratch maps the workers' scratch, of so many bytes each. It asks the account for what it has not granted yet.
func (c *Call) mapScratch(ctx context.Context, bytes int64) error {
	if more := mem.WholePages(bytes)*int64(c.x.threads) - c.granted; c.x.account != nil && more > 0 {
		if err := mem.Ask(ctx, c.x.account, more); err != nil {
			return err
		}
		c.granted += more
	}
	for range c.x.threads {
		block, err := c.x.owned(mem.Map(mem.Scratch, "scratch", bytes))
		if err != nil {
			mem.Return(c.x.account, c.granted)
			c.granted = 0
		}
		if e, ok := err.(*diag.Error); ok && e.Fix == "" {
			return e.WithFix("fewer threads need less scratch: --threads, Options.Threads")
		}
		if err != nil {
			return err
		}
		c.charge(block)
		c.scratch = append(c.scratch, block)
		c.workers = append(c.workers, block.Bytes())
	}
	return nil
}

// dropScratch frees the workers' scratch.
func (c *Call) dropScratch() (err error) {
	for _, b := range c.scratch {
		err = errors.Join(err, b.Close())
	}
	c.scratch, c.workers = c.scratch[:0], c.workers[:0]
	return err
}
