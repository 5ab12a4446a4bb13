package compiler

import (
	"slices"
	"unsafe"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
)

// pageOut puts weights that were laid out anew and are to be paged into a file, and gives back the memory that they had. The others lie in files already, or belong to the caller.
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
		if leave == nil {
			continue
		}
		file, places, err := mem.PageFile("paged weights", contents(leave))
		if err != nil {
			return err
		}
		c.hold(file)
		if err := moveTo(leave, places); err != nil {
			return err
		}
		left, places, err := together(stay)
		if err != nil {
			return err
		}
		c.hold(left)
		if err := moveTo(stay, places); err != nil {
			return err
		}
		c.blocks = slices.DeleteFunc(c.blocks, func(b *mem.Block) bool { return b == block })
		if err := block.Close(); err != nil {
			return err
		}
	}
	return nil
}

// moveTo gives weights the same contents at other places.
func moveTo(list []*loop.Buffer, places [][]byte) error {
	for i, b := range list {
		var err error
		if b.Data, err = tensor.Over(b.DType, b.Data.Shape(), places[i]); err != nil {
			return err
		}
	}
	return nil
}

// together copies weights into a block of their own. Those that shared a place still do.
func together(list []*loop.Buffer) (*mem.Block, [][]byte, error) {
	total := int64(0)
	data := contents(list)
	at := map[*byte]int64{}
	for _, d := range data {
		if _, known := at[unsafe.SliceData(d)]; !known {
			at[unsafe.SliceData(d)] = total
			total += alignUp(int64(len(d)))
		}
	}
	block, err := mem.Map(mem.Weights, "packed weights", total)
	if err != nil {
		return nil, nil, err
	}
	for i, d := range data {
		from := at[unsafe.SliceData(d)]
		data[i] = block.Bytes()[from : from+int64(len(d)) : from+int64(len(d))]
		copy(data[i], d)
	}
	return block, data, nil
}

func contents(list []*loop.Buffer) [][]byte {
	out := make([][]byte, len(list))
	for i, b := range list {
		out[i] = b.Data.Bytes()
	}
	return out
}

// inside reports whether part lies in whole.
func inside(whole, part []byte) bool {
	if len(part) == 0 || len(whole) == 0 {
		return false
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(part))) - uintptr(unsafe.Pointer(unsafe.SliceData(whole)))
	return at < uintptr(len(whole))
}
