package asm

import (
	"strconv"

	"github.com/weirml/weir/internal/codegen/assembly"
)

// base reports whether a register may be the base of an address.
func base(r Reg) bool { return r.Class() == General && r != ZR }

// index reports whether a register may be the index of an address.
func index(r Reg) bool { return r.Class() == General && r != SP }

// bytes returns the number of bytes that an operand reads or writes; of a pair, half of them.
func (o *operand) bytes(i *Inst) int {
	if o.size > 0 {
		return int(o.size)
	}
	return i.Shape.Bytes()
}

// fitsAccess reports whether the address of one value can be encoded: with a displacement of 12 bits in units of the
// access, or of 9 signed bits; with an index; or with a new value for the base, which is not also loaded or stored.
func fitsAccess(_ *form, i *Inst, o *operand, at int) bool {
	m, bytes := &i.Mem, o.bytes(i)
	if m.Pool != 0 || !base(m.Base) {
		return false
	}
	if m.Index != NoReg {
		return i.Mode == Offset && m.Disp == 0 && index(m.Index) && (m.Scale <= 1 || int(m.Scale) == bytes) &&
			indexExtend(i.Extend)
	}
	if i.Mode == Offset && scaled(m.Disp, bytes) {
		return true
	}
	return m.Disp >= -256 && m.Disp < 256 && (i.Mode == Offset || i.Mode <= Post && !changes(i, at))
}

// indexExtend reports whether an index may be extended so.
func indexExtend(e Extend) bool { return e == ByLSL || e == ByUXTW || e == BySXTW || e == BySXTX }

// scaled reports whether a displacement has 12 bits in units of the access.
func scaled(disp int32, bytes int) bool {
	return disp >= 0 && int(disp)%bytes == 0 && int(disp)/bytes < 1<<12
}

// changes reports whether one of the registers that are loaded or stored is the base.
func changes(i *Inst, registers int) bool {
	for n := range registers {
		if i.Args[n] == i.Mem.Base {
			return true
		}
	}
	return false
}

// baseBits puts the base.
func (i *Inst) baseBits() uint32 { return field(i.Mem.Base) << 5 }

// putAccess puts the address that fitsAccess takes.
func putAccess(i *Inst, o *operand) uint32 {
	m, bytes := &i.Mem, o.bytes(i)
	word := i.baseBits()
	switch {
	case m.Index != NoReg:
		option := uint32(3) // ByLSL
		if i.Extend != ByLSL {
			option = uint32(i.Extend - ByUXTB)
		}
		word |= 1<<21 | field(m.Index)<<16 | option<<13 | 2<<10
		if m.Scale > 1 {
			word |= 1 << 12
		}
	case i.Mode == Offset && scaled(m.Disp, bytes):
		word |= 1<<24 | uint32(int(m.Disp)/bytes)<<10
	default:
		word |= uint32(m.Disp)&0x1FF<<12 | [...]uint32{Offset: 0, Pre: 3, Post: 1}[i.Mode]<<10
	}
	return word
}

// fitsPrefetch reports whether an address can be prefetched: it has a scaled displacement or an index.
func fitsPrefetch(f *form, i *Inst, o *operand, at int) bool {
	return i.Mode == Offset && (i.Mem.Index != NoReg || scaled(i.Mem.Disp, o.bytes(i))) && fitsAccess(f, i, o, at)
}

// fitsPairs reports whether the address of two values can be encoded, and whether the two that are loaded differ.
func fitsPairs(f *form, i *Inst, o *operand, at int) bool {
	m, bytes := &i.Mem, o.bytes(i)
	if m.Pool != 0 || m.Index != NoReg || !base(m.Base) || i.Mode > Post || i.Mode != Offset && changes(i, at) {
		return false
	}
	if f.operands[0].role == Write && i.Args[0] == i.Args[1] {
		return false
	}
	units := int(m.Disp) / bytes
	return units*bytes == int(m.Disp) && units >= -64 && units < 64
}

// putPairs puts the address that fitsPairs takes.
func putPairs(i *Inst, o *operand) uint32 {
	m := &i.Mem
	return i.baseBits() | uint32(int(m.Disp)/o.bytes(i))&0x7F<<15 | [...]uint32{Offset: 2, Pre: 3, Post: 1}[i.Mode]<<23
}

// fitsMany reports whether the address of a list can be encoded: the base, to which all bytes of the list or an index
// may be added afterwards.
func fitsMany(_ *form, i *Inst, o *operand, at int) bool {
	m := &i.Mem
	if m.Pool != 0 || !base(m.Base) {
		return false
	}
	switch {
	case i.Mode == Offset:
		return m.Index == NoReg && m.Disp == 0
	case i.Mode != Post:
		return false
	case m.Index != NoReg:
		return index(m.Index) && m.Index != ZR && m.Disp == 0 && m.Scale <= 1 && i.Extend == ByLSL
	}
	return int(m.Disp) == o.listBytes(i, at)
}

// listBytes returns the number of bytes that a list of registers reads or writes.
func (o *operand) listBytes(i *Inst, registers int) int {
	if o.kind.each {
		return registers * i.Shape.Bits() / 8
	}
	return registers * i.Shape.Bytes()
}

// putMany puts the address that fitsMany takes.
func putMany(i *Inst, _ *operand) uint32 {
	m := &i.Mem
	word := i.baseBits()
	if i.Mode == Post {
		word |= 1 << 23
		if m.Index != NoReg {
			return word | field(m.Index)<<16
		}
		word |= 31 << 16
	}
	return word
}

// fitsPool reports whether the address is a word of a constant of the pool.
func fitsPool(_ *form, i *Inst, _ *operand, _ int) bool {
	return fitsNear(nil, i, nil, 0) && i.Mem.Disp%4 == 0
}

// fitsNear reports whether the address is a byte of a constant of the pool.
func fitsNear(_ *form, i *Inst, _ *operand, _ int) bool {
	m := &i.Mem
	return m.Pool > 0 && m.Base == NoReg && m.Index == NoReg && i.Mode == Offset && m.Disp >= 0 && m.Disp < assembly.Line
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
	if i.Mode == Post {
		if b = append(b, "], "...); m.Index != NoReg {
			return appendReg(b, m.Index, X64)
		}
		return strconv.AppendInt(append(b, '#'), int64(m.Disp), 10)
	}
	switch {
	case m.Index != NoReg:
		shape, change := X64, "lsl"
		if i.Extend != ByLSL {
			change = i.Extend.String()
			if i.Extend&3 != 3 {
				shape = W32
			}
		}
		b = appendReg(append(b, ", "...), m.Index, shape)
		if i.Extend != ByLSL || m.Scale > 1 {
			b = append(append(b, ", "...), change...)
			if m.Scale > 1 {
				b = strconv.AppendInt(append(b, " #"...), int64(logOf(m.Scale)), 10)
			}
		}
	case m.Disp != 0 || i.Mode == Pre:
		b = strconv.AppendInt(append(b, ", #"...), int64(m.Disp), 10)
	}
	if b = append(b, ']'); i.Mode == Pre {
		b = append(b, '!')
	}
	return b
}

// logOf returns the logarithm of a power of two.
func logOf(n uint8) (log int) {
	for ; n > 1; n /= 2 {
		log++
	}
	return log
}
