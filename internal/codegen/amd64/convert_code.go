package amd64

import (
	"math"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/dtype"
)

// This file converts floats of 8 and of 4 bits. In registers they are f32 lanes that hold only values of their type.

// layout is the bit layout of such a type, which package dtype defines.
type layout struct {
	exponent, mantissa int
	bias               int
	max, over          int32 // the codes of the greatest number, and of greater numbers if they are not clamped to it
	nan                int32 // the code of NaN, without a sign
	unsigned           bool  // there is one zero and one NaN
	infinite           bool  // over is infinity, and greater codes are NaN; otherwise only nan is NaN
	none               bool  // there is no NaN
}

var layouts = map[dtype.DType]*layout{
	dtype.F4E2M1:     {exponent: 2, mantissa: 1, bias: 1, max: 0x7, over: 0x7, nan: 0x8, none: true},
	dtype.F8E4M3FN:   {exponent: 4, mantissa: 3, bias: 7, max: 0x7e, over: 0x7f, nan: 0x7f},
	dtype.F8E4M3FNUZ: {exponent: 4, mantissa: 3, bias: 8, max: 0x7f, over: 0x80, nan: 0x80, unsigned: true},
	dtype.F8E5M2:     {exponent: 5, mantissa: 2, bias: 15, max: 0x7b, over: 0x7c, nan: 0x7e, infinite: true},
	dtype.F8E5M2FNUZ: {exponent: 5, mantissa: 2, bias: 16, max: 0x7f, over: 0x80, nan: 0x80, unsigned: true},
}

// coded reports whether a type is a float of at most 8 bits.
func coded(dt dtype.DType) bool { return dt.IsFloat() && dt.Bits() <= 8 }

const quietNaN = 0x7fc00000

// fromCode returns codes in 32-bit lanes as their values.
func (e *emitter) fromCode(dt dtype.DType, x asm.Reg) asm.Reg {
	if dt == dtype.F8E8M0 {
		r := e.shiftLeft(x, 23)
		r = e.selectLanes(e.equalInt(x, e.integer32(0)), e.integer32(0x00400000), r)
		return e.selectLanes(e.equalInt(x, e.integer32(0xff)), e.integer32(quietNaN), r)
	}
	l := layouts[dt]
	width := l.exponent + l.mantissa
	size := e.and(x, e.integer32(1<<width-1))
	sign := e.and(e.shiftLeft(x, int64(31-width)), e.repeated32(1<<31))
	normal := e.addInt(e.shiftLeft(size, int64(23-l.mantissa)), e.integer32(int32(127-l.bias)<<23))
	small := e.mul(e.toFloat(size), e.float(float32(math.Ldexp(1, 1-l.bias-l.mantissa))))
	r := e.selectLanes(e.greaterInt(e.integer32(1<<l.mantissa), size), small, normal)
	special := func(mask asm.Reg, bits int32) { r = e.selectLanes(mask, e.integer32(bits), r) }
	switch {
	case l.infinite:
		special(e.equalInt(size, e.integer32(l.over)), 0x7f800000)
		special(e.greaterInt(size, e.integer32(l.over)), quietNaN)
	case l.unsigned:
		special(e.equalInt(x, e.integer32(l.nan)), quietNaN)
	case !l.none:
		special(e.equalInt(size, e.integer32(l.nan)), quietNaN)
	}
	return e.or(r, sign)
}

// toCode rounds f32 lanes to a type's numbers: to nearest, half to even, f8e8m0 to the greater power of two. Numbers
// beyond the type's greatest number become that number if clamped is true, else infinity or NaN.
func (e *emitter) toCode(dt dtype.DType, x asm.Reg, clamped bool) asm.Reg {
	if dt == dtype.F8E8M0 {
		return e.toPower(x, clamped)
	}
	l := layouts[dt]
	width := l.exponent + l.mantissa
	size := e.and(x, e.repeated32(1<<31-1))
	sign := e.and(e.shiftRight(x, int64(31-width)), e.integer32(1<<width))
	// A normal number: the dropped bits are rounded, and a carry out of the mantissa is right as well.
	drop := int64(23 - l.mantissa)
	normal := e.subInt(size, e.integer32(int32(127-l.bias)<<23))
	odd := e.and(e.shiftRight(normal, drop), e.integer32(1))
	normal = e.shiftRightSigned(e.addInt(e.addInt(normal, e.integer32(int32(1)<<(drop-1)-1)), odd), drop)
	// A subnormal number: a sum rounds to its units.
	magic := e.float(float32(math.Ldexp(1, 24-l.bias-l.mantissa)))
	small := e.subInt(e.add(size, magic), magic)
	least := e.float(float32(math.Ldexp(1, 1-l.bias)))
	r := e.selectLanes(e.greaterInt(least, size), small, normal)
	over := l.over
	if clamped {
		over = l.max
	}
	beyond := e.greaterInt(r, e.integer32(l.max))
	r = e.selectLanes(beyond, e.integer32(over), r)
	if !l.unsigned {
		nan := l.nan
		if l.none {
			sign = e.selectLanes(e.compare(unordered, x, x), e.xor(sign, e.integer32(l.nan)), sign)
			nan = 0
		}
		r = e.selectLanes(e.compare(unordered, x, x), e.integer32(nan), r)
		return e.or(r, sign)
	}
	signed := e.or(r, sign)
	signed = e.selectLanes(e.equalInt(r, e.integer32(0)), r, signed)
	if !clamped {
		signed = e.selectLanes(beyond, e.integer32(over), signed)
	}
	return e.selectLanes(e.compare(unordered, x, x), e.integer32(l.nan), signed)
}

// toPower rounds f32 lanes up to powers of two, as codes of f8e8m0.
func (e *emitter) toPower(x asm.Reg, clamped bool) asm.Reg {
	r := e.shiftRight(e.addInt(x, e.integer32(0x7fffff)), 23)
	below, most, under := int32(0xff), int32(0xff), int32(0x00200000)
	if clamped {
		below, most = 0, 0xfe
	}
	r = e.selectLanes(e.greaterInt(e.integer32(0x00400001), x), e.integer32(0), r)
	r = e.selectLanes(e.greaterInt(e.integer32(under+1), x), e.integer32(below), r) // negative numbers too
	r = e.selectLanes(e.greaterInt(x, e.integer32(0x7f000000)), e.integer32(most), r)
	return e.selectLanes(e.compare(unordered, x, x), e.integer32(0xff), r)
}

// toOddDouble returns f64 lanes with so few bits that f32 represents them, unless they are too large: if one of the
// dropped bits was 1, the last bit that stays becomes 1. Rounding the result to a type of at most 11 bits gives the
// same as rounding the number itself.
func (e *emitter) toOddDouble(x asm.Reg, to dtype.DType) asm.Reg {
	drop := 43 // bf16's least number is 2⁻¹³³, and f32 has 10 bits from 2⁻¹⁴⁰ on
	if to == dtype.F16 {
		drop = 39
	}
	rest := e.and(x, e.repeated64(1<<drop-1))
	sticky := e.and(e.three(asm.VPADDQ, rest, e.repeated64(1<<drop-1)), e.repeated64(1<<drop))
	return e.or(e.xor(x, rest), sticky)
}
