package compiler

import (
	"errors"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/schedule"
	"github.com/weirml/weir/internal/tensor"
)

// pack lays weights out anew in memory of the program's own, on all processors that Go may use. What they were in a mapped file leaves memory
// as they go.
func (c *Compiled) pack(list []*schedule.Pack) error {
	total := int64(0)
	offsets := make([]int64, len(list))
	for i, p := range list {
		offsets[i] = alignUp(total)
		total = offsets[i] + p.Bytes()
	}
	block, err := mem.Map(mem.Weights, "packed weights", total)
	if err != nil {
		return err
	}
	c.hold(block)
	for i, p := range list {
		to := block.Bytes()[offsets[i] : offsets[i]+p.Bytes()]
		if err := fill(p, to); err != nil {
			return err
		}
		forget(p.Origins())
		if p.Buffer.Data, err = tensor.Over(p.Buffer.DType, p.Shape(), to); err != nil {
			return err
		}
	}
	return nil
}

// forget lets go of what was read of mapped files.
func forget(list []*tensor.Tensor) {
	for _, t := range list {
		mem.Forget(t.Bytes())
	}
}

// leastView is the size, in bytes, from which a weight that is used as the model's file has it is read there. Smaller ones are copied, so that a file is not kept for them.
const leastView = 64 << 10

// moves reports whether a weight that needs no computing is copied: it lies in a mapped file, and is small there, or not aligned for its type.
func (c *Compiled) moves(b *loop.Buffer) bool {
	if c.inPlace || b.View != nil || b.DType == dtype.String {
		return false
	}
	data := b.Data.Bytes()
	width := uintptr(max(1, b.DType.Bits()/8))
	at := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	return len(data) > 0 && (len(data) < leastView || at%width != 0) && mem.InFile(data)
}

// settle computes the weights that nobody has computed or packed, in memory of the program's own, and copies those there that moves names.
func (c *Compiled) settle() error {
	total := int64(0)
	offsets := map[*tensor.Tensor]int64{}
	for _, b := range c.Loop.Buffers {
		if b.Kind != loop.Weight || b.Data == nil || !b.Data.Pending() && !c.moves(b) {
			continue
		}
		if _, ok := offsets[b.Data]; !ok {
			offsets[b.Data] = total
			total += alignUp(b.Data.Size())
		}
	}
	if total == 0 {
		return nil
	}
	block, err := mem.Map(mem.Weights, "weights laid out anew", total)
	if err != nil {
		return err
	}
	c.hold(block)
	made := map[*tensor.Tensor]*tensor.Tensor{}
	for _, b := range c.Loop.Buffers {
		at, ok := offsets[b.Data]
		if !ok {
			continue
		}
		if made[b.Data] == nil {
			to := tensor.Must(tensor.Over(b.DType, b.Data.Shape(), block.Bytes()[at:at+b.Data.Size()]))
			if err := mem.CatchFaults(func() error { fillOrCopy(b.Data, to); return nil }); err != nil {
				return err
			}
			made[b.Data] = to
		}
		b.Data = made[b.Data]
	}
	return nil
}

// fillOrCopy gives a weight's elements another place.
func fillOrCopy(from, to *tensor.Tensor) {
	if !from.Pending() {
		mem.Move(to.Bytes(), from.Bytes())
		return
	}
	from.Fill(to, 0, 0, to.Shape()[0])
	forget(from.Origins())
}

// fillBytes is about how much one goroutine packs at a time.
const fillBytes = 1 << 20

// fill packs one weight.
func fill(p *schedule.Pack, to []byte) error {
	pieces := p.Pieces()
	batch := max(1, fillBytes*pieces/max(1, p.Bytes()))
	workers := min(int64(runtime.GOMAXPROCS(0)), (pieces+batch-1)/batch)
	var next atomic.Int64
	var group diag.Group
	for range workers {
		group.Go("packing a weight", func() error {
			for begin := next.Add(batch) - batch; begin < pieces; begin = next.Add(batch) - batch {
				end := min(begin+batch, pieces)
				p.Fill(to, begin, end)
				mem.Forget(p.Stretch(begin, end))
			}
			return nil
		})
	}
	return group.Wait()
}

// dropPacked frees the weights of an attempt that came to nothing.
func (c *Compiled) dropPacked() {
	for _, block := range c.blocks {
		block.Close()
	}
	c.blocks = nil
}

// drop frees what an attempt that came to nothing had taken.
func (c *Compiled) drop() {
	c.dropPacked()
	if c.Code != nil && c.Code.Release != nil {
		c.Code.Release()
		c.Code = nil
	}
}

// own has the weights that were laid out anew freed together with the code. What they were before is let go.
func (c *Compiled) own() {
	c.held()
	if c.blocks == nil {
		return
	}
	blocks, release := c.blocks, c.Code.Release
	c.blocks = nil
	if c.IR != nil {
		c.IR = &ir.Module{Name: c.IR.Name, Dims: c.IR.Dims, Proved: c.IR.Proved}
	}
	c.Code.Release = func() error {
		var err error
		for _, block := range blocks {
			err = errors.Join(err, block.Close())
		}
		if release != nil {
			err = errors.Join(err, release())
		}
		return err
	}
}
