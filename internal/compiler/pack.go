package compiler

import (
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/schedule"
	"github.com/weirml/weir/internal/tensor"
)

// layOut computes the packed and the pending weights, and copies those for which moves is true: paged weights into a
// file, the others into the program's own memory. It uses all of Go's processors. Mapped source bytes leave memory as
// they are read. No kernel is made of a weight's contents, so a program is laid out after its memory is planned.
func (c *Compiled) layOut() error {
	for _, paged := range []bool{false, true} {
		if err := c.layOutWhere(paged); err != nil {
			return err
		}
	}
	c.keepFiles(nil)
	return nil
}

// layOutWhere is layOut for the weights that are paged, or for those that are not.
func (c *Compiled) layOutWhere(paged bool) error {
	offsets, total := c.anew(paged)
	if total == 0 {
		return nil
	}
	block, err := mem.MapGrowing(mem.Weights, paged, c.folder, "weights laid out anew", total)
	if err != nil {
		return err
	}
	c.hold(block)
	made := map[*tensor.Tensor]*tensor.Tensor{}
	for _, b := range c.Loop.Buffers {
		at, ok := offsets[b.Data]
		if !ok || b.Paged != paged {
			continue
		}
		if made[b.Data] == nil {
			if p := c.packs[b]; p != nil {
				err = c.fillGrowing(block, at, p, total)
				forget(p.Origins())
			} else {
				err = c.fillOrCopy(block, at, b, total)
			}
			if err != nil {
				return err
			}
			block.DontNeed(at, b.Data.Size())
			made[b.Data] = tensor.Must(tensor.Over(b.DType, b.Data.Shape(), block.Bytes()[at:at+b.Data.Size()]))
		}
		b.Data = made[b.Data]
		c.letGo(0, total, nil)
	}
	if block.InPages() {
		return block.Protect(true)
	}
	return nil
}

// anew returns the offsets of the weights to be laid out, paged or not, in their block, and the block's bytes.
func (c *Compiled) anew(paged bool) (offsets map[*tensor.Tensor]int64, total int64) {
	offsets = map[*tensor.Tensor]int64{}
	for _, b := range c.Loop.Buffers {
		if b.Kind != loop.Weight || b.Data == nil || b.Paged != paged || !c.laidAnew(b) {
			continue
		}
		if _, ok := offsets[b.Data]; !ok {
			offsets[b.Data] = total
			total += live.AlignUp(b.Data.Size())
		}
	}
	return offsets, total
}

// laidAnew reports whether layOut computes or copies a weight.
func (c *Compiled) laidAnew(b *loop.Buffer) bool { return b.Data.Pending() || c.moves(b) }

// fillGrowing packs one weight piece by piece: the block grows as it is filled, and source bytes that were read are
// unmapped.
func (c *Compiled) fillGrowing(block *mem.Block, at int64, p *schedule.Pack, total int64) error {
	pieces := p.Pieces()
	step := max(1, pieces*letGoAfter(total)/max(1, p.Bytes()))
	for begin, filled := int64(0), int64(0); begin < pieces; begin += step {
		end := min(begin+step, pieces)
		prefix := p.Prefix(end)
		if err := c.grow(block, at+prefix); err != nil {
			return err
		}
		to := block.Bytes()[at : at+p.Bytes()]
		if err := mem.CatchFaults(func() error { return fill(p, to, begin, end) }); err != nil {
			return err
		}
		c.letGo(prefix-filled, total, p.Done(end), p.Buffer)
		filled = prefix
	}
	return nil
}

// grow gives a block the pages of its first bytes.
func (c *Compiled) grow(block *mem.Block, to int64) error {
	if err := block.Grow(to); err != nil {
		return err
	}
	c.hold()
	return nil
}

// After each 1/letGoShare of the bytes to be laid out anew, but at least letGoLeast bytes, pages of the model's files
// are unmapped.
const (
	letGoShare = 32
	letGoLeast = 64 << 10
)

// letGoAfter returns the number of bytes laid out anew after which pages are unmapped; total is the number of all
// bytes.
func letGoAfter(total int64) int64 { return max(total/letGoShare, letGoLeast) }

// letGo counts repacked bytes. After each letGoAfter(total) bytes it unmaps the pages of the model's files that no
// weight still needs, so that the weights are never mapped twice in full. done is the source bytes, of the buffers in
// of, that need not be read again.
func (c *Compiled) letGo(bytes, total int64, done []byte, of ...*loop.Buffer) {
	if c.done += bytes; c.done >= letGoAfter(total) {
		c.done = 0
		c.keepFiles(done, of...)
	}
}

// keepFiles unmaps the model's files except the bytes that weights lie in or are computed from, and of some weights all
// but done.
func (c *Compiled) keepFiles(done []byte, of ...*loop.Buffer) {
	if c.files == nil || c.interpreted {
		return
	}
	var data [][]byte
	for _, w := range c.Loop.Buffers {
		if w.Data == nil {
			continue
		}
		w.Data.Sources(func(t *tensor.Tensor) {
			if t.DType() == dtype.String {
				return
			}
			source := t.Bytes()
			if len(done) > 0 && slices.Contains(of, w) && unsafe.SliceData(source) == unsafe.SliceData(done) {
				source = source[len(done):]
			}
			data = append(data, source)
		})
	}
	c.files.Keep(data)
}

// forget unmaps the bytes of tensors in mapped files.
func forget(list []*tensor.Tensor) {
	for _, t := range list {
		mem.Forget(t.Bytes())
	}
}

// leastView is the size in bytes from which an unchanged weight is used in the model's mapped file. Smaller weights are
// copied, so that they do not keep a file open.
const leastView = 64 << 10

// moves reports whether an unchanged weight is copied: it lies in a mapped file, and is small or not aligned for its
// type.
func (c *Compiled) moves(b *loop.Buffer) bool {
	if c.inPlace || b.View != nil || b.DType == dtype.String {
		return false
	}
	data := b.Data.Bytes()
	width := uintptr(max(1, b.DType.Bits()/8))
	at := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	return len(data) > 0 && (len(data) < leastView || at%width != 0) && mem.InFile(data)
}

// fillOrCopy computes or copies a weight into a block that grows as it is filled: a share at a time if its rows are
// made from separate bytes of its sources.
func (c *Compiled) fillOrCopy(block *mem.Block, at int64, b *loop.Buffer, total int64) error {
	from := b.Data
	var sharing []*loop.Buffer
	for _, w := range c.Loop.Buffers {
		if w.Data == from {
			sharing = append(sharing, w)
		}
	}
	size, rows := from.Size(), int64(1)
	if from.Rank() > 0 {
		rows = max(1, from.Shape()[0])
	}
	step, each := rows, size/rows
	separate := from.Rank() > 0 && from.Major() == 0 && size%rows == 0
	if separate {
		step = max(1, letGoAfter(total)/max(1, each))
	}
	for begin := int64(0); begin < rows; begin += step {
		end := min(begin+step, rows)
		first, last := each*begin, each*end
		if end == rows {
			last = size
		}
		if err := c.grow(block, at+last); err != nil {
			return err
		}
		share := block.Bytes()[at+first : at+last]
		err := mem.CatchFaults(func() error {
			if !from.Pending() {
				mem.Move(share, from.Bytes()[first:last])
				return nil
			}
			shape := slices.Clone(from.Shape())
			shape[0] = end - begin
			from.Fill(tensor.Must(tensor.Over(b.DType, shape, share)), 0, begin, end)
			forget(from.Origins())
			return nil
		})
		if err != nil {
			return err
		}
		var done []byte
		if separate {
			done = from.Done(end)
		}
		c.letGo(last-first, total, done, sharing...)
	}
	return nil
}

// fillBytes is about the number of bytes that one goroutine packs at a time.
const fillBytes = 1 << 20

// fill packs pieces [first, pieces) of a weight.
func fill(p *schedule.Pack, to []byte, first, pieces int64) error {
	most := int64(runtime.GOMAXPROCS(0))
	batch := max(1, min(fillBytes*p.Pieces()/max(1, p.Bytes()), (pieces-first+most-1)/most))
	workers := min(most, (pieces-first+batch-1)/batch)
	var next atomic.Int64
	next.Store(first)
	var group diag.Group
	for range workers {
		group.Go("packing a weight", func() error {
			for begin := next.Add(batch) - batch; begin < pieces; begin = next.Add(batch) - batch {
				end := min(begin+batch, pieces)
				p.Fill(to, begin, end)
				mem.Forget(p.Memory(begin, end))
			}
			return nil
		})
	}
	return group.Wait()
}

// drop frees the resources of a failed attempt.
func (c *Compiled) drop() {
	for _, block := range c.blocks {
		block.Close()
	}
	c.blocks = nil
	if c.Code != nil && c.Code.Release != nil {
		c.Code.Release()
		c.Code = nil
	}
}

// own makes the code's Release free the repacked weights too, and drops ir.
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
