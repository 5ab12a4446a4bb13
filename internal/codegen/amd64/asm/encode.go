package asm

import "encoding/binary"

// fields are the operands of one instruction by the fields that encode them.
type fields struct {
	reg, rm, vvvv, top, low int // numbers of registers
	memory                  bool
}

// sort assigns an instruction's operands to the fields that encode them.
func (f *form) sort(i *Inst) fields {
	n := [5]int{i.Args[0].Number(), i.Args[1].Number(), i.Args[2].Number(), i.Args[3].Number()}
	p := fields{n[f.at.reg], n[f.at.rm], n[f.at.vvvv], n[f.at.top], n[f.at.low], i.Args[f.at.rm&3] == Memory}
	if f.digit >= 0 {
		p.reg = int(f.digit)
	}
	return p
}

// extension returns the high bits that ModRM and SIB cannot hold: X (of an index, or of a vector's number) and B.
func (p *fields) extension(i *Inst) (x, b int) {
	if p.memory {
		return i.Mem.Index.Number() >> 3 & 1, i.Mem.Base.Number() >> 3
	}
	return p.rm >> 4, p.rm >> 3 & 1
}

// legacy appends prefixes and opcode.
func (c *Code) legacy(f *form, i *Inst, p *fields) {
	rex := 0
	if f.flags&wBits != 0 {
		switch i.Bits {
		case 16:
			c.bytes = append(c.bytes, 0x66)
		case 64:
			rex = 0x48
		}
	}
	if f.pp != 0 {
		c.bytes = append(c.bytes, [...]byte{0, 0x66, 0xF3, 0xF2}[f.pp])
	}
	x, b := p.extension(i)
	if high := p.reg>>3<<2 | x<<1 | b | p.low>>3; high != 0 {
		rex |= 0x40 | high
	}
	if rex == 0 && f.flags&narrow != 0 {
		for n := range f.count - f.implicit { // the registers SPL, BPL, SIL and DIL are AH … BH without the prefix
			r, kind := i.Args[n&3], f.operands[n].kind
			if (kind == 'b' || kind == 'g' && i.Bits == 8) && r.Class() == General && r.Number() >= 4 {
				rex = 0x40
			}
		}
	}
	if rex != 0 {
		c.bytes = append(c.bytes, byte(rex))
	}
	switch f.opcodes {
	case 1:
		c.bytes = append(c.bytes, 0x0F)
	case 2:
		c.bytes = append(c.bytes, 0x0F, 0x38)
	case 3:
		c.bytes = append(c.bytes, 0x0F, 0x3A)
	}
	opcode := f.opcode | byte(p.low&7)
	if f.flags&byWidth != 0 && i.Bits > 8 {
		opcode |= 1
	}
	c.bytes = append(c.bytes, opcode)
}

// wide returns the prefix's bit W.
func (f *form) wide(i *Inst) int {
	if f.flags&wBits != 0 && i.Bits == 64 {
		return 1
	}
	return int(f.w)
}

// lengthBits returns 0, 1 or 2 for vectors of 128, 256 and 512 bits.
func (f *form) lengthBits(i *Inst) int {
	length := i.Bits
	if f.flags&(scalar|fixedL) != 0 {
		length = f.length
	}
	return int(length >> 8) // of 512 it is 2, of general widths 0
}

// vex appends the prefix of two or three bytes and the opcode.
func (c *Code) vex(f *form, i *Inst, p *fields) {
	x, b := p.extension(i)
	w := f.wide(i)
	last := byte((^p.vvvv&15)<<3 | f.lengthBits(i)<<2 | int(f.pp))
	notR := byte(^p.reg>>3&1) << 7
	if x|b|w == 0 && f.opcodes == 1 {
		c.bytes = append(c.bytes, 0xC5, notR|last, f.opcode)
		return
	}
	c.bytes = append(c.bytes, 0xC4, notR|byte((1-x)<<6|(1-b)<<5)|f.opcodes, byte(w<<7)|last, f.opcode)
}

// evex appends the prefix of four bytes and the opcode.
func (c *Code) evex(f *form, i *Inst, p *fields) {
	x, b := p.extension(i)
	high := p.vvvv
	if p.memory && i.Mem.Index.Class() == Vector {
		high = i.Mem.Index.Number()
	}
	first := byte(^p.reg>>3&1)<<7 | byte((1-x)<<6|(1-b)<<5) | byte(^p.reg>>4&1)<<4 | f.opcodes
	second := byte(f.wide(i)<<7 | (^p.vvvv&15)<<3 | 4 | int(f.pp))
	third := byte(f.lengthBits(i)<<5 | (^high >> 4 & 1 << 3) | i.Mask.Number())
	if i.Zero && i.Mask.Number() != 0 { // without a mask it has no meaning, and the encoding would be invalid
		third |= 0x80
	}
	if i.Broadcast {
		third |= 0x10
	}
	c.bytes = append(c.bytes, 0x62, first, second, third, f.opcode)
}

// modRM appends the byte that names reg and rm, and the address if rm is memory. A displacement of one byte counts
// in units.
func (c *Code) modRM(i *Inst, p *fields, unit int) {
	reg := byte(p.reg&7) << 3
	if !p.memory {
		c.bytes = append(c.bytes, 0xC0|reg|byte(p.rm&7))
		return
	}
	m := &i.Mem
	if m.Pool != 0 {
		c.uses = append(c.uses, poolUse{at: int32(len(c.bytes) + 1), constant: m.Pool - 1})
		c.bytes = append(c.bytes, reg|5)
		c.number32(m.Disp)
		return
	}
	base := byte(m.Base.Number() & 7)
	mod, short := byte(0), m.Disp
	if unit > 1 {
		short = m.Disp / int32(unit)
		if short*int32(unit) != m.Disp {
			short = 1 << 8
		}
	}
	switch {
	case m.Base == NoReg:
		base = 5 // with mod 0: none, and 32 bits of displacement
	case m.Disp == 0 && base != 5:
	case short == int32(int8(short)):
		mod = 0x40
	default:
		mod = 0x80
	}
	if m.Index != NoReg || m.Base == NoReg || base == 4 {
		index, scale := byte(4), byte(0)
		if m.Index != NoReg {
			index, scale = byte(m.Index.Number()&7), [9]byte{2: 1 << 6, 4: 2 << 6, 8: 3 << 6}[m.Scale]
		}
		c.bytes = append(c.bytes, mod|reg|4, scale|index<<3|base)
	} else {
		c.bytes = append(c.bytes, mod|reg|base)
	}
	switch {
	case mod == 0x40:
		c.bytes = append(c.bytes, byte(short))
	case mod == 0x80 || m.Base == NoReg:
		c.number32(m.Disp)
	}
}

// number32 appends a number of 32 bits.
func (c *Code) number32(v int32) { c.bytes = binary.LittleEndian.AppendUint32(c.bytes, uint32(v)) }

// immediateBytes appends the instruction's last operand.
func (c *Code) immediateBytes(f *form, i *Inst, p *fields) {
	value := uint64(i.Imm)
	switch f.operands[f.count-1].kind {
	case '8', 's':
		c.bytes = append(c.bytes, byte(value))
	case 'q':
		c.bytes = binary.LittleEndian.AppendUint64(c.bytes, value)
	case 'z':
		switch i.Bits {
		case 8:
			c.bytes = append(c.bytes, byte(value))
		case 16:
			c.bytes = binary.LittleEndian.AppendUint16(c.bytes, uint16(value))
		default:
			c.number32(int32(value))
		}
	}
}
