package arm64

import (
	"encoding/binary"
	"slices"

	"github.com/weirml/weir/internal/codegen/arm64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// This file reads and writes elements as a tile's lanes, and computes with its sums, as package lanes uses them.

// ReadsElements reports whether elements are read as lanes.
func (e *machine) ReadsElements(f lanes.Elements) bool {
	if f.Group > 0 {
		return f.Size() == 4 || f.Size() == groupBytes
	}
	if f.In == f.As || f.In.Bits() == 32 && f.As.Bits() == 32 {
		return true
	}
	switch f.In {
	case dtype.F16, dtype.BF16:
		return f.As == dtype.F32
	case dtype.I8, dtype.U8:
		return f.As.Bits() == 32
	case dtype.I16, dtype.U16:
		return f.As == dtype.I32 || f.As == dtype.U32
	}
	return false
}

// WritesElements reports whether lanes become elements: bf16 if an instruction rounds to it.
func (e *machine) WritesElements(f lanes.Elements) bool {
	return e.ReadsElements(f) && (f.In.IsInt() || f.In == dtype.F16 || f.In == dtype.BF16 && e.isa.bf16)
}

// widen makes lanes of elements in the low bits of a register.
func (e *machine) widen(f lanes.Elements, r asm.Reg) {
	if !f.Narrow() {
		return
	}
	long := asm.SSHLL
	if f.In == dtype.U8 || f.In == dtype.U16 {
		long = asm.USHLL
	}
	switch f.In {
	case dtype.F16:
		e.op(asm.FCVTL, asm.H4, r, r)
		return
	case dtype.BF16:
		e.opImm(asm.SHLL, asm.H4, 16, r, r)
		return
	case dtype.I8, dtype.U8:
		e.opImm(long, asm.B8, 0, r, r)
	}
	if e.opImm(long, asm.H4, 0, r, r); f.As == dtype.F32 {
		e.op(asm.SCVTF, asm.S4, r, r)
	}
}

// ReadOne reads an element into all lanes.
func (e *machine) ReadOne(_ *lanes.RegisterTile, f lanes.Elements, r regalloc.Reg, at regalloc.Mem) {
	e.access(asm.LDR, singleOf(f.Size()), r, at)
	e.widen(f, r)
	e.op(asm.DUP, shapeOf(f.As), r, r)
}

// ReadRun reads a vector of a row; of a part, without touching memory beyond its lanes.
func (e *machine) ReadRun(t *lanes.RegisterTile, f lanes.Elements, r regalloc.Reg, at regalloc.Mem, part bool) {
	if part && !t.Part.Known() {
		e.opImm(asm.MOVI, asm.D2, 0, r)
	}
	e.accessRun(asm.LDR, asm.LD1, t, f.Size(), r, at, part)
	e.widen(f, r)
}

// accessRun reads or writes adjacent elements of a size: a vector of them, or without touching memory beyond it, its
// part. whole accesses the low bytes of a register, and lane one of its lanes.
func (e *machine) accessRun(whole, lane asm.Op, t *lanes.RegisterTile, size int64, r asm.Reg, at asm.Mem, part bool) {
	switch {
	case !part:
		e.access(whole, singleOf(size*t.Lanes()), r, at)
	case t.Part.Known():
		e.parts(t.Part.Fixed*size, func(bytes, from int64) {
			if from == 0 {
				e.access(whole, singleOf(bytes), r, at)
			} else {
				e.accessLane(lane, singleOf(bytes), r, int(from/bytes), after(at, from))
			}
		})
	default:
		t.EachLane(func(i int64) { e.accessLane(lane, singleOf(size), r, int(i), after(at, i*size)) })
	}
}

// parts calls do for powers of two that add up to a number of bytes, the largest first, with the bytes before.
func (e *machine) parts(bytes int64, do func(bytes, from int64)) {
	from := int64(0)
	for part := int64(8); part > 0; part /= 2 {
		if bytes&part != 0 {
			do(part, from)
			from += part
		}
	}
}

// WriteRun writes a vector of a row.
func (e *machine) WriteRun(t *lanes.RegisterTile, f lanes.Elements, at regalloc.Mem, x regalloc.Reg, part bool) {
	r := x
	if f.Narrow() {
		r = t.Take()
		defer t.Give(r)
		switch f.In {
		case dtype.F16:
			e.op(asm.FCVTN, asm.H4, r, x)
		case dtype.BF16:
			e.op(asm.BFCVTN, asm.H4, r, x)
		default:
			if e.op(asm.XTN, asm.H4, r, x); f.In.Bits() == 8 {
				e.op(asm.XTN, asm.B8, r, r)
			}
		}
	}
	e.accessRun(asm.STR, asm.ST1, t, f.Size(), r, at, part)
}

// ClearLanes makes a register 0.
func (e *machine) ClearLanes(_ *lanes.RegisterTile, r regalloc.Reg) {
	e.opImm(asm.MOVI, asm.D2, 0, r)
}

// pooled32 returns the address of a number in all lanes of 32 bits.
func (b *builder) pooled32(v uint32) asm.Mem {
	return b.InPool(slices.Repeat(binary.LittleEndian.AppendUint32(nil, v), vectorLanes))
}

// RepeatedBits returns a constant in memory with the bits in every lane.
func (e *machine) RepeatedBits(t *lanes.RegisterTile, bits uint64) lanes.Operand {
	one := binary.LittleEndian.AppendUint64(nil, bits)[:t.Size]
	return lanes.Operand{At: e.InPool(slices.Repeat(one, int(t.Lanes())))}
}

// SetLanes copies an operand to a register.
func (e *machine) SetLanes(_ *lanes.RegisterTile, to regalloc.Reg, x lanes.Operand) {
	if x.Register == asm.NoReg {
		e.access(asm.LDR, asm.Q, to, x.At)
	} else if to != x.Register {
		e.op(asm.MOV, asm.B16, to, x.Register)
	}
}

// inRegister calls do with the register of an operand.
func (e *machine) inRegister(t *lanes.RegisterTile, x lanes.Operand, do func(r asm.Reg)) {
	if x.Register != asm.NoReg {
		do(x.Register)
		return
	}
	r := t.Take()
	e.access(asm.LDR, asm.Q, r, x.At)
	do(r)
	t.Give(r)
}

// Calculate makes to x op y.
func (e *machine) Calculate(t *lanes.RegisterTile, op loop.BinaryOp, dt dtype.DType, to, x regalloc.Reg,
	y lanes.Operand) {
	e.inRegister(t, y, func(r asm.Reg) { e.op(binaries[narrow(dt)][op], shapeOf(dt), to, x, r) })
}

// AddTimes adds the product of two vectors of floats to a register.
func (e *machine) AddTimes(t *lanes.RegisterTile, to, x regalloc.Reg, y lanes.Operand) {
	e.inRegister(t, y, func(r asm.Reg) { e.op(asm.FMLA, shapeOf(t.DType), to, x, r) })
}

// Apply makes to a function of floats.
func (e *machine) Apply(_ *lanes.RegisterTile, op loop.UnaryOp, dt dtype.DType, to, x regalloc.Reg) {
	e.op(unaries[true][op], shapeOf(dt), to, x)
}

// conversions are the instructions of conversions between f32 and i32.
var conversions = [...]asm.Op{lanes.ToFloat: asm.SCVTF, lanes.ToNearest: asm.FCVTNS, lanes.TowardZero: asm.FCVTZS}

// ConvertLanes converts between f32 and i32.
func (e *machine) ConvertLanes(_ *lanes.RegisterTile, how lanes.Conversion, to, x regalloc.Reg) {
	e.op(conversions[how], asm.S4, to, x)
}

// CompareLanes makes the mask of the lanes in which a comparison of floats holds.
func (e *machine) CompareLanes(t *lanes.RegisterTile, op loop.BinaryOp, mask, x, y regalloc.Reg) {
	in := asm.FCMGT
	switch op {
	case loop.Eq, loop.Ne:
		in = asm.FCMEQ
	case loop.Le, loop.Ge:
		in = asm.FCMGE
	}
	if op == loop.Lt || op == loop.Le {
		x, y = y, x
	}
	if e.op(in, shapeOf(t.DType), mask, x, y); op == loop.Ne {
		e.op(asm.NOT, asm.B16, mask, mask)
	}
}

// NumberLanes makes the mask of the lanes that are not NaN.
func (e *machine) NumberLanes(t *lanes.RegisterTile, mask, x regalloc.Reg) {
	e.op(asm.FCMEQ, asm.S4, mask, x, x)
}

// KeepLanes makes the lanes outside a mask 0.
func (e *machine) KeepLanes(_ *lanes.RegisterTile, mask, r regalloc.Reg) {
	e.op(asm.AND, asm.B16, r, r, mask)
}

// SelectLanes puts yes in the lanes of a mask, and no in the others.
func (e *machine) SelectLanes(_ *lanes.RegisterTile, mask, to, yes, no regalloc.Reg) {
	switch to {
	case mask:
		e.op(asm.BSL, asm.B16, to, yes, no)
	case no:
		e.op(asm.BIT, asm.B16, to, yes, mask)
	default:
		if to != yes {
			e.op(asm.MOV, asm.B16, to, yes)
		}
		e.op(asm.BIF, asm.B16, to, no, mask)
	}
}

// MaskRegister is not called: masks are vectors.
func (e *machine) MaskRegister() regalloc.Reg { return e.NewVector() }

// TurnFour transposes four registers.
func (e *machine) TurnFour(_ *lanes.RegisterTile, rows [4]regalloc.Reg, spare regalloc.Reg) (out [4]regalloc.Reg,
	free regalloc.Reg) {
	pair := func(s asm.Shape, x, y asm.Reg) (low, high asm.Reg) {
		e.op(asm.TRN1, s, spare, x, y)
		e.op(asm.TRN2, s, y, x, y)
		low, spare = spare, x
		return low, y
	}
	even, odd := pair(asm.S4, rows[0], rows[1])
	even2, odd2 := pair(asm.S4, rows[2], rows[3])
	out[0], out[2] = pair(asm.D2, even, even2)
	out[1], out[3] = pair(asm.D2, odd, odd2)
	return out, spare
}

// FourMask returns nothing: StoreFour takes the count.
func (e *machine) FourMask(*lanes.RegisterTile, int) regalloc.Reg { return asm.NoReg }

// StoreFour writes the first lanes of a register.
func (e *machine) StoreFour(_ *lanes.RegisterTile, at regalloc.Mem, x regalloc.Reg, _ int64, count int, _,
	_ regalloc.Reg) {
	if count == vectorLanes {
		e.access(asm.STR, asm.Q, x, at)
		return
	}
	e.parts(int64(4*count), func(bytes, from int64) {
		if from == 0 {
			e.access(asm.STR, singleOf(bytes), x, at)
		} else {
			e.accessLane(asm.ST1, singleOf(bytes), x, int(from/bytes), after(at, from))
		}
	})
}
