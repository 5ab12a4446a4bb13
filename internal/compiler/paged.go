package compiler

import (
	"slices"
	"unsafe"

	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
)

// pageOut moves repacked weights to where they belong: paged ones to a file, the others to memory. Weights that were
// not repacked are in files already, or belong to the caller.
func (c *Compiled) pageOut() error {
	for _, block := range slices.Clone(c.blocks) {
		var leave, stay []*loop.Buffer
		for _, b := range c.Loop.Buffers {
			switch {
			case b.Kind != loop.Weight || b.View != nil || b.Data == nil || !inside(block.Bytes(), b.Data.Bytes()):
			case b.Paged:
				leave = append(leave, b)
			default:
				stay = append(stay, b)
			}
		}
		memory := func(bytes int64) (*mem.Block, error) { return mem.Map(mem.Weights, "packed weights", bytes) }
		file := func(bytes int64) (*mem.Block, error) { return mem.MapPages(c.folder, "paged weights", bytes) }
		var err error
		if block.InPages() {
			if err = c.move(block, stay, leave, memory); err == nil && leave != nil {
				err = block.Keep(contents(leave))
			}
		} else if leave != nil {
			if err = c.move(block, leave, stay, file); err == nil {
				err = c.move(block, stay, nil, memory)
			}
			leave = nil
		} else {
			continue
		}
		if err == nil && leave == nil {
			c.blocks = slices.DeleteFunc(c.blocks, func(b *mem.Block) bool { return b == block })
			err = block.Close()
		}
		if err != nil {
			return err
		}
	}
	for _, block := range c.blocks {
		if block.InPages() {
			if err := block.Protect(true); err != nil {
				return err
			}
		}
	}
	c.hold()
	return nil
}

// move copies weights of a block to a new block that get makes. Weights that shared bytes still do. The block discards
// bytes that no other weight needs.
func (c *Compiled) move(block *mem.Block, list, others []*loop.Buffer,
	get func(bytes int64) (*mem.Block, error)) error {
	if len(list) == 0 {
		return nil
	}
	total := int64(0)
	data := contents(list)
	at, needed := map[*byte]int64{}, map[*byte]bool{}
	for _, d := range data {
		if _, known := at[unsafe.SliceData(d)]; !known {
			at[unsafe.SliceData(d)] = total
			total += live.AlignUp(int64(len(d)))
		}
	}
	for _, d := range contents(others) {
		needed[unsafe.SliceData(d)] = true
	}
	to, err := get(total)
	if err != nil {
		return err
	}
	c.hold(to)
	moved := map[*byte]bool{}
	for i, d := range data {
		first := unsafe.SliceData(d)
		from, size := at[first], int64(len(d))
		data[i] = to.Bytes()[from : from+size : from+size]
		if moved[first] {
			continue
		}
		moved[first] = true
		if err := mem.CatchFaults(func() error { mem.Move(data[i], d); return nil }); err != nil {
			return err
		}
		if to.DontNeed(from, size); !needed[first] {
			block.Discard(d)
		}
	}
	return moveTo(list, data)
}

// moveTo gives weights new memory with the same contents.
func moveTo(list []*loop.Buffer, to [][]byte) error {
	for i, b := range list {
		var err error
		if b.Data, err = tensor.Over(b.DType, b.Data.Shape(), to[i]); err != nil {
			return err
		}
	}
	return nil
}

// contents returns the bytes of weights.
func contents(list []*loop.Buffer) [][]byte {
	out := make([][]byte, len(list))
	for i, b := range list {
		out[i] = b.Data.Bytes()
	}
	return out
}

// inside reports whether data lies in block.
func inside(block, data []byte) bool {
	if len(data) == 0 || len(block) == 0 {
		return false
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(data))) - uintptr(unsafe.Pointer(unsafe.SliceData(block)))
	return at < uintptr(len(block))
}
