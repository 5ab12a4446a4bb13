package amd64

import (
	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
)

// This file is integers in general registers, and jumps, as package lanes uses them.

// machine emits a nest: what takes instructions of this machine. Its emitter does the rest.
type machine struct {
	*lanes.Emitter
	*builder
}

// Frame returns the register with the frame's address.
func (b *builder) Frame() asm.Reg { return frameRegister }

// Scales reports whether an address may scale its index by v.
func (b *builder) Scales(v int64) bool { return v == 1 || v == 2 || v == 4 || v == 8 }

// Unique returns a number that grows with each general register.
func (b *builder) Unique() int { return b.Registers(asm.General) }

// operations are the instructions of the operations on integers.
var operations = [...]asm.Op{lanes.Add: asm.ADD, lanes.Subtract: asm.SUB, lanes.Multiply: asm.IMUL, lanes.And: asm.AND}

// jumps and conditional moves, by their conditions.
var (
	jumps = [...]asm.Op{lanes.Equal: asm.JE, lanes.NotEqual: asm.JNE, lanes.Less: asm.JL, lanes.LessOrEqual: asm.JLE,
		lanes.Greater: asm.JG, lanes.GreaterOrEqual: asm.JGE}
	moves = [...]asm.Op{lanes.Equal: asm.CMOVE, lanes.NotEqual: asm.CMOVNE, lanes.Less: asm.CMOVL,
		lanes.LessOrEqual: asm.CMOVLE, lanes.Greater: asm.CMOVG, lanes.GreaterOrEqual: asm.CMOVGE}
)

// Integer changes x to x op y.
func (b *builder) Integer(op lanes.Operation, x, y asm.Reg) { b.integerOp(operations[op], x, y) }

// IntegerNumber is Integer with a number.
func (b *builder) IntegerNumber(op lanes.Operation, x asm.Reg, v int64) {
	b.integerImm(operations[op], x, v)
}

// ShiftDown divides x by 2ⁿ, rounding down.
func (b *builder) ShiftDown(x asm.Reg, n int64) {
	b.Emit(asm.Inst{Op: asm.SAR, Bits: 64, Args: [4]asm.Reg{x}, Imm: n})
}

// CompareNumber compares x with a number, and CompareZero with 0.
func (b *builder) CompareNumber(x asm.Reg, v int64) { b.integerImm(asm.CMP, x, v) }
func (b *builder) CompareZero(x asm.Reg)            { b.integerOp(asm.TEST, x, x) }

// AssignIf makes x the value of a register, if a condition holds.
func (b *builder) AssignIf(c lanes.Condition, to, x asm.Reg) { b.integerOp(moves[c], to, x) }

// Jump continues at a label, and JumpIf if a condition holds.
func (b *builder) Jump(to asm.Label)                      { b.jump(asm.JMP, to) }
func (b *builder) JumpIf(c lanes.Condition, to asm.Label) { b.jump(jumps[c], to) }

// JumpOnLane continues at a label if a lane of a mask is set, or is not.
func (b *builder) JumpOnLane(mask asm.Reg, lane int, set bool, to asm.Label) {
	b.Emit(asm.Inst{Op: asm.TEST, Bits: 32, Args: [4]asm.Reg{b.bitsOf(mask)}, Imm: 1 << lane})
	if set {
		b.jump(asm.JNE, to)
	} else {
		b.jump(asm.JE, to)
	}
}

// Return ends the routine with a status.
func (b *builder) Return(status int64) {
	b.SetNumber(asm.RAX, status)
	b.Emit(asm.Inst{Op: asm.RET})
}

// DivideNatural returns x/y rounded down, or the remainder, for an x of 0 or more.
func (b *builder) DivideNatural(x, y asm.Reg, remainder bool) asm.Reg {
	r := b.General()
	b.Emit(asm.Inst{Op: asm.MOV, Bits: 64, Args: [4]asm.Reg{asm.RAX, x}})
	b.Emit(asm.Inst{Op: asm.MOV, Bits: 32, Args: [4]asm.Reg{asm.RDX}, Imm: 0})
	b.Emit(asm.Inst{Op: asm.DIV, Bits: 64, Args: [4]asm.Reg{y}})
	if remainder {
		b.Assign(r, asm.RDX)
	} else {
		b.Assign(r, asm.RAX)
	}
	return r
}

// DivideDown returns x/y rounded down, or the remainder, which has y's sign; y is 1 or more.
func (b *builder) DivideDown(x, y asm.Reg, remainder bool) asm.Reg {
	b.General() // keeps the numbers of later registers
	b.Emit(asm.Inst{Op: asm.MOV, Bits: 64, Args: [4]asm.Reg{asm.RAX, x}})
	b.Emit(asm.Inst{Op: asm.CQO, Bits: 64})
	b.Emit(asm.Inst{Op: asm.IDIV, Bits: 64, Args: [4]asm.Reg{y}})
	// A negative remainder is one divisor too low, the quotient one too high.
	done := b.Label()
	quotient, rest := b.CopyOf(asm.RAX), b.CopyOf(asm.RDX)
	b.integerOp(asm.TEST, rest, rest)
	b.jump(asm.JNS, done)
	b.integerImm(asm.SUB, quotient, 1)
	b.integerOp(asm.ADD, rest, y)
	b.Bind(done)
	if remainder {
		return rest
	}
	return quotient
}

// AddProduct adds the products of two vectors of f32 or f64 to a sum.
func (b *builder) AddProduct(dt dtype.DType, sum, x, y asm.Reg) {
	op := asm.VFMADD231PS
	if dt == dtype.F64 {
		op = asm.VFMADD231PD
	}
	b.accumulate(op, sum, x, y)
}

// Exchanged returns a vector whose groups of n lanes of 32 bits are exchanged with their neighbours.
func (b *builder) Exchanged(x asm.Reg, n int) asm.Reg {
	switch n {
	case 8:
		return b.vectorOf(asm.VSHUFF64X2, 0x4e, x, x)
	case 4:
		if b.isa.bits == 512 {
			return b.vectorOf(asm.VSHUFF64X2, 0xb1, x, x)
		}
		return b.vectorOf(asm.VPERM2F128, 0x01, x, x)
	case 2:
		return b.twoImm(asm.VPSHUFD, x, 0x4e)
	}
	return b.twoImm(asm.VPSHUFD, x, 0xb1)
}
