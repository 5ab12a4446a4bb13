package lanes

import (
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// This file reads and writes elements of 2 and 4 bits, several of which share a byte, the first in the lowest bits.

// packedElement is the location of an element that shares its byte.
type packedElement struct {
	base  regalloc.Reg // the buffer's address
	first regalloc.Reg // the byte, from base on
	shift regalloc.Reg // the element's lowest bit in that byte, in all lanes; NoReg: 0
}

// memory returns the address of the byte at a displacement from the element's.
func (p packedElement) memory(disp int32) regalloc.Mem {
	return regalloc.Mem{Base: p.base, Index: p.first, Scale: 1, Disp: disp}
}

// packedAt locates an element by its offset from the buffer's beginning. An aligned element is the first of its byte.
func (e *Emitter) packedAt(buffer string, dt dtype.DType, offset sym.Expr, aligned bool) packedElement {
	per := int64(8 / dt.Bits())
	position := e.IntegerOf(offset)
	p := packedElement{base: e.Pointer(buffer, sym.Const(0)), first: e.CopyOf(position), shift: regalloc.NoReg}
	e.ShiftNatural(p.first, int64(Log2(per)))
	if !aligned {
		shift := e.CopyOf(position)
		e.IntegerNumber(And, shift, per-1)
		p.shift = e.Broadcast(dtype.I32, e.Times(shift, int64(dt.Bits())))
	}
	return p
}

// alignedRun reports whether a strip of a vector loop begins with the first element of a byte, wherever the loops are.
func (e *Emitter) alignedRun(dt dtype.DType, offset sym.Expr) bool {
	per := int64(8 / dt.Bits())
	constant, terms := offset.Terms()
	if constant%per != 0 {
		return false
	}
	for _, t := range terms {
		// The loop's variable is a multiple of the lanes.
		whole := e.Strip != nil && len(t.Factors) == 1 && t.Factors[0].Kind == sym.Variable &&
			t.Factors[0].Name == e.Strip.Variable
		if !whole && t.Coef%per != 0 {
			return false
		}
	}
	return true
}

// loadPacked reads elements that share bytes: one for all lanes (step 0) or a run of them.
func (e *Emitter) loadPacked(buffer string, dt dtype.DType, offset sym.Expr, step int64) Value {
	if step == 0 {
		p := e.packedAt(buffer, dt, offset, false)
		v := e.unpacked(dt, e.word.ShiftRightBy(e.Broadcast(dtype.I32, e.byteAt(p.memory(0))), p.shift))
		v.Uniform = true
		return v
	}
	aligned := e.alignedRun(dt, offset)
	p := e.packedAt(buffer, dt, offset, aligned)
	width := e.lanes * dt.Bits()
	// A register of 64 bits: the elements, after the bits before the first element in its byte.
	lanes := e.Broadcast(dtype.I64, e.LoadBits(width, p.memory(0)))
	if !aligned {
		// The byte of the last element is the one that follows what was read, or its last one once more.
		last := e.CopyOf(e.IntegerOf(offset.Add(sym.Const(int64(e.lanes - 1)))))
		e.ShiftNatural(last, int64(Log2(int64(8/dt.Bits()))))
		next := e.Broadcast(dtype.I64, e.byteAt(regalloc.Mem{Base: p.base, Index: last, Scale: 1}))
		by := e.wide.And(p.shift, e.Repeated(dtype.I64, 0xff)) // in lanes of 64 bits
		lanes = e.Binary(loop.Shr, dtype.U64, lanes, by)
		up := e.wide.SubInt(e.Repeated(dtype.I64, uint64(width)), by) // shifts by 64 and more give 0
		lanes = e.wide.Or(lanes, e.Binary(loop.Shl, dtype.I64, next, up))
		if width < 64 { // a byte that was read twice lies above
			lanes = e.wide.And(lanes, e.Repeated(dtype.I64, 1<<width-1))
		}
	}
	bit := func(lane int) int { return lane * dt.Bits() }
	r := e.TakeLanes(e.perLane(func(lane int) int { return bit(lane) / 32 }), lanes)
	return e.unpacked(dt, e.word.ShiftRightBy(r, e.perLane(func(lane int) int { return bit(lane) % 32 })))
}

// byteAt returns a byte of memory, extended by zeros.
func (e *Emitter) byteAt(at regalloc.Mem) regalloc.Reg { return e.LoadBits(8, at) }

// unpacked returns lanes of a type from lanes whose lowest bits are elements, with any bits above them.
func (e *Emitter) unpacked(dt dtype.DType, x regalloc.Reg) Value {
	if dt.IsFloat() {
		return Value{DType: dt, Lo: e.Functions().FromCode(dt, e.word.And(x, e.word.Integer(int32(1)<<dt.Bits()-1)))}
	}
	return e.settle(Value{DType: dt, Lo: x})
}

// storePacked writes one element, or a run of them that begins and ends with a byte.
func (e *Emitter) storePacked(buffer string, dt dtype.DType, offset sym.Expr, step int64, x Value, mask regalloc.Reg) {
	ones := e.word.Integer(int32(1)<<dt.Bits() - 1)
	code := x.Lo
	if dt.IsFloat() {
		code = e.Functions().ToCode(dt, code, false)
	}
	code = e.word.And(code, ones)
	if e.Strip == nil {
		p := e.packedAt(buffer, dt, offset, false)
		was := e.Broadcast(dtype.I32, e.byteAt(p.memory(0)))
		kept := e.word.AndNot(e.word.ShiftLeftBy(ones, p.shift), was)
		e.StoreBits(8, p.memory(0), e.FirstLane(dtype.U32, e.word.Or(kept, e.word.ShiftLeftBy(code, p.shift))))
		return
	}
	if step != 1 || mask != regalloc.NoReg || !e.alignedRun(dt, offset) {
		Refuse("%s that share bytes with others, to memory", dt)
	}
	p := e.packedAt(buffer, dt, offset, true)
	e.StorePacked(dt.Bits(), p.memory(0), code)
}
