package arm64

import (
	"github.com/weirml/weir/internal/codegen/arm64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/loop"
)

// This file is integers in general registers, and jumps, as package lanes uses them.

// Scales reports whether an address may scale its index by v. Some of them take an instruction of their own.
func (b *builder) Scales(v int64) bool { return v == 1 || v == 2 || v == 4 || v == 8 }

// AddressOf returns an address as an integer.
func (b *builder) AddressOf(at asm.Mem) asm.Reg {
	r := b.General()
	if at.Index == asm.NoReg {
		b.Assign(r, at.Base)
	} else {
		b.opImm(asm.ADD, asm.X64, int64(lanes.Log2(int64(at.Scale))), r, at.Base, at.Index)
	}
	if at.Disp != 0 {
		b.IntegerNumber(lanes.Add, r, int64(at.Disp))
	}
	return r
}

// narrowAccess are the loads and stores of the low bits of a general register.
var narrowAccess = map[int]struct {
	load, store asm.Op
	shape       asm.Shape
}{8: {asm.LDRB, asm.STRB, asm.NoShape}, 16: {asm.LDRH, asm.STRH, asm.NoShape}, 32: {asm.LDR, asm.STR, asm.W32},
	64: {asm.LDR, asm.STR, asm.X64}}

// LoadBits reads the low bits of an integer, extended by zeros, and StoreBits writes them.
func (b *builder) LoadBits(bits int, at asm.Mem) asm.Reg {
	r, op := b.General(), narrowAccess[bits]
	b.Emit(asm.Inst{Op: op.load, Shape: op.shape, Args: [6]asm.Reg{r, asm.Memory}, Mem: at})
	return r
}
func (b *builder) StoreBits(bits int, at asm.Mem, x asm.Reg) {
	op := narrowAccess[bits]
	b.Emit(asm.Inst{Op: op.store, Shape: op.shape, Args: [6]asm.Reg{x, asm.Memory}, Mem: at})
}

// Times returns x·v.
func (b *builder) Times(x asm.Reg, v int64) asm.Reg {
	if v == 1 {
		return x
	}
	r := b.General()
	switch low := v & -v; {
	case v > 0 && v == low:
		b.opImm(asm.LSL, asm.X64, int64(lanes.Log2(v)), r, x)
	case v > 0 && (v-1)&(v-2) == 0: // 2ⁿ + 1
		b.opImm(asm.ADD, asm.X64, int64(lanes.Log2(v-1)), r, x, x)
	case v > 0 && v/low-1 > 0 && (v/low-1)&(v/low-2) == 0: // (2ⁿ + 1)·2ᵐ
		b.opImm(asm.ADD, asm.X64, int64(lanes.Log2(v/low-1)), r, x, x)
		b.opImm(asm.LSL, asm.X64, int64(lanes.Log2(low)), r, r)
	default:
		b.SetNumber(r, v)
		b.op(asm.MUL, asm.X64, r, r, x)
	}
	return r
}

// operations are the instructions of the operations on integers; the difference is compared with zero.
var operations = [...]asm.Op{lanes.Add: asm.ADD, lanes.Subtract: asm.SUBS, lanes.Multiply: asm.MUL, lanes.And: asm.AND}

// Integer changes x to x op y.
func (b *builder) Integer(op lanes.Operation, x, y asm.Reg) { b.op(operations[op], asm.X64, x, x, y) }

// opposites are the instructions that do with −v what an operation does with v.
var opposites = [...]asm.Op{lanes.Add: asm.SUB, lanes.Subtract: asm.ADDS, lanes.Multiply: asm.NoOp, lanes.And: asm.NoOp}

// IntegerNumber is Integer with a number.
func (b *builder) IntegerNumber(op lanes.Operation, x asm.Reg, v int64) {
	for _, in := range []asm.Inst{{Op: operations[op], Imm: v}, {Op: opposites[op], Imm: -v}} {
		in.Shape, in.Args = asm.X64, [6]asm.Reg{x, x}
		if in.Op != asm.NoOp && in.Encodes() {
			b.Emit(in)
			return
		}
	}
	b.Integer(op, x, b.Number(v))
}

// ShiftDown divides x by 2ⁿ, rounding down.
func (b *builder) ShiftDown(x asm.Reg, n int64) { b.opImm(asm.ASR, asm.X64, n, x, x) }

// ShiftNatural divides x, as an unsigned number, by 2ⁿ.
func (b *builder) ShiftNatural(x asm.Reg, n int64) {
	if n > 0 {
		b.opImm(asm.LSR, asm.X64, n, x, x)
	}
}

// Divide is Div, Rem or FloorMod of any x and y. The instruction's quotient by 0 is 0.
func (b *builder) Divide(op loop.BinaryOp, signed bool, x, y asm.Reg) asm.Reg {
	quotient, divide := b.General(), asm.UDIV
	if signed {
		divide = asm.SDIV
	}
	b.op(divide, asm.X64, quotient, x, y)
	if op == loop.Div {
		return quotient
	}
	rest := b.rest(x, y, quotient)
	b.CompareZero(y)
	b.Emit(asm.Inst{Op: asm.CSEL, Shape: asm.X64, Args: [6]asm.Reg{rest, rest, asm.ZR}, If: asm.NE})
	if op == loop.FloorMod && signed {
		other, corrected := b.General(), b.General()
		b.op(asm.ADD, asm.X64, corrected, rest, y)
		b.op(asm.EOR, asm.X64, other, rest, y)
		b.CompareZero(rest)
		b.Emit(asm.Inst{Op: asm.CCMP, Shape: asm.X64, Args: [6]asm.Reg{other}, If: asm.NE})
		b.Emit(asm.Inst{Op: asm.CSEL, Shape: asm.X64, Args: [6]asm.Reg{rest, corrected, rest}, If: asm.LT})
	}
	return rest
}

// DivideNatural returns x/y rounded down, or the remainder, for an x of 0 or more.
func (b *builder) DivideNatural(x, y asm.Reg, remainder bool) asm.Reg {
	quotient := b.General()
	b.op(asm.UDIV, asm.X64, quotient, x, y)
	if !remainder {
		return quotient
	}
	return b.rest(x, y, quotient)
}

// Divided returns x/y rounded down and the remainder, for an x of 0 or more.
func (b *builder) Divided(x, y asm.Reg) (quotient, remainder asm.Reg) {
	quotient = b.DivideNatural(x, y, false)
	return quotient, b.rest(x, y, quotient)
}

// rest returns x − y·quotient.
func (b *builder) rest(x, y, quotient asm.Reg) asm.Reg {
	r := b.General()
	b.op(asm.MSUB, asm.X64, r, quotient, y, x)
	return r
}

// DivideDown returns x/y rounded down, or the remainder, which has y's sign; y is 1 or more.
func (b *builder) DivideDown(x, y asm.Reg, remainder bool) asm.Reg {
	quotient := b.General()
	b.op(asm.SDIV, asm.X64, quotient, x, y)
	rest := b.rest(x, y, quotient)
	// A negative remainder is one divisor too low, the quotient one too high.
	negative := b.General()
	b.opImm(asm.ASR, asm.X64, 63, negative, rest)
	if !remainder {
		b.op(asm.ADD, asm.X64, quotient, quotient, negative)
		return quotient
	}
	b.op(asm.AND, asm.X64, negative, negative, y)
	b.op(asm.ADD, asm.X64, rest, rest, negative)
	return rest
}

// CompareNumbers sets the flags to the comparison of x and y, as signed integers.
func (b *builder) CompareNumbers(x, y asm.Reg) { b.op(asm.CMP, asm.X64, x, y) }

// CompareNumber compares x with a number, and CompareZero with 0.
func (b *builder) CompareNumber(x asm.Reg, v int64) {
	for _, in := range []asm.Inst{{Op: asm.CMP, Imm: v}, {Op: asm.CMN, Imm: -v}} {
		in.Shape, in.Args = asm.X64, [6]asm.Reg{x}
		if in.Encodes() {
			b.Emit(in)
			return
		}
	}
	b.CompareNumbers(x, b.Number(v))
}
func (b *builder) CompareZero(x asm.Reg) { b.CompareNumber(x, 0) }

// conditions are the machine's.
var conditions = [...]asm.Condition{lanes.Equal: asm.EQ, lanes.NotEqual: asm.NE, lanes.Less: asm.LT,
	lanes.LessOrEqual: asm.LE, lanes.Greater: asm.GT, lanes.GreaterOrEqual: asm.GE}

// AssignIf makes x the value of a register, if a condition holds.
func (b *builder) AssignIf(c lanes.Condition, to, x asm.Reg) {
	b.Emit(asm.Inst{Op: asm.CSEL, Shape: asm.X64, Args: [6]asm.Reg{to, x, to}, If: conditions[c]})
}

// Jump continues at a label, and JumpIf if a condition holds.
func (b *builder) Jump(to asm.Label) { b.Emit(asm.Inst{Op: asm.BRANCH, To: to}) }
func (b *builder) JumpIf(c lanes.Condition, to asm.Label) {
	b.Emit(asm.Inst{Op: asm.BRANCHIF, If: conditions[c], To: to})
}

// JumpOnLane continues at a label if a lane of a mask is set, or is not.
func (b *builder) JumpOnLane(mask asm.Reg, lane int, set bool, to asm.Label) {
	r, op := b.General(), asm.CBZ
	b.Emit(asm.Inst{Op: asm.UMOV, Shape: asm.W32, From: asm.S, Args: [6]asm.Reg{r, mask}, Lane: uint8(lane)})
	if set {
		op = asm.CBNZ
	}
	b.Emit(asm.Inst{Op: op, Shape: asm.W32, Args: [6]asm.Reg{r}, To: to})
}

// Return ends the routine with a status.
func (b *builder) Return(status int64) {
	b.SetNumber(frameRegister, status)
	b.Emit(asm.Inst{Op: asm.RET})
}
