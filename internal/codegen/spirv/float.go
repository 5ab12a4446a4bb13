package spirv

import (
	"math"

	"github.com/weirml/weir/internal/codegen/blocks"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// This file computes with floats according to IEEE 754. Vulkan leaves some of that open, and some drivers replace x·0
// by 0 and x + 0 by x: special cases are computed with integers.

// floatBits computes with the bits of floats of one type: f64, or f32 for all narrower types.
type floatBits struct {
	*writer
	float, word    id
	width          uint32
	sign, infinity id
}

// floatBits returns floatBits for a type.
func (w *writer) floatBits(dt dtype.DType) floatBits {
	if dt == dtype.F64 {
		if !w.int64s() {
			blocks.Refuse("f64 without integers of 64 bits")
		}
		return floatBits{w, w.Held(dt), w.intType(64), 64, w.constant64(1 << 63), w.constant64(0x7ff << 52)}
	}
	return floatBits{w, w.floatType(32), w.intType(32), 32, w.constant32(1 << 31), w.constant32(0xff << 23)}
}

// bits returns the bits of a float, and back the float of bits.
func (f floatBits) bits(x id) id {
	if bits, ok := f.words[x]; ok {
		return bits
	}
	return f.op(opBitcast, f.word, x)
}

func (f floatBits) back(bits id) id {
	x := f.op(opBitcast, f.float, bits)
	f.words[x] = bits
	return x
}

// number returns a constant word.
func (f floatBits) number(v uint64) id {
	if f.width == 64 {
		return f.constant64(v)
	}
	return f.constant32(uint32(v))
}

// bitsOf returns the bits of a number.
func (f floatBits) bitsOf(v float64) uint64 {
	if f.width == 64 {
		return math.Float64bits(v)
	}
	return uint64(math.Float32bits(float32(v)))
}

// magnitude returns the bits of a float without the sign.
func (f floatBits) magnitude(x id) id {
	return f.op(opBitwiseAnd, f.word, f.bits(x), f.op(opNot, f.word, f.sign))
}

// signOf returns the sign bit of the product of two floats.
func (f floatBits) signOf(x, y id) id {
	return f.op(opBitwiseAnd, f.word, f.op(opBitwiseXor, f.word, f.bits(x), f.bits(y)), f.sign)
}

// nan returns the bits of NaN.
func (f floatBits) nan() id {
	if f.width == 64 {
		return f.constant64(math.Float64bits(math.NaN()))
	}
	return f.constant32(0x7fc00000)
}

// ordered returns a signed integer for a float that is not NaN, with the same order as the floats, and −0 below 0.
func (f floatBits) ordered(x id) id {
	b := f.bits(x)
	sign := f.op(opShiftRightArithmetic, f.word, b, f.constant32(f.width-1))
	return f.op(opBitwiseXor, f.word, b, f.op(opShiftRightLogical, f.word, sign, f.constant32(1)))
}

// isZero reports whether a float is a constant zero, and whether it is −0.
func (w *writer) isZero(x id) (zero, negative bool) {
	v, known := w.numbers[x]
	return known && v == 0, math.Signbit(v)
}

var floatOps = map[loop.BinaryOp]opcode{loop.Add: opFAdd, loop.Sub: opFSub, loop.Mul: opFMul}

// binaryFloat applies a function of two floats, rounded once to their type. It refuses functions that it does not have
// for f64.
func (w *writer) binaryFloat(op loop.BinaryOp, dt dtype.DType, x, y id) id {
	switch op {
	case loop.Add, loop.Sub, loop.Mul:
		return w.rounded(dt, w.arithmeticFloat(op, dt, x, y))
	case loop.Div:
		return w.rounded(dt, w.divide(dt, x, y))
	case loop.Min, loop.Max:
		return w.leastFloat(op, dt, x, y)
	case loop.Rem, loop.FloorMod:
		if dt == dtype.F64 {
			break
		}
		return w.rounded(dt, w.modulo(op, x, y))
	case loop.Pow, loop.Atan2:
		if dt == dtype.F64 {
			break
		}
		return w.rounded(dt, w.function2(op, x, y))
	}
	blocks.Refuse("%s of %s", op, dt)
	return 0
}

// arithmeticFloat returns a sum, a difference or a product.
func (w *writer) arithmeticFloat(op loop.BinaryOp, dt dtype.DType, x, y id) id {
	first, firstSign := w.isZero(x)
	second, secondSign := w.isZero(y)
	if !first && !second {
		return w.exactly(floatOps[op], w.Held(dt), x, y)
	}
	f := w.floatBits(dt)
	if op == loop.Mul {
		if first {
			x, y = y, x
		}
		finite := w.test(opULessThan, f.magnitude(x), f.infinity)
		return f.back(w.Choose(f.word, finite, f.signOf(x, y), f.nan()))
	}
	if op == loop.Sub { // x + −y
		secondSign = !secondSign
		y = f.back(f.op(opBitwiseXor, f.word, f.bits(y), f.sign))
	}
	if first {
		x, secondSign = y, firstSign
	}
	if secondSign {
		return x // −0 adds nothing
	}
	return f.back(w.Choose(f.word, w.test(opIEqual, f.bits(x), f.sign), f.number(0), f.bits(x)))
}

// divide returns a quotient of floats; by 0 according to IEEE 754, which Vulkan leaves open.
func (w *writer) divide(dt dtype.DType, x, y id) id {
	f := w.floatBits(dt)
	var q id
	if zero, _ := w.isZero(x); zero {
		nan := w.test(opUGreaterThan, f.magnitude(y), f.infinity)
		q = f.back(w.Choose(f.word, nan, f.nan(), f.signOf(x, y)))
	} else {
		q = w.exactly(opFDiv, f.float, x, y)
	}
	if v, known := w.numbers[y]; known && v != 0 {
		return q
	}
	infinite := w.op(opBitwiseOr, f.word, f.signOf(x, y), f.infinity)
	a := f.magnitude(x)
	nan := w.op(opLogicalOr, w.boolType(), w.test(opIEqual, a, f.number(0)), w.test(opUGreaterThan, a, f.infinity))
	infinite = w.Choose(f.word, nan, f.nan(), infinite)
	return w.Choose(f.float, w.test(opIEqual, f.magnitude(y), f.number(0)), f.back(infinite), q)
}

// leastFloat returns the lesser of two floats, or for Max the greater: NaN if one is NaN; −0 is less than 0.
func (w *writer) leastFloat(op loop.BinaryOp, dt dtype.DType, x, y id) id {
	f := w.floatBits(dt)
	less := opSLessThan
	if op == loop.Max {
		less = opSGreaterThan
	}
	a, first := w.numbers[x]
	if b, second := w.numbers[y]; first && second && a < b {
		return map[bool]id{true: x, false: y}[op == loop.Min]
	} else if first && second && a > b {
		return map[bool]id{true: y, false: x}[op == loop.Min]
	}
	z := w.Choose(f.float, w.test(less, f.ordered(x), f.ordered(y)), x, y)
	for _, v := range []id{y, x} {
		if number, known := w.numbers[v]; !known || number != number {
			z = w.Choose(f.float, w.isNaN(dt, v), v, z)
		}
	}
	return z
}

// modulo returns the exact remainder of f32, with the dividend's sign, or for FloorMod with the divisor's. Both
// operands are integers times powers of two: the remainder of the dividend's integer is doubled and reduced once for
// each power between both.
func (w *writer) modulo(op loop.BinaryOp, x, y id) id {
	word, float := w.intType(32), w.floatType(32)
	a, b := w.and(w.bits32(x), 0x7fffffff), w.and(w.bits32(y), 0x7fffffff)
	significand := func(v id) (m, e id) {
		exponent := w.right(v, 23)
		small := w.test(opIEqual, exponent, w.constant32(0))
		m = w.or(w.and(v, 0x7fffff), w.Choose(word, small, w.constant32(0), w.constant32(1<<23)))
		return m, w.Choose(word, small, w.constant32(1), exponent)
	}
	m, e := significand(a)
	n, f := significand(b)
	some := w.Choose(word, w.test(opIEqual, n, w.constant32(0)), w.constant32(1), n)
	rest, at := w.Variable(word), w.Variable(word)
	less := w.test(opULessThan, a, b)
	w.Set(rest, m)
	w.Set(at, w.Choose(word, less, f, e))
	w.kernel.Counted(sym.Const(254), func() { // exponents
		w.Loop(func() id { return w.test(opUGreaterThan, w.Get(at, word), f) }, func() {
			w.Set(rest, w.left(w.word(opUMod, w.Get(rest, word), some), 1))
		}, func() { w.Set(at, w.word(opISub, w.Get(at, word), w.constant32(1))) })
	})
	left := w.word(opUMod, w.Get(rest, word), some)
	// left · 2^(f−150), left < 2²⁴: f is at least 1, so that this is a normal or subnormal number.
	top := w.extended(glslFindUMsb, word, w.or(left, w.constant32(1)))
	up := w.word(opISub, w.constant32(23), top) // to make it 24 bits
	room := w.word(opISub, f, w.constant32(1))
	up = w.Choose(word, w.test(opULessThan, up, room), up, room)
	shifted := w.word(opShiftLeftLogical, left, up)
	exponent := w.word(opISub, f, up)
	normal := w.test(opUGreaterThanEqual, shifted, w.constant32(1<<23))
	exponent = w.Choose(word, normal, exponent, w.constant32(0))
	r := w.or(w.left(exponent, 23), w.and(shifted, 0x7fffff))
	r = w.Choose(word, less, a, r)
	sign := w.and(w.bits32(x), 1<<31)
	out := w.float32(w.or(sign, r))
	// NaN if an operand is NaN, the dividend is infinite or the divisor is 0.
	bad := w.test(opUGreaterThanEqual, a, w.constant32(0x7f800000))
	bad = w.op(opLogicalOr, w.boolType(), bad, w.test(opUGreaterThan, b, w.constant32(0x7f800000)))
	bad = w.op(opLogicalOr, w.boolType(), bad, w.test(opIEqual, b, w.constant32(0)))
	if op == loop.FloorMod {
		zero := w.test(opIEqual, r, w.constant32(0))
		other := w.and(w.bits32(y), 1<<31)
		differ := w.test(opINotEqual, sign, other)
		moved := w.Choose(float, differ, w.exactly(opFAdd, float, out, y), out)
		out = w.Choose(float, zero, w.float32(other), moved)
	}
	return w.Choose(float, bad, w.constantFloat(0x7fc00000), out)
}
