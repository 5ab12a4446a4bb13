package asm

import "github.com/weirml/weir/internal/diag"

// Visit calls do for every register that the instruction names, in any operand, with its role. A register that stands
// in two operands is visited twice. Registers of an address are read; a
// destination of which an instruction keeps elements is read and written. ZR and SP are not visited. do may change
// registers to others of their class.
func (i *Inst) Visit(do func(r *Reg, role Role)) {
	if i.Op == LABEL || i.Op == ALIGN {
		return
	}
	f := find(i)
	if f == nil {
		panic(diag.Internalf("arm64: no form of %s", i.String()))
	}
	at := 0
	for n := range int(f.count) {
		o := &f.operands[n]
		if o.kind.class == NoClass {
			continue
		}
		if r := &i.Args[at]; o.kind.class != classes && *r != ZR && *r != SP {
			role := o.role
			if n == 0 && f.flags&upper != 0 && i.Shape.full() == 1 {
				role = ReadWrite
			}
			do(r, role)
		}
		at++
	}
	if m := &i.Mem; m.Base != NoReg && m.Base != SP {
		do(&m.Base, Read)
	}
	if m := &i.Mem; m.Index != NoReg && m.Index != ZR {
		do(&m.Index, Read)
	}
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
func (o Op) Jumps() bool { return o == BRANCH || o.Conditional() }

// Conditional reports whether the operation is a jump by a condition.
func (o Op) Conditional() bool { return o >= BRANCHIF && o <= CBNZ }

// Ends reports whether the next instruction is reached only by a jump.
func (o Op) Ends() bool { return o == BRANCH || o == BR || o == RET || o == UDF }
