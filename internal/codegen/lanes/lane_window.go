package lanes

import (
	"fmt"

	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// This file emits gathers whose indices are the same in many iterations, such as those of resizing in every row. If all
// of a strip's elements lie within two vectors of memory, these are read, and each lane takes its element: all bytes
// between the first and the last element belong to the same buffer.

// window is the range of memory that holds a strip's elements.
type window struct {
	first regalloc.Reg // the least index
	width regalloc.Reg // the greatest index, less the least
	lanes regalloc.Reg // each lane's index, less the least
	key   string
	depth int
}

// gatherNear reads words of 32 bits at indices that inner loops do not change: as vectors, if they lie near one
// another.
func (e *Emitter) gatherNear(p scattered, mask regalloc.Reg) regalloc.Reg {
	if !e.TakesOfTwo() || p.key == "" || p.depth >= e.DepthHere() || mask != regalloc.NoReg && mask != e.TailMask() {
		return e.Gather(p.at, p.index, 4, mask)
	}
	w := e.windowOf(p, mask)
	at := p.at
	at.Index, at.Scale = w.first, 4
	masks := [2]regalloc.Reg{e.windowMask(w, 0), e.windowMask(w, 1)}
	result := e.NewVector()
	two, far, done := e.Label(), e.Label(), e.Label()
	width := int64(e.lanes)

	e.CompareNumber(w.width, width)
	e.JumpIf(GreaterOrEqual, two)
	e.Assign(result, e.TakeLanes(w.lanes, e.Load(dtype.I32, at, masks[0])))
	e.Jump(done)

	e.Bind(two)
	e.CompareNumber(w.width, 2*width)
	e.JumpIf(GreaterOrEqual, far)
	low := e.Load(dtype.I32, at, masks[0])
	at.Disp += int32(4 * width)
	high := e.Load(dtype.I32, at, masks[1])
	e.TakeLanesOfTwo(result, w.lanes, low, high)
	e.Jump(done)

	e.Bind(far)
	e.Assign(result, e.Gather(p.at, p.index, 4, mask))
	e.Bind(done)
	return result
}

// windowOf finds a strip's window, in front of the loops that do not change it.
func (e *Emitter) windowOf(p scattered, mask regalloc.Reg) window {
	w := window{key: fmt.Sprintf("w%d %s", mask, p.key), depth: p.depth}
	once := func(name string, make func() regalloc.Reg) regalloc.Reg {
		return e.Once(p.depth, w.key+name, func() Ready { return Ready{Register: make()} }).Register
	}
	index := func() Value { return e.withMasked(p.index, mask) }
	edge := func(op loop.BinaryOp) regalloc.Reg { return e.WholeNumber(e.Across(op, index())) }
	w.first = once("first", func() regalloc.Reg { return edge(loop.Min) })
	w.width = once("span", func() regalloc.Reg {
		r := e.CopyOf(edge(loop.Max))
		e.Integer(Subtract, r, w.first)
		return r
	})
	w.lanes = once("lanes", func() regalloc.Reg {
		return e.cast(e.minus(p.index, e.allLanes(w.first, p.index.DType)), dtype.I32).Lo
	})
	return w
}

// windowMask returns the mask of the elements of a window's first or second vector that lie inside the window.
func (e *Emitter) windowMask(w window, vector int64) regalloc.Reg {
	return e.Once(w.depth, fmt.Sprint(w.key, "mask", vector), func() Ready {
		count := e.CopyOf(w.width)
		e.IntegerNumber(Add, count, 1-vector*int64(e.lanes))
		limit := e.Number(4 * int64(e.lanes)) // 32 bits of it are compared
		e.CompareNumbers(count, limit)
		e.AssignIf(Greater, count, limit)
		return Ready{Register: e.FirstLanes(count)}
	}).Register
}

// withMasked returns an index with the first lane's value in the lanes outside a mask (NoReg: all are inside).
func (e *Emitter) withMasked(index Value, mask regalloc.Reg) Value {
	if mask == regalloc.NoReg {
		return index
	}
	first := Value{DType: index.DType, Lo: e.BroadcastFirst(index.DType, index.Lo)}
	if index.DType == dtype.I64 {
		first.Hi = first.Lo
	}
	return e.Choose(Value{DType: dtype.Bool, Lo: mask}, index, first)
}
