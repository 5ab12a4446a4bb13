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

// tileWide emits an instruction on a tile's full vectors; one of its operands may be in memory.
func (e *machine) tileWide(t *lanes.RegisterTile, op asm.Op, args ...asm.Reg) {
	e.tileFrom(t, op, asm.Mem{}, args...)
}

// tileFrom emits an instruction whose last operand is in memory, unless the address is empty.
func (e *machine) tileFrom(t *lanes.RegisterTile, op asm.Op, at asm.Mem, args ...asm.Reg) {
	in := asm.Inst{Op: op, Bits: uint16(8 * t.Bytes), Mem: at}
	if n := copy(in.Args[:], args); at != (asm.Mem{}) {
		in.Args[n] = asm.Memory
	}
	e.Emit(in)
}

// tileOperand emits an instruction with an operand that follows the given registers.
func (e *machine) tileOperand(t *lanes.RegisterTile, op asm.Op, y lanes.Operand, args ...asm.Reg) {
	if y.Register != asm.NoReg {
		args = append(args, y.Register)
	}
	e.tileFrom(t, op, y.At, args...)
}

// ClearLanes makes a register 0.
func (e *machine) ClearLanes(t *lanes.RegisterTile, r asm.Reg) {
	e.tileWide(t, sized(t.DType, asm.VXORPS, asm.VXORPD), r, r, r)
}

// RepeatedBits returns a constant in memory with the bits in every lane.
func (e *machine) RepeatedBits(t *lanes.RegisterTile, bits uint64) lanes.Operand {
	one := binary.LittleEndian.AppendUint64(nil, bits)[:t.Size]
	return lanes.Operand{At: asm.Mem{Pool: e.Pool.Constant(bytes.Repeat(one, int(t.Lanes())))}}
}

// SetLanes copies an operand to a register.
func (e *machine) SetLanes(t *lanes.RegisterTile, to asm.Reg, x lanes.Operand) {
	e.tileOperand(t, asm.VMOVUPS, x, to)
}

// Calculate makes to x op y.
func (e *machine) Calculate(t *lanes.RegisterTile, op loop.BinaryOp, dt dtype.DType, to, x asm.Reg, y lanes.Operand) {
	e.tileOperand(t, tileBinary(op, dt), y, to, x)
}

// AddTimes adds the product of f32 lanes to a register.
func (e *machine) AddTimes(t *lanes.RegisterTile, to, x asm.Reg, y lanes.Operand) {
	e.tileOperand(t, asm.VFMADD231PS, y, to, x)
}

// Apply makes to a function of x.
func (e *machine) Apply(t *lanes.RegisterTile, op loop.UnaryOp, dt dtype.DType, to, x asm.Reg) {
	sign := uint64(1) << (t.Size*8 - 1)
	switch op {
	case loop.Neg:
		e.tileOperand(t, sized(dt, asm.VXORPS, asm.VXORPD), e.RepeatedBits(t, sign), to, x)
	case loop.Abs:
		e.tileOperand(t, sized(dt, asm.VANDPS, asm.VANDPD), e.RepeatedBits(t, sign-1), to, x)
	case loop.Sqrt:
		e.tileWide(t, sized(dt, asm.VSQRTPS, asm.VSQRTPD), to, x)
	default:
		in := asm.Inst{Op: sized(dt, asm.VROUNDPS, asm.VROUNDPD), Bits: uint16(8 * t.Bytes), Args: [4]asm.Reg{to, x},
			Imm: roundings[op]}
		if e.isa.masks {
			in.Op = sized(dt, asm.VRNDSCALEPS, asm.VRNDSCALEPD)
		}
		e.Emit(in)
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
	e.compareTile(t, sized(t.DType, asm.VCMPPS, asm.VCMPPD), predicates[lanes.Predicates[op]], mask, x, y)
}

// NumberLanes makes the mask of the lanes of f32 that are not NaN.
func (e *machine) NumberLanes(t *lanes.RegisterTile, mask, x asm.Reg) {
	e.compareTile(t, asm.VCMPPS, ordered, mask, x, x)
}

// compareTile emits a comparison of a tile's lanes.
func (e *machine) compareTile(t *lanes.RegisterTile, op asm.Op, p int64, mask, x, y asm.Reg) {
	e.Emit(asm.Inst{Op: op, Bits: uint16(8 * t.Bytes), Args: [4]asm.Reg{mask, x, y}, Imm: p})
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
	if !e.isa.masks {
		e.tileWide(t, sized(t.DType, asm.VBLENDVPS, asm.VBLENDVPD), to, no, yes, mask)
		return
	}
	e.Emit(asm.Inst{Op: sized(t.DType, asm.VBLENDMPS, asm.VBLENDMPD), Bits: uint16(8 * t.Bytes),
		Args: [4]asm.Reg{to, no, yes}, Mask: mask})
}

// turnedRows is the number of rows that are stored together: the elements in a quarter of a 512-bit register.
const turnedRows = 4

// TurnFour transposes four registers, in blocks of 4 × 4.
func (e *machine) TurnFour(t *lanes.RegisterTile, rows [turnedRows]asm.Reg, spare asm.Reg) (out [turnedRows]asm.Reg,
	free asm.Reg) {
	pair := func(low, high asm.Op, x, y asm.Reg) (lo, hi asm.Reg) {
		e.tileWide(t, low, spare, x, y)
		e.tileWide(t, high, y, x, y)
		lo, spare = spare, x
		return lo, y
	}
	lo, hi := pair(asm.VUNPCKLPS, asm.VUNPCKHPS, rows[0], rows[1])
	lo2, hi2 := pair(asm.VUNPCKLPS, asm.VUNPCKHPS, rows[2], rows[3])
	out[0], out[1] = pair(asm.VUNPCKLPD, asm.VUNPCKHPD, lo, lo2)
	out[2], out[3] = pair(asm.VUNPCKLPD, asm.VUNPCKHPD, hi, hi2)
	return out, spare
}

// FourMask returns the mask of the first count of four elements.
func (e *machine) FourMask(t *lanes.RegisterTile, count int) asm.Reg {
	if e.isa.masks {
		return e.opmask(lanes.Known(int64(count)))
	}
	mask := t.Take()
	e.Emit(asm.Inst{Op: asm.VMOVUPS, Bits: 128, Args: [4]asm.Reg{mask, asm.Memory}, Mem: e.ones(4*count, 16)})
	return mask
}

// ones returns a constant of a size whose first bytes have all bits set.
func (e *machine) ones(first, size int) asm.Mem {
	list := make([]byte, size)
	copy(list, bytes.Repeat([]byte{0xff}, first))
	return asm.Mem{Pool: e.Pool.Constant(list)}
}

// StoreFour writes the lanes of a mask (NoReg: all) in a group of four lanes of a register. With a mask, a group other
// than the first goes through a free register, since an extraction to memory writes all four elements.
func (e *machine) StoreFour(t *lanes.RegisterTile, to asm.Mem, r asm.Reg, group int64, _ int, mask, free asm.Reg) {
	extract := asm.Inst{Op: asm.VEXTRACTF128, Bits: uint16(8 * t.Bytes), Imm: group}
	if group > 0 && mask == asm.NoReg {
		extract.Args, extract.Mem = [4]asm.Reg{asm.Memory, r}, to
		e.Emit(extract)
		return
	}
	if group > 0 {
		extract.Args = [4]asm.Reg{free, r}
		e.Emit(extract)
		r = free
	}
	switch {
	case mask != asm.NoReg && !e.isa.masks:
		e.Emit(asm.Inst{Op: asm.VMASKMOVPS, Bits: 128, Args: [4]asm.Reg{asm.Memory, mask, r}, Mem: to})
	default:
		e.Emit(asm.Inst{Op: asm.VMOVUPS, Bits: 128, Args: [4]asm.Reg{asm.Memory, r}, Mem: to, Mask: mask})
	}
}
