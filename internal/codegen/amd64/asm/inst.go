// Package asm is an assembler for the part of amd64 that Weir emits: general instructions, VEX (AVX, AVX2, FMA, F16C)
// and EVEX (AVX-512 F, BW, DQ, VL, VNNI, BF16), and the tiles of AMX.
//
// An instruction is a value, Inst, whose registers may be virtual: the register allocator works on the same values,
// by the roles of their operands (see Inst.Visit). Code turns instructions with machine registers into bytes. Which
// forms an instruction has is one table, checked byte for byte against GNU as.
package asm

// Class is a kind of register.
type Class uint8

// The classes.
const (
	NoClass Class = iota
	General       // 16 of 64 bits
	Vector        // 16 of 256 bits, or 32 of 512 with AVX-512
	Opmask        // k0 … k7; as an instruction's mask k0 means none
	Tile          // 8 of at most 16 rows of 64 bytes, with AMX
	classes
)

// Reg is a register of some class: one of the machine's, or a virtual one. The zero value is none.
type Reg uint32

const (
	classShift     = 28
	virtualBit Reg = 1 << 27
	numberMask Reg = virtualBit - 1
)

// NoReg is the absence of a register. Memory, among an instruction's operands, stands for Inst.Mem.
const (
	NoReg  Reg = 0
	Memory Reg = Reg(classes) << classShift
)

// The general registers by their names.
const (
	RAX = Reg(General)<<classShift + iota
	RCX
	RDX
	RBX
	RSP
	RBP
	RSI
	RDI
	R8
	R9
	R10
	R11
	R12
	R13
	R14
	R15
)

// V returns the machine's vector register n, as wide as the instruction says.
func V(n int) Reg { return Reg(Vector)<<classShift + Reg(n) }

// K returns the machine's opmask register n.
func K(n int) Reg { return Reg(Opmask)<<classShift + Reg(n) }

// T returns the machine's tile register n.
func T(n int) Reg { return Reg(Tile)<<classShift + Reg(n) }

// G returns the machine's general register n, in the order of its encoding.
func G(n int) Reg { return RAX + Reg(n) }

// Virtual returns the virtual register n of a class.
func Virtual(c Class, n int) Reg { return Reg(c)<<classShift | virtualBit | Reg(n) }

// Class returns the register's class.
func (r Reg) Class() Class { return Class(r >> classShift) }

// Virtual reports whether the register is virtual.
func (r Reg) Virtual() bool { return r&virtualBit != 0 }

// Number returns the register's number within its class, virtual or not.
func (r Reg) Number() int { return int(r & numberMask) }

// Mem is an address: Base + Index·Scale + Disp bytes or, if Pool is not 0, constant Pool−1 of the code's pool.
type Mem struct {
	Base  Reg // general, or none
	Index Reg // general, or a vector of indices (gathers), or none
	Disp  int32
	Pool  int32
	Scale uint8
	// Broadcast reads one element for all lanes (EVEX).
	Broadcast bool
}

// Label names a position in the code.
type Label int32

// Inst is one instruction. Args are its operands in Intel's order, the destination first; at most one of them is
// Memory. Bits is the width of vector operands (128, 256, 512), or of general ones (8, 16, 32, 64).
type Inst struct {
	Imm  int64 // the last operand, if the operation has an immediate
	Args [4]Reg
	Mem  Mem
	// Mask is the opmask register that chooses lanes; NoReg: all. With Zero the other lanes of the destination become 0,
	// without it they keep their values.
	Mask Reg
	To   Label // of jumps
	Op   Op
	Bits uint16
	Zero bool
}

// Role says what an instruction does to an operand.
type Role uint8

// The roles.
const (
	Read Role = 1 << iota
	Write
	ReadWrite = Read | Write
)
