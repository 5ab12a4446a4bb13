package lanes

import (
	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// compute emits an expression that is not the name of a scalar, in the present scope.
func (e *Emitter) compute(x loop.Expr) Value {
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
func (e *Emitter) Constant(x *loop.Const) Value {
	v := Value{DType: x.Type, Uniform: true}
	switch KindOf(x.Type) {
	case Floats:
		v.Lo = e.word.Float(float32(loop.ToFloat(x.Type, x.Bits)))
	case Integers:
		v.Lo = e.word.Integer(int32(loop.ToInt(x.Type, x.Bits)))
	case Flags:
		v.Lo = e.MaskOf(x.Bits != 0)
	default:
		v.Lo = e.Repeated(dtype.I64, x.Bits)
		v.Hi = v.Lo
	}
	return v
}

// index returns a symbolic integer as an i64.
func (e *Emitter) index(x sym.Expr) Value {
	x = e.Resolve(x)
	if v, ok := x.Const(); ok {
		r := e.Repeated(dtype.I64, uint64(v))
		return Value{DType: dtype.I64, Lo: r, Hi: r, Uniform: true}
	}
	x = e.Simpler(x)
	step, ok := e.ConstantStep(x)
	if !ok {
		if e.Fits(x) {
			return e.cast(e.laneInteger(x, dtype.I32), dtype.I64)
		}
		return e.laneInteger(x, dtype.I64)
	}
	base := e.Broadcast(dtype.I64, e.IntegerOf(x))
	if step == 0 {
		return Value{DType: dtype.I64, Lo: base, Hi: base, Uniform: true}
	}
	return e.plus(Value{DType: dtype.I64, Lo: base, Hi: base}, e.LaneSteps(sym.Const(step), dtype.I64))
}

// pairs applies an operation to two values of one kind.
func (e *Emitter) pairs(dt dtype.DType, x, y Value, do func(x, y regalloc.Reg) regalloc.Reg) Value {
	r := Value{DType: dt, Uniform: x.Uniform && y.Uniform, Lo: do(x.Lo, y.Lo)}
	if x.Kind().Wide() {
		if r.Hi = r.Lo; !r.Uniform {
			r.Hi = do(x.Hi, y.Hi)
		}
	}
	return r
}

// tests applies a comparison to two values; the masks of 64-bit lanes become one.
func (e *Emitter) tests(x, y Value, do func(x, y regalloc.Reg) regalloc.Reg) Value {
	r := Value{DType: dtype.Bool, Uniform: x.Uniform && y.Uniform}
	if !x.Kind().Wide() {
		r.Lo = do(x.Lo, y.Lo)
		return r
	}
	lo := do(x.Lo, y.Lo)
	hi := lo
	if !r.Uniform {
		hi = do(x.Hi, y.Hi)
	}
	r.Lo = e.JoinMasks(lo, hi)
	return r
}

// halfMasks returns the masks of the two halves of 64-bit lanes; NoReg, of all of them, stays NoReg.
func (e *Emitter) halfMasks(mask regalloc.Reg) (lo, hi regalloc.Reg) {
	if mask == regalloc.NoReg {
		return mask, mask
	}
	return e.HalfMasks(mask)
}

// Choose returns x in the lanes in which cond holds, and y in the others.
func (e *Emitter) Choose(cond, x, y Value) Value {
	r := Value{DType: x.DType, Uniform: cond.Uniform && x.Uniform && y.Uniform}
	switch {
	case x.Kind() == Flags:
		r.Lo = e.Masks(loop.Or, e.Masks(loop.And, cond.Lo, x.Lo), e.Masks(loop.And, e.MaskNot(cond.Lo), y.Lo))
	case x.Kind().Wide():
		lo, hi := cond.Lo, cond.Lo
		if !cond.Uniform {
			lo, hi = e.HalfMasks(cond.Lo)
		}
		r.Lo = e.wide.SelectLanes(lo, x.Lo, y.Lo)
		if r.Hi = r.Lo; !r.Uniform {
			r.Hi = e.wide.SelectLanes(hi, x.Hi, y.Hi)
		}
	default:
		r.Lo = e.word.SelectLanes(cond.Lo, x.Lo, y.Lo)
	}
	return r
}

// settle rounds or wraps a result computed in f32 or i32 lanes to its narrower type.
func (e *Emitter) settle(v Value) Value {
	switch v.DType {
	case dtype.F16:
		v.Lo = e.RoundF16(v.Lo)
	case dtype.BF16:
		v.Lo = e.word.ShiftLeft(e.toBF16(v.Lo), 16)
	case dtype.I8:
		v.Lo = e.word.ShiftRightSigned(e.word.ShiftLeft(v.Lo, 24), 24)
	case dtype.I16:
		v.Lo = e.word.ShiftRightSigned(e.word.ShiftLeft(v.Lo, 16), 16)
	case dtype.U8:
		v.Lo = e.word.And(v.Lo, e.word.Integer(0xff))
	case dtype.U16:
		v.Lo = e.word.And(v.Lo, e.word.Integer(0xffff))
	case dtype.I2, dtype.I4:
		unused := int64(32 - v.DType.Bits())
		v.Lo = e.word.ShiftRightSigned(e.word.ShiftLeft(v.Lo, unused), unused)
	case dtype.U2, dtype.U4:
		v.Lo = e.word.And(v.Lo, e.word.Integer(int32(1)<<v.DType.Bits()-1))
	default:
		return e.settleCoded(v, true)
	}
	return v
}

// settleCoded rounds a result computed in f32 lanes to a float of at most 8 bits; clamped is as in ToCode.
func (e *Emitter) settleCoded(v Value, clamped bool) Value {
	if mathematics.Coded(v.DType) {
		v.Lo = e.Functions().FromCode(v.DType, e.Functions().ToCode(v.DType, v.Lo, clamped))
	}
	return v
}

// toBF16 returns f32 lanes as bf16 in the low 16 bits of each: rounded to nearest, half to even; NaN stays NaN.
func (e *Emitter) toBF16(x regalloc.Reg) regalloc.Reg {
	odd := e.word.And(e.word.ShiftRight(x, 16), e.word.Integer(1))
	rounded := e.word.ShiftRight(e.word.AddInt(e.word.AddInt(x, e.word.Integer(0x7fff)), odd), 16)
	quiet := e.word.Or(e.word.ShiftRight(x, 16), e.word.Integer(0x40))
	return e.word.SelectLanes(e.word.Compare(mathematics.Unordered, x, x), quiet, rounded)
}

// WholeNumber returns a general register with a uniform integer.
func (e *Emitter) WholeNumber(v Value) regalloc.Reg {
	switch v.Kind() {
	case Longs:
		return e.FirstLane(dtype.I64, v.Lo)
	case Integers:
		if !v.DType.IsSigned() {
			return e.FirstLane(dtype.U32, v.Lo)
		}
		return e.FirstLane(dtype.I32, v.Lo)
	case Flags:
		r := e.LaneWord(dtype.I32, v.Lo)
		e.IntegerNumber(And, r, 1)
		return r
	}
	Refuse("an index of %s", v.DType)
	return regalloc.NoReg
}

// fromNumber returns a uniform value from an integer in a general register.
func (e *Emitter) fromNumber(dt dtype.DType, r regalloc.Reg) Value {
	v := Value{DType: dt, Uniform: true}
	if KindOf(dt) == Longs {
		v.Lo = e.Broadcast(dtype.I64, r)
		v.Hi = v.Lo
		return v
	}
	v.Lo = e.Broadcast(dtype.I32, r)
	return e.settle(v)
}

// acrossFlags combines the lanes of a mask by and, or, min or max, into a uniform mask.
func (e *Emitter) acrossFlags(op loop.BinaryOp, v Value) Value {
	bits := e.LaneWord(dtype.I32, v.Lo)
	r := e.Number(0)
	one := e.Number(-1)
	switch op {
	case loop.Or, loop.Max:
		e.CompareZero(bits)
		e.AssignIf(NotEqual, r, one)
	case loop.And, loop.Min:
		e.CompareNumber(bits, e.AllLanes())
		e.AssignIf(Equal, r, one)
	default:
		Refuse("%s over lanes of bool", op)
	}
	return Value{DType: dtype.Bool, Uniform: true, Lo: e.word.EqualInt(e.Broadcast(dtype.I32, r), e.word.Integer(-1))}
}

// FirstLanes returns the mask of the lanes below count, an integer; 0 or less is none.
func (e *Emitter) FirstLanes(count regalloc.Reg) regalloc.Reg {
	return e.word.GreaterInt(e.Broadcast(dtype.I32, count), e.LaneSteps(sym.Const(1), dtype.I32).Lo)
}
