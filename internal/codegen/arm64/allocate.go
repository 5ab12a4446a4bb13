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

// Spoiling marks a position; it is not emitted.
func (i *isa) Spoiling() asm.Inst { return spoils }

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

// Visit is asm.Inst.Visit, except that addresses may be those that Legal takes.
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

// Copying copies a register to another of its class.
func (i *isa) Copying(to, from asm.Reg) asm.Inst {
	in := asm.Inst{Op: asm.MOV, Shape: asm.B16, Args: [6]asm.Reg{to, from}}
	if from.Class() == asm.General {
		in.Shape = asm.X64
	}
	return in
}

// Binding binds a label to the next instruction.
func (i *isa) Binding(l asm.Label) asm.Inst { return asm.Inst{Op: asm.LABEL, To: l} }

// Fold does nothing: no instruction but loads and stores has an operand in memory.
func (i *isa) Fold(*asm.Inst, func(r asm.Reg) (at asm.Mem, ok bool)) {}

// legaliser replaces addresses that an instruction cannot encode: code before it computes the address, or a part of it,
// in a register that keeps it for later instructions nearby.
type legaliser struct {
	list []asm.Inst
	held [2]asm.Mem // the sums that the scratch registers have: of a base, an index and a number; none without a base
	last int        // the register that was used last
}

// scratch are the registers of held sums.
var scratch = [2]asm.Reg{addressScratch, numberScratch}

// Legal returns instructions, whose registers are the machine's, with legal addresses.
func (i *isa) Legal(room, insts []asm.Inst) []asm.Inst {
	l := legaliser{list: room[:0]}
	for n := range insts {
		in := insts[n]
		if in.Mem.Base != asm.NoReg && !in.Encodes() {
			l.address(&in)
		}
		l.list = append(l.list, in)
		l.follow(&in)
	}
	return l.list
}

// follow forgets the held sums of registers that an instruction changes; all if it may be reached by a jump.
func (l *legaliser) follow(in *asm.Inst) {
	if in.Op == asm.LABEL {
		l.held = [2]asm.Mem{}
	}
	if l.held == [2]asm.Mem{} {
		return
	}
	in.Visit(func(r *asm.Reg, role asm.Role) {
		if role&asm.Write == 0 {
			return
		}
		for n, sum := range l.held {
			if *r == sum.Base || *r == sum.Index || *r == scratch[n] {
				l.held[n] = asm.Mem{}
			}
		}
	})
}

// address makes an instruction's address legal.
func (l *legaliser) address(in *asm.Inst) {
	at := in.Mem
	sum := asm.Mem{Base: at.Base, Index: at.Index}
	if at.Index != asm.NoReg {
		sum.Scale = max(at.Scale, 1)
	}
	for n, held := range l.held {
		disp := int64(at.Disp) - int64(held.Disp)
		if held.Disp = 0; held != sum || disp != int64(int32(disp)) {
			continue
		}
		if in.Mem = (asm.Mem{Base: scratch[n], Disp: int32(disp)}); in.Encodes() {
			l.last = n
			return
		}
	}
	near := at.Disp &^ 0xFFF // of which displacements after it are legal too
	if in.Mem = (asm.Mem{Base: scratch[0], Disp: at.Disp}); at.Index != asm.NoReg && in.Encodes() {
		near = 0
	} else if in.Mem.Disp = at.Disp - near; !in.Encodes() {
		near, in.Mem.Disp = at.Disp, 0
	}
	n := 1 - l.last
	if large := near >= 1<<24 || near <= -1<<24; large { // the other register is for the number
		n, l.held[1] = 0, asm.Mem{}
	}
	in.Mem.Base, l.last = scratch[n], n
	l.add(n, sum, near)
	sum.Disp = near
	l.held[n] = sum
}

// add appends code that sets a register to a sum and a number.
func (l *legaliser) add(n int, sum asm.Mem, more int32) {
	r := scratch[n]
	if sum.Index == asm.NoReg {
		l.list = addNumber(l.list, r, sum.Base, int64(more))
		return
	}
	other, step := l.held[1-n], int64(more)-int64(l.held[1-n].Disp)
	if other.Disp = 0; other == sum && additions(step) <= additions(int64(more)) {
		l.list = addNumber(l.list, r, scratch[1-n], step)
		return
	}
	l.list = append(l.list, asm.Inst{Op: asm.ADD, Shape: asm.X64, Args: [6]asm.Reg{r, sum.Base, sum.Index},
		Imm: int64(lanes.Log2(int64(sum.Scale)))})
	if more != 0 {
		l.list = addNumber(l.list, r, r, int64(more))
	}
}

// additions returns the number of instructions of addNumber that add a number; many if they change numberScratch.
func additions(v int64) (count int) {
	if v = max(v, -v); v >= 1<<24 {
		return 1 << 8
	}
	if v&0xFFF != 0 {
		count++
	}
	if v&^0xFFF != 0 {
		count++
	}
	return count
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

// AppendNumber appends code that sets a general register to a number.
func (i *isa) AppendNumber(list []asm.Inst, r asm.Reg, v int64) []asm.Inst {
	return appendNumber(list, r, v)
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
