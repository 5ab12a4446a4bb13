package compiler

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/schedule"
	"github.com/weirml/weir/internal/tensor"
)

// packAlign is the alignment of packed weights: a cache line's.
const packAlign = 64

// pack lays weights out anew in memory of the program's own, on all processors that Go may use. What they were in a mapped file leaves memory
// as they go.
func (c *Compiled) pack(list []*schedule.Pack) error {
	total := int64(0)
	offsets := make([]int64, len(list))
	for i, p := range list {
		offsets[i] = (total + packAlign - 1) / packAlign * packAlign
		total = offsets[i] + p.Bytes()
	}
	block, err := mem.Map(mem.Weights, "packed weights", total)
	if err != nil {
		return err
	}
	c.packed = block
	for i, p := range list {
		to := block.Bytes()[offsets[i] : offsets[i]+p.Bytes()]
		if err := fill(p, to); err != nil {
			return err
		}
		if p.Buffer.Data, err = tensor.Over(p.Buffer.DType, p.Shape(), to); err != nil {
			return err
		}
		mem.Forget(p.From().Bytes())
	}
	return nil
}

// fillBytes is about how much one goroutine packs at a time.
const fillBytes = 1 << 20

// fill packs one weight.
func fill(p *schedule.Pack, to []byte) error {
	pieces := p.Pieces()
	batch := max(1, fillBytes*pieces/max(1, p.Bytes()))
	workers := min(int64(runtime.GOMAXPROCS(0)), (pieces+batch-1)/batch)
	faults := make([]error, workers)
	var next atomic.Int64
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			faults[w] = mem.CatchFaults(func() error {
				for begin := next.Add(batch) - batch; begin < pieces; begin = next.Add(batch) - batch {
					p.Fill(to, begin, min(begin+batch, pieces))
				}
				return nil
			})
		})
	}
	wait.Wait()
	for _, err := range faults {
		if err != nil {
			return err
		}
	}
	return nil
}

// dropPacked frees the packed weights of an attempt that came to nothing.
func (c *Compiled) dropPacked() {
	if c.packed != nil {
		c.packed.Close()
		c.packed = nil
	}
}

// own has the packed weights freed together with the code. What they were before packing is let go.
func (c *Compiled) own() {
	if c.packed == nil {
		return
	}
	block, release := c.packed, c.Code.Release
	c.packed = nil
	c.IR = &ir.Module{Name: c.IR.Name, Dims: c.IR.Dims, Proved: c.IR.Proved}
	c.Code.Release = func() error {
		err := block.Close()
		if release != nil {
			err = errors.Join(err, release())
		}
		return err
	}
}
