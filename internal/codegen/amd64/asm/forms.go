package asm

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/codegen/assembly"
)

// Op is an operation: a mnemonic of Intel's, or one of the two that stand for no instruction, LABEL and ALIGN.
type Op uint16

// Features are the abilities of a machine that instructions need.
type Features uint32

// The features. An EVEX form of 128 or 256 bits needs AVX512VL besides its own.
const (
	AVX Features = 1 << iota
	AVX2
	FMA
	F16C
	BMI1
	BMI2
	PREFETCHWFeature
	AVXVNNI
	AVX512F
	AVX512BW
	AVX512DQ
	AVX512VL
	AVX512VNNI
	AVX512BF16
	AMXTile
	AMXBF16
	AMXInt8
)

var featureNames = map[string]Features{
	"-": 0, "avx": AVX, "avx2": AVX2, "fma": FMA, "f16c": F16C, "bmi1": BMI1, "bmi2": BMI2,
	"prfchw": PREFETCHWFeature, "f": AVX512F, "bw": AVX512BW, "dq": AVX512DQ, "vnni": AVX512VNNI, "bf16": AVX512BF16,
	"avxvnni": AVXVNNI, "amxtile": AMXTile, "amxbf16": AMXBF16 | AMXTile, "amxint8": AMXInt8 | AMXTile,
}

// prefix is a way of encoding.
type prefix uint8

const (
	legacy prefix = iota
	vex
	evex
)

// flags of a form.
type flags uint16

const (
	byWidth   flags = 1 << iota // the opcode's low bit is 0 for Bits 8 and else 1
	same                        // with equal operands nothing is read
	noMask                      // EVEX without a mask
	gathers                     // the mask is read and cleared
	wBits                       // W is 1 if Bits is 64
	scalar                      // no vector length
	fixedL                      // Bits is ignored; L1 if length is 256
	immediate                   // the last operand is Inst.Imm
	strides                     // memory must have an index register
	narrow                      // a general operand may have 8 bits
)

var flagNames = map[string]flags{"w": byWidth, "same": same, "nomask": noMask, "gather": gathers,
	"strides": strides}

// operand is an operand of a form: the field that encodes it, its kind, and its role.
type operand struct {
	place byte // R M V S I O A J, or - of an implicit one
	kind  byte // of its register, the letter of the table; of an immediate its second letter
	role  Role
	fixed Reg  // of an implicit one
	index byte // of memory with vector indices: their kind
}

// places gives, for each field, the index in Inst.Args of its operand; 4, the default, is none.
type places struct{ reg, rm, vvvv, top, low uint8 }

// form is one way of encoding an operation.
type form struct {
	op         Op
	prefix     prefix
	flags      flags
	pp         byte // 0 none, 1 66, 2 F3, 3 F2
	opcodes    byte // the opcode map: 0 one byte, 1 0F, 2 0F38, 3 0F3A
	w          byte
	opcode     byte
	digit      int8 // −1: ModRM.reg is an operand
	count      uint8
	implicit   uint8      // operands of that count that come last and are not among Inst.Args
	operands   [5]operand // the immediate included
	at         places     // the index in Args for each field
	modRM      bool
	signatures [2]uint32 // classes of Args, with /m as a register and as memory
	bits       uint16    // sum of the widths allowed, which are powers of two; 0: any
	length     uint16    // of fixedL: 128 or 256
	// bytes of the memory operand: a divisor of the vector where vl says so, 0 of the general operand, else a number
	memory    uint8
	vl        bool
	broadcast uint8 // element's bytes, 0: none
	unit      uint8 // of EVEX's short displacement, 0: the operand's bytes
	features  Features
	name      string // what assemblers call it, in capitals
}

//go:embed forms.txt
var text string

// table has the forms of each operation.
var table = assembly.NewTable(text, offsets[:], appendForms)

// appendForms appends the forms of one line, of each prefix that it has.
func appendForms(forms []form, op int, fields []string) []form {
	for _, p := range [...]prefix{legacy, vex, evex} {
		if f, ok := row(fields, p); ok {
			f.op = Op(op)
			forms = append(forms, f)
		}
	}
	return forms
}

// row reads one line as a form of the prefix, if it is one.
func row(fields []string, p prefix) (form, bool) {
	kinds, rest, _ := strings.Cut(fields[1], ".")
	if !strings.Contains(kinds, "LVE"[p:p+1]) {
		return form{}, false
	}
	second := 0 // of pairs that differ between VEX and EVEX
	if p == evex && kinds == "VE" {
		second = 1
	}
	f := form{prefix: p, name: fields[0], digit: -1, at: places{4, 4, 4, 4, 4}}
	encoding := append(strings.Split(rest, "."), "0")
	f.pp = byte(position(encoding[0], "np", "66", "F3", "F2"))
	f.opcodes = byte(position(encoding[1], "1", "0F", "0F38", "0F3A"))
	switch w := encoding[2]; w[min(second, len(w)-1)] {
	case '1':
		f.w = 1
	case 'b':
		f.flags |= wBits
	}
	if p == legacy && fields[5] != "-" {
		f.flags |= wBits
	}
	opcode, digit, extended := strings.Cut(fields[2], "/")
	f.opcode = byte(number(opcode, 16))
	if extended {
		f.digit = int8(number(digit, 8))
	}
	f.readOperands(fields[3], fields[4])
	f.modRM = extended || f.at.rm != 4 || f.at.reg != 4
	f.readBits(fields[5])
	f.readMemory(fields[6])
	features := strings.Split(fields[7], "/")
	f.features = featureNames[features[min(second, len(features)-1)]]
	for _, word := range fields[8:] {
		if key, value, found := strings.Cut(word, "="); !found {
			f.flags |= flagNames[word]
		} else if key == "as" || p == evex {
			f.name = value
		}
	}
	return f, true
}

// readOperands reads the columns of places and operands.
func (f *form) readOperands(places, operands string) {
	if operands == "-" {
		if places == "J" {
			f.operands[0], f.count, f.implicit = operand{place: 'J'}, 1, 1
		}
		return
	}
	for n, word := range strings.Split(operands, ",") {
		o := operand{place: places[n], role: Read}
		switch word[0] {
		case '=':
			o.role, word = Write, word[1:]
		case '+':
			o.role, word = ReadWrite, word[1:]
		}
		kind, orMemory := strings.CutSuffix(word, "/m")
		f.count++
		switch {
		case o.place == '-':
			o.fixed, o.kind = G(position(kind, "rax", "rcx", "rdx")), 'l'
			f.implicit++
		case o.place == 'I':
			o.kind = kind[1]
			f.flags |= immediate
		default:
			o.kind = kind[0]
			if o.kind == 'b' {
				f.flags |= narrow
			}
			class := kindClass(o.kind)
			if len(kind) == 2 {
				o.index = kind[1]
			}
			other := class
			if orMemory {
				other = classes
			}
			f.signatures[0] |= uint32(class) << (4 * n)
			f.signatures[1] |= uint32(other) << (4 * n)
		}
		f.operands[n] = o
		switch o.place {
		case 'R':
			f.at.reg = uint8(n)
		case 'M':
			f.at.rm = uint8(n)
		case 'V':
			f.at.vvvv = uint8(n)
		case 'S':
			f.at.top = uint8(n)
		case 'O':
			f.at.low = uint8(n)
		}
	}
}

// kindClass returns the class of register that a letter of the table stands for, or of memory.
func kindClass(kind byte) Class {
	switch kind {
	case 'm':
		return classes
	case 'k':
		return Opmask
	case 't':
		return Tile
	case 'g', 'b', 'w', 'd', 'l':
		return General
	}
	return Vector
}

// readBits reads the column of widths.
func (f *form) readBits(text string) {
	switch text {
	case "-", "L0", "L1":
		f.flags |= fixedL
		f.length = 128
		if text == "L1" {
			f.length = 256
		}
		return
	case "S":
		f.flags |= scalar
		f.length = 128
		return
	}
	low, high, ok := strings.Cut(text, "-")
	if !ok {
		high = low
	}
	if low == "8" {
		f.flags |= narrow
	}
	for b := number(low, 10); b <= number(high, 10); b *= 2 {
		if b < 512 || f.prefix == evex {
			f.bits |= uint16(b)
		}
	}
}

// readMemory reads the column of the memory operand.
func (f *form) readMemory(text string) {
	words := strings.Split(text, ".")
	for _, word := range words[1:] {
		n := uint8(number(word[1:], 10))
		if word[0] == 'n' {
			f.unit = n
		} else if f.prefix == evex {
			f.broadcast = n
		}
	}
	switch size, part, _ := strings.Cut(words[0], "/"); {
	case size == "vl":
		f.vl, f.memory = true, 1
		if part != "" {
			f.memory = uint8(number(part, 10))
		}
	case size != "g" && size != "-":
		f.memory = uint8(number(size, 10))
	}
}

// position returns the index of a word among others; it panics if there is none.
func position(word string, among ...string) int {
	for n, w := range among {
		if w == word {
			return n
		}
	}
	panic("asm: the table of forms has " + word)
}

// number parses a number of at most 16 bits in the table of forms; it panics if it is malformed.
func number(text string, base int) uint64 {
	n, err := strconv.ParseUint(text, base, 16)
	if err != nil {
		panic(fmt.Sprintf("asm: the table of forms: %v", err))
	}
	return n
}

// find returns the first form that the instruction has, nil if none. Virtual registers fit any form of their class.
func find(i *Inst) *form {
	signature := uint32(i.Args[0]>>classShift) | uint32(i.Args[1]>>classShift)<<4 | uint32(i.Args[2]>>classShift)<<8 |
		uint32(i.Args[3]>>classShift)<<12
	rows := table.Forms(int(i.Op))
	needEVEX := i.Bits == 512 || i.Mask != NoReg || i.Broadcast || high(i.Args[0]) || high(i.Args[1]) ||
		high(i.Args[2]) || high(i.Mem.Index)
	for n := range rows {
		f := &rows[n]
		if signature != f.signatures[0] && signature != f.signatures[1] {
			continue
		}
		if f.bits != 0 && f.bits&i.Bits == 0 && !(i.Bits == 0 && f.bits&(f.bits-1) == 0) {
			continue
		}
		if needEVEX && (f.prefix != evex || !f.takes(i)) {
			continue
		}
		if i.Mask == NoReg && f.flags&gathers != 0 && f.prefix == evex {
			continue
		}
		if f.prefix == legacy && f.count > 0 && !f.fits(i) {
			continue
		}
		return f
	}
	return nil
}

// high reports whether a register is a vector that only EVEX can name.
func high(r Reg) bool { return r.Class() == Vector && !r.Virtual() && r.Number() >= 16 }

// takes reports whether an EVEX form allows the instruction's mask and broadcast.
func (f *form) takes(i *Inst) bool {
	if i.Broadcast && f.broadcast == 0 || i.Mask != NoReg && f.flags&noMask != 0 {
		return false
	}
	return !i.Zero || f.operands[0].kind != 'k' && i.Args[0] != Memory && f.flags&gathers == 0
}

// fits reports whether a legacy form can encode the immediate and the accumulator, if it needs that.
func (f *form) fits(i *Inst) bool {
	if f.operands[0].place == 'A' && i.Args[0] != RAX {
		return false
	}
	if f.flags&immediate == 0 {
		return true
	}
	value := f.immediate(i)
	switch f.operands[f.count-1].kind {
	case '1':
		return value == 1
	case 's':
		return value == int64(int8(value)) && inWidth(i)
	case '8':
		return value >= -128 && value <= 255
	case 'z':
		return inWidth(i)
	}
	return true
}

// inWidth reports whether the immediate is one of a general operand's width, which is extended by its sign from 32
// bits.
func inWidth(i *Inst) bool {
	if i.Bits == 64 {
		return i.Imm == int64(int32(i.Imm))
	}
	return i.Imm >= -1<<(i.Bits-1) && i.Imm < 1<<i.Bits
}

// immediate returns the instruction's immediate operand; one of less than 64 bits is taken as signed, as hardware
// extends it.
func (f *form) immediate(i *Inst) int64 {
	if f.prefix == legacy && i.Bits < 64 && f.operands[f.count-1].kind != '8' {
		return i.Imm << (64 - i.Bits) >> (64 - i.Bits)
	}
	return i.Imm
}

// size returns the bytes of the form's memory operand.
func (f *form) size(i *Inst) int {
	switch {
	case i.Broadcast:
		return int(f.broadcast)
	case f.vl:
		return int(i.Bits) / 8 / int(f.memory)
	case f.memory == 0:
		return int(i.Bits) / 8
	}
	return int(f.memory)
}
