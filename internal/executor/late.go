package executor

import (
	"fmt"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/program"
)

// Memory whose size depends on data without a bound is allocated when the size is known: it is checked first, kept for
// the call's next run, and given back with the call.

// takeStorage allocates a storage by a function of package mem. It refuses more memory than the machine has, which
// the system might grant.
func (x *Executable) takeStorage(s *program.Storage, size int64, take taking) (*mem.Block, error) {
	kind := mem.Arena
	if s.Kind == program.Results {
		kind = mem.Outputs
	}
	if most := mem.Machine(); size > most {
		return nil, diag.New(diag.ErrMemory, "%s of %d bytes, and the machine has %d", s.Name, size, most)
	}
	return x.owned(take(kind, s.Name, size))
}

// grow asks Options.Reserve for memory whose size depends on data.
func (c *Call) grow(bytes int64) error {
	if c.x.reserve != nil {
		if err := c.x.reserve(bytes); err != nil {
			return err
		}
		c.reserved += bytes
	}
	return nil
}

// shrink returns memory to Options.Reserve that was freed, or could not be allocated.
func (c *Call) shrink(bytes int64) {
	if c.x.reserve != nil {
		c.x.reserve(-bytes)
		c.reserved -= bytes
	}
}

// take enlarges late storage to the size that the dimensions give; it keeps the present memory if that is enough.
func (c *Call) take(storage int) error {
	l := &c.x.layout.late[storage]
	for i, code := range l.lets {
		v, err := code.Eval(c.values)
		if err != nil {
			return c.tooLarge(storage, err)
		}
		c.values[l.slot+i] = v
	}
	size, err := c.x.layout.sizes[storage].Eval(c.values)
	if err != nil {
		return c.tooLarge(storage, err)
	}
	if c.x.program.Storages[storage].Device != "" {
		return c.takeRemote(storage, size)
	}
	old := c.storages[storage]
	if old != nil && old.Size() >= size {
		return nil
	}
	had := int64(0)
	if old != nil {
		had = old.Size()
		if c.watch != nil {
			c.watch.leave(storage, old)
		}
		if err := old.Close(); err != nil {
			return err
		}
		c.storages[storage] = nil
	}
	if err := c.grow(size - had); err != nil {
		c.shrink(had)
		return c.tooLarge(storage, err)
	}
	block, err := c.x.takeStorage(&c.x.program.Storages[storage], size, c.granting(mem.Map))
	if err != nil {
		c.shrink(size)
		return c.tooLarge(storage, err)
	}
	c.storages[storage] = block
	if c.watch != nil {
		mem.Fill(block, c.watch.pattern)
	}
	return nil
}

// tooLarge adds to an error the tensor whose memory was refused, and the dimensions that decided its size.
func (c *Call) tooLarge(storage int, err error) error {
	p := c.x.program
	e := diag.New(diag.ErrMemory, "%w", err)
	if known, ok := err.(*diag.Error); ok {
		copied := *known
		e = &copied
	}
	for i := range p.Tensors {
		if t := &p.Tensors[i]; t.Class == program.Carved && t.Of == storage {
			e.Tensor = t.Source
			break
		}
	}
	var values []string
	labels := p.Labels()
	for _, d := range p.LateDims()[storage] {
		if e.Dim == "" {
			e.Dim = labels[p.Dims[d].Name]
		}
		values = append(values, fmt.Sprintf("%s = %d", labels[p.Dims[d].Name], c.values[d]))
	}
	e.Detail += ", by " + strings.Join(values, ", ")
	return e
}

// lateAlone returns the late storage in which a tensor is alone; −1 if there is none.
func (c *Call) lateAlone(t int) int {
	p := c.x.program
	if x := &p.Tensors[p.Root(t)]; x.Class == program.Carved && c.x.layout.alone[x.Of] >= 0 {
		return x.Of
	}
	return -1
}
