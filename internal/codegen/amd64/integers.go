package amd64

import (
	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/loop"
)

// This file is integers in general registers, and jumps, as package lanes uses them.

// machine emits a nest, for an emitter.
type machine struct {
	*builder
	emitter *lanes.Emitter
}

// Scales reports whether an address may scale its index by v.
func (b *builder) Scales(v int64) bool { return v == 1 || v == 2 || v == 4 || v == 8 }

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

// ShiftNatural divides x, an unsigned number, by 2ⁿ.
func (b *builder) ShiftNatural(x asm.Reg, n int64) {
	b.Emit(asm.Inst{Op: asm.SHR, Bits: 64, Args: [4]asm.Reg{x}, Imm: n})
}

// CompareNumber compares x with a number, and CompareZero with 0.
func (b *builder) CompareNumber(x asm.Reg, v int64) { b.integerImm(asm.CMP, x, v) }
func (b *builder) CompareZero(x asm.Reg)            { b.integerOp(asm.TEST, x, x) }

// AssignIf makes x the value of a register, if a condition holds.
func (b *builder) AssignIf(c lanes.Condition, to, x asm.Reg) { b.integerOp(moves[c], to, x) }

// Jump continues at a label, and JumpIf if a condition holds.
func (b *builder) Jump(to asm.Label)                      { b.jump(asm.JMP, to) }
func (b *builder) JumpIf(c lanes.Condition, to asm.Label) { b.jump(jumps[c], to) }

// Return ends the routine with a status.
func (b *builder) Return(status int64) {
	b.SetNumber(asm.RAX, status)
	b.Emit(asm.Inst{Op: asm.RET})
}

// DivideNatural returns x/y rounded down, or the remainder, for an x of 0 or more.
func (b *builder) DivideNatural(x, y asm.Reg, remainder bool) asm.Reg {
	r := b.General()
	b.divideNatural(x, y)
	if remainder {
		b.Assign(r, asm.RDX)
	} else {
		b.Assign(r, asm.RAX)
	}
	return r
}

// Divided returns x/y rounded down and the remainder, for an x of 0 or more.
func (b *builder) Divided(x, y asm.Reg) (quotient, remainder asm.Reg) {
	b.divideNatural(x, y)
	return b.CopyOf(asm.RAX), b.CopyOf(asm.RDX)
}

// divideNatural leaves x/y in RAX and the remainder in RDX.
func (b *builder) divideNatural(x, y asm.Reg) {
	b.Emit(asm.Inst{Op: asm.MOV, Bits: 64, Args: [4]asm.Reg{asm.RAX, x}})
	b.Emit(asm.Inst{Op: asm.MOV, Bits: 32, Args: [4]asm.Reg{asm.RDX}, Imm: 0})
	b.Emit(asm.Inst{Op: asm.DIV, Bits: 64, Args: [4]asm.Reg{y}})
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

// Divide divides integers of 64 bits. By 0 the result is 0.
func (b *builder) Divide(op loop.BinaryOp, signed bool, x, y asm.Reg) asm.Reg {
	r := b.Number(0)
	done, minusOne := b.Label(), b.Label()
	b.CompareZero(y)
	b.jump(asm.JE, done)
	b.Emit(asm.Inst{Op: asm.MOV, Bits: 64, Args: [4]asm.Reg{asm.RAX, x}})
	if signed {
		b.integerImm(asm.CMP, y, -1) // the least integer divided by −1 would trap
		b.jump(asm.JE, minusOne)
		b.Emit(asm.Inst{Op: asm.CQO, Bits: 64})
		b.Emit(asm.Inst{Op: asm.IDIV, Bits: 64, Args: [4]asm.Reg{y}})
	} else {
		b.Emit(asm.Inst{Op: asm.MOV, Bits: 32, Args: [4]asm.Reg{asm.RDX}, Imm: 0})
		b.Emit(asm.Inst{Op: asm.DIV, Bits: 64, Args: [4]asm.Reg{y}})
	}
	result := asm.RAX
	if op != loop.Div {
		result = asm.RDX
	}
	b.Assign(r, result)
	if op == loop.FloorMod && signed {
		// A remainder that is not 0 and does not have the divisor's sign is one divisor off.
		b.CompareZero(r)
		b.jump(asm.JE, done)
		sign := b.CopyOf(r)
		b.integerOp(asm.XOR, sign, y)
		b.CompareZero(sign)
		b.jump(asm.JNS, done)
		b.integerOp(asm.ADD, r, y)
	}
	if signed {
		b.jump(asm.JMP, done)
		b.Bind(minusOne)
		if op == loop.Div {
			b.Assign(r, x)
			b.Emit(asm.Inst{Op: asm.NEG, Bits: 64, Args: [4]asm.Reg{r}})
		}
	}
	b.Bind(done)
	return r
}

// AddressOf returns an address in a general register.
func (b *builder) AddressOf(at asm.Mem) asm.Reg {
	r := b.General()
	b.Emit(asm.Inst{Op: asm.LEA, Bits: 64, Args: [4]asm.Reg{r, asm.Memory}, Mem: at})
	return r
}

// LoadBits reads an integer of so many bits, extended by zeros, and StoreBits writes one.
func (b *builder) LoadBits(bits int, at asm.Mem) asm.Reg {
	r := b.General()
	in := asm.Inst{Op: asm.MOV, Bits: uint16(max(bits, 32)), Args: [4]asm.Reg{r, asm.Memory}, Mem: at}
	switch bits {
	case 8:
		in.Op = asm.MOVZXB
	case 16:
		in.Op = asm.MOVZXW
	}
	b.Emit(in)
	return r
}
func (b *builder) StoreBits(bits int, at asm.Mem, x asm.Reg) {
	b.Emit(asm.Inst{Op: asm.MOV, Bits: uint16(bits), Args: [4]asm.Reg{asm.Memory, x}, Mem: at})
}
