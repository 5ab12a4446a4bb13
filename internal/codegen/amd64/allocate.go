package amd64

import (
	"slices"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/regalloc"
)

// frameRegister holds the frame's address. Of the other general registers, RSP and RBP are Go's, and three hold
// operands of divisions and spilled values for the length of an instruction.
const frameRegister = asm.RDI

var (
	generalFree  = []asm.Reg{asm.RSI, asm.RBX, asm.R8, asm.R9, asm.R10, asm.R11, asm.R12, asm.R13, asm.R14, asm.R15}
	generalTemps = []asm.Reg{asm.RCX, asm.RDX, asm.RAX}
)

// vectorTemps is the number of vector registers (and of opmasks) that are kept for spilled values, if there are any.
const vectorTemps = 3

// Frame returns the register with the frame's address.
func (i *isa) Frame() asm.Reg { return frameRegister }

// Bank returns the registers of a class.
func (i *isa) Bank(c asm.Class) (bank regalloc.Bank) {
	bank.Bytes = 8
	register, first, last := asm.K, 1, 7
	switch c {
	case asm.General:
		bank.Free, bank.Temporaries = generalFree, generalTemps
		return bank
	case asm.Vector:
		register, first, last = asm.V, 0, i.registers-1
		bank.Bytes = int32(i.bits / 8)
	}
	for n := last; n >= first; n-- {
		bank.Free = append(bank.Free, register(n))
	}
	bank.Temporaries = bank.Free[:vectorTemps:vectorTemps]
	return bank
}

// Spoiling marks a position; it is not emitted.
func (i *isa) Spoiling() asm.Inst { return spoils }

var spoils = asm.Inst{Op: asm.ALIGN, Imm: 1}

// Flow returns what an instruction does to the order of execution, and its label.
func (i *isa) Flow(in *asm.Inst) (f regalloc.Flow, to asm.Label) {
	switch {
	case in.Op == asm.LABEL:
		return regalloc.Binds, in.To
	case in.Op == asm.JMP:
		return regalloc.Jumps, in.To
	case in.Op.Conditional():
		return regalloc.Branches, in.To
	case in.Op.Ends():
		return regalloc.Ends, 0
	case in.Op == asm.ALIGN && *in == spoils:
		return regalloc.Spoils, 0
	}
	return regalloc.Next, 0
}

// Visit is asm.Inst.Visit.
func (i *isa) Visit(in *asm.Inst, do func(r *asm.Reg, role asm.Role)) { in.Visit(do) }

// Text returns an instruction in Intel's syntax.
func (i *isa) Text(in *asm.Inst) string { return in.String() }

// Move returns the operands of an instruction that copies a register to another of its class.
func (i *isa) Move(in *asm.Inst) (to, from asm.Reg, ok bool) {
	if !isMove(in) {
		return asm.NoReg, asm.NoReg, false
	}
	return in.Args[0], in.Args[1], true
}

// isMove reports whether an instruction copies a register to another of its class.
func isMove(in *asm.Inst) bool {
	switch in.Op {
	case asm.MOV:
		return in.Bits == 64 && in.Args[1] != asm.NoReg && in.Args[0] != asm.Memory && in.Args[1] != asm.Memory
	case asm.VMOVUPS:
		return in.Bits >= 256 && in.Mask == asm.NoReg && in.Args[0] != asm.Memory && in.Args[1] != asm.Memory
	}
	return false
}

// Overlaps reports whether an instruction is a gather.
func (i *isa) Overlaps(in *asm.Inst) bool { return in.Mem.Index.Class() == asm.Vector }

// Load and Store return the instruction that moves an entire register from memory, or to it.
func (i *isa) Load(r asm.Reg, from asm.Mem) asm.Inst {
	in := i.mover(r.Class())
	in.Args, in.Mem = [4]asm.Reg{r, asm.Memory}, from
	return in
}
func (i *isa) Store(to asm.Mem, r asm.Reg) asm.Inst {
	in := i.mover(r.Class())
	in.Args, in.Mem = [4]asm.Reg{asm.Memory, r}, to
	return in
}

// mover returns the instruction, without operands, that moves entire registers of a class.
func (i *isa) mover(c asm.Class) asm.Inst {
	switch c {
	case asm.General:
		return asm.Inst{Op: asm.MOV, Bits: 64}
	case asm.Vector:
		return asm.Inst{Op: asm.VMOVUPS, Bits: uint16(i.bits)}
	}
	return asm.Inst{Op: asm.KMOVQ, Bits: 64}
}

// Fold makes one spilled operand of an instruction an operand in memory, if a form of the instruction allows it.
func (i *isa) Fold(in *asm.Inst, place func(r asm.Reg) (at asm.Mem, ok bool)) {
	if in.Op == asm.LABEL || in.Mem != (asm.Mem{}) || slices.Contains(in.Args[:], asm.Memory) {
		return
	}
	for n := len(in.Args) - 1; n >= 0; n-- {
		r := in.Args[n]
		if !r.Virtual() {
			continue
		}
		at, spilled := place(r)
		if !spilled || count(in, r) > 1 || !i.foldable(in, n) {
			continue
		}
		in.Args[n], in.Mem = asm.Memory, at
		return
	}
}

// foldable reports whether an operand may lie in memory instead, in as many bytes as its register has. A written
// operand must fill them.
func (i *isa) foldable(in *asm.Inst, at int) bool {
	role := asm.Role(0)
	in.Visit(func(r *asm.Reg, ro asm.Role) {
		if *r == in.Args[at] {
			role |= ro
		}
	})
	if role&asm.Write != 0 && !(in.Args[at].Class() == asm.General && in.Bits == 64 || isMove(in)) {
		return false
	}
	other := *in
	other.Args[at], other.Mem = asm.Memory, asm.Mem{Base: frameRegister}
	return other.Encodes() && (i.masks || other.Features() < asm.AVX512F)
}

// count returns how often an instruction names a register.
func count(in *asm.Inst, r asm.Reg) int {
	n := 0
	in.Visit(func(other *asm.Reg, _ asm.Role) {
		if *other == r {
			n++
		}
	})
	return n
}
