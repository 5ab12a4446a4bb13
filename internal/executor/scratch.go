package executor

import (
	"errors"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/program"
)

// takeScratch maps the workers' scratch, and takes the device's: as much as the greediest kernel wants at the data's
// limits.
func (c *Call) takeScratch() error {
	most, err := c.x.ScratchBytes(c.values)
	if err != nil {
		return err
	}
	if err := c.mapScratch(most); err != nil {
		return err
	}
	return c.takeDeviceScratch()
}

// ScratchBytes is one worker's scratch for the given values of the dimensions, but for launches whose dimensions have
// no limit.
func (x *Executable) ScratchBytes(values []int64) (int64, error) {
	return x.scratchOf(values, false, nil)
}

// ScratchOf is one worker's scratch for some of the launches, for the given values of the dimensions.
func (x *Executable) ScratchOf(values []int64, some func(s *program.Launch) bool) (int64, error) {
	return x.scratchOf(values, false, some)
}

// scratchOf is the most that some of the launches need, of those on a device or those on the host. Nil stands for all
// whose dimensions have limits.
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
			continue // it is not run
		}
		size, err := k.Scratch(vector)
		if err != nil {
			return 0, err
		}
		most = max(most, size)
	}
	return most, nil
}

// moreScratch gives the workers the scratch that a launch wants whose dimensions the run decides, if it is more than
// there is: those have no limit, or nothing proves that it wants no more than at their limits.
func (c *Call) moreScratch(b *bound, source string) error {
	need, err := b.Kernel.Scratch(b.Args.Dims)
	if err != nil {
		return at(err, source)
	}
	return c.enlargeScratch(need, source)
}

// enlargeScratch gives the workers more scratch, if they have less than so many bytes each.
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
	if err := c.mapScratch(need); err != nil {
		c.dropScratch() // the next run begins with what every run has
		return at(err, source)
	}
	return nil
}

// beginAgain gives the call the scratch that it had before its first run, after a run was refused more.
func (c *Call) beginAgain() error {
	c.shrink(c.grown)
	c.grown = 0
	c.asksAnew()
	if err := c.dropScratch(); err != nil {
		return err
	}
	if err := c.takeScratch(); err != nil {
		c.dropScratch()
		return err
	}
	return nil
}

// asksAnew has the launches whose dimensions the run decides ask for their scratch again.
func (c *Call) asksAnew() {
	for s, b := range c.args {
		if c.x.layout.asks[s] {
			b.ready = false
		}
	}
}

// mapScratch maps the workers' scratch, of so many bytes each.
func (c *Call) mapScratch(bytes int64) error {
	for range c.x.threads {
		block, err := c.x.owned(mem.Map(mem.Scratch, "scratch", bytes))
		if err != nil {
			return err
		}
		c.scratch = append(c.scratch, block)
		c.workers = append(c.workers, block.Bytes())
	}
	return nil
}

// dropScratch gives the workers' scratch back.
func (c *Call) dropScratch() (err error) {
	for _, b := range c.scratch {
		err = errors.Join(err, b.Close())
	}
	c.scratch, c.workers = c.scratch[:0], c.workers[:0]
	return err
}
