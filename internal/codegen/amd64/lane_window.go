package amd64

import (
	"fmt"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
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
func (e *emitter) gatherNear(p scattered, mask asm.Reg) asm.Reg {
	if !e.isa.masks || p.key == "" || p.depth >= e.depthHere() || mask != asm.NoReg && mask != e.tailMask() {
		return e.gatherWords(p, 4, mask)
	}
	w := e.windowOf(p, mask)
	at := p.at
	at.Index, at.Scale = w.first, 4
	masks := [2]asm.Reg{e.windowMask(w, 0), e.windowMask(w, 1)}
	result := e.builder.vector()
	two, far, done := e.label(), e.label(), e.label()
	width := int64(e.isa.lanes)

	e.integerImm(asm.CMP, w.width, width)
	e.jump(asm.JGE, two)
	e.assign(result, e.three(asm.VPERMD, w.lanes, e.loadMasked(masks[0], at)))
	e.jump(asm.JMP, done)

	e.bind(two)
	e.integerImm(asm.CMP, w.width, 2*width)
	e.jump(asm.JGE, far)
	low := e.loadMasked(masks[0], at)
	at.Disp += int32(4 * width)
	high := e.loadMasked(masks[1], at)
	e.assign(result, w.lanes)
	e.Emit(asm.Inst{Op: asm.VPERMI2D, Bits: uint16(e.isa.bits), Args: [4]asm.Reg{result, low, high}})
	e.jump(asm.JMP, done)

	e.bind(far)
	e.assign(result, e.gatherWords(p, 4, mask))
	e.bind(done)
	return result
}

// windowOf finds a strip's window, in front of the loops that do not change it.
func (e *emitter) windowOf(p scattered, mask asm.Reg) window {
	w := window{key: fmt.Sprintf("w%d %s", mask, p.key), depth: p.depth}
	once := func(name string, make func() asm.Reg) asm.Reg {
		return e.once(p.depth, w.key+name, func() ready { return ready{register: make()} }).register
	}
	index := func() value { return e.withMasked(p.index, mask) }
	edge := func(op loop.BinaryOp) asm.Reg { return e.wholeNumber(e.across(op, index())) }
	w.first = once("first", func() asm.Reg { return edge(loop.Min) })
	w.width = once("span", func() asm.Reg {
		r := e.copyOf(edge(loop.Max))
		e.integerOp(asm.SUB, r, w.first)
		return r
	})
	w.lanes = once("lanes", func() asm.Reg {
		return e.cast(e.minus(p.index, e.allLanes(w.first, p.index.dtype)), dtype.I32).lo
	})
	return w
}

// windowMask returns the mask of the elements of a window's first or second vector that lie inside the window.
func (e *emitter) windowMask(w window, vector int64) asm.Reg {
	return e.once(w.depth, fmt.Sprint(w.key, "mask", vector), func() ready {
		count := e.copyOf(w.width)
		e.integerImm(asm.ADD, count, 1-vector*int64(e.isa.lanes))
		limit := e.number(4 * int64(e.isa.lanes)) // 32 bits of it are compared
		e.compareNumbers(count, limit)
		e.integerOp(asm.CMOVG, count, limit)
		return ready{register: e.firstLanes(count)}
	}).register
}

// withMasked returns an index with the first lane's value in the lanes outside a mask (NoReg: all are inside).
func (e *emitter) withMasked(index value, mask asm.Reg) value {
	if mask == asm.NoReg {
		return index
	}
	op := asm.VPBROADCASTD
	if index.dtype == dtype.I64 {
		op = asm.VPBROADCASTQ
	}
	first := value{dtype: index.dtype, lo: e.two(op, index.lo)}
	if index.dtype == dtype.I64 {
		first.hi = first.lo
	}
	return e.choose(value{dtype: dtype.Bool, lo: mask}, index, first)
}
