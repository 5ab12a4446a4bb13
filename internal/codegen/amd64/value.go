package amd64

import (
	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Expression emits an expression that is not the name of a scalar, in the present scope.
func (e *machine) Expression(x loop.Expr) lanes.Value {
	switch x := x.(type) {
	case *loop.Const:
		return e.Constant(x)
	case *loop.Index:
		return e.index(x.X)
	case *loop.Load:
		return e.load(x)
	case *loop.Unary:
		return e.unary(x)
	case *loop.Binary:
		return e.binary(x)
	case *loop.Select:
		if v, ok := e.expFrom(x); ok {
			return v
		}
		cond, a, b := e.Value(x.Cond), e.Value(x.X), e.Value(x.Y)
		return e.Choose(cond, a, b)
	case *loop.Cast:
		if v, ok := e.quantise(x); ok {
			return v
		}
		if v, ok := e.lookedUp(x); ok {
			return v
		}
		return e.convert(e.Value(x.X), x.Type, x.Wrap)
	}
	e.Kernel.Bug("an expression of type %T", x)
	panic("not reached")
}

// Constant returns a number in all lanes.
func (e *machine) Constant(x *loop.Const) lanes.Value {
	v := lanes.Value{DType: x.Type, Uniform: true}
	switch lanes.KindOf(x.Type) {
	case lanes.Floats:
		v.Lo = e.float(float32(loop.ToFloat(x.Type, x.Bits)))
	case lanes.Integers:
		v.Lo = e.integer32(int32(loop.ToInt(x.Type, x.Bits)))
	case lanes.Flags:
		v.Lo = e.maskConst(x.Bits != 0)
	default:
		v.Lo = e.repeated64(x.Bits)
		v.Hi = v.Lo
	}
	return v
}

// index returns a symbolic integer as an i64.
func (e *machine) index(x sym.Expr) lanes.Value {
	x = e.Resolve(x)
	if v, ok := x.Const(); ok {
		r := e.repeated64(uint64(v))
		return lanes.Value{DType: dtype.I64, Lo: r, Hi: r, Uniform: true}
	}
	x = e.Simpler(x)
	step, ok := e.ConstantStep(x)
	if !ok {
		if e.Fits(x) {
			return e.cast(e.laneInteger(x, dtype.I32), dtype.I64)
		}
		return e.laneInteger(x, dtype.I64)
	}
	base := e.broadcastWide(e.IntegerOf(x))
	if step == 0 {
		return lanes.Value{DType: dtype.I64, Lo: base, Hi: base, Uniform: true}
	}
	half := e.isa.lanes / 2
	lo, hi := make([]int64, half), make([]int64, half)
	for i := range half {
		lo[i], hi[i] = int64(i)*step, int64(i+half)*step
	}
	return lanes.Value{DType: dtype.I64, Lo: e.three(asm.VPADDQ, base, e.longs(lo)),
		Hi: e.three(asm.VPADDQ, base, e.longs(hi))}
}

// pairs applies an operation to two values of one kind.
func (e *machine) pairs(dt dtype.DType, x, y lanes.Value, do func(x, y asm.Reg) asm.Reg) lanes.Value {
	r := lanes.Value{DType: dt, Uniform: x.Uniform && y.Uniform, Lo: do(x.Lo, y.Lo)}
	if x.Kind().Wide() {
		if r.Hi = r.Lo; !r.Uniform {
			r.Hi = do(x.Hi, y.Hi)
		}
	}
	return r
}

// tests applies a comparison to two values; the masks of 64-bit lanes become one.
func (e *machine) tests(x, y lanes.Value, do func(x, y asm.Reg) asm.Reg) lanes.Value {
	r := lanes.Value{DType: dtype.Bool, Uniform: x.Uniform && y.Uniform}
	if !x.Kind().Wide() {
		r.Lo = do(x.Lo, y.Lo)
		return r
	}
	lo := do(x.Lo, y.Lo)
	hi := lo
	if !r.Uniform {
		hi = do(x.Hi, y.Hi)
	}
	r.Lo = e.join(lo, hi)
	return r
}

// join combines the masks of the two halves of 64-bit lanes into a mask of 32-bit lanes.
func (e *machine) join(lo, hi asm.Reg) asm.Reg {
	if e.isa.masks {
		r := e.maskRegister()
		e.Emit(asm.Inst{Op: asm.KUNPCKBW, Args: [4]asm.Reg{r, hi, lo}})
		return r
	}
	r := e.vectorOf(asm.VSHUFPS, 0x88, lo, hi)
	return e.twoImm(asm.VPERMQ, r, 0xd8)
}

// halves splits a mask of 32-bit lanes into those of the two halves of 64-bit lanes, the reverse of join.
func (e *machine) halves(mask asm.Reg, uniform bool) (lo, hi asm.Reg) {
	if uniform {
		return mask, mask
	}
	if e.isa.masks {
		hi = e.maskRegister()
		e.Emit(asm.Inst{Op: asm.KSHIFTRW, Args: [4]asm.Reg{hi, mask}, Imm: 8})
		return mask, hi
	}
	return e.two(asm.VPMOVSXDQ, mask), e.two(asm.VPMOVSXDQ, e.upper(mask))
}

// upper returns the upper half of a vector.
func (e *machine) upper(x asm.Reg) asm.Reg {
	op := asm.VEXTRACTF128
	if e.isa.bits == 512 {
		op = asm.VEXTRACTF64X4
	}
	return e.twoImm(op, x, 1)
}

// Choose returns x in the lanes in which cond holds, and y in the others.
func (e *machine) Choose(cond, x, y lanes.Value) lanes.Value {
	r := lanes.Value{DType: x.DType, Uniform: cond.Uniform && x.Uniform && y.Uniform}
	switch {
	case x.Kind() == lanes.Flags:
		r.Lo = e.maskOr(e.maskAnd(cond.Lo, x.Lo), e.maskAnd(e.maskNot(cond.Lo), y.Lo))
	case x.Kind().Wide():
		lo, hi := e.halves(cond.Lo, cond.Uniform)
		r.Lo = e.selectWide(lo, x.Lo, y.Lo)
		if r.Hi = r.Lo; !r.Uniform {
			r.Hi = e.selectWide(hi, x.Hi, y.Hi)
		}
	default:
		r.Lo = e.selectLanes(cond.Lo, x.Lo, y.Lo)
	}
	return r
}

// settle rounds or wraps a result computed in f32 or i32 lanes to its narrower type.
func (e *machine) settle(v lanes.Value) lanes.Value {
	switch v.DType {
	case dtype.F16:
		v.Lo = e.fromHalf(e.toHalf(v.Lo))
	case dtype.BF16:
		v.Lo = e.shiftLeft(e.toBF16(v.Lo), 16)
	case dtype.I8:
		v.Lo = e.shiftRightSigned(e.shiftLeft(v.Lo, 24), 24)
	case dtype.I16:
		v.Lo = e.shiftRightSigned(e.shiftLeft(v.Lo, 16), 16)
	case dtype.U8:
		v.Lo = e.and(v.Lo, e.integer32(0xff))
	case dtype.U16:
		v.Lo = e.and(v.Lo, e.integer32(0xffff))
	case dtype.I2, dtype.I4:
		unused := int64(32 - v.DType.Bits())
		v.Lo = e.shiftRightSigned(e.shiftLeft(v.Lo, unused), unused)
	case dtype.U2, dtype.U4:
		v.Lo = e.and(v.Lo, e.integer32(int32(1)<<v.DType.Bits()-1))
	default:
		return e.settleCoded(v, true)
	}
	return v
}

// settleCoded rounds a result computed in f32 lanes to a float of at most 8 bits; clamped is as in toCode.
func (e *machine) settleCoded(v lanes.Value, clamped bool) lanes.Value {
	if mathematics.Coded(v.DType) {
		v.Lo = e.fromCode(v.DType, e.toCode(v.DType, v.Lo, clamped))
	}
	return v
}

// toHalf returns f32 lanes as f16 in half a vector; fromHalf is the reverse.
func (e *machine) toHalf(x asm.Reg) asm.Reg   { return e.twoImm(asm.VCVTPS2PH, x, 0) }
func (e *machine) fromHalf(x asm.Reg) asm.Reg { return e.two(asm.VCVTPH2PS, x) }

// toBF16 returns f32 lanes as bf16 in the low 16 bits of each: rounded to nearest, half to even; NaN stays NaN.
func (e *machine) toBF16(x asm.Reg) asm.Reg {
	odd := e.and(e.shiftRight(x, 16), e.integer32(1))
	rounded := e.shiftRight(e.addInt(e.addInt(x, e.integer32(0x7fff)), odd), 16)
	quiet := e.or(e.shiftRight(x, 16), e.integer32(0x40))
	return e.selectLanes(e.compare(unordered, x, x), quiet, rounded)
}

// lane32 returns a general register with lane 0 of a vector of 32-bit lanes, extended by its sign or by zeros.
func (e *machine) lane32(x asm.Reg, signed bool) asm.Reg {
	r := e.General()
	e.Emit(asm.Inst{Op: asm.VMOVD, Args: [4]asm.Reg{r, x}})
	if signed {
		e.Emit(asm.Inst{Op: asm.MOVSXD, Bits: 64, Args: [4]asm.Reg{r, r}})
	}
	return r
}

// lane64 returns a general register with the lowest 64 bits of a vector.
func (e *machine) lane64(x asm.Reg) asm.Reg {
	r := e.General()
	e.Emit(asm.Inst{Op: asm.VMOVQ, Args: [4]asm.Reg{r, x}})
	return r
}

// WholeNumber returns a general register with a uniform integer.
func (e *machine) WholeNumber(v lanes.Value) asm.Reg {
	switch v.Kind() {
	case lanes.Longs:
		return e.lane64(v.Lo)
	case lanes.Integers:
		return e.lane32(v.Lo, v.DType.IsSigned())
	case lanes.Flags:
		r := e.bitsOf(v.Lo)
		e.integerImm(asm.AND, r, 1)
		return r
	}
	lanes.Refuse("an index of %s", v.DType)
	return asm.NoReg
}

// fromNumber returns a uniform value from an integer in a general register.
func (e *machine) fromNumber(dt dtype.DType, r asm.Reg) lanes.Value {
	v := lanes.Value{DType: dt, Uniform: true}
	if lanes.KindOf(dt) == lanes.Longs {
		v.Lo = e.broadcastWide(r)
		v.Hi = v.Lo
		return v
	}
	v.Lo = e.broadcastInt(r)
	return e.settle(v)
}

// AcrossFlags combines the lanes of a mask by and, or, min or max, into a uniform mask.
func (e *machine) AcrossFlags(op loop.BinaryOp, v lanes.Value) lanes.Value {
	bits := e.bitsOf(v.Lo)
	r := e.Number(0)
	one := e.Number(-1)
	switch op {
	case loop.Or, loop.Max:
		e.CompareZero(bits)
		e.AssignIf(lanes.NotEqual, r, one)
	case loop.And, loop.Min:
		e.CompareNumber(bits, 1<<e.isa.lanes-1)
		e.AssignIf(lanes.Equal, r, one)
	default:
		lanes.Refuse("%s over lanes of bool", op)
	}
	return lanes.Value{DType: dtype.Bool, Uniform: true, Lo: e.equalInt(e.broadcastInt(r), e.integer32(-1))}
}
