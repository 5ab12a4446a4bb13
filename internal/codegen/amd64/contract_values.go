package amd64

import (
	"bytes"
	"encoding/binary"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// This file computes with a tile's sums, as package lanes uses them.

// ClearLanes makes a register 0.
func (e *machine) ClearLanes(t *lanes.RegisterTile, r asm.Reg) {
	e.tileWide(t, elements[t.DType].xor, r, r, r)
}

// RepeatedBits returns a constant in memory with the bits in every lane.
func (e *machine) RepeatedBits(t *lanes.RegisterTile, bits uint64) lanes.Operand {
	one := binary.LittleEndian.AppendUint64(nil, bits)[:t.Size]
	return lanes.Operand{At: asm.Mem{Pool: e.code.Constant(bytes.Repeat(one, int(t.Lanes())))}}
}

// SetLanes copies an operand to a register.
func (e *machine) SetLanes(t *lanes.RegisterTile, to asm.Reg, x lanes.Operand) {
	e.tileOperand(t, asm.VMOVUPS, x, to)
}

// tileOperand emits an instruction with an operand that follows the given registers.
func (e *machine) tileOperand(t *lanes.RegisterTile, op asm.Op, y lanes.Operand, args ...asm.Reg) {
	if y.Register != asm.NoReg {
		e.tileWide(t, op, append(args, y.Register)...)
		return
	}
	e.tileFrom(t, op, y.At, args...)
}

// calculation returns the instruction of an operation of two operands.
func (o *elementOps) calculation(op loop.BinaryOp) asm.Op {
	switch op {
	case loop.Add:
		return o.add
	case loop.Sub:
		return o.sub
	case loop.Mul:
		return o.mul
	case loop.Div:
		return o.div
	case loop.Min:
		return o.min
	}
	return o.max
}

// Calculate makes to x op y.
func (e *machine) Calculate(t *lanes.RegisterTile, op loop.BinaryOp, dt dtype.DType, to, x asm.Reg, y lanes.Operand) {
	e.tileOperand(t, elements[dt].calculation(op), y, to, x)
}

// AddTimes adds the product of f32 lanes to a register.
func (e *machine) AddTimes(t *lanes.RegisterTile, to, x asm.Reg, y lanes.Operand) {
	e.tileOperand(t, asm.VFMADD231PS, y, to, x)
}

// Apply makes to a function of x.
func (e *machine) Apply(t *lanes.RegisterTile, op loop.UnaryOp, dt dtype.DType, to, x asm.Reg) {
	ops, sign := elements[dt], uint64(1)<<(t.Size*8-1)
	switch op {
	case loop.Neg:
		e.tileOperand(t, ops.xor, e.RepeatedBits(t, sign), to, x)
	case loop.Abs:
		e.tileOperand(t, ops.and, e.RepeatedBits(t, sign-1), to, x)
	case loop.Sqrt:
		e.tileWide(t, ops.sqrt, to, x)
	default:
		in := asm.VROUNDPS
		switch {
		case e.isa.masks && t.Size == 8:
			in = asm.VRNDSCALEPD
		case e.isa.masks:
			in = asm.VRNDSCALEPS
		case t.Size == 8:
			in = asm.VROUNDPD
		}
		e.Emit(asm.Inst{Op: in, Bits: uint16(8 * t.Bytes), Args: [4]asm.Reg{to, x}, Imm: roundings[op]})
	}
}

// conversions are the instructions of conversions between f32 and i32.
var conversions = [...]asm.Op{lanes.ToFloat: asm.VCVTDQ2PS, lanes.ToNearest: asm.VCVTPS2DQ,
	lanes.TowardZero: asm.VCVTTPS2DQ}

// ConvertLanes converts between f32 and i32.
func (e *machine) ConvertLanes(t *lanes.RegisterTile, how lanes.Conversion, to, x asm.Reg) {
	e.tileWide(t, conversions[how], to, x)
}

// CompareLanes makes the mask of the lanes in which a comparison of floats holds.
func (e *machine) CompareLanes(t *lanes.RegisterTile, op loop.BinaryOp, mask, x, y asm.Reg) {
	in := asm.VCMPPS
	if t.Size == 8 {
		in = asm.VCMPPD
	}
	e.Emit(asm.Inst{Op: in, Bits: uint16(8 * t.Bytes), Args: [4]asm.Reg{mask, x, y},
		Imm: predicates[lanes.Predicates[op]]})
}

// NumberLanes makes the mask of the lanes of f32 that are not NaN.
func (e *machine) NumberLanes(t *lanes.RegisterTile, mask, x asm.Reg) {
	e.Emit(asm.Inst{Op: asm.VCMPPS, Bits: uint16(8 * t.Bytes), Args: [4]asm.Reg{mask, x, x}, Imm: ordered})
}

// KeepLanes makes the lanes outside a mask 0.
func (e *machine) KeepLanes(t *lanes.RegisterTile, mask, r asm.Reg) {
	if e.isa.masks {
		e.Emit(asm.Inst{Op: asm.VMOVUPS, Bits: uint16(8 * t.Bytes), Args: [4]asm.Reg{r, r}, Mask: mask, Zero: true})
		return
	}
	e.tileWide(t, asm.VANDPS, r, r, mask)
}

// SelectLanes puts yes in the lanes of a mask, and no in the others.
func (e *machine) SelectLanes(t *lanes.RegisterTile, mask, to, yes, no asm.Reg) {
	masked, plain := asm.VBLENDMPS, asm.VBLENDVPS
	if t.Size == 8 {
		masked, plain = asm.VBLENDMPD, asm.VBLENDVPD
	}
	if e.isa.masks {
		e.Emit(asm.Inst{Op: masked, Bits: uint16(8 * t.Bytes), Args: [4]asm.Reg{to, no, yes}, Mask: mask})
		return
	}
	e.tileWide(t, plain, to, no, yes, mask)
}
