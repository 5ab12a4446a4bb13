package executor

import (
	"context"

	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/program"
)

// mostRoom is how many times the memory that it needs a call may have to be bound to other dimensions.
const mostRoom = 32

// rebindable reports whether a program's calls may be bound to other dimensions: all of their memory lies in blocks of
// the host whose sizes the inputs' dimensions decide.
func (x *Executable) rebindable() bool {
	if x.guard || x.poison || x.remote != nil || x.absent != nil {
		return false
	}
	for i := range x.program.Storages {
		if s := &x.program.Storages[i]; s.Late || s.Device != "" || s.Kind == program.Spill {
			return false
		}
	}
	return true
}

// Rebind binds a call that is not in use to other dimensions, which Check admits, if its arena and scratch suffice and
// are not much too large. Storages of outputs are given back, and the account is asked for those of the new size. If ok
// is false, the call is as it was; after an error it must be closed.
func (c *Call) Rebind(ctx context.Context, dims []int64) (ok bool, err error) {
	defer func() { err = c.x.typed(err, dims) }()
	x := c.x
	if !x.rebindable() || len(c.scratch) == 0 || len(c.picks) > 0 || c.grown != 0 || c.watch != nil || c.timing != nil {
		return false, nil
	}
	values := make([]int64, len(c.values))
	if err := x.layout.evaluate(values, dims); err != nil {
		return false, err
	}
	need, err := x.ScratchBytes(values)
	if err != nil {
		return false, err
	}
	have := c.scratch[0].Size() * int64(len(c.scratch))
	if need > c.scratch[0].Size() {
		return false, nil
	}
	need *= int64(len(c.scratch))
	for i, code := range x.layout.sizes {
		if x.program.Storages[i].Kind == program.Results {
			continue
		}
		size, err := code.Eval(values)
		if err != nil {
			return false, err
		}
		if size > c.storages[i].Size() {
			return false, nil
		}
		need, have = need+size, have+c.storages[i].Size()
	}
	if need < have/mostRoom {
		return false, nil
	}
	return true, c.rebind(ctx, values)
}

// rebind is Rebind, once the call is found to have room.
func (c *Call) rebind(ctx context.Context, values []int64) error {
	for _, s := range c.x.layout.results {
		c.unpromise(s)
		if b := c.storages[s]; b != nil {
			c.storages[s] = nil
			if err := b.Close(); err != nil {
				return err
			}
		}
	}
	copy(c.values, values)
	if err := c.askResults(ctx); err != nil {
		return err
	}
	for _, b := range c.args {
		b.ready = false
	}
	return c.locate()
}

// askResults asks the account for the storages of outputs.
func (c *Call) askResults(ctx context.Context) error {
	if c.x.account == nil {
		return nil
	}
	total := int64(0)
	promised := make([]int64, len(c.promised))
	for _, s := range c.x.layout.results {
		size, err := c.x.layout.sizes[s].Eval(c.values)
		if err != nil {
			return err
		}
		promised[s] = mem.WholePages(size)
		total += promised[s]
	}
	if err := mem.Ask(ctx, c.x.account, total); err != nil {
		return err
	}
	c.promised = promised
	return nil
}
