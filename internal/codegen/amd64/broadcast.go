package amd64

import (
	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/regalloc"
)

// AVX-512 reads one element of 32 bits into all lanes as an operand of an instruction. That is one instruction fewer
// than a broadcast to a register that only the next instruction reads.

// broadcastOperands are the instructions whose last operand may be a broadcast; true if the last two may be exchanged.
var broadcastOperands = map[asm.Op]bool{
	asm.VADDPS: true, asm.VSUBPS: false, asm.VMULPS: true, asm.VDIVPS: false, asm.VFMADD231PS: true,
	asm.VFNMADD231PS: true,
	asm.VPDPBUSD:     false, asm.VPADDD: true, asm.VPSUBD: false,
}

// Fuse makes a broadcast an operand of the next instruction, if no other instruction reads it.
func (i *isa) Fuse(b *regalloc.Routine[asm.Inst]) {
	if !i.masks {
		return
	}
	named := vectorsNamed(b)
	out := b.Insts[:0]
	for i := 0; i < len(b.Insts); i++ {
		in := b.Insts[i]
		if r := in.Args[0]; in.Op == asm.VBROADCASTSS && in.Args[1] == asm.Memory && in.Mask == asm.NoReg && r.Virtual() &&
			named[r.Number()] == 2 && i+1 < len(b.Insts) {
			if next := b.Insts[i+1]; takesBroadcast(&next, &in) {
				out = append(out, next)
				i++
				continue
			}
		}
		out = append(out, in)
	}
	b.Insts = out
}

// vectorsNamed returns how often instructions name each virtual vector register.
func vectorsNamed(b *regalloc.Routine[asm.Inst]) []int32 {
	named := make([]int32, b.Registers(asm.Vector))
	for i := range b.Insts {
		b.Insts[i].Visit(func(r *asm.Reg, _ asm.Role) {
			if r.Virtual() && r.Class() == asm.Vector {
				named[r.Number()]++
			}
		})
	}
	return named
}

// takesBroadcast makes a broadcast's operand the last operand of an instruction; false if the instruction does not
// allow it.
func takesBroadcast(in, broadcast *asm.Inst) bool {
	swaps, known := broadcastOperands[in.Op]
	if !known || in.Bits != broadcast.Bits || in.Mem != (asm.Mem{}) || in.Mask != asm.NoReg {
		return false
	}
	r := broadcast.Args[0]
	if in.Args[1] == r && swaps {
		in.Args[1], in.Args[2] = in.Args[2], in.Args[1]
	}
	if in.Args[2] != r {
		return false
	}
	in.Args[2], in.Mem = asm.Memory, broadcast.Mem
	in.Broadcast = true
	return in.Encodes()
}
