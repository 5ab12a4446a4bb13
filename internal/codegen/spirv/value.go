package spirv

import (
	"math"

	"github.com/weirml/weir/internal/codegen/blocks"
	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// Const returns a constant as a value.
func (w *writer) Const(e *loop.Const) value {
	x := value{DType: e.Type}
	switch dt := e.Type; {
	case dt == dtype.Bool:
		x.ID = w.Bool(e.Bits != 0)
	case dt == dtype.C64:
		x.ID = w.constantPair(uint32(e.Bits), uint32(e.Bits>>32))
	case dt == dtype.F64:
		w.Held(dt)
		x.ID = w.constantDouble(e.Bits)
		w.numbers[x.ID] = loop.ToFloat(dt, e.Bits)
	case dt.IsFloat():
		x.ID = w.constantFloat(math.Float32bits(float32(loop.ToFloat(dt, e.Bits))))
		w.numbers[x.ID] = loop.ToFloat(dt, e.Bits)
	case dt == dtype.I64 && int64(e.Bits) == int64(int32(e.Bits)):
		x.ID, x.Narrow = w.constant32(uint32(e.Bits)), true
	case dt.Bits() == 64:
		w.Held(dt)
		x.ID = w.constant64(e.Bits)
	default:
		w.Held(dt)
		x.ID = w.constant32(uint32(loop.ToInt(dt, e.Bits)))
	}
	return x
}

// chooseAddress returns address x if a condition holds, and else y.
func (w *writer) chooseAddress(cond, x, y id) id {
	if w.int64s() {
		return w.Choose(w.intType(64), cond, x, y)
	}
	return w.Choose(w.pairType(), w.op(opCompositeConstruct, w.global(opTypeVector, 0, uint32(w.boolType()), 2), cond,
		cond), x, y)
}

// Zero returns the zero of a type; for f8e8m0, which has none, the least value.
func (w *writer) Zero(dt dtype.DType) id {
	if dt == dtype.F8E8M0 {
		return w.constantFloat(math.Float32bits(mathematics.LeastPower))
	}
	x := w.global(opConstantNull, w.Held(dt))
	if dt.IsFloat() {
		w.numbers[x] = 0
	}
	return x
}

// Unary applies a function of one operand.
func (w *writer) Unary(op loop.UnaryOp, x value) value {
	switch {
	case op == loop.Not:
		return value{ID: w.op(opLogicalNot, w.boolType(), x.ID), DType: dtype.Bool}
	case op == loop.IsNaN:
		return value{ID: w.isNaN(x.DType, x.ID), DType: dtype.Bool}
	case op == loop.IsInf:
		return value{ID: w.isInf(x), DType: dtype.Bool}
	case x.DType.IsInt():
		return value{ID: w.unaryInteger(op, value{ID: w.kernel.Full(x), DType: x.DType}), DType: x.DType}
	}
	y := w.unaryFloat(op, x)
	if mathematics.Coded(x.DType) {
		y = w.rounded(x.DType, y)
	}
	return value{ID: y, DType: x.DType}
}

// isInf tests the bits of a float.
func (w *writer) isInf(x value) id {
	if x.DType != dtype.F64 {
		return w.test(opIEqual, w.and(w.bits32(x.ID), 0x7fffffff), w.constant32(0x7f800000))
	}
	if !w.int64s() {
		blocks.Refuse("f64 without integers of 64 bits")
	}
	return w.test(opIEqual, w.magnitude64(x.ID), w.constant64(0x7ff0000000000000))
}

// unaryInteger applies a function of one integer; results wrap.
func (w *writer) unaryInteger(op loop.UnaryOp, x value) id {
	typ := w.Held(x.DType)
	number := func(v uint64) id {
		if x.DType.Bits() == 64 {
			return w.constant64(v)
		}
		return w.constant32(uint32(v))
	}
	wrap := func(y id) id {
		if x.DType.Bits() < 32 {
			return w.wrapped(x.DType, y)
		}
		return y
	}
	switch op {
	case loop.Neg:
		return wrap(w.op(opSNegate, typ, x.ID))
	case loop.Abs:
		if x.DType.IsUnsigned() {
			return x.ID
		}
		return wrap(w.Choose(typ, w.test(opSLessThan, x.ID, number(0)), w.op(opSNegate, typ, x.ID), x.ID))
	case loop.Sign:
		one := w.Choose(typ, w.test(opIEqual, x.ID, number(0)), number(0), number(1))
		if x.DType.IsUnsigned() {
			return one
		}
		return w.Choose(typ, w.test(opSLessThan, x.ID, number(0)), number(math.MaxUint64), one)
	case loop.BitNot:
		return wrap(w.op(opNot, typ, x.ID))
	}
	w.kernel.Bug("%s of %s", op, x.DType)
	return 0
}

// unaryFloat applies a function of one float. Neg, Abs and Sign work on the sign bit, which keeps −0 and NaN.
func (w *writer) unaryFloat(op loop.UnaryOp, x value) id {
	if x.DType == dtype.F64 {
		return w.unaryDouble(op, x.ID)
	}
	float := w.floatType(32)
	switch op {
	case loop.Neg:
		return w.float32(w.word(opBitwiseXor, w.bits32(x.ID), w.constant32(1<<31)))
	case loop.Abs:
		return w.float32(w.and(w.bits32(x.ID), 0x7fffffff))
	case loop.Sign:
		bits := w.bits32(x.ID)
		one := w.or(w.and(bits, 1<<31), w.constant32(0x3f800000))
		y := w.Choose(w.intType(32), w.test(opIEqual, w.and(bits, 0x7fffffff), w.constant32(0)), w.constant32(0), one)
		return w.Choose(float, w.isNaN32(x.ID), x.ID, w.float32(y))
	case loop.Floor, loop.Ceil, loop.Round, loop.Trunc:
		return w.extended(roundings[op], float, x.ID)
	case loop.Sqrt:
		return w.rounded(x.DType, w.extended(glslSqrt, float, x.ID))
	case loop.Reciprocal:
		return w.rounded(x.DType, w.divide(x.DType, w.constantFloat(math.Float32bits(1)), x.ID))
	}
	return w.rounded(x.DType, w.function(op, x.ID))
}

// roundings has the numbers of the functions of GLSL that round to an integer.
var roundings = map[loop.UnaryOp]uint32{loop.Floor: glslFloor, loop.Ceil: glslCeil, loop.Round: glslRoundEven,
	loop.Trunc: glslTrunc}

// unaryDouble is unaryFloat for f64.
func (w *writer) unaryDouble(op loop.UnaryOp, x id) id {
	double := w.Held(dtype.F64)
	if !w.int64s() {
		blocks.Refuse("f64 without integers of 64 bits")
	}
	long := w.intType(64)
	bits := func() id { return w.op(opBitcast, long, x) }
	back := func(x id) id { return w.op(opBitcast, double, x) }
	switch op {
	case loop.Neg:
		return back(w.op(opBitwiseXor, long, bits(), w.constant64(1<<63)))
	case loop.Abs:
		return back(w.magnitude64(x))
	case loop.Sign:
		one := w.op(opBitwiseOr, long, w.op(opBitwiseAnd, long, bits(), w.constant64(1<<63)),
			w.constant64(math.Float64bits(1)))
		y := w.Choose(long, w.test(opIEqual, w.magnitude64(x), w.constant64(0)), w.constant64(0), one)
		return w.Choose(double, w.isNaN64(x), x, back(y))
	case loop.Floor, loop.Ceil, loop.Round, loop.Trunc:
		return w.extended(roundings[op], double, x)
	case loop.Sqrt:
		return w.extended(glslSqrt, double, x)
	case loop.Reciprocal:
		return w.divide(dtype.F64, w.constantDouble(math.Float64bits(1)), x)
	}
	return w.wideFunction(op, x)
}

// comparisons has the instructions for floats, for signed integers and for unsigned ones.
var comparisons = map[loop.BinaryOp][3]opcode{
	loop.Eq: {opFOrdEqual, opIEqual, opIEqual}, loop.Ne: {opFUnordNotEqual, opINotEqual, opINotEqual},
	loop.Lt: {opFOrdLessThan, opSLessThan, opULessThan}, loop.Le: {opFOrdLessThanEqual, opSLessThanEqual,
		opULessThanEqual},
	loop.Gt: {opFOrdGreaterThan, opSGreaterThan, opUGreaterThan},
	loop.Ge: {opFOrdGreaterThanEqual, opSGreaterThanEqual, opUGreaterThanEqual},
}

// Binary applies a function of two operands.
func (w *writer) Binary(op loop.BinaryOp, x, y value) value {
	switch {
	case op >= loop.Eq:
		return value{ID: w.compared(op, x, y), DType: dtype.Bool}
	case x.DType == dtype.Bool:
		return value{ID: w.logical(op, x.ID, y.ID), DType: dtype.Bool}
	case x.Narrow && y.Narrow && (op == loop.Min || op == loop.Max):
		return value{ID: w.lesser(op, opSLessThan, w.intType(32), x.ID, y.ID), DType: x.DType, Narrow: true}
	case x.DType.IsInt():
		return value{ID: w.binaryInteger(op, x.DType, w.kernel.Full(x), w.kernel.Full(y)), DType: x.DType}
	}
	return value{ID: w.binaryFloat(op, x.DType, x.ID, y.ID), DType: x.DType}
}

// lesser returns the lesser of two integers, or for Max the greater; less is the comparison for their sign.
func (w *writer) lesser(op loop.BinaryOp, less opcode, typ, x, y id) id {
	if op == loop.Max {
		x, y = y, x
		return w.Choose(typ, w.test(less, x, y), y, x)
	}
	return w.Choose(typ, w.test(less, x, y), x, y)
}

// compared returns a bool for two values of the same type. Complex numbers are only compared for equality.
func (w *writer) compared(op loop.BinaryOp, x, y value) id {
	ops := comparisons[op]
	switch dt := x.DType; {
	case dt == dtype.Bool:
		x, y = value{ID: w.fromBool(dtype.U8, x.ID), DType: dtype.U8}, value{ID: w.fromBool(dtype.U8, y.ID), DType: dtype.U8}
		return w.test(ops[2], x.ID, y.ID)
	case dt == dtype.C64:
		component := func(v value, i uint32) id { return w.float32(w.op2(opCompositeExtract, w.intType(32), v.ID, i)) }
		both := w.op(opLogicalAnd, w.boolType(), w.test(opFOrdEqual, component(x, 0), component(y, 0)),
			w.test(opFOrdEqual, component(x, 1), component(y, 1)))
		if op == loop.Ne {
			return w.op(opLogicalNot, w.boolType(), both)
		}
		return both
	case dt.IsFloat():
		return w.test(ops[0], x.ID, y.ID)
	case x.Narrow && y.Narrow:
		return w.test(ops[1], x.ID, y.ID)
	case dt.IsSigned():
		return w.test(ops[1], w.kernel.Full(x), w.kernel.Full(y))
	}
	return w.test(ops[2], x.ID, y.ID)
}

// logical applies a function of two bools.
func (w *writer) logical(op loop.BinaryOp, x, y id) id {
	switch op {
	case loop.And, loop.Min:
		return w.op(opLogicalAnd, w.boolType(), x, y)
	case loop.Or, loop.Max:
		return w.op(opLogicalOr, w.boolType(), x, y)
	case loop.Xor:
		return w.op(opLogicalNotEqual, w.boolType(), x, y)
	}
	w.kernel.Bug("%s of bool", op)
	return 0
}

// integerOps has the functions of integers that are one instruction.
var integerOps = map[loop.BinaryOp]opcode{loop.Add: opIAdd, loop.Sub: opISub, loop.Mul: opIMul, loop.And: opBitwiseAnd,
	loop.Or: opBitwiseOr, loop.Xor: opBitwiseXor}

// binaryInteger applies a function of two integers; results wrap. A shift by the type's width or more returns 0, or −1
// for a negative number that is shifted right.
func (w *writer) binaryInteger(op loop.BinaryOp, dt dtype.DType, x, y id) id {
	typ := w.Held(dt)
	number := func(v uint64) id {
		if dt.Bits() == 64 {
			return w.constant64(v)
		}
		return w.constant32(uint32(v))
	}
	wrap := func(z id) id {
		if dt.Bits() < 32 {
			return w.wrapped(dt, z)
		}
		return z
	}
	signed := dt.IsSigned()
	if code, ok := integerOps[op]; ok {
		return wrap(w.op(code, typ, x, y))
	}
	switch op {
	case loop.Min, loop.Max:
		less := opULessThan
		if signed {
			less = opSLessThan
		}
		return w.lesser(op, less, typ, x, y)
	case loop.Div, loop.Rem, loop.FloorMod:
		return wrap(w.division(op, dt, typ, x, y, number))
	case loop.Shl, loop.Shr:
		most := number(uint64(dt.Bits() - 1))
		out := w.test(opUGreaterThan, y, most)
		by := w.Choose(typ, out, most, y)
		switch {
		case op == loop.Shl:
			return wrap(w.Choose(typ, out, number(0), w.op(opShiftLeftLogical, typ, x, by)))
		case signed:
			return w.op(opShiftRightArithmetic, typ, x, by)
		}
		return w.Choose(typ, out, number(0), w.op(opShiftRightLogical, typ, x, by))
	case loop.Pow:
		return wrap(w.powerInteger(dt, typ, x, y, number))
	case loop.Dot:
		return w.dotBytes(x, y)
	}
	w.kernel.Bug("%s of %s", op, dt)
	return 0
}

// division returns a quotient or a remainder; 0 for a divisor of 0. The result of the least number divided by −1, which
// instructions leave open, wraps: it is divided by 1 and negated.
func (w *writer) division(op loop.BinaryOp, dt dtype.DType, typ, x, y id, number func(v uint64) id) id {
	none := w.test(opIEqual, y, number(0))
	if !dt.IsSigned() {
		by := w.Choose(typ, none, number(1), y)
		code := opUMod
		if op == loop.Div {
			code = opUDiv
		}
		return w.Choose(typ, none, number(0), w.op(code, typ, x, by))
	}
	minus := w.test(opIEqual, y, number(math.MaxUint64))
	by := w.Choose(typ, w.op(opLogicalOr, w.boolType(), none, minus), number(1), y)
	q := w.op(opSDiv, typ, x, by)
	if op == loop.Div {
		q = w.Choose(typ, minus, w.op(opSNegate, typ, x), q)
		return w.Choose(typ, none, number(0), q)
	}
	r := w.op(opISub, typ, x, w.op(opIMul, typ, q, by))
	if op == loop.FloorMod {
		differ := w.test(opSLessThan, w.op(opBitwiseXor, typ, r, y), number(0))
		some := w.test(opINotEqual, r, number(0))
		r = w.Choose(typ, w.op(opLogicalAnd, w.boolType(), differ, some), w.op(opIAdd, typ, r, y), r)
	}
	return w.Choose(typ, w.op(opLogicalOr, w.boolType(), none, minus), number(0), r)
}

// powerInteger computes a power by repeated squaring. With a negative exponent, the result is 1 for 1, ±1 for −1 and 0
// for other bases.
func (w *writer) powerInteger(dt dtype.DType, typ, x, y id, number func(v uint64) id) id {
	result, base, left := w.Variable(typ), w.Variable(typ), w.Variable(typ)
	w.Set(result, number(1))
	w.Set(base, x)
	w.Set(left, y)
	negative := w.Bool(false)
	if dt.IsSigned() {
		negative = w.test(opSLessThan, y, number(0))
		w.Set(left, w.Choose(typ, negative, number(0), y))
	}
	w.kernel.Counted(sym.Const(int64(dt.Bits())), func() {
		w.Loop(func() id { return w.test(opINotEqual, w.Get(left, typ), number(0)) }, func() {
			odd := w.test(opINotEqual, w.op(opBitwiseAnd, typ, w.Get(left, typ), number(1)), number(0))
			b := w.Get(base, typ)
			w.Set(result, w.Choose(typ, odd, w.op(opIMul, typ, w.Get(result, typ), b), w.Get(result, typ)))
			w.Set(base, w.op(opIMul, typ, b, b))
		}, func() { w.Set(left, w.op(opShiftRightLogical, typ, w.Get(left, typ), number(1))) })
	})
	out := w.Get(result, typ)
	if !dt.IsSigned() {
		return out
	}
	one := w.test(opIEqual, x, number(1))
	minus := w.test(opIEqual, x, number(math.MaxUint64))
	even := w.test(opIEqual, w.op(opBitwiseAnd, typ, y, number(1)), number(0))
	below := w.Choose(typ, minus, w.Choose(typ, even, number(1), number(math.MaxUint64)), number(0))
	return w.Choose(typ, negative, w.Choose(typ, one, number(1), below), out)
}

// dotBytes returns the sum of the products of x's four bytes, unsigned, and y's, signed.
func (w *writer) dotBytes(x, y id) id {
	word := w.intType(32)
	if w.machine.Has(target.Dot8) {
		w.capability(capabilityDotProduct, capabilityDotProductInput4x8BitPacked)
		w.extension("SPV_KHR_integer_dot_product")
		sum := w.fresh()
		w.do(opSUDotKHR, uint32(word), uint32(sum), uint32(y), uint32(x), packedVectorFormatPackedVectorFormat4x8Bit)
		return sum
	}
	var sum id
	for shift := uint32(0); shift < 32; shift += 8 {
		a := w.and(w.right(x, shift), 255)
		b := w.word(opShiftRightArithmetic, w.left(y, 24-shift), w.constant32(24))
		if product := w.word(opIMul, a, b); sum == 0 {
			sum = product
		} else {
			sum = w.word(opIAdd, sum, product)
		}
	}
	return sum
}
