// Package asm is an assembler for the part of amd64 that Weir emits: general instructions, VEX (AVX, AVX2, FMA, F16C)
// and EVEX (AVX-512 F, BW, DQ, VL, VNNI, BF16), and the tiles of AMX.
//
// An instruction is a value, Inst, whose registers may be virtual: the register allocator works on the same values,
// by the roles of their operands (see Inst.Visit). Code turns instructions with machine registers into bytes. Which
// forms an instruction has is one table, checked byte for byte against GNU as.
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
	General    = regalloc.General // 16 of 64 bits
	Vector     = regalloc.Vector  // 16 of 256 bits, or 32 of 512 with AVX-512
	Opmask     = regalloc.Mask    // k0 … k7; as an instruction's mask k0 means none
	Tile       = regalloc.Classes // 8 of at most 16 rows of 64 bytes, with AMX
	classes    = Tile + 1
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
	// Broadcast reads one element of memory for all lanes (EVEX).
	Broadcast bool
}
