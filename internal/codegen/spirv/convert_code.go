package spirv

import (
	"math"

	"github.com/weirml/weir/internal/dtype"
)

// This file is floats of 8 and of 4 bits, their codes. Values of such types are f32 that hold only values of their
// type.

// code is how a type's bits make a number; package dtype says what they mean.
type code struct {
	exponent, mantissa uint32
	bias               int
	max, over          uint32 // the greatest number's code, and that of what is greater if it does not become max
	nan                uint32 // the code of NaN, without a sign
	unsigned           bool   // there is one zero and one NaN
	infinite           bool   // over is infinity, and what is greater NaN; otherwise nan alone is NaN
	none               bool   // there is no NaN
}

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

// pick is x where a condition holds, and else y, of words.
func (w *writer) pick(cond, x, y id) id { return w.op(opSelect, w.intType(32), cond, x, y) }

func (w *writer) above(x, y id) id         { return w.test(opSGreaterThan, x, y) }
func (w *writer) same32(x id, v uint32) id { return w.test(opIEqual, x, w.constant32(v)) }

// fromCode is the value of a code.
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

// toCode rounds an f32 to a type's codes: to nearest, half to even, f8e8m0 to the greater power of two. What is
// beyond the type's greatest becomes that, or (not clamped) infinity or NaN.
func (w *writer) toCode(dt dtype.DType, value id, clamped bool) id {
	number, x := w.constant32, w.bits32(value)
	if dt == dtype.F8E8M0 {
		return w.toPower(value, clamped)
	}
	c := codes[dt]
	width := c.exponent + c.mantissa
	size := w.and(x, 1<<31-1)
	sign := w.and(w.right(x, 31-width), 1<<width)
	// A normal number: the bits that go are rounded away, and a carry out of the mantissa is right as well.
	drop := 23 - c.mantissa
	normal := w.word(opISub, size, number(uint32(127-c.bias)<<23))
	odd := w.and(w.right(normal, drop), 1)
	normal = w.word(opIAdd, w.word(opIAdd, normal, number(1<<(drop-1)-1)), odd)
	normal = w.word(opShiftRightArithmetic, normal, number(drop))
	// A lesser one: a sum rounds to its units.
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
	r = w.pick(w.above(number(leastPower/2+1), x), number(below), r) // what is negative too
	r = w.pick(w.above(x, number(0x7f000000)), number(most), r)
	return w.pick(w.isNaN32(value), number(0xff), r)
}
