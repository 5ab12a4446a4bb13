package amd64

import (
	"math"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// This file emits conversions, which package dtype defines.

// convert emits a conversion; floats of 8 bits are clamped unless wrap is true.
func (e *machine) convert(v lanes.Value, to dtype.DType, wrap bool) lanes.Value {
	if !mathematics.Coded(to) || v.DType == to {
		return e.cast(v, to)
	}
	switch {
	case v.Kind() == lanes.Doubles:
		v = e.cast(e.Each(v, func(x asm.Reg) asm.Reg { return e.toOddDouble(x, to) }), dtype.F32)
	case v.Kind() == lanes.Longs || v.DType == dtype.U32:
		return e.convert(e.oddDouble(v), to, wrap)
	case v.Kind() == lanes.Integers:
		v = lanes.Value{DType: dtype.F32, Uniform: v.Uniform, Lo: e.toFloat(e.toOdd(v.Lo))}
	case v.Kind() == lanes.Flags:
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
func (e *machine) oddDouble(v lanes.Value) lanes.Value {
	odd := e.Each(e.cast(v, longOf(v.DType)), func(x asm.Reg) asm.Reg { return e.toOddWide(x, v.DType == dtype.U64) })
	return e.cast(odd, dtype.F64)
}

// cast converts a value to a type other than a float of at most 8 bits, or to one that is clamped.
func (e *machine) cast(v lanes.Value, to dtype.DType) lanes.Value {
	if mathematics.Coded(to) && v.DType != to {
		return e.convert(v, to, false)
	}
	from := v.Kind()
	target := lanes.KindOf(to)
	if v.DType == to {
		return v
	}
	r := lanes.Value{DType: to, Uniform: v.Uniform}
	switch {
	case from == lanes.Flags && target == lanes.Floats:
		r.Lo = e.selectLanes(v.Lo, e.float(1), e.float(0))
	case from == lanes.Flags && target == lanes.Integers:
		r.Lo = e.selectLanes(v.Lo, e.integer32(1), e.integer32(0))
	case from == lanes.Flags:
		one := lanes.Value{DType: to, Uniform: true, Lo: e.repeated64(1)}
		if target == lanes.Doubles {
			one.Lo = e.double(1)
		}
		zero := lanes.Value{DType: to, Uniform: true, Lo: e.repeated64(0)}
		one.Hi, zero.Hi = one.Lo, zero.Lo
		return e.Choose(v, one, zero)
	case target == lanes.Flags && (from == lanes.Floats || from == lanes.Doubles):
		zero := lanes.Value{DType: v.DType, Uniform: true, Lo: e.float(0)}
		zero.Hi = zero.Lo
		return e.order(loop.Ne, v, zero)
	case target == lanes.Flags:
		return e.order(loop.Ne, v, e.same(v.DType, 0))
	case from == lanes.Floats && target == lanes.Floats:
		r.Lo = v.Lo
		return e.settle(r)
	case from == lanes.Integers && target == lanes.Integers:
		r.Lo = v.Lo
		return e.settle(r)
	case from == lanes.Longs && target == lanes.Longs:
		r.Lo, r.Hi = v.Lo, v.Hi
	case from == lanes.Longs && target == lanes.Integers:
		r.Lo = v.Lo
		if !v.Uniform {
			r.Lo = e.narrow(v.Lo, v.Hi)
		} else {
			r.Lo = e.broadcastInt(e.lane64(v.Lo))
		}
		return e.settle(r)
	case from == lanes.Integers && target == lanes.Longs:
		return e.widen(v, to)
	case (from == lanes.Integers && v.DType == dtype.U32 || from == lanes.Longs) && to != dtype.BF16 &&
		(target == lanes.Floats || target == lanes.Doubles):
		return e.fromLongs(v, to)
	case from == lanes.Integers && v.DType != dtype.U32 && target == lanes.Floats:
		if to == dtype.BF16 {
			v.Lo = e.toOdd(v.Lo)
		}
		r.Lo = e.toFloat(v.Lo)
		return e.settle(r)
	case from == lanes.Integers && v.DType != dtype.U32 && target == lanes.Doubles:
		return e.halved(v, to, asm.VCVTDQ2PD)
	case from == lanes.Floats && target == lanes.Doubles:
		return e.halved(v, to, asm.VCVTPS2PD)
	case from == lanes.Doubles && to == dtype.F32:
		r.Lo = e.fromDoubles(v, asm.VCVTPD2PS)
	case from == lanes.Doubles && target == lanes.Floats:
		r.Lo = e.fromDoubles(e.Each(v, func(x asm.Reg) asm.Reg { return e.toOddDouble(x, to) }), asm.VCVTPD2PS)
		return e.settle(r)
	case (from == lanes.Longs || v.DType == dtype.U32) && to == dtype.BF16:
		return e.cast(e.oddDouble(v), to)
	case target == lanes.Integers && to != dtype.U32 && from == lanes.Floats:
		r.Lo = e.truncated(v.Lo)
		return e.settle(r)
	case target == lanes.Integers && to != dtype.U32 && from == lanes.Doubles:
		r.Lo = e.fromDoubles(e.Each(v, e.limited), asm.VCVTTPD2DQ)
		return e.settle(r)
	case from == lanes.Floats && (target == lanes.Longs || to == dtype.U32):
		return e.cast(e.halved(v, dtype.F64, asm.VCVTPS2PD), to)
	case from == lanes.Doubles && target == lanes.Longs:
		r = e.Each(v, func(x asm.Reg) asm.Reg { return e.truncatedWide(x, to == dtype.U64) })
		r.DType = to
	case from == lanes.Doubles && to == dtype.U32:
		return e.cast(e.cast(v, dtype.I64), to)
	default:
		lanes.Refuse("a conversion of %s to %s", v.DType, to)
	}
	return r
}

// narrow takes the low 32 bits of 64-bit lanes.
func (e *machine) narrow(lo, hi asm.Reg) asm.Reg {
	if e.isa.masks {
		lo, hi = e.two(asm.VPMOVQD, lo), e.two(asm.VPMOVQD, hi)
		return e.joined(lo, hi)
	}
	return e.twoImm(asm.VPERMQ, e.vectorOf(asm.VSHUFPS, 0x88, lo, hi), 0xd8)
}

// joined returns a vector of two halves.
func (e *machine) joined(lo, hi asm.Reg) asm.Reg {
	op := asm.VINSERTF128
	if e.isa.bits == 512 {
		op = asm.VINSERTF64X4
	}
	return e.vectorOf(op, 1, lo, hi)
}

// widen extends integers of up to 32 bits to 64.
func (e *machine) widen(v lanes.Value, to dtype.DType) lanes.Value {
	op := asm.VPMOVSXDQ
	if v.DType == dtype.U32 {
		op = asm.VPMOVZXDQ
	}
	return e.halved(v, to, op)
}

// halved applies an operation that doubles the width of lanes to the lower and the upper half of a vector.
func (e *machine) halved(v lanes.Value, to dtype.DType, op asm.Op) lanes.Value {
	r := lanes.Value{DType: to, Uniform: v.Uniform, Lo: e.two(op, v.Lo)}
	if r.Hi = r.Lo; !v.Uniform {
		r.Hi = e.two(op, e.upper(v.Lo))
	}
	return r
}

// fromDoubles applies an operation that halves the width of lanes.
func (e *machine) fromDoubles(v lanes.Value, op asm.Op) asm.Reg {
	lo := e.two(op, v.Lo)
	if v.Uniform {
		return e.joined(lo, lo)
	}
	return e.joined(lo, e.two(op, v.Hi))
}

// truncated returns f32 lanes as i32 lanes: without their fractions, 0 for NaN, and the nearest i32 for numbers that do
// not fit.
func (e *machine) truncated(x asm.Reg) asm.Reg {
	r := e.truncateToInt(x) // −2³¹ for numbers that do not fit
	r = e.selectLanes(e.compare(greaterOrEqual, x, e.float(1<<31)), e.integer32(math.MaxInt32), r)
	return e.selectLanes(e.compare(unordered, x, x), e.integer32(0), r)
}

// limited returns f64 lanes of at most the greatest i32, and 0 for NaN.
func (e *machine) limited(x asm.Reg) asm.Reg {
	nan := e.compareWith(asm.VCMPPD, int64(unordered), x, x)
	return e.three(asm.VMINPD, e.selectWide(nan, e.repeated64(0), x), e.double(math.MaxInt32))
}

// truncatedWide is truncated for f64 lanes and i64 lanes; if unsigned is true, numbers that are not negative become
// u64. A float of 2⁵² or more, and less than 2⁵³, has an integer in its low bits: adding such numbers gives the high
// and the low half of the result.
func (e *machine) truncatedWide(x asm.Reg, unsigned bool) asm.Reg {
	compare := func(p predicate, limit float64) asm.Reg {
		return e.compareWith(asm.VCMPPD, int64(p), x, e.double(limit))
	}
	whole := e.roundDouble(x, towardZero)
	high := e.roundDouble(e.three(asm.VMULPD, whole, e.double(0x1p-32)), downward)
	low := e.three(asm.VSUBPD, whole, e.three(asm.VMULPD, high, e.double(0x1p32)))
	high = e.twoImm(asm.VPSLLQ, e.three(asm.VADDPD, high, e.double(3<<51)), 32)
	r := e.or(high, e.xor(e.three(asm.VADDPD, low, e.double(1<<52)), e.double(1<<52)))
	limit, greatest := 0x1p63, uint64(math.MaxInt64)
	if unsigned {
		limit, greatest = 0x1p64, math.MaxUint64
	}
	r = e.selectWide(compare(greaterOrEqual, limit), e.repeated64(greatest), r)
	r = e.selectWide(compare(less, -0x1p63), e.repeated64(1<<63), r)
	return e.selectWide(compare(unordered, 0), e.repeated64(0), r)
}

// roundDouble is round for lanes of f64.
func (b *builder) roundDouble(x asm.Reg, mode int64) asm.Reg {
	if b.isa.masks {
		return b.twoImm(asm.VRNDSCALEPD, x, mode)
	}
	return b.twoImm(asm.VROUNDPD, x, mode)
}

// fromLongs returns u32, i64 or u64 as floats other than bf16, rounded once.
func (e *machine) fromLongs(v lanes.Value, to dtype.DType) lanes.Value {
	if v.DType == dtype.U32 {
		v = e.widen(v, dtype.I64)
	}
	if to != dtype.F64 {
		v = e.Each(v, func(x asm.Reg) asm.Reg { return e.toOddWide(x, v.DType == dtype.U64) })
	}
	// The halves become floats in the low bits of 2⁵² and 2⁸⁴; all operations except the last are exact.
	bits, bias := uint64(0x4530000080000000), 0x1p84+0x1p63+0x1p52
	if v.DType == dtype.U64 {
		bits, bias = 0x4530000000000000, 0x1p84+0x1p52
	}
	r := e.Each(v, func(x asm.Reg) asm.Reg {
		low := e.or(e.and(x, e.repeated64(math.MaxUint32)), e.double(1<<52))
		high := e.xor(e.twoImm(asm.VPSRLQ, x, 32), e.repeated64(bits))
		return e.three(asm.VADDPD, e.three(asm.VSUBPD, high, e.double(bias)), low)
	})
	r.DType = dtype.F64
	if to == dtype.F64 {
		return r
	}
	r = lanes.Value{DType: to, Uniform: v.Uniform, Lo: e.fromDoubles(r, asm.VCVTPD2PS)}
	return e.settle(r)
}

// toOddWide returns i64 or u64 lanes that f64 can represent: in lanes far from 0 the last 11 bits become 0, and if one
// of them was 1, the bit before them becomes 1. Rounding the result to a shorter type gives the same as rounding the
// integer itself, since the result never looks like a tie (S. Boldo and G. Melquiond, Emulation of FMA and correctly
// rounded sums, 2008).
func (e *machine) toOddWide(x asm.Reg, unsigned bool) asm.Reg {
	rest := e.and(x, e.repeated64(1<<11-1))
	sticky := e.and(e.three(asm.VPADDQ, rest, e.repeated64(1<<11-1)), e.repeated64(1<<11))
	odd := e.or(e.xor(x, rest), sticky)
	size := e.twoImm(asm.VPSRLQ, x, 53)
	if !unsigned {
		size = e.twoImm(asm.VPSRLQ, e.three(asm.VPADDQ, x, e.repeated64(1<<53)), 54)
	}
	return e.selectWide(e.equalWide(size, e.repeated64(0)), x, odd)
}

// toOdd is toOddWide for i32 lanes and f32: the last 8 bits.
func (e *machine) toOdd(x asm.Reg) asm.Reg {
	rest := e.and(x, e.integer32(1<<8-1))
	odd := e.or(e.xor(x, rest), e.and(e.addInt(rest, e.integer32(1<<8-1)), e.integer32(1<<8)))
	size := e.shiftRight(e.addInt(x, e.integer32(1<<24)), 25)
	return e.selectLanes(e.equalInt(size, e.integer32(0)), x, odd)
}

// toOddDouble returns f64 lanes with so few bits that f32 represents them, unless they are too large: if one of the
// dropped bits was 1, the last bit that stays becomes 1. Rounding the result to a type of at most 11 bits gives the
// same as rounding the number itself.
func (e *machine) toOddDouble(x asm.Reg, to dtype.DType) asm.Reg {
	drop := 43 // bf16's least number is 2⁻¹³³, and f32 has 10 bits from 2⁻¹⁴⁰ on
	if to == dtype.F16 {
		drop = 39
	}
	rest := e.and(x, e.repeated64(1<<drop-1))
	sticky := e.and(e.three(asm.VPADDQ, rest, e.repeated64(1<<drop-1)), e.repeated64(1<<drop))
	return e.or(e.xor(x, rest), sticky)
}
