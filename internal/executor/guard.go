package executor

import (
	"unsafe"

	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/target"
)

// With Options.Guard each operand has memory of its own that ends at an inaccessible page.

// newGuards returns the map of guarded blocks; nil without Options.Guard.
func (x *Executable) newGuards() map[int]*mem.Block {
	if !x.guard {
		return nil
	}
	return map[int]*mem.Block{}
}

// guardWeights copies each weight to memory that ends at a guard page.
func (x *Executable) guardWeights() error {
	for _, w := range x.program.Weights {
		if w.Device != "" {
			x.weights[w.Tensor].Bytes = int64(len(w.Data))
			continue // see openDevice
		}
		block, err := mem.MapGuarded(mem.Weights, w.Name, int64(len(w.Data)))
		if err != nil {
			return err
		}
		x.blocks = append(x.blocks, block)
		mem.Move(block.Bytes(), w.Data)
		x.weights[w.Tensor] = target.Operand{Base: block.Pointer(), Bytes: block.Size()}
	}
	return nil
}

// guardOperand gives a tensor of known size memory that ends at a guard page. It keeps the present memory if that is
// large enough, else copies it: a loop's count may grow.
func (c *Call) guardOperand(i int, kind mem.Kind) error {
	o, old := &c.operands[i], c.guards[i]
	if old == nil || old.Size() < o.Bytes {
		block, err := mem.MapGuarded(kind, c.x.program.Tensors[i].Name, o.Bytes)
		if err != nil {
			return err
		}
		if c.guards[i] = block; old != nil {
			copy(block.Bytes(), old.Bytes())
			if err := old.Close(); err != nil {
				return err
			}
		}
	}
	o.Base = c.guards[i].Pointer()
	return nil
}

// guarded runs a launch with scratch of exactly the size that it needs.
func (c *Call) guarded(s *program.Launch, b *bound) error {
	need, err := b.Kernel.Scratch(b.Args.Dims)
	if err != nil {
		return err
	}
	exact := make([][]byte, len(c.workers))
	for i := range exact {
		// so that it stays aligned
		block, err := mem.MapGuarded(mem.Scratch, "scratch", (need+weightAlign-1)&^(weightAlign-1))
		if err != nil {
			return err
		}
		defer block.Close()
		exact[i] = unsafe.Slice((*byte)(block.Pointer()), need)
	}
	return at(c.team.Launch(&b.Job, exact), s.Source)
}

// closeGuards frees the guarded memory.
func (c *Call) closeGuards() error {
	var first error
	for _, b := range c.guards {
		if err := b.Close(); err != nil && first == nil {
			first = err
		}
	}
	clear(c.guards)
	return first
}
