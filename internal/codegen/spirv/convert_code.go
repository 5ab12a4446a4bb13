package spirv

import (
	"math"

	"github.com/weirml/weir/internal/dtype"
)

// This file converts floats of 8 and of 4 bits: a code is their bits. Values of such types are held as f32.

// code describes the codes of a type as package dtype defines them.
type code struct {
	exponent, mantissa uint32 // bits
	bias               int
	max, over          uint32 // the code of the greatest number, and that of greater ones if they are not clamped
	nan                uint32 // the code of NaN, without a sign
	unsigned           bool   // zero and NaN have no sign
	infinite           bool   // over is infinity, and greater codes are NaN; otherwise only nan is NaN
	none               bool   // there is no NaN
}

// codes has the types with a code, except f8e8m0.
var codes = map[dtype.DType]*code{
	dtype.F4E2M1:     {exponent: 2, mantissa: 1, bias: 1, max: 0x7, over: 0x7, nan: 0x8, none: true},
	dtype.F8E4M3FN:   {exponent: 4, mantissa: 3, bias: 7, max: 0x7e, over: 0x7f, nan: 0x7f},
	dtype.F8E4M3FNUZ: {exponent: 4, mantissa: 3, bias: 8, max: 0x7f, over: 0x80, nan: 0x80, unsigned: true},
	dtype.F8E5M2:     {exponent: 5, mantissa: 2, bias: 15, max: 0x7b, over: 0x7c, nan: 0x7e, infinite: true},
	dtype.F8E5M2FNUZ: {exponent: 5, mantissa: 2, bias: 16, max: 0x7f, over: 0x80, nan: 0x80, unsigned: true},
}

const (
	quietNaN   = 0x7fc00000
	leastPower = 0x00400000 // 2⁻¹²⁷, the least number of f8e8m0
)

// coded reports whether a type is a float of at most 8 bits.
func coded(dt dtype.DType) bool { return dt.IsFloat() && dt.Bits() <= 8 }

// pick returns x if a condition holds, and else y; both are words.
func (w *writer) pick(cond, x, y id) id { return w.op(opSelect, w.intType(32), cond, x, y) }

// above compares two words as signed integers; same32 compares a word with a constant.
func (w *writer) above(x, y id) id         { return w.test(opSGreaterThan, x, y) }
func (w *writer) same32(x id, v uint32) id { return w.test(opIEqual, x, w.constant32(v)) }

// fromCode returns the value of a code as f32.
func (w *writer) fromCode(dt dtype.DType, x id) id {
	number := w.constant32
	if dt == dtype.F8E8M0 {
		r := w.pick(w.same32(x, 0), number(leastPower), w.left(x, 23))
		return w.float32(w.pick(w.same32(x, 0xff), number(quietNaN), r))
	}
	c := codes[dt]
	width := c.exponent + c.mantissa
	size := w.and(x, 1<<width-1)
	sign := w.and(w.left(x, 31-width), 1<<31)
	normal := w.word(opIAdd, w.left(size, 23-c.mantissa), number(uint32(127-c.bias)<<23))
	unit := w.constantFloat(math.Float32bits(float32(math.Ldexp(1, 1-c.bias-int(c.mantissa)))))
	small := w.bits32(w.exactly(opFMul, w.floatType(32), w.op(opConvertUToF, w.floatType(32), size), unit))
	r := w.pick(w.above(number(1<<c.mantissa), size), small, normal)
	switch {
	case c.infinite:
		r = w.pick(w.same32(size, c.over), number(0x7f800000), r)
		r = w.pick(w.above(size, number(c.over)), number(quietNaN), r)
	case c.unsigned:
		r = w.pick(w.same32(w.and(x, 1<<dt.Bits()-1), c.nan), number(quietNaN), r)
	case !c.none:
		r = w.pick(w.same32(size, c.nan), number(quietNaN), r)
	}
	return w.float32(w.or(r, sign))
}

// toCode rounds an f32 to a code of a type: to nearest, ties to even; for f8e8m0 up to a power of two. Values beyond
// the greatest become the greatest if clamped, and otherwise infinity or NaN.
func (w *writer) toCode(dt dtype.DType, value id, clamped bool) id {
	number, x := w.constant32, w.bits32(value)
	if dt == dtype.F8E8M0 {
		return w.toPower(value, clamped)
	}
	c := codes[dt]
	width := c.exponent + c.mantissa
	size := w.and(x, 1<<31-1)
	sign := w.and(w.right(x, 31-width), 1<<width)
	// A normal number: the lower bits are rounded away; a carry out of the mantissa correctly increments the exponent.
	drop := 23 - c.mantissa
	normal := w.word(opISub, size, number(uint32(127-c.bias)<<23))
	odd := w.and(w.right(normal, drop), 1)
	normal = w.word(opIAdd, w.word(opIAdd, normal, number(1<<(drop-1)-1)), odd)
	normal = w.word(opShiftRightArithmetic, normal, number(drop))
	// A subnormal number: adding a power of two whose unit is the subnormals' rounds to that unit.
	magic := math.Float32bits(float32(math.Ldexp(1, 24-c.bias-int(c.mantissa))))
	small := w.bits32(w.exactly(opFAdd, w.floatType(32), w.float32(size), w.constantFloat(magic)))
	small = w.word(opISub, small, number(magic))
	least := number(math.Float32bits(float32(math.Ldexp(1, 1-c.bias))))
	r := w.pick(w.above(least, size), small, normal)
	over := c.over
	if clamped {
		over = c.max
	}
	beyond, nan := w.above(r, number(c.max)), w.isNaN32(value)
	r = w.pick(beyond, number(over), r)
	switch {
	case c.none:
		sign = w.pick(nan, w.word(opBitwiseXor, sign, number(c.nan)), sign)
		return w.or(w.pick(nan, number(0), r), sign)
	case !c.unsigned:
		return w.or(w.pick(nan, number(c.nan), r), sign)
	}
	signed := w.pick(w.same32(r, 0), r, w.or(r, sign))
	if !clamped {
		signed = w.pick(beyond, number(over), signed)
	}
	return w.pick(nan, number(c.nan), signed)
}

// toPower rounds an f32 up to a power of two, as a code of f8e8m0.
func (w *writer) toPower(value id, clamped bool) id {
	number, x := w.constant32, w.bits32(value)
	r := w.right(w.word(opIAdd, x, number(0x7fffff)), 23)
	below, most := uint32(0xff), uint32(0xff)
	if clamped {
		below, most = 0, 0xfe
	}
	r = w.pick(w.above(number(leastPower+1), x), number(0), r)
	r = w.pick(w.above(number(leastPower/2+1), x), number(below), r) // negative numbers too
	r = w.pick(w.above(x, number(0x7f000000)), number(most), r)
	return w.pick(w.isNaN32(value), number(0xff), r)
}
