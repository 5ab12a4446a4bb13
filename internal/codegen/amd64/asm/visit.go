package asm

import "github.com/weirml/weir/internal/diag"

// Visit calls do for every register that the instruction names, in any operand, and for those it uses without naming
// them (RAX and RDX of a division), with its role. A register that stands in two operands is visited twice.
// Registers of an address and the mask are read; a destination of which the mask keeps lanes is read and written; a
// gather's mask is cleared; where equal operands make the result independent of them (XOR of a register with itself)
// they are all written. do may change registers to others of their class, except those that are not named.
func (i *Inst) Visit(do func(r *Reg, role Role)) {
	if i.Op == LABEL || i.Op == ALIGN {
		return
	}
	f := find(i)
	if f == nil {
		panic(diag.Internalf("amd64: no form of %s", i.String()))
	}
	independent := f.flags&same != 0 && f.independent(i)
	named := int(f.count - f.implicit)
	for n := range named {
		o := &f.operands[n]
		if o.place == 'I' {
			continue
		}
		r := &i.Args[n]
		if *r == Memory {
			continue
		}
		role := o.role
		switch {
		case independent:
			role = Write
		case n == 0 && role == Write && i.Mask != NoReg && !i.Zero && o.kind != 'k' && !i.Op.blends():
			role = ReadWrite
		}
		do(r, role)
	}
	if i.Mem.Base != NoReg {
		do(&i.Mem.Base, Read)
	}
	if i.Mem.Index != NoReg {
		do(&i.Mem.Index, Read)
	}
	if i.Mask != NoReg {
		role := Read
		if f.flags&gathers != 0 {
			role = ReadWrite
		}
		do(&i.Mask, role)
	}
	for n := named; n < int(f.count); n++ {
		if fixed := f.operands[n].fixed; fixed != NoReg {
			do(&fixed, f.operands[n].role)
		}
	}
}

// independent reports whether the operands are equal, so that the result does not depend on them.
func (f *form) independent(i *Inst) bool {
	if i.Mask != NoReg || i.Args[0] == Memory {
		return false
	}
	for n := 1; n < 4 && i.Args[n] != NoReg; n++ {
		if i.Args[n] != i.Args[0] {
			return false
		}
	}
	return i.Args[1] != NoReg
}

// Features returns the features that the instruction needs; none if it has no form.
func (i *Inst) Features() Features {
	if f := find(i); f != nil {
		return f.needs(i)
	}
	return 0
}

// Encodes reports whether the instruction has a form.
func (i *Inst) Encodes() bool { return i.Op == LABEL || i.Op == ALIGN || find(i) != nil }

// Jumps reports whether the operation goes to Inst.To, always or by a condition.
func (o Op) Jumps() bool { return o == JMP || o.Conditional() }

// Conditional reports whether the operation is a jump by a condition.
func (o Op) Conditional() bool { return o >= JE && o <= JG }

// blends reports whether the operation takes the lanes outside its mask from its first source.
func (o Op) blends() bool { return o >= VBLENDMPS && o <= VPBLENDMQ }

// Ends reports whether the next instruction is reached only by a jump.
func (o Op) Ends() bool { return o == JMP || o == RET || o == UD2 }
