package amd64

import (
	"math"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// This file converts a tile's sums to and from the integers of a quantised result. Registers hold narrow integers as
// lanes of i32.

// cast emits a conversion among i32, f32 and narrower integers.
func (x *sumExpressions) cast(t *registerTile, v *loop.Cast, row, vector int, at func(*stream) asm.Mem) (asm.Reg,
	bool) {
	from := v.X.DType()
	switch {
	case v.Type == dtype.F32 && x.widened(v.X):
		return x.value(t, v.X, row, vector, at)
	case v.Type == dtype.F32 && inLanes(from):
		r, own := x.value(t, v.X, row, vector, at)
		to := t.result(r, own)
		t.wide(asm.VCVTDQ2PS, to, r)
		return to, true
	case v.Type == dtype.I32 && inLanes(from):
		return x.value(t, v.X, row, vector, at)
	case from == dtype.F32 && inLanes(v.Type):
		if q, ok := lanes.QuantisedOf(v); ok {
			return x.quantise(t, q, row, vector, at)
		}
		if within(v) {
			return x.truncated(t, v, row, vector, at)
		}
	}
	lanes.Refuse("a conversion of %s to %s among sums", from, v.Type)
	return asm.NoReg, false
}

// widened reports whether an expression has narrow floats, which registers hold as f32.
func (x *sumExpressions) widened(v loop.Expr) bool {
	l, ok := v.(*loop.Load)
	return ok && x.locations[l].narrow != nil && l.Type.IsFloat()
}

// inLanes reports whether lanes of i32 hold all numbers of a type.
func inLanes(dt dtype.DType) bool { return integerForms[dt] != nil && dt != dtype.U32 }

// within reports whether a maximum and a minimum keep a conversion's operand within the result type's range; it may
// still be NaN.
func within(c *loop.Cast) bool {
	low, high, v := math.Inf(-1), math.Inf(1), c.X
	for {
		if bound, rest, ok := lanes.ConstantAnd(v, loop.Max); ok && math.IsInf(low, -1) {
			low, v = float64(bound), rest
		} else if bound, rest, ok := lanes.ConstantAnd(v, loop.Min); ok && math.IsInf(high, 1) {
			high, v = float64(bound), rest
		} else {
			break
		}
	}
	return c.Type.Bits() <= 16 && low <= high && low >= float64(c.Type.MinInt()) && high <= float64(c.Type.MaxInt())
}

// truncated converts floats within a type's range to integers, toward zero; NaN becomes 0.
func (x *sumExpressions) truncated(t *registerTile, v *loop.Cast, row, vector int, at func(*stream) asm.Mem) (asm.Reg,
	bool) {
	r, own := x.value(t, v.X, row, vector, at)
	to := t.result(r, own)
	numbers := t.numbers(r)
	t.wide(asm.VCVTTPS2DQ, to, r)
	t.only(to, numbers)
	return to, true
}

// quantise emits a quotient by a constant that is rounded and kept within bounds.
func (x *sumExpressions) quantise(t *registerTile, q lanes.Quantised, row, vector int,
	at func(*stream) asm.Mem) (asm.Reg, bool) {
	from, own := x.value(t, q.X, row, vector, at)
	all := func(v float32) asm.Mem { return x.repeated(t, uint64(math.Float32bits(v))) }
	r := asm.NoReg
	if q.Rest == 0 {
		r = t.result(from, own)
		t.wideFrom(asm.VMULPS, all(q.First), r, from)
	} else {
		r = t.take()
		t.wideFrom(asm.VMULPS, all(q.Rest), r, from)
		t.wideFrom(asm.VFMADD231PS, all(q.First), r, from)
		if own {
			t.give(from)
		}
	}
	// For NaN the machine gives the second operand, the least value. If that does not become 0 at the end, NaN is set to
	// 0.
	numbers := asm.NoReg
	if q.Low != 0 {
		numbers = t.numbers(r)
	}
	t.wideFrom(asm.VMAXPS, all(q.Low-q.Zero), r, r)
	t.wideFrom(asm.VMINPS, all(q.High-q.Zero), r, r)
	t.wide(asm.VCVTPS2DQ, r, r)
	if q.Zero != 0 {
		t.wideFrom(asm.VPADDD, x.repeated(t, uint64(uint32(int32(q.Zero)))), r, r)
	}
	if q.Low != 0 {
		t.only(r, numbers)
	}
	return r, true
}

// numbers returns a mask of the lanes that are not NaN; only makes the others 0, and gives the mask back.
func (t *registerTile) numbers(r asm.Reg) (mask asm.Reg) {
	if t.isa.masks {
		mask = t.maskRegister()
	} else {
		mask = t.take()
	}
	t.Emit(asm.Inst{Op: asm.VCMPPS, Bits: uint16(t.isa.bits), Args: [4]asm.Reg{mask, r, r}, Imm: int64(ordered)})
	return mask
}

// only sets the lanes of r outside the mask to 0; without opmasks it also frees the mask's register.
func (t *registerTile) only(r, mask asm.Reg) {
	if t.isa.masks {
		t.Emit(asm.Inst{Op: asm.VMOVUPS, Bits: uint16(t.isa.bits), Args: [4]asm.Reg{r, r}, Mask: mask, Zero: true})
		return
	}
	t.wide(asm.VANDPS, r, r, mask)
	t.give(mask)
}

// roundings are the operations that round to integers.
var roundings = map[loop.UnaryOp]int64{loop.Round: toNearest, loop.Floor: downward, loop.Ceil: upward}

// rounded puts a register's floats, rounded by a mode, into another.
func (t *registerTile) rounded(to, from asm.Reg, mode int64) {
	op := asm.VROUNDPS
	switch {
	case t.isa.masks && t.ops.size == 8:
		op = asm.VRNDSCALEPD
	case t.isa.masks:
		op = asm.VRNDSCALEPS
	case t.ops.size == 8:
		op = asm.VROUNDPD
	}
	t.Emit(asm.Inst{Op: op, Bits: uint16(t.isa.bits), Args: [4]asm.Reg{to, from}, Imm: mode})
}

// storeIntegers writes a vector of integers as narrow ones of the same values.
func (t *registerTile) storeIntegers(at asm.Mem, f *operandForm, vector int, r asm.Reg) {
	partial := t.partial(vector)
	if t.isa.masks {
		in := asm.Inst{Op: asm.VPMOVDB, Bits: uint16(t.isa.bits), Args: [4]asm.Reg{asm.Memory, r}, Mem: at}
		if f.size == 2 {
			in.Op = asm.VPMOVDW
		}
		if partial {
			in.Mask = t.mask
		}
		t.Emit(in)
		return
	}
	to := t.packed(f, r)
	switch {
	case partial:
		t.extractLanes(f, at, to)
	case f.size == 1:
		t.Emit(asm.Inst{Op: asm.VMOVQ, Args: [4]asm.Reg{asm.Memory, to}, Mem: at})
	default:
		t.Emit(asm.Inst{Op: asm.VMOVUPS, Bits: 128, Args: [4]asm.Reg{asm.Memory, to}, Mem: at})
	}
	t.give(to)
}

// packed returns a register with a vector's narrow integers in its lowest part.
func (t *registerTile) packed(f *operandForm, r asm.Reg) asm.Reg {
	words, bytes := asm.VPACKUSDW, asm.VPACKUSWB
	if f.extend == asm.VPMOVSXBD || f.extend == asm.VPMOVSXWD {
		words, bytes = asm.VPACKSSDW, asm.VPACKSSWB
	}
	to := t.take()
	narrow := func(op asm.Op, x, y asm.Reg) { t.Emit(asm.Inst{Op: op, Bits: 128, Args: [4]asm.Reg{to, x, y}}) }
	t.Emit(asm.Inst{Op: asm.VEXTRACTI128, Bits: 256, Args: [4]asm.Reg{to, r}, Imm: 1})
	narrow(words, r, to)
	if f.size == 1 {
		narrow(bytes, to, to)
	}
	return to
}

// extractLanes writes the narrow elements of the last vector's lanes one by one.
func (t *registerTile) extractLanes(f *operandForm, at asm.Mem, r asm.Reg) {
	op := asm.VPEXTRW
	if f.size == 1 {
		op = asm.VPEXTRB
	}
	t.eachLane(func(i int64) {
		t.Emit(asm.Inst{Op: op, Args: [4]asm.Reg{asm.Memory, r}, Mem: at, Imm: i})
		at.Disp += int32(f.size)
	})
}

// eachLane emits code for each of the last vector's lanes.
func (t *registerTile) eachLane(do func(i int64)) {
	count := t.lanes()
	if t.part.Known() {
		count = t.part.Fixed
	}
	end := t.Label()
	for i := range count {
		if !t.part.Known() {
			t.integerImm(asm.CMP, t.part.Register, i)
			t.jump(asm.JLE, end)
		}
		do(i)
	}
	t.Bind(end)
}

// needs returns an estimate of the registers that the computation of an expression takes.
func (x *sumExpressions) needs(v loop.Expr) int {
	switch v := v.(type) {
	case *loop.Load:
		if v.From == x.group.Local.Name {
			return 0
		}
	case *loop.Cast:
		if _, ok := lanes.QuantisedOf(v); ok {
			return x.needs(v.X) + 1
		}
		return x.needs(v.X)
	case *loop.Unary:
		return x.needs(v.X)
	case *loop.Binary:
		a, b := x.needs(v.X), x.needs(v.Y)
		if a == b {
			return a + 1
		}
		return max(a, b)
	}
	return 1
}

// zeroInt reports whether an expression is an integer 0.
func zeroInt(v loop.Expr) bool {
	c, ok := v.(*loop.Const)
	return ok && c.Type.IsInt() && c.Bits == 0
}
