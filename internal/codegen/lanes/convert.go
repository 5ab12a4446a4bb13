package lanes

import (
	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// This file emits conversions, which package dtype defines.

// convert emits a conversion; floats of 8 bits are clamped unless wrap is true.
func (e *Emitter) convert(v Value, to dtype.DType, wrap bool) Value {
	if !mathematics.Coded(to) || v.DType == to {
		return e.cast(v, to)
	}
	switch {
	case v.Kind() == Doubles:
		v = e.cast(e.Each(v, func(x regalloc.Reg) regalloc.Reg { return e.toOddDouble(x, to) }), dtype.F32)
	case v.Kind() == Longs || v.DType == dtype.U32:
		return e.convert(e.oddDouble(v), to, wrap)
	case v.Kind() == Integers:
		v = Value{DType: dtype.F32, Uniform: v.Uniform, Lo: e.word.ToFloat(e.toOdd(v.Lo))}
	case v.Kind() == Flags:
		v = e.cast(v, dtype.F32)
	}
	v.DType = to
	return e.settleCoded(v, !wrap)
}

// longOf returns the type of 64 bits through which an integer is converted to floats.
func longOf(dt dtype.DType) dtype.DType {
	if dt == dtype.U64 {
		return dt
	}
	return dtype.I64
}

// oddDouble returns an integer of 64 bits, or a u32, as f64, rounded to odd.
func (e *Emitter) oddDouble(v Value) Value {
	odd := func(x regalloc.Reg) regalloc.Reg { return e.toOddWide(x, v.DType == dtype.U64) }
	return e.cast(e.Each(e.cast(v, longOf(v.DType)), odd), dtype.F64)
}

// cast converts a value to a type other than a float of at most 8 bits, or to one that is clamped.
func (e *Emitter) cast(v Value, to dtype.DType) Value {
	if mathematics.Coded(to) && v.DType != to {
		return e.convert(v, to, false)
	}
	from := v.Kind()
	target := KindOf(to)
	if v.DType == to {
		return v
	}
	r := Value{DType: to, Uniform: v.Uniform}
	switch {
	case from == Flags && target == Floats:
		r.Lo = e.word.SelectLanes(v.Lo, e.word.Float(1), e.word.Float(0))
	case from == Flags && target == Integers:
		r.Lo = e.word.SelectLanes(v.Lo, e.word.Integer(1), e.word.Integer(0))
	case from == Flags:
		one := Value{DType: to, Uniform: true, Lo: e.Repeated(dtype.I64, 1)}
		if target == Doubles {
			one.Lo = e.wide.Float(1)
		}
		zero := Value{DType: to, Uniform: true, Lo: e.Repeated(dtype.I64, 0)}
		one.Hi, zero.Hi = one.Lo, zero.Lo
		return e.Choose(v, one, zero)
	case target == Flags && (from == Floats || from == Doubles):
		zero := Value{DType: v.DType, Uniform: true, Lo: e.word.Float(0)}
		zero.Hi = zero.Lo
		return e.order(loop.Ne, v, zero)
	case target == Flags:
		return e.order(loop.Ne, v, e.same(v.DType, 0))
	case from == Floats && target == Floats:
		r.Lo = v.Lo
		return e.settle(r)
	case from == Integers && target == Integers:
		r.Lo = v.Lo
		return e.settle(r)
	case from == Longs && target == Longs:
		r.Lo, r.Hi = v.Lo, v.Hi
	case from == Longs && target == Integers:
		r.Lo = v.Lo
		if !v.Uniform {
			r.Lo = e.narrow(v, dtype.I32)
		} else {
			r.Lo = e.Broadcast(dtype.I32, e.FirstLane(dtype.I64, v.Lo))
		}
		return e.settle(r)
	case from == Integers && target == Longs:
		return e.widen(v, to)
	case (from == Integers && v.DType == dtype.U32 || from == Longs) && to != dtype.BF16 &&
		(target == Floats || target == Doubles):
		return e.fromLongs(v, to)
	case from == Integers && v.DType != dtype.U32 && target == Floats:
		if to == dtype.BF16 {
			v.Lo = e.toOdd(v.Lo)
		}
		r.Lo = e.word.ToFloat(v.Lo)
		return e.settle(r)
	case from == Integers && v.DType != dtype.U32 && target == Doubles:
		return e.widen(v, to)
	case from == Floats && target == Doubles:
		return e.widen(v, to)
	case from == Doubles && to == dtype.F32:
		r.Lo = e.narrow(v, dtype.F32)
	case from == Doubles && target == Floats:
		r.Lo = e.narrow(e.Each(v, func(x regalloc.Reg) regalloc.Reg { return e.toOddDouble(x, to) }), dtype.F32)
		return e.settle(r)
	case (from == Longs || v.DType == dtype.U32) && to == dtype.BF16:
		return e.cast(e.oddDouble(v), to)
	case target == Integers && to != dtype.U32 && from == Floats:
		r.Lo = e.Truncated(dtype.F32, dtype.I32, v.Lo)
		return e.settle(r)
	case target == Integers && to != dtype.U32 && from == Doubles:
		r.Lo = e.TruncatedHalves(v.Lo, v.Hi)
		return e.settle(r)
	case from == Floats && (target == Longs || to == dtype.U32):
		return e.cast(e.widen(v, dtype.F64), to)
	case from == Doubles && target == Longs:
		r = e.Each(v, func(x regalloc.Reg) regalloc.Reg { return e.Truncated(dtype.F64, to, x) })
		r.DType = to
	case from == Doubles && to == dtype.U32:
		return e.cast(e.cast(v, dtype.I64), to)
	default:
		Refuse("a conversion of %s to %s", v.DType, to)
	}
	return r
}

// narrow converts a value of 64-bit lanes to one of 32.
func (e *Emitter) narrow(v Value, to dtype.DType) regalloc.Reg {
	from := dtype.F64
	if v.Kind() == Longs {
		from = dtype.I64
	}
	return e.Narrow(from, to, v.Lo, v.Hi)
}

// widen extends integers of up to 32 bits to 64, or converts numbers of 32 bits to f64.
func (e *Emitter) widen(v Value, to dtype.DType) Value {
	from, as := core(v.DType), to
	if as != dtype.F64 {
		as = dtype.I64
	}
	r := Value{DType: to, Uniform: v.Uniform, Lo: e.Widen(from, as, v.Lo, false)}
	if r.Hi = r.Lo; !v.Uniform {
		r.Hi = e.Widen(from, as, v.Lo, true)
	}
	return r
}

// fromLongs returns u32, i64 or u64 as floats other than bf16, rounded once.
func (e *Emitter) fromLongs(v Value, to dtype.DType) Value {
	if v.DType == dtype.U32 {
		v = e.widen(v, dtype.I64)
	}
	if to != dtype.F64 {
		v = e.Each(v, func(x regalloc.Reg) regalloc.Reg { return e.toOddWide(x, v.DType == dtype.U64) })
	}
	from := v.DType
	r := e.Each(v, func(x regalloc.Reg) regalloc.Reg { return e.ToDouble(from, x) })
	r.DType = dtype.F64
	if to == dtype.F64 {
		return r
	}
	r = Value{DType: to, Uniform: v.Uniform, Lo: e.narrow(r, dtype.F32)}
	return e.settle(r)
}

// toOddWide returns i64 or u64 lanes that f64 can represent: in lanes far from 0 the last 11 bits become 0, and if one
// of them was 1, the bit before them becomes 1. Rounding the result to a shorter type gives the same as rounding the
// integer itself, since the result never looks like a tie (S. Boldo and G. Melquiond, Emulation of FMA and correctly
// rounded sums, 2008).
func (e *Emitter) toOddWide(x regalloc.Reg, unsigned bool) regalloc.Reg {
	rest := e.wide.And(x, e.Repeated(dtype.I64, 1<<11-1))
	sticky := e.wide.And(e.wide.AddInt(rest, e.Repeated(dtype.I64, 1<<11-1)), e.Repeated(dtype.I64, 1<<11))
	odd := e.wide.Or(e.wide.Xor(x, rest), sticky)
	size := e.wide.ShiftRight(x, 53)
	if !unsigned {
		size = e.wide.ShiftRight(e.wide.AddInt(x, e.Repeated(dtype.I64, 1<<53)), 54)
	}
	return e.wide.SelectLanes(e.wide.EqualInt(size, e.Repeated(dtype.I64, 0)), x, odd)
}

// toOdd is toOddWide for i32 lanes and f32: the last 8 bits.
func (e *Emitter) toOdd(x regalloc.Reg) regalloc.Reg {
	rest := e.word.And(x, e.word.Integer(1<<8-1))
	odd := e.word.Or(e.word.Xor(x, rest), e.word.And(e.word.AddInt(rest, e.word.Integer(1<<8-1)), e.word.Integer(1<<8)))
	size := e.word.ShiftRight(e.word.AddInt(x, e.word.Integer(1<<24)), 25)
	return e.word.SelectLanes(e.word.EqualInt(size, e.word.Integer(0)), x, odd)
}

// toOddDouble returns f64 lanes with so few bits that f32 represents them, unless they are too large: if one of the
// dropped bits was 1, the last bit that stays becomes 1. Rounding the result to a type of at most 11 bits gives the
// same as rounding the number itself.
func (e *Emitter) toOddDouble(x regalloc.Reg, to dtype.DType) regalloc.Reg {
	drop := 43 // bf16's least number is 2⁻¹³³, and f32 has 10 bits from 2⁻¹⁴⁰ on
	if to == dtype.F16 {
		drop = 39
	}
	rest := e.wide.And(x, e.Repeated(dtype.I64, 1<<drop-1))
	sticky := e.wide.And(e.wide.AddInt(rest, e.Repeated(dtype.I64, 1<<drop-1)), e.Repeated(dtype.I64, 1<<drop))
	return e.wide.Or(e.wide.Xor(x, rest), sticky)
}
