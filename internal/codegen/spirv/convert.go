package spirv

import (
	"math"

	"github.com/weirml/weir/internal/codegen/blocks"
	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

// This file converts between values and their bits in memory, and between types, with the results of package dtype.

// The functions up to float32 write one instruction each, over words of 32 bits unless their names say otherwise.

func (w *writer) word(op opcode, operands ...id) id { return w.op(op, w.intType(32), operands...) }
func (w *writer) and(x id, mask uint32) id          { return w.word(opBitwiseAnd, x, w.constant32(mask)) }
func (w *writer) or(x, y id) id                     { return w.word(opBitwiseOr, x, y) }
func (w *writer) left(x id, bits uint32) id         { return w.word(opShiftLeftLogical, x, w.constant32(bits)) }
func (w *writer) right(x id, bits uint32) id {
	return w.word(opShiftRightLogical, x, w.constant32(bits))
}
func (w *writer) test(op opcode, x, y id) id { return w.op(op, w.boolType(), x, y) }
func (w *writer) bits32(x id) id             { return w.op(opBitcast, w.intType(32), x) }
func (w *writer) float32(bits id) id         { return w.op(opBitcast, w.floatType(32), bits) }

// Choose returns x if a condition holds, and else y. Mesa treats a choice between 0 and −1 as a negated boolean, and
// returns −0 instead of 0: for these numbers, two choices select the sign and the other bits.
func (w *writer) Choose(typ, cond, x, y id) id {
	a, first := w.numbers[x]
	b, second := w.numbers[y]
	if first && second && (a == 0 && b == -1 || a == -1 && b == 0) {
		dt := dtype.F32
		if typ != w.floatType(32) {
			dt = dtype.F64
		}
		f := w.floatBits(dt)
		masked := func(mask uint64) id {
			return w.op(opSelect, f.word, cond, f.number(f.bitsOf(a)&mask), f.number(f.bitsOf(b)&mask))
		}
		sign := uint64(1) << (f.width - 1)
		return f.back(w.op(opBitwiseOr, f.word, masked(sign), masked(sign-1)))
	}
	return w.op(opSelect, typ, cond, x, y)
}

// decode returns the value of an element's bits, which are zero-extended.
func (w *writer) decode(dt dtype.DType, x id) id {
	w.Held(dt) // refuses types that the device does not have
	switch {
	case dt == dtype.Bool:
		return w.test(opINotEqual, x, w.constant32(0))
	case dt == dtype.F32:
		return w.float32(x)
	case dt == dtype.BF16:
		return w.float32(w.left(x, 16))
	case dt == dtype.F16:
		return w.decodeHalf(x)
	case dt == dtype.F64:
		return w.op(opBitcast, w.floatType(64), x)
	case dt == dtype.C64 && w.int64s():
		return w.op(opBitcast, w.pairType(), x)
	case mathematics.Coded(dt):
		return w.fromCode(dt, x)
	case dt.IsSigned() && dt.Bits() < 32:
		return w.wrapped(dt, x)
	}
	return x
}

// encode returns the bits of a value as an element; bits above the element's are undefined.
func (w *writer) encode(dt dtype.DType, x id) id {
	switch {
	case dt == dtype.Bool:
		return w.Choose(w.intType(32), x, w.constant32(1), w.constant32(0))
	case dt == dtype.F32:
		return w.bits32(x)
	case dt == dtype.BF16:
		return w.encodeBF16(x)
	case dt == dtype.F16:
		return w.encodeHalf(x)
	case dt == dtype.F64:
		if !w.int64s() {
			return w.op(opBitcast, w.pairType(), x)
		}
		return w.op(opBitcast, w.intType(64), x)
	case dt == dtype.C64 && w.int64s():
		return w.op(opBitcast, w.intType(64), x)
	case mathematics.Coded(dt):
		return w.toCode(dt, x, false)
	}
	return x
}

// rounded returns an f32 rounded to a narrower type; a value of F32 or F64 unchanged.
func (w *writer) rounded(dt dtype.DType, x id) id {
	switch {
	case dt == dtype.F32 || dt == dtype.F64:
		return x
	case mathematics.Coded(dt):
		return w.fromCode(dt, w.toCode(dt, x, true))
	}
	bits := w.encode(dt, x)
	return w.decode(dt, w.and(bits, uint32(1)<<dt.Bits()-1))
}

// wrapped returns an integer of 32 bits reduced to the bits of a narrower type, and extended by its sign or by zeros.
func (w *writer) wrapped(dt dtype.DType, x id) id {
	bits := uint32(dt.Bits())
	switch {
	case bits >= 32:
		return x
	case dt.IsSigned():
		return w.word(opShiftRightArithmetic, w.left(x, 32-bits), w.constant32(32-bits))
	}
	return w.and(x, 1<<bits-1)
}

// isNaN32 tests the bits of an f32, since a device may assume that no value is NaN.
func (w *writer) isNaN32(x id) id {
	return w.test(opUGreaterThan, w.and(w.bits32(x), 0x7fffffff), w.constant32(0x7f800000))
}

// isNaN64 tests the bits of an f64.
func (w *writer) isNaN64(x id) id {
	word := w.intType(64)
	magnitude := w.op(opBitwiseAnd, word, w.op(opBitcast, word, x), w.constant64(math.MaxInt64))
	return w.test(opUGreaterThan, magnitude, w.constant64(0x7ff0000000000000))
}

// isNaN tests a float of any type; it refuses f64 if the machine has no integers of 64 bits.
func (w *writer) isNaN(dt dtype.DType, x id) id {
	if dt != dtype.F64 {
		return w.isNaN32(x)
	}
	if !w.int64s() {
		blocks.Refuse("f64 without integers of 64 bits")
	}
	return w.isNaN64(x)
}

// decodeHalf returns the value of an f16. No intermediate f32 is subnormal, also for subnormal f16.
func (w *writer) decodeHalf(x id) id {
	word, float := w.intType(32), w.floatType(32)
	sign, magnitude := w.left(w.and(x, 0x8000), 16), w.and(x, 0x7fff)
	normal := w.word(opIAdd, w.left(magnitude, 13), w.constant32((127-15)<<23))
	special := w.or(w.left(magnitude, 13), w.constant32(0x7f800000))
	quiet := w.Choose(word, w.test(opUGreaterThan, magnitude, w.constant32(0x7c00)), w.constant32(0x00400000),
		w.constant32(0))
	special = w.or(special, quiet)
	small := w.bits32(w.exactly(opFMul, float, w.op(opConvertUToF, float, magnitude),
		w.constantFloat(math.Float32bits(0x1p-24))))
	out := w.Choose(word, w.test(opULessThan, magnitude, w.constant32(0x0400)), small, normal)
	out = w.Choose(word, w.test(opUGreaterThanEqual, magnitude, w.constant32(0x7c00)), special, out)
	return w.float32(w.or(sign, out))
}

// encodeHalf rounds to the nearest f16, ties to even.
func (w *writer) encodeHalf(x id) id {
	word, float := w.intType(32), w.floatType(32)
	bits := w.bits32(x)
	sign, magnitude := w.and(w.right(bits, 16), 0x8000), w.and(bits, 0x7fffffff)
	odd := w.and(w.right(magnitude, 13), 1)
	normal := w.right(w.word(opIAdd, w.word(opIAdd, magnitude, w.constant32(1<<32-0x38000000+0x0fff)), odd), 13)
	// The sum with ½ has units of 2⁻²⁴, a subnormal's, so that the addition itself rounds.
	small := w.and(w.bits32(w.exactly(opFAdd, float, w.float32(magnitude), w.constantFloat(math.Float32bits(0.5)))),
		0xffff)
	nan := w.or(w.constant32(0x7e00), w.and(w.right(magnitude, 13), 0x3ff))
	out := w.Choose(word, w.test(opUGreaterThanEqual, magnitude, w.constant32(0x38800000)), normal, small)
	out = w.Choose(word, w.test(opUGreaterThanEqual, magnitude, w.constant32(0x47800000)), w.constant32(0x7c00), out)
	out = w.Choose(word, w.test(opUGreaterThan, magnitude, w.constant32(0x7f800000)), nan, out)
	return w.or(sign, out)
}

// encodeBF16 rounds to the nearest bf16, ties to even.
func (w *writer) encodeBF16(x id) id {
	bits := w.bits32(x)
	odd := w.and(w.right(bits, 16), 1)
	out := w.right(w.word(opIAdd, w.word(opIAdd, bits, w.constant32(0x7fff)), odd), 16)
	nan := w.or(w.and(w.right(bits, 16), 0x8000), w.constant32(0x7fc0))
	return w.Choose(w.intType(32), w.isNaN32(x), nan, out)
}

// Cast converts a value to another type. With clamped, values beyond the greatest of a float of at most 8 bits become
// the greatest.
func (w *writer) Cast(to dtype.DType, x value, clamped bool) id {
	from := x.DType
	switch {
	case to == from:
		return w.kernel.Full(x)
	case mathematics.Coded(to):
		return w.fromCode(to, w.toCode(to, w.near(x), clamped))
	case to == dtype.Bool:
		return w.notZero(x)
	case from == dtype.Bool:
		return w.fromBool(to, x.ID)
	case to == dtype.C64:
		return w.op(opCompositeConstruct, w.pairType(), w.bits32(w.Cast(dtype.F32, x, true)), w.constant32(0))
	case from == dtype.C64:
		return w.Cast(to, value{ID: w.float32(w.op2(opCompositeExtract, w.intType(32), x.ID, 0)), DType: dtype.F32}, clamped)
	case from.IsInt() && to.IsInt():
		return w.castInteger(to, x)
	case from.IsInt():
		return w.intToFloat(to, x)
	case to.IsInt():
		return w.floatToInt(to, x)
	}
	return w.castFloat(to, x)
}

// notZero converts a value to bool: NaN is true.
func (w *writer) notZero(x value) id {
	switch {
	case x.DType == dtype.C64:
		component := func(i uint32) id {
			float := w.float32(w.op2(opCompositeExtract, w.intType(32), x.ID, i))
			return w.notZero(value{ID: float, DType: dtype.F32})
		}
		return w.op(opLogicalOr, w.boolType(), component(0), component(1))
	case x.DType.IsInt():
		return w.test(opINotEqual, x.ID, w.zero(x))
	case x.DType == dtype.F64:
		return w.op(opLogicalOr, w.boolType(), w.isNaN(x.DType, x.ID), w.test(opFUnordNotEqual, x.ID, w.constantDouble(0)))
	}
	return w.test(opINotEqual, w.and(w.bits32(x.ID), 0x7fffffff), w.constant32(0))
}

// zero returns a zero as wide as an integer.
func (w *writer) zero(x value) id {
	if x.DType.Bits() == 64 && !x.Narrow {
		return w.constant64(0)
	}
	return w.constant32(0)
}

// fromBool converts a bool to 0 or 1 of a type.
func (w *writer) fromBool(to dtype.DType, x id) id {
	typ := w.Held(to)
	switch {
	case to == dtype.C64:
		one := w.constantPair(math.Float32bits(1), 0)
		return w.Choose(typ, x, one, w.constantPair(0, 0))
	case to == dtype.F64:
		return w.Choose(typ, x, w.constantDouble(math.Float64bits(1)), w.constantDouble(0))
	case to.IsFloat():
		return w.Choose(typ, x, w.constantFloat(math.Float32bits(1)), w.constantFloat(0))
	case to.Bits() == 64:
		return w.Choose(typ, x, w.constant64(1), w.constant64(0))
	}
	return w.Choose(typ, x, w.constant32(1), w.constant32(0))
}

// castInteger converts between types of integers; values that do not fit wrap.
func (w *writer) castInteger(to dtype.DType, x value) id {
	wide := x.DType.Bits() == 64 && !x.Narrow
	switch {
	case to.Bits() == 64 && wide:
		return x.ID
	case to.Bits() == 64 && (x.DType.IsSigned() || x.Narrow):
		return w.op(opSConvert, w.Held(to), x.ID)
	case to.Bits() == 64:
		return w.op(opUConvert, w.Held(to), x.ID)
	case wide:
		return w.wrapped(to, w.op(opUConvert, w.intType(32), x.ID))
	}
	return w.wrapped(to, x.ID)
}

// near returns an f32 that, rounded to fewer bits, gives the same result as the value itself: the value rounded to odd.
func (w *writer) near(x value) id {
	switch {
	case x.DType == dtype.C64:
		return w.Cast(dtype.F32, x, true)
	case x.DType == dtype.F64:
		return w.oddOfDouble(x.ID)
	case x.DType == dtype.Bool:
		return w.fromBool(dtype.F32, x.ID)
	case x.DType.IsFloat():
		return x.ID
	}
	return w.nearInteger(x)
}

// intToFloat converts an integer to a float of any type, and rounds once.
func (w *writer) intToFloat(to dtype.DType, x value) id {
	if to == dtype.F64 || to == dtype.F32 {
		return w.op(conversionOf(x.DType), w.Held(to), x.ID)
	}
	return w.rounded(to, w.nearInteger(x))
}

// conversionOf returns the instruction that converts integers of a type to floats.
func conversionOf(dt dtype.DType) opcode {
	if dt.IsSigned() {
		return opConvertSToF
	}
	return opConvertUToF
}

// nearInteger is near for integers.
func (w *writer) nearInteger(x value) id {
	signed := x.DType.IsSigned()
	if x.DType.Bits() <= 16 {
		return w.op(conversionOf(x.DType), w.floatType(32), x.ID) // exact
	}
	magnitude, negative := x.ID, w.Bool(false)
	typ := w.intType(32)
	wide := x.DType.Bits() == 64 && !x.Narrow
	if wide {
		typ = w.intType(64)
	}
	if signed {
		negative = w.test(opSLessThan, x.ID, w.zero(x))
		magnitude = w.Choose(typ, negative, w.op(opSNegate, typ, x.ID), x.ID)
	}
	y := w.oddFloat(magnitude, wide)
	float := w.floatType(32)
	return w.Choose(float, negative, w.op(opFNegate, float, y), y)
}

// oddFloat converts an unsigned integer to f32, rounded to odd: if bits are lost, the last of the 24 remaining bits is
// 1, so that rounding to fewer bits gives the same result as without the loss.
func (w *writer) oddFloat(x id, wide bool) id {
	word, float := w.intType(32), w.floatType(32)
	if !wide {
		return w.op(opConvertUToF, float, w.oddWord(x))
	}
	long := w.intType(64)
	low := w.op(opUConvert, word, x)
	high := w.op(opUConvert, word, w.op(opShiftRightLogical, long, x, w.constant64(32)))
	top := w.op(opConvertUToF, float, w.oddWord(w.upper(high, low)))
	scale := w.powerOfTwo(w.shiftOf(high))
	return w.Choose(float, w.test(opIEqual, high, w.constant32(0)), w.op(opConvertUToF, float, w.oddWord(low)),
		w.exactly(opFMul, float, top, scale))
}

// shiftOf returns the number of bits by which two words are shifted right to keep the 32 highest significant bits: 32
// minus the leading zeros of the high word.
func (w *writer) shiftOf(high id) id {
	return w.word(opIAdd, w.extended(glslFindUMsb, w.intType(32), high), w.constant32(1))
}

// upper returns the 32 highest significant bits of two words, the high one of which is not zero. The last bit is 1 if a
// bit below is.
func (w *writer) upper(high, low id) id {
	n := w.shiftOf(high) // 1 to 32
	left := w.word(opISub, w.constant32(32), n)
	// Shifts by 32 are undefined: each is done in two.
	rest := w.word(opShiftRightLogical, w.word(opShiftRightLogical, low, w.word(opISub, n, w.constant32(1))),
		w.constant32(1))
	top := w.or(w.word(opShiftLeftLogical, high, left), rest)
	mask := w.word(opISub, w.word(opShiftLeftLogical, w.word(opShiftLeftLogical, w.constant32(1),
		w.word(opISub, n, w.constant32(1))), w.constant32(1)), w.constant32(1))
	lost := w.test(opINotEqual, w.word(opBitwiseAnd, low, mask), w.constant32(0))
	return w.or(top, w.Choose(w.intType(32), lost, w.constant32(1), w.constant32(0)))
}

// powerOfTwo returns 2ⁿ as f32 for an integer n from 0 to 127.
func (w *writer) powerOfTwo(n id) id {
	return w.float32(w.left(w.word(opIAdd, n, w.constant32(127)), 23))
}

// oddWord rounds an integer to odd with at most 24 significant bits: if lower bits are lost, the last of the 24 is 1.
func (w *writer) oddWord(x id) id {
	word := w.intType(32)
	top := w.extended(glslFindUMsb, word, w.or(x, w.constant32(1)))
	// 0 to 8
	drop := w.word(opISub, w.Choose(word, w.test(opUGreaterThan, top, w.constant32(23)), top, w.constant32(23)),
		w.constant32(23))
	mask := w.word(opISub, w.word(opShiftLeftLogical, w.constant32(1), drop), w.constant32(1))
	lost := w.test(opINotEqual, w.word(opBitwiseAnd, x, mask), w.constant32(0))
	last := w.Choose(word, lost, w.word(opShiftLeftLogical, w.constant32(1), drop), w.constant32(0))
	return w.or(w.word(opBitwiseAnd, x, w.word(opNot, mask)), last)
}

// floatToInt truncates a float to an integer. NaN becomes 0. Values are first clamped as package dtype does, then
// reduced to the type's bits.
func (w *writer) floatToInt(to dtype.DType, x value) id {
	if x.DType == dtype.F64 || to.Bits() == 64 {
		return w.floatToWide(to, x)
	}
	word, float := w.intType(32), w.floatType(32)
	number := func(v float64) id { return w.constantFloat(math.Float32bits(float32(v))) }
	nan := w.isNaN32(x.ID)
	if to == dtype.U32 { // clamped to the range of i64
		t := w.float32(w.and(w.bits32(w.extended(glslTrunc, float, x.ID)), 0x7fffffff))
		high := w.extended(glslFloor, float, w.exactly(opFMul, float, t, number(0x1p-32)))
		rest := w.exactly(opFSub, float, t, w.exactly(opFMul, float, high, number(0x1p32)))
		rest = w.Choose(float, w.test(opFOrdLessThan, t, number(0x1p63)), rest, number(0)) // 0 for NaN too
		n := w.op(opConvertFToU, word, rest)
		negative := w.test(opFOrdLessThan, x.ID, number(0))
		n = w.Choose(word, negative, w.op(opSNegate, word, n), n)
		most := w.test(opFOrdGreaterThanEqual, x.ID, number(0x1p63))
		return w.Choose(word, nan, w.constant32(0), w.Choose(word, most, w.constant32(math.MaxUint32), n))
	}
	above, under := w.test(opFOrdGreaterThanEqual, x.ID, number(0x1p31)), w.test(opFOrdLessThan, x.ID, number(-0x1p31))
	out := w.op(opLogicalOr, w.boolType(), nan, w.op(opLogicalOr, w.boolType(), above, under))
	n := w.op(opConvertFToS, word, w.Choose(float, out, number(0), x.ID))
	n = w.Choose(word, above, w.constant32(math.MaxInt32), n)
	n = w.Choose(word, under, w.constant32(1<<31), n)
	return w.wrapped(to, w.Choose(word, nan, w.constant32(0), n))
}

// Quantise returns the integer of a quantised float. NaN becomes the negated zero point, and so 0: no comparison or
// conversion sees it. A machine that rounds x·y + z once multiplies by the reciprocal, as Vulkan lets a quotient be
// wrong by 2.5 units in the last place.
func (w *writer) Quantise(q loop.Quantised, x id) id {
	float, word := w.floatType(32), w.intType(32)
	number := func(v float32) id { return w.constantFloat(math.Float32bits(v)) }
	y := x
	switch {
	case q.Rest == 0 && q.First != 1:
		y = w.exactly(opFMul, float, x, number(q.First))
	case q.Rest != 0 && w.machine.Has(target.Fused):
		y = w.extended(glslFma, float, x, number(q.First), w.exactly(opFMul, float, x, number(q.Rest)))
	case q.Rest != 0:
		y = w.exactly(opFDiv, float, x, number(q.Scale))
	}
	y = w.Choose(float, w.isNaN32(x), number(0-q.Zero), w.extended(glslRoundEven, float, y))
	y = w.extended(glslFClamp, float, y, number(q.Low-q.Zero), number(q.High-q.Zero))
	n := w.op(opConvertFToS, word, y)
	if q.Zero != 0 {
		n = w.word(opIAdd, n, w.constant32(uint32(int32(q.Zero))))
	}
	return n
}

// floatToWide is floatToInt for f64, or to a type of 64 bits.
func (w *writer) floatToWide(to dtype.DType, x value) id {
	if !w.int64s() {
		blocks.Refuse("%s to %s without integers of 64 bits", x.DType, to)
	}
	long, typ := w.intType(64), w.Held(x.DType)
	number := func(v float64) id {
		if x.DType == dtype.F64 {
			return w.constantDouble(math.Float64bits(v))
		}
		return w.constantFloat(math.Float32bits(float32(v)))
	}
	nan := w.isNaN(x.DType, x.ID)
	clamp := func(op opcode, low, high float64, least, most uint64) id {
		above, under := w.test(opFOrdGreaterThanEqual, x.ID, number(high)), w.test(opFOrdLessThan, x.ID, number(low))
		out := w.op(opLogicalOr, w.boolType(), nan, w.op(opLogicalOr, w.boolType(), above, under))
		n := w.op(op, long, w.Choose(typ, out, number(0), x.ID))
		n = w.Choose(long, above, w.constant64(most), n)
		n = w.Choose(long, under, w.constant64(least), n)
		return w.Choose(long, nan, w.constant64(0), n)
	}
	switch {
	case to.Bits() < 32 || to == dtype.I32:
		least := int64(math.MinInt32)
		n := clamp(opConvertFToS, -0x1p31, 0x1p31, uint64(least), math.MaxInt32)
		return w.wrapped(to, w.op(opUConvert, w.intType(32), n))
	case to == dtype.U64:
		signed := clamp(opConvertFToS, -0x1p63, 0x1p63, 1<<63, math.MaxInt64)
		unsigned := clamp(opConvertFToU, 0, 0x1p64, 0, math.MaxUint64)
		return w.Choose(long, w.test(opFOrdLessThan, x.ID, number(0)), signed, unsigned)
	}
	n := clamp(opConvertFToS, -0x1p63, 0x1p63, 1<<63, math.MaxInt64)
	if to == dtype.U32 {
		return w.op(opUConvert, w.intType(32), n)
	}
	return n
}

// castFloat converts between types of floats, and rounds once.
func (w *writer) castFloat(to dtype.DType, x value) id {
	switch {
	case to == dtype.F64:
		return w.op(opFConvert, w.Held(to), x.ID)
	case x.DType == dtype.F64 && to == dtype.F32:
		return w.op(opFConvert, w.floatType(32), x.ID)
	case to == dtype.F32:
		return x.ID
	}
	return w.rounded(to, w.near(x))
}

// oddOfDouble converts an f64 to f32, rounded to odd: rounding the result to fewer bits gives the same as rounding the
// f64.
func (w *writer) oddOfDouble(x id) id {
	if !w.int64s() {
		blocks.Refuse("f64 without integers of 64 bits")
	}
	float, double := w.floatType(32), w.floatType(64)
	y := w.op(opFConvert, float, x)
	back := w.op(opFConvert, double, y)
	bits := w.bits32(y)
	// The f64 lies between y and one of y's neighbours: the one nearer to 0 if |y| is too large. One of both is odd.
	far := w.test(opUGreaterThan, w.magnitude64(back), w.magnitude64(x))
	even := w.test(opIEqual, w.and(bits, 1), w.constant32(0))
	inexact := w.test(opINotEqual, w.magnitude64(back), w.magnitude64(x))
	other := w.Choose(w.intType(32), far, w.word(opISub, bits, w.constant32(1)), w.word(opIAdd, bits, w.constant32(1)))
	change := w.op(opLogicalAnd, w.boolType(), w.op(opLogicalAnd, w.boolType(), even, inexact),
		w.op(opLogicalNot, w.boolType(), w.isNaN64(x)))
	return w.float32(w.Choose(w.intType(32), change, other, bits))
}

// magnitude64 returns the bits of an f64 without the sign.
func (w *writer) magnitude64(x id) id {
	long := w.intType(64)
	return w.op(opBitwiseAnd, long, w.op(opBitcast, long, x), w.constant64(math.MaxInt64))
}
