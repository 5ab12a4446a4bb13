package asm

import (
	"strconv"

	"github.com/weirml/weir/internal/codegen/assembly"
)

// base reports whether a register may be the base of an address.
func base(r Reg) bool { return r.Class() == General && r != ZR }

// index reports whether a register may be the index of an address.
func index(r Reg) bool { return r.Class() == General && r != SP }

// bytes returns the number of bytes that an operand reads or writes.
func (o *operand) bytes(i *Inst) int {
	if o.size > 0 {
		return int(o.size)
	}
	return i.Shape.Bytes()
}

// fitsAccess reports whether the address of one value can be encoded: with a displacement of 12 bits in units of the
// access, or of 9 signed bits, or with an index.
func fitsAccess(_ *form, i *Inst, o *operand, _ int) bool {
	m, bytes := &i.Mem, o.bytes(i)
	if m.Pool != 0 || !base(m.Base) {
		return false
	}
	if m.Index != NoReg {
		return m.Disp == 0 && index(m.Index) && (m.Scale <= 1 || int(m.Scale) == bytes)
	}
	return scaled(m.Disp, bytes) || m.Disp >= -256 && m.Disp < 256
}

// scaled reports whether a displacement has 12 bits in units of the access.
func scaled(disp int32, bytes int) bool {
	return disp >= 0 && int(disp)%bytes == 0 && int(disp)/bytes < 1<<12
}

// baseBits puts the base.
func (i *Inst) baseBits() uint32 { return field(i.Mem.Base) << 5 }

// putAccess puts the address that fitsAccess takes.
func putAccess(i *Inst, o *operand) uint32 {
	m, bytes := &i.Mem, o.bytes(i)
	word := i.baseBits()
	switch {
	case m.Index != NoReg:
		word |= 1<<21 | field(m.Index)<<16 | 3<<13 | 2<<10
		if m.Scale > 1 {
			word |= 1 << 12
		}
	case scaled(m.Disp, bytes):
		word |= 1<<24 | uint32(int(m.Disp)/bytes)<<10
	default:
		word |= uint32(m.Disp) & 0x1FF << 12
	}
	return word
}

// fitsPrefetch reports whether an address can be prefetched: it has a scaled displacement or an index.
func fitsPrefetch(f *form, i *Inst, o *operand, at int) bool {
	return (i.Mem.Index != NoReg || scaled(i.Mem.Disp, o.bytes(i))) && fitsAccess(f, i, o, at)
}

// fitsMany reports whether the address of a list can be encoded: a base.
func fitsMany(_ *form, i *Inst, _ *operand, _ int) bool {
	return i.Mem == Mem{Base: i.Mem.Base, Scale: i.Mem.Scale} && base(i.Mem.Base)
}

// putBase puts the address that fitsMany takes.
func putBase(i *Inst, _ *operand) uint32 { return i.baseBits() }

// fitsPool reports whether the address is a word of a constant of the pool.
func fitsPool(_ *form, i *Inst, _ *operand, _ int) bool {
	return fitsNear(nil, i, nil, 0) && i.Mem.Disp%4 == 0
}

// fitsNear reports whether the address is a byte of a constant of the pool.
func fitsNear(_ *form, i *Inst, _ *operand, _ int) bool {
	m := &i.Mem
	return m.Pool > 0 && m.Base == NoReg && m.Index == NoReg && m.Disp >= 0 && m.Disp < assembly.Line
}

// address appends an address.
func address(b []byte, i *Inst, _ *operand, _ int) []byte {
	m := &i.Mem
	if m.Pool != 0 {
		b = strconv.AppendInt(append(b, "constant "...), int64(m.Pool-1), 10)
		if m.Disp != 0 {
			b = strconv.AppendInt(append(b, '+'), int64(m.Disp), 10)
		}
		return b
	}
	b = appendReg(append(b, '['), m.Base, X64)
	switch {
	case m.Index != NoReg:
		if b = appendReg(append(b, ", "...), m.Index, X64); m.Scale > 1 {
			b = strconv.AppendInt(append(b, ", lsl #"...), int64(logOf(m.Scale)), 10)
		}
	case m.Disp != 0:
		b = strconv.AppendInt(append(b, ", #"...), int64(m.Disp), 10)
	}
	return append(b, ']')
}

// logOf returns the logarithm of a power of two.
func logOf(n uint8) (log int) {
	for ; n > 1; n /= 2 {
		log++
	}
	return log
}
