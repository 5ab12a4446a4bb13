// Package asm is an assembler for the part of AArch64 that Weir emits: general instructions, vectors of integers and
// floats (NEON), and the optional features for products of narrow elements and for arithmetic of f16.
//
// An instruction is a value, Inst, whose registers may be virtual: a register allocator works on the same values, by
// the roles of their operands (see Inst.Visit). Code turns instructions with machine registers into words of 32 bits.
// Which forms an instruction has is one table, forms.txt, which is compared with GNU as. An instruction without a
// form, for instance with an immediate that is too large, is refused (see Inst.Encodes). A distance that becomes too
// large when labels and constants get their places is an error of Code.Finish.
package asm

import "github.com/weirml/weir/internal/codegen/regalloc"

// The types of registers, addresses, labels and roles, which code generators share.
type (
	Class = regalloc.Class
	Reg   = regalloc.Reg
	Mem   = regalloc.Mem
	Label = regalloc.Label
	Role  = regalloc.Role
)

// The classes.
const (
	NoClass    = regalloc.NoClass
	General    = regalloc.General // x0 … x30, ZR and SP, of 64 bits; their lower halves are w0 …
	Vector     = regalloc.Vector  // v0 … v31, of 128 bits
	classes    = regalloc.Classes
	classShift = regalloc.ClassShift
)

// NoReg is the absence of a register. Memory, among an instruction's operands, stands for Inst.Mem.
const (
	NoReg      = regalloc.NoReg
	Memory Reg = Reg(classes) << classShift
)

// The roles.
const (
	Read      = regalloc.Read
	Write     = regalloc.Write
	ReadWrite = regalloc.ReadWrite
)

// ZR reads as zero and ignores what is written to it. SP is the stack pointer. Most operands take only the first, and
// addresses only the second.
const (
	ZR = Reg(General)<<classShift + 31
	SP = Reg(General)<<classShift + 32
)

// X returns the machine's general register n, as wide as the instruction says.
func X(n int) Reg { return Reg(General)<<classShift + Reg(n) }

// V returns the machine's vector register n, of the shape that the instruction says.
func V(n int) Reg { return Reg(Vector)<<classShift + Reg(n) }

// Shape is how an instruction sees its registers: a general register as 32 or 64 bits, a vector register as one element
// or as several.
type Shape uint8

// The shapes.
const (
	NoShape Shape = iota
	W32           // the lower half of a general register, whose upper half becomes 0
	X64           // a general register
	B             // the first element of a vector register, of 8 bits; what is above it becomes 0
	H             // of 16 bits
	S             // of 32 bits
	D             // of 64 bits
	Q             // all 128 bits
	B8            // 8 elements of 8 bits; the upper half becomes 0
	B16
	H4
	H8
	S2
	S4
	D1
	D2
	shapes
)

// layouts describe the shapes.
var layouts = [shapes]struct {
	name  string // in the table, and in capitals or not in an assembler's text
	log   uint8  // of the bytes of an element
	lanes uint8
}{
	NoShape: {"-", 0, 0}, W32: {"W", 2, 1}, X64: {"X", 3, 1},
	B: {"B", 0, 1}, H: {"H", 1, 1}, S: {"S", 2, 1}, D: {"D", 3, 1}, Q: {"Q", 4, 1},
	B8: {"8B", 0, 8}, B16: {"16B", 0, 16}, H4: {"4H", 1, 4}, H8: {"8H", 1, 8}, S2: {"2S", 2, 2}, S4: {"4S", 2, 4},
	D1: {"1D", 3, 1}, D2: {"2D", 3, 2},
}

// Bits returns the number of bits of an element.
func (s Shape) Bits() int { return 8 << layouts[s].log }

// Lanes returns the number of elements.
func (s Shape) Lanes() int { return int(layouts[s].lanes) }

// Bytes returns the number of bytes of all elements.
func (s Shape) Bytes() int { return int(layouts[s].lanes) << layouts[s].log }

// full returns 1 for vectors of 128 bits, and else 0.
func (s Shape) full() uint32 {
	if s >= B8 && s.Bytes() == 16 {
		return 1
	}
	return 0
}

// single reports whether the shape is one element of a vector register.
func (s Shape) single() bool { return s >= B && s <= Q }

// Condition is a condition on the flags that a comparison sets.
type Condition uint8

// The conditions. After a comparison of floats of which one is NaN, NE, VS, HS, PL, HI, LT and LE hold.
const (
	EQ Condition = iota
	NE
	HS // unsigned ≥
	LO // unsigned <
	MI // negative; of floats <
	PL
	VS // overflow; of floats unordered
	VC
	HI // unsigned >
	LS // unsigned ≤; of floats ≤
	GE
	LT
	GT
	LE
	AL // always
)

// Inst is one instruction. Args are its operands in Arm's order, the destination first; the last of them may be Memory.
// Each register of a list is an operand.
type Inst struct {
	// Imm is the immediate, if the operation has one: of FMOV the bits of a float64; of arithmetic with registers the bits
	// by which the last one is shifted to the left.
	Imm int64
	// Mem's Scale is 0 or 1, or the bytes of the access.
	Mem Mem
	// Args may name as many registers as a lookup in a table of four vectors needs.
	Args  [6]Reg
	To    Label // of jumps
	Op    Op
	Shape Shape // of the first register; of an operation that narrows or widens, that of the narrow one
	From  Shape // of the other register, if Shape does not tell it: of conversions and moves between classes
	If    Condition
	Lane  uint8 // the index of an element; the second immediate of a bit field's or a comparison's
}
