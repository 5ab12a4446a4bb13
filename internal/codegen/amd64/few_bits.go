package amd64

import (
	"encoding/binary"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
)

// This file reads and writes elements of 2 and 4 bits, several of which share a byte, the first in the lowest bits.

// packedElement is the location of an element that shares its byte.
type packedElement struct {
	base  asm.Reg // the buffer's address
	first asm.Reg // the byte, from base on
	shift asm.Reg // the element's lowest bit in that byte, in all lanes; NoReg: 0
}

// memory returns the address of the byte at a displacement from the element's.
func (p packedElement) memory(disp int32) asm.Mem {
	return asm.Mem{Base: p.base, Index: p.first, Scale: 1, Disp: disp}
}

// packedAt locates an element by its offset from the buffer's beginning. An aligned element is the first of its byte.
func (e *machine) packedAt(buffer string, dt dtype.DType, offset sym.Expr, aligned bool) packedElement {
	per := int64(8 / dt.Bits())
	position := e.IntegerOf(offset)
	p := packedElement{base: e.Pointer(buffer, sym.Const(0)), first: e.CopyOf(position), shift: asm.NoReg}
	e.Emit(asm.Inst{Op: asm.SHR, Bits: 64, Args: [4]asm.Reg{p.first}, Imm: int64(log2(per))})
	if !aligned {
		shift := e.CopyOf(position)
		e.integerImm(asm.AND, shift, per-1)
		p.shift = e.broadcastInt(e.Times(shift, int64(dt.Bits())))
	}
	return p
}

// alignedRun reports whether a strip of a vector loop begins with the first element of a byte, wherever the loops are.
func (e *machine) alignedRun(dt dtype.DType, offset sym.Expr) bool {
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
func (e *machine) loadPacked(buffer string, dt dtype.DType, offset sym.Expr, step int64) lanes.Value {
	if step == 0 {
		p := e.packedAt(buffer, dt, offset, false)
		v := e.unpacked(dt, e.shiftRightBy(e.broadcastInt(e.byteAt(p.memory(0))), p.shift))
		v.Uniform = true
		return v
	}
	aligned := e.alignedRun(dt, offset)
	p := e.packedAt(buffer, dt, offset, aligned)
	width := e.isa.lanes * dt.Bits()
	read := func(op asm.Op, bits uint16, at asm.Mem) asm.Reg {
		r := e.General()
		e.Emit(asm.Inst{Op: op, Bits: bits, Args: [4]asm.Reg{r, asm.Memory}, Mem: at})
		return r
	}
	var all asm.Reg // a register of 64 bits: the elements, after the bits before the first element in its byte
	switch width {
	case 16:
		all = read(asm.MOVZXW, 32, p.memory(0))
	case 32:
		all = read(asm.MOV, 32, p.memory(0))
	default:
		all = read(asm.MOV, 64, p.memory(0))
	}
	lanes := e.broadcastWide(all)
	if !aligned {
		// The byte of the last element is the one that follows what was read, or its last one once more.
		last := e.CopyOf(e.IntegerOf(offset.Add(sym.Const(int64(e.isa.lanes - 1)))))
		e.Emit(asm.Inst{Op: asm.SHR, Bits: 64, Args: [4]asm.Reg{last}, Imm: int64(log2(int64(8 / dt.Bits())))})
		next := e.broadcastWide(e.byteAt(asm.Mem{Base: p.base, Index: last, Scale: 1}))
		by := e.and(p.shift, e.repeated64(0xff)) // in lanes of 64 bits
		lanes = e.three(asm.VPSRLVQ, lanes, by)
		up := e.three(asm.VPSUBQ, e.repeated64(uint64(width)), by) // shifts by 64 and more give 0
		lanes = e.or(lanes, e.three(asm.VPSLLVQ, next, up))
		if width < 64 { // a byte that was read twice lies above
			lanes = e.and(lanes, e.repeated64(1<<width-1))
		}
	}
	var which, shifts []byte
	for i := range e.isa.lanes {
		bit := i * dt.Bits()
		which = binary.LittleEndian.AppendUint32(which, uint32(bit/32))
		shifts = binary.LittleEndian.AppendUint32(shifts, uint32(bit%32))
	}
	r := e.three(asm.VPERMD, e.poolVector(which), lanes)
	return e.unpacked(dt, e.shiftRightBy(r, e.poolVector(shifts)))
}

// byteAt returns a byte of memory, extended by zeros.
func (e *machine) byteAt(at asm.Mem) asm.Reg {
	r := e.General()
	e.Emit(asm.Inst{Op: asm.MOVZXB, Bits: 32, Args: [4]asm.Reg{r, asm.Memory}, Mem: at})
	return r
}

// unpacked returns lanes of a type from lanes whose lowest bits are elements, with any bits above them.
func (e *machine) unpacked(dt dtype.DType, x asm.Reg) lanes.Value {
	if dt.IsFloat() {
		return lanes.Value{DType: dt, Lo: e.fromCode(dt, e.and(x, e.integer32(int32(1)<<dt.Bits()-1)))}
	}
	return e.settle(lanes.Value{DType: dt, Lo: x})
}

// storePacked writes one element, or a run of them that begins and ends with a byte.
func (e *machine) storePacked(buffer string, dt dtype.DType, offset sym.Expr, step int64, x lanes.Value, mask asm.Reg) {
	ones := e.integer32(int32(1)<<dt.Bits() - 1)
	code := x.Lo
	if dt.IsFloat() {
		code = e.toCode(dt, code, false)
	}
	code = e.and(code, ones)
	write := func(bits uint16, at asm.Mem, r asm.Reg) {
		e.Emit(asm.Inst{Op: asm.MOV, Bits: bits, Args: [4]asm.Reg{asm.Memory, r}, Mem: at})
	}
	if e.Strip == nil {
		p := e.packedAt(buffer, dt, offset, false)
		was := e.broadcastInt(e.byteAt(p.memory(0)))
		kept := e.andNot(e.shiftLeftBy(ones, p.shift), was)
		write(8, p.memory(0), e.lane32(e.or(kept, e.shiftLeftBy(code, p.shift)), false))
		return
	}
	if step != 1 || mask != asm.NoReg || !e.alignedRun(dt, offset) {
		lanes.Refuse("%s that share bytes with others, to memory", dt)
	}
	p := e.packedAt(buffer, dt, offset, true)
	var shifts []byte
	for i := range e.isa.lanes {
		shifts = binary.LittleEndian.AppendUint32(shifts, uint32(i*dt.Bits()%32))
	}
	r := e.shiftLeftBy(code, e.poolVector(shifts))
	for _, turn := range []int64{0x4e, 0xb1} { // within each quarter of 512 bits
		r = e.or(r, e.twoImm(asm.VPSHUFD, r, turn))
	}
	half := func(r asm.Reg) asm.Reg {
		upper := e.builder.vector()
		e.Emit(asm.Inst{Op: asm.VEXTRACTI128, Bits: 256, Args: [4]asm.Reg{upper, r}, Imm: 1})
		return e.or(r, upper)
	}
	if e.isa.lanes == 8 {
		write(uint16(8*dt.Bits()), p.memory(0), e.lane32(half(r), false))
		return
	}
	lower, upper := half(r), half(e.upper(r))
	if dt.Bits() == 2 {
		write(32, p.memory(0), e.lane32(e.or(lower, upper), false))
		return
	}
	write(32, p.memory(0), e.lane32(lower, false))
	write(32, p.memory(4), e.lane32(upper, false))
}
