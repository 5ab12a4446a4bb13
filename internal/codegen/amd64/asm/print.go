package asm

import (
	"fmt"
	"strconv"
	"strings"
)

// Name returns the register's name: the machine's as its class has it (a vector's as of 512 bits), a virtual one's
// g3, v12 or p1.
func Name(r Reg) string {
	switch r {
	case NoReg:
		return "none"
	case Memory:
		return "memory"
	}
	return string(appendReg(nil, r, 'l', 512))
}

var (
	names64 = [...]string{"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"}
	names8  = [...]string{"al", "cl", "dl", "bl", "spl", "bpl", "sil", "dil"}
)

// appendReg appends a register's name as an operand of a kind in an instruction of so many bits.
func appendReg(b []byte, r Reg, kind byte, bits int) []byte {
	n := r.Number()
	number := func(prefix string) []byte { return strconv.AppendInt(append(b, prefix...), int64(n), 10) }
	switch {
	case r.Virtual():
		return number([...]string{NoClass: "?", General: "g", Vector: "v", Opmask: "p", Tile: "t"}[r.Class()])
	case r.Class() == Opmask:
		return number("k")
	case r.Class() == Tile:
		return number("tmm")
	case r.Class() == Vector:
		return number(vectorName(kindBits(kind, bits)))
	}
	width := kindBits(kind, bits)
	if n >= 8 {
		return append(number("r"), map[int]string{8: "b", 16: "w", 32: "d"}[width]...)
	}
	switch width {
	case 8:
		return append(b, names8[n]...)
	case 16:
		return append(b, names64[n][1:]...)
	case 32:
		return append(append(b, 'e'), names64[n][1:]...)
	}
	return append(b, names64[n]...)
}

// sizeNames are the assembler's names of the sizes of memory operands, in bytes.
var sizeNames = map[int]string{1: "byte ptr ", 2: "word ptr ", 4: "dword ptr ", 8: "qword ptr ", 16: "xmmword ptr ",
	32: "ymmword ptr ", 64: "zmmword ptr "}

// vectorName returns the prefix of a vector register's name for a width in bits.
func vectorName(bits int) string {
	switch bits {
	case 512:
		return "zmm"
	case 256:
		return "ymm"
	}
	return "xmm"
}

// kindBits returns the width of an operand by its letter in the table.
func kindBits(kind byte, bits int) int {
	switch kind {
	case 'b':
		return 8
	case 'w':
		return 16
	case 'd':
		return 32
	case 'l':
		return 64
	case 'h':
		return bits / 2
	case 'q':
		return bits / 4
	case 'o':
		return bits / 8
	case 'x':
		return 128
	}
	return bits
}

// String returns the instruction in Intel's syntax.
func (i Inst) String() string {
	switch i.Op {
	case LABEL:
		return fmt.Sprintf("L%d:", i.To)
	case ALIGN:
		return fmt.Sprintf(".p2align to %d", i.Imm)
	}
	f := find(&i)
	if f == nil {
		return i.unknown()
	}
	b := append(make([]byte, 0, 64), strings.ToLower(f.name)...)
	if i.Op.Jumps() {
		return string(b) + " L" + strconv.Itoa(int(i.To))
	}
	separator := " "
	for n := range int(f.count - f.implicit) {
		o := &f.operands[n]
		b = append(b, separator...)
		separator = ", "
		switch {
		case o.place == 'I':
			b = strconv.AppendInt(b, i.Imm, 10)
			continue
		case i.Args[n] == Memory:
			b = i.appendMem(b, f, o)
		default:
			b = appendReg(b, i.Args[n], o.kind, int(i.Bits))
		}
		if n == 0 && i.Mask != NoReg {
			b = append(appendReg(append(b, '{'), i.Mask, 'k', 0), '}')
			if i.Zero {
				b = append(b, "{z}"...)
			}
		}
	}
	return string(b)
}

// appendMem appends an address with the operand's size.
func (i *Inst) appendMem(b []byte, f *form, o *operand) []byte {
	m := &i.Mem
	b = append(b, sizeNames[f.size(i)]...)
	b = append(b, '[')
	switch {
	case m.Pool != 0:
		b = strconv.AppendInt(append(b, "constant "...), int64(m.Pool-1), 10)
	case m.Base != NoReg:
		b = appendReg(b, m.Base, 'l', 64)
	}
	if m.Index != NoReg {
		if m.Base != NoReg {
			b = append(b, '+')
		}
		bits := int(i.Bits)
		if f.flags&(scalar|fixedL) != 0 {
			bits = int(f.length)
		}
		kind := byte('l')
		if o.index != 0 {
			kind = o.index
		}
		b = append(appendReg(b, m.Index, kind, bits), '*')
		b = strconv.AppendInt(b, int64(m.Scale), 10)
	}
	if m.Disp != 0 || m.Base == NoReg && m.Index == NoReg && m.Pool == 0 {
		if m.Disp >= 0 && (m.Base != NoReg || m.Index != NoReg || m.Pool != 0) {
			b = append(b, '+')
		}
		b = strconv.AppendInt(b, int64(m.Disp), 10)
	}
	b = append(b, ']')
	if i.Broadcast {
		// The vector that is filled may be wider or narrower than the destination: it is the memory operand's.
		lanes := int(i.Bits) / 8 / int(f.memory) / int(f.broadcast)
		b = append(strconv.AppendInt(append(b, "{1to"...), int64(lanes), 10), '}')
	}
	return b
}

// unknown describes an instruction that has no form.
func (i *Inst) unknown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%d bits)", i.Op, i.Bits)
	for _, r := range i.Args {
		if r != NoReg {
			fmt.Fprintf(&b, " %s", Name(r))
		}
	}
	if i.Mem != (Mem{}) {
		fmt.Fprintf(&b, " at %+v", i.Mem)
	}
	if i.Imm != 0 {
		fmt.Fprintf(&b, " immediate %d", i.Imm)
	}
	if i.Mask != NoReg {
		fmt.Fprintf(&b, " mask %s, zero %t", Name(i.Mask), i.Zero)
	}
	return b.String()
}

// String returns the operation's name in the table, which is the constant's.
func (o Op) String() string { return table.Name(int(o)) }
