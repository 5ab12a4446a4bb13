package arm64

import (
	"github.com/weirml/weir/internal/codegen/arm64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/regalloc"
)

// The general registers with a meaning of their own. A call gives the frame, the first tile and the one after the last.
// After these are copied, two registers are for the length of an instruction: the legal form of an address, and polls.
// Besides, values have all that package call allows.
var (
	frameRegister = asm.X(0)
	beginRegister = asm.X(1)
	endRegister   = asm.X(2)

	addressScratch, numberScratch = beginRegister, endRegister
)

// generalFree are the general registers of values. Their order is that in which a pause saves them.
var generalFree = func() (free []asm.Reg) {
	for n := 27; n >= 3; n-- {
		if n != 18 {
			free = append(free, asm.X(n))
		}
	}
	return free
}()

// The numbers of general and vector registers that are kept for spilled values, if there are any: as many as an
// instruction names.
const (
	generalTemps = 4
	vectorTemps  = 4
)

// Frame returns the register with the frame's address.
func (i *isa) Frame() asm.Reg { return frameRegister }

// Bank returns the registers of a class. Masks are vectors.
func (i *isa) Bank(c asm.Class) (bank regalloc.Bank) {
	switch c {
	case asm.General:
		return regalloc.Bank{Free: generalFree, Temporaries: generalFree[:generalTemps:generalTemps], Bytes: 8}
	case asm.Vector:
		for n := i.registers - 1; n >= 0; n-- {
			bank.Free = append(bank.Free, asm.V(n))
		}
		bank.Temporaries, bank.Bytes = bank.Free[:vectorTemps:vectorTemps], vectorBytes
	}
	return bank
}

// spoil marks the beginning of code that names vector registers of the machine; see regalloc.Spoils.
func (b *builder) spoil() { b.Emit(spoils) }

// spoils marks the position; it is not emitted.
var spoils = asm.Inst{Op: asm.ALIGN, Imm: bytesOfInst}

// Flow returns what an instruction does to the order of execution, and its label.
func (i *isa) Flow(in *asm.Inst) (f regalloc.Flow, to asm.Label) {
	switch {
	case in.Op == asm.LABEL:
		return regalloc.Binds, in.To
	case in.Op == asm.BRANCH:
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

// Visit is asm.Inst.Visit, except that addresses may be those that legalise takes.
func (i *isa) Visit(in *asm.Inst, do func(r *asm.Reg, role asm.Role)) {
	at := in.Mem
	if at.Base == asm.NoReg {
		in.Visit(do)
		return
	}
	in.Mem = asm.Mem{Base: at.Base}
	in.Visit(do)
	at.Base = in.Mem.Base
	in.Mem = at
	if at.Index != asm.NoReg {
		do(&in.Mem.Index, asm.Read)
	}
}

// Text returns an instruction in the syntax of Arm's assemblers.
func (i *isa) Text(in *asm.Inst) string { return in.String() }

// Move returns the operands of an instruction that copies a register to another of its class.
func (i *isa) Move(in *asm.Inst) (to, from asm.Reg, ok bool) {
	if in.Op != asm.MOV || in.Args[1] == asm.ZR || in.Shape != asm.X64 && in.Shape != asm.B16 {
		return asm.NoReg, asm.NoReg, false
	}
	return in.Args[0], in.Args[1], true
}

// Overlaps reports whether an instruction writes its destination before it has read everything: none does.
func (i *isa) Overlaps(*asm.Inst) bool { return false }

// Load and Store return the instruction that moves an entire register from memory, or to it.
func (i *isa) Load(r asm.Reg, from asm.Mem) asm.Inst {
	return asm.Inst{Op: asm.LDR, Shape: entire(r), Args: [6]asm.Reg{r, asm.Memory}, Mem: from}
}
func (i *isa) Store(to asm.Mem, r asm.Reg) asm.Inst {
	return asm.Inst{Op: asm.STR, Shape: entire(r), Args: [6]asm.Reg{r, asm.Memory}, Mem: to}
}

// entire returns the shape of all bits of a register.
func entire(r asm.Reg) asm.Shape {
	if r.Class() == asm.General {
		return asm.X64
	}
	return asm.Q
}

// Fold does nothing: no instruction but loads and stores has an operand in memory.
func (i *isa) Fold(*asm.Inst, func(r asm.Reg) (at asm.Mem, ok bool)) {}

// legaliser replaces addresses that an instruction cannot encode: code before it computes the address, or a part of it,
// in a register for the length of the instruction.
type legaliser struct {
	list []asm.Inst
	held asm.Mem // the sum of these registers is in addressScratch; none if there is no base
}

// legalise returns instructions, whose registers are the machine's, with legal addresses.
func (w *workspace) legalise(insts []asm.Inst) []asm.Inst {
	l := legaliser{list: w.legal[:0]}
	for i := range insts {
		in := insts[i]
		if in.Mem.Base != asm.NoReg && !in.Encodes() {
			l.address(&in)
		}
		l.list = append(l.list, in)
		l.follow(&in)
	}
	w.legal = l.list
	return l.list
}

// follow forgets the held sum if an instruction changes one of its registers, or may be reached by a jump.
func (l *legaliser) follow(in *asm.Inst) {
	if in.Op == asm.LABEL {
		l.held = asm.Mem{}
	}
	if l.held.Base == asm.NoReg {
		return
	}
	in.Visit(func(r *asm.Reg, role asm.Role) {
		if role&asm.Write != 0 && (*r == l.held.Base || *r == l.held.Index || *r == addressScratch) {
			l.held = asm.Mem{}
		}
	})
}

// address makes an instruction's address legal.
func (l *legaliser) address(in *asm.Inst) {
	at := in.Mem
	if at.Index != asm.NoReg {
		sum := asm.Mem{Base: at.Base, Index: at.Index, Scale: max(at.Scale, 1)}
		if sum != l.held {
			l.list = append(l.list, asm.Inst{Op: asm.ADD, Shape: asm.X64, Args: [6]asm.Reg{addressScratch, at.Base, at.Index},
				Imm: int64(lanes.Log2(int64(sum.Scale)))})
			l.held = sum
		}
		at = asm.Mem{Base: addressScratch, Disp: at.Disp}
		if in.Mem = at; in.Encodes() {
			return
		}
	}
	l.held = asm.Mem{}
	disp := int64(at.Disp)
	if rest := disp & 0xFFF; disp > rest && disp < 1<<24 { // the lower bits may remain a displacement
		in.Mem = asm.Mem{Base: addressScratch, Disp: int32(rest)}
		if in.Encodes() {
			l.list = addNumber(l.list, addressScratch, at.Base, disp-rest)
			return
		}
	}
	in.Mem = asm.Mem{Base: addressScratch}
	l.list = addNumber(l.list, addressScratch, at.Base, disp)
}

// addNumber appends code for r = x + v; it changes numberScratch for some v.
func addNumber(list []asm.Inst, r, x asm.Reg, v int64) []asm.Inst {
	op, size := asm.ADD, v
	if v < 0 {
		op, size = asm.SUB, -v
	}
	if size < 1<<24 {
		if high := size &^ 0xFFF; high != 0 {
			list = append(list, asm.Inst{Op: op, Shape: asm.X64, Args: [6]asm.Reg{r, x}, Imm: high})
			x = r
		}
		if low := size & 0xFFF; low != 0 || x != r {
			list = append(list, asm.Inst{Op: op, Shape: asm.X64, Args: [6]asm.Reg{r, x}, Imm: low})
		}
		return list
	}
	list = appendNumber(list, numberScratch, v)
	return append(list, asm.Inst{Op: asm.ADD, Shape: asm.X64, Args: [6]asm.Reg{r, x, numberScratch}})
}

// appendNumber appends code that sets a general register to a number.
func appendNumber(list []asm.Inst, r asm.Reg, v int64) []asm.Inst {
	if v == 0 {
		return append(list, asm.Inst{Op: asm.MOV, Shape: asm.X64, Args: [6]asm.Reg{r, asm.ZR}})
	}
	zeros, ones := 0, 0 // quarters
	for n := range 4 {
		switch uint64(v) >> (16 * n) & 0xFFFF {
		case 0:
			zeros++
		case 0xFFFF:
			ones++
		}
	}
	op, usual := asm.MOVZ, uint64(0)
	if ones > zeros {
		op, usual = asm.MOVN, 0xFFFF
	}
	if min(4-zeros, 4-ones) > 1 {
		in := asm.Inst{Op: asm.ORR, Shape: asm.X64, Args: [6]asm.Reg{r, asm.ZR}, Imm: v}
		if in.Encodes() {
			return append(list, in)
		}
	}
	first := true
	for n := range 4 {
		quarter := uint64(v) >> (16 * n) & 0xFFFF
		if quarter == usual && !(first && n == 3) {
			continue
		}
		in := asm.Inst{Op: asm.MOVK, Shape: asm.X64, Args: [6]asm.Reg{r}, Imm: int64(quarter), Lane: uint8(n)}
		if first {
			in.Op, in.Imm, first = op, int64(quarter^usual), false
		}
		list = append(list, in)
	}
	return list
}
