package amd64

import (
	"fmt"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// This file emits gathers whose indices are the same in many iterations, such as those of resizing in every row. If all
// of a strip's elements lie within two vectors of memory, these are read, and each lane takes its element: all bytes
// between the first and the last element belong to the same buffer.

// window is the range of memory that holds a strip's elements.
type window struct {
	first asm.Reg // the least index
	width asm.Reg // the greatest index, less the least
	lanes asm.Reg // each lane's index, less the least
	key   string
	depth int
}

// gatherNear reads words of 32 bits at indices that inner loops do not change: as vectors, if they lie near one
// another.
func (e *machine) gatherNear(p scattered, mask asm.Reg) asm.Reg {
	if !e.isa.masks || p.key == "" || p.depth >= e.DepthHere() || mask != asm.NoReg && mask != e.TailMask() {
		return e.gatherWords(p, 4, mask)
	}
	w := e.windowOf(p, mask)
	at := p.at
	at.Index, at.Scale = w.first, 4
	masks := [2]asm.Reg{e.windowMask(w, 0), e.windowMask(w, 1)}
	result := e.builder.vector()
	two, far, done := e.Label(), e.Label(), e.Label()
	width := int64(e.isa.lanes)

	e.integerImm(asm.CMP, w.width, width)
	e.jump(asm.JGE, two)
	e.Assign(result, e.three(asm.VPERMD, w.lanes, e.loadMasked(masks[0], at)))
	e.jump(asm.JMP, done)

	e.Bind(two)
	e.integerImm(asm.CMP, w.width, 2*width)
	e.jump(asm.JGE, far)
	low := e.loadMasked(masks[0], at)
	at.Disp += int32(4 * width)
	high := e.loadMasked(masks[1], at)
	e.Assign(result, w.lanes)
	e.Emit(asm.Inst{Op: asm.VPERMI2D, Bits: uint16(e.isa.bits), Args: [4]asm.Reg{result, low, high}})
	e.jump(asm.JMP, done)

	e.Bind(far)
	e.Assign(result, e.gatherWords(p, 4, mask))
	e.Bind(done)
	return result
}

// windowOf finds a strip's window, in front of the loops that do not change it.
func (e *machine) windowOf(p scattered, mask asm.Reg) window {
	w := window{key: fmt.Sprintf("w%d %s", mask, p.key), depth: p.depth}
	once := func(name string, make func() asm.Reg) asm.Reg {
		return e.Once(p.depth, w.key+name, func() lanes.Ready { return lanes.Ready{Register: make()} }).Register
	}
	index := func() lanes.Value { return e.withMasked(p.index, mask) }
	edge := func(op loop.BinaryOp) asm.Reg { return e.WholeNumber(e.Across(op, index())) }
	w.first = once("first", func() asm.Reg { return edge(loop.Min) })
	w.width = once("span", func() asm.Reg {
		r := e.CopyOf(edge(loop.Max))
		e.integerOp(asm.SUB, r, w.first)
		return r
	})
	w.lanes = once("lanes", func() asm.Reg {
		return e.cast(e.minus(p.index, e.allLanes(w.first, p.index.DType)), dtype.I32).Lo
	})
	return w
}

// windowMask returns the mask of the elements of a window's first or second vector that lie inside the window.
func (e *machine) windowMask(w window, vector int64) asm.Reg {
	return e.Once(w.depth, fmt.Sprint(w.key, "mask", vector), func() lanes.Ready {
		count := e.CopyOf(w.width)
		e.integerImm(asm.ADD, count, 1-vector*int64(e.isa.lanes))
		limit := e.Number(4 * int64(e.isa.lanes)) // 32 bits of it are compared
		e.CompareNumbers(count, limit)
		e.integerOp(asm.CMOVG, count, limit)
		return lanes.Ready{Register: e.FirstLanes(count)}
	}).Register
}

// withMasked returns an index with the first lane's value in the lanes outside a mask (NoReg: all are inside).
func (e *machine) withMasked(index lanes.Value, mask asm.Reg) lanes.Value {
	if mask == asm.NoReg {
		return index
	}
	op := asm.VPBROADCASTD
	if index.DType == dtype.I64 {
		op = asm.VPBROADCASTQ
	}
	first := lanes.Value{DType: index.DType, Lo: e.two(op, index.Lo)}
	if index.DType == dtype.I64 {
		first.Hi = first.Lo
	}
	return e.Choose(lanes.Value{DType: dtype.Bool, Lo: mask}, index, first)
}
