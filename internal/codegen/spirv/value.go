package spirv

import (
	"math"

	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// value is the result of an expression, of the type heldType(dt) unless it is narrow.
type value struct {
	id
	dt     dtype.DType
	narrow bool // an i64 that is proved to fit 32 bits with its sign, and has the type of those
	held   bool // the id is a variable that holds the value
}

// full returns a value in the type heldType(x.dt).
func (w *writer) full(x value) id {
	if x.narrow {
		if !w.int64s() {
			refuse("%s, which the device does not have", x.dt)
		}
		return w.op(opSConvert, w.intType(64), x.id)
	}
	return x.id
}

// expr computes an expression.
func (w *writer) expr(e loop.Expr) value {
	if c := folded(e); c != nil {
		return w.constantValue(c)
	}
	switch e := e.(type) {
	case *loop.Ref:
		x, ok := w.bound[e.Name]
		if !ok {
			w.bug("%s is not declared", e.Name)
		}
		if x.held {
			return value{id: w.get(x.id, w.heldType(x.dt)), dt: x.dt}
		}
		return x
	case *loop.Index:
		x := w.integer(e.X)
		return value{id: x.id, dt: dtype.I64, narrow: !x.wide}
	case *loop.Load:
		return value{id: w.loadExpr(e), dt: e.Type}
	case *loop.Unary:
		return w.unary(e.Op, w.expr(e.X))
	case *loop.Binary:
		if holds, known := w.decided(e); known {
			return value{id: w.constantBool(holds), dt: dtype.Bool}
		}
		return w.binary(e.Op, w.expr(e.X), w.expr(e.Y))
	case *loop.Select:
		cond, x, y := w.expr(e.Cond), w.expr(e.X), w.expr(e.Y)
		if x.narrow && y.narrow {
			return value{id: w.choose(w.intType(32), cond.id, x.id, y.id), dt: x.dt, narrow: true}
		}
		return value{id: w.choose(w.heldType(x.dt), cond.id, w.full(x), w.full(y)), dt: x.dt}
	case *loop.Cast:
		x := w.expr(e.X)
		if e.Type == x.dt {
			return x
		}
		if e.Type == dtype.I64 && x.dt == dtype.Bool {
			return value{id: w.fromBool(dtype.I32, x.id), dt: e.Type, narrow: true}
		}
		return value{id: w.cast(e.Type, x, !e.Wrap), dt: e.Type}
	}
	w.bug("an expression of type %T", e)
	return value{}
}

// folded returns the value of an expression of constants; nil for other expressions.
func folded(e loop.Expr) *loop.Const {
	switch e := e.(type) {
	case *loop.Const:
		return e
	case *loop.Unary:
		if x := folded(e.X); x != nil && loop.Scalar(x.Type) {
			return &loop.Const{Type: e.DType(), Bits: loop.EvalUnary(e.Op, x.Type, x.Bits)}
		}
	case *loop.Binary:
		x := folded(e.X)
		if x == nil || !loop.Scalar(x.Type) {
			return nil
		}
		if y := folded(e.Y); y != nil {
			return &loop.Const{Type: e.DType(), Bits: loop.EvalBinary(e.Op, x.Type, x.Bits, y.Bits)}
		}
	case *loop.Cast:
		if x := folded(e.X); x != nil && loop.Scalar(x.Type) && loop.Scalar(e.Type) {
			return &loop.Const{Type: e.Type, Bits: loop.EvalCast(e.Type, x.Type, e.Wrap, x.Bits)}
		}
	}
	return nil
}

// constantValue returns a constant as a value.
func (w *writer) constantValue(e *loop.Const) value {
	x := value{dt: e.Type}
	switch dt := e.Type; {
	case dt == dtype.Bool:
		x.id = w.constantBool(e.Bits != 0)
	case dt == dtype.C64:
		x.id = w.constantPair(uint32(e.Bits), uint32(e.Bits>>32))
	case dt == dtype.F64:
		w.heldType(dt)
		x.id = w.constantDouble(e.Bits)
		w.numbers[x.id] = loop.ToFloat(dt, e.Bits)
	case dt.IsFloat():
		x.id = w.constantFloat(math.Float32bits(float32(loop.ToFloat(dt, e.Bits))))
		w.numbers[x.id] = loop.ToFloat(dt, e.Bits)
	case dt == dtype.I64 && int64(e.Bits) == int64(int32(e.Bits)):
		x.id, x.narrow = w.constant32(uint32(e.Bits)), true
	case dt.Bits() == 64:
		w.heldType(dt)
		x.id = w.constant64(e.Bits)
	default:
		w.heldType(dt)
		x.id = w.constant32(uint32(loop.ToInt(dt, e.Bits)))
	}
	return x
}

// loadExpr reads an element if its mask holds, and else returns the other value. If the buffer is never empty, it reads
// the first element if the mask does not hold, which costs less than a branch.
func (w *writer) loadExpr(e *loop.Load) id {
	m := w.memory(e.From)
	offset := w.offsetOf(m, e.Index)
	if e.Mask == nil {
		return w.load(m, offset)
	}
	mask, typ := w.expr(e.Mask), w.heldType(e.Type)
	if mask.id == w.constantBool(true) {
		return w.load(m, offset)
	}
	other := w.zeroOf(e.Type)
	if e.Else != nil {
		other = w.full(w.expr(e.Else))
	}
	if mask.id == w.constantBool(false) {
		return other
	}
	if !w.someElements(m) || m.dt.Bits() < 8 {
		result := w.variable(typ)
		w.set(result, other)
		w.when(mask.id, func() { w.set(result, w.load(m, offset)) }, nil)
		return w.get(result, typ)
	}
	var x id
	if m.variable != 0 {
		at := w.integer(offset)
		x = w.loadVariable(m, integer{w.choose(w.typeOf(at), mask.id, at.id, w.sized(w.constant(0), at.wide).id), at.wide})
	} else {
		at := w.elementOf(m, offset)
		if at.shift != 0 {
			at.shift = w.choose(w.intType(32), mask.id, at.shift, w.constant32(0))
		}
		at.address = w.chooseAddress(mask.id, at.address, m.base)
		x = w.loadAt(m, at)
	}
	return w.choose(typ, mask.id, x, other)
}

// chooseAddress returns address x if a condition holds, and else y.
func (w *writer) chooseAddress(cond, x, y id) id {
	if w.int64s() {
		return w.choose(w.intType(64), cond, x, y)
	}
	return w.choose(w.pairType(), w.op(opCompositeConstruct, w.global(opTypeVector, 0, uint32(w.boolType()), 2), cond,
		cond), x, y)
}

// someElements reports whether a buffer has an element for every binding of the dimensions.
func (w *writer) someElements(m *memory) bool {
	for _, extent := range m.shape {
		if r, _ := w.ranges.Of(extent); r.Min < 1 {
			return false
		}
	}
	return true
}

// zeroOf returns the zero of a type; for f8e8m0, which has none, the least value.
func (w *writer) zeroOf(dt dtype.DType) id {
	if dt == dtype.F8E8M0 {
		return w.constantFloat(math.Float32bits(mathematics.LeastPower))
	}
	x := w.global(opConstantNull, w.heldType(dt))
	if dt.IsFloat() {
		w.numbers[x] = 0
	}
	return x
}

// unary applies a function of one operand.
func (w *writer) unary(op loop.UnaryOp, x value) value {
	switch {
	case op == loop.Not:
		return value{id: w.op(opLogicalNot, w.boolType(), x.id), dt: dtype.Bool}
	case op == loop.IsNaN:
		return value{id: w.isNaN(x.dt, x.id), dt: dtype.Bool}
	case op == loop.IsInf:
		return value{id: w.isInf(x), dt: dtype.Bool}
	case x.dt.IsInt():
		return value{id: w.unaryInteger(op, value{id: w.full(x), dt: x.dt}), dt: x.dt}
	}
	y := w.unaryFloat(op, x)
	if mathematics.Coded(x.dt) {
		y = w.rounded(x.dt, y)
	}
	return value{id: y, dt: x.dt}
}

// isInf tests the bits of a float.
func (w *writer) isInf(x value) id {
	if x.dt != dtype.F64 {
		return w.test(opIEqual, w.and(w.bits32(x.id), 0x7fffffff), w.constant32(0x7f800000))
	}
	if !w.int64s() {
		refuse("f64 without integers of 64 bits")
	}
	return w.test(opIEqual, w.magnitude64(x.id), w.constant64(0x7ff0000000000000))
}

// unaryInteger applies a function of one integer; results wrap.
func (w *writer) unaryInteger(op loop.UnaryOp, x value) id {
	typ := w.heldType(x.dt)
	number := func(v uint64) id {
		if x.dt.Bits() == 64 {
			return w.constant64(v)
		}
		return w.constant32(uint32(v))
	}
	wrap := func(y id) id {
		if x.dt.Bits() < 32 {
			return w.wrapped(x.dt, y)
		}
		return y
	}
	switch op {
	case loop.Neg:
		return wrap(w.op(opSNegate, typ, x.id))
	case loop.Abs:
		if x.dt.IsUnsigned() {
			return x.id
		}
		return wrap(w.choose(typ, w.test(opSLessThan, x.id, number(0)), w.op(opSNegate, typ, x.id), x.id))
	case loop.Sign:
		one := w.choose(typ, w.test(opIEqual, x.id, number(0)), number(0), number(1))
		if x.dt.IsUnsigned() {
			return one
		}
		return w.choose(typ, w.test(opSLessThan, x.id, number(0)), number(math.MaxUint64), one)
	case loop.BitNot:
		return wrap(w.op(opNot, typ, x.id))
	}
	w.bug("%s of %s", op, x.dt)
	return 0
}

// unaryFloat applies a function of one float. Neg, Abs and Sign work on the sign bit, which keeps −0 and NaN.
func (w *writer) unaryFloat(op loop.UnaryOp, x value) id {
	if x.dt == dtype.F64 {
		return w.unaryDouble(op, x.id)
	}
	float := w.floatType(32)
	switch op {
	case loop.Neg:
		return w.float32(w.word(opBitwiseXor, w.bits32(x.id), w.constant32(1<<31)))
	case loop.Abs:
		return w.float32(w.and(w.bits32(x.id), 0x7fffffff))
	case loop.Sign:
		bits := w.bits32(x.id)
		one := w.or(w.and(bits, 1<<31), w.constant32(0x3f800000))
		y := w.choose(w.intType(32), w.test(opIEqual, w.and(bits, 0x7fffffff), w.constant32(0)), w.constant32(0), one)
		return w.choose(float, w.isNaN32(x.id), x.id, w.float32(y))
	case loop.Floor, loop.Ceil, loop.Round, loop.Trunc:
		return w.extended(roundings[op], float, x.id)
	case loop.Sqrt:
		return w.rounded(x.dt, w.extended(glslSqrt, float, x.id))
	case loop.Reciprocal:
		return w.rounded(x.dt, w.divide(x.dt, w.constantFloat(math.Float32bits(1)), x.id))
	}
	return w.rounded(x.dt, w.function(op, x.id))
}

// roundings has the numbers of the functions of GLSL that round to an integer.
var roundings = map[loop.UnaryOp]uint32{loop.Floor: glslFloor, loop.Ceil: glslCeil, loop.Round: glslRoundEven,
	loop.Trunc: glslTrunc}

// unaryDouble is unaryFloat for f64.
func (w *writer) unaryDouble(op loop.UnaryOp, x id) id {
	double := w.heldType(dtype.F64)
	if !w.int64s() {
		refuse("f64 without integers of 64 bits")
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
		y := w.choose(long, w.test(opIEqual, w.magnitude64(x), w.constant64(0)), w.constant64(0), one)
		return w.choose(double, w.isNaN64(x), x, back(y))
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

// binary applies a function of two operands.
func (w *writer) binary(op loop.BinaryOp, x, y value) value {
	switch {
	case op >= loop.Eq:
		return value{id: w.compared(op, x, y), dt: dtype.Bool}
	case x.dt == dtype.Bool:
		return value{id: w.logical(op, x.id, y.id), dt: dtype.Bool}
	case x.narrow && y.narrow && (op == loop.Min || op == loop.Max):
		return value{id: w.lesser(op, opSLessThan, w.intType(32), x.id, y.id), dt: x.dt, narrow: true}
	case x.dt.IsInt():
		return value{id: w.binaryInteger(op, x.dt, w.full(x), w.full(y)), dt: x.dt}
	}
	return value{id: w.binaryFloat(op, x.dt, x.id, y.id), dt: x.dt}
}

// lesser returns the lesser of two integers, or for Max the greater; less is the comparison for their sign.
func (w *writer) lesser(op loop.BinaryOp, less opcode, typ, x, y id) id {
	if op == loop.Max {
		x, y = y, x
		return w.choose(typ, w.test(less, x, y), y, x)
	}
	return w.choose(typ, w.test(less, x, y), x, y)
}

// compared returns a bool for two values of the same type. Complex numbers are only compared for equality.
func (w *writer) compared(op loop.BinaryOp, x, y value) id {
	ops := comparisons[op]
	switch dt := x.dt; {
	case dt == dtype.Bool:
		x, y = value{id: w.fromBool(dtype.U8, x.id), dt: dtype.U8}, value{id: w.fromBool(dtype.U8, y.id), dt: dtype.U8}
		return w.test(ops[2], x.id, y.id)
	case dt == dtype.C64:
		component := func(v value, i uint32) id { return w.float32(w.op2(opCompositeExtract, w.intType(32), v.id, i)) }
		both := w.op(opLogicalAnd, w.boolType(), w.test(opFOrdEqual, component(x, 0), component(y, 0)),
			w.test(opFOrdEqual, component(x, 1), component(y, 1)))
		if op == loop.Ne {
			return w.op(opLogicalNot, w.boolType(), both)
		}
		return both
	case dt.IsFloat():
		return w.test(ops[0], x.id, y.id)
	case x.narrow && y.narrow:
		return w.test(ops[1], x.id, y.id)
	case dt.IsSigned():
		return w.test(ops[1], w.full(x), w.full(y))
	}
	return w.test(ops[2], x.id, y.id)
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
	w.bug("%s of bool", op)
	return 0
}

// integerOps has the functions of integers that are one instruction.
var integerOps = map[loop.BinaryOp]opcode{loop.Add: opIAdd, loop.Sub: opISub, loop.Mul: opIMul, loop.And: opBitwiseAnd,
	loop.Or: opBitwiseOr, loop.Xor: opBitwiseXor}

// binaryInteger applies a function of two integers; results wrap. A shift by the type's width or more returns 0, or −1
// for a negative number that is shifted right.
func (w *writer) binaryInteger(op loop.BinaryOp, dt dtype.DType, x, y id) id {
	typ := w.heldType(dt)
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
		by := w.choose(typ, out, most, y)
		switch {
		case op == loop.Shl:
			return wrap(w.choose(typ, out, number(0), w.op(opShiftLeftLogical, typ, x, by)))
		case signed:
			return w.op(opShiftRightArithmetic, typ, x, by)
		}
		return w.choose(typ, out, number(0), w.op(opShiftRightLogical, typ, x, by))
	case loop.Pow:
		return wrap(w.powerInteger(dt, typ, x, y, number))
	case loop.Dot:
		return w.dotBytes(x, y)
	}
	w.bug("%s of %s", op, dt)
	return 0
}

// division returns a quotient or a remainder; 0 for a divisor of 0. The result of the least number divided by −1, which
// instructions leave open, wraps: it is divided by 1 and negated.
func (w *writer) division(op loop.BinaryOp, dt dtype.DType, typ, x, y id, number func(v uint64) id) id {
	none := w.test(opIEqual, y, number(0))
	if !dt.IsSigned() {
		by := w.choose(typ, none, number(1), y)
		code := opUMod
		if op == loop.Div {
			code = opUDiv
		}
		return w.choose(typ, none, number(0), w.op(code, typ, x, by))
	}
	minus := w.test(opIEqual, y, number(math.MaxUint64))
	by := w.choose(typ, w.op(opLogicalOr, w.boolType(), none, minus), number(1), y)
	q := w.op(opSDiv, typ, x, by)
	if op == loop.Div {
		q = w.choose(typ, minus, w.op(opSNegate, typ, x), q)
		return w.choose(typ, none, number(0), q)
	}
	r := w.op(opISub, typ, x, w.op(opIMul, typ, q, by))
	if op == loop.FloorMod {
		differ := w.test(opSLessThan, w.op(opBitwiseXor, typ, r, y), number(0))
		some := w.test(opINotEqual, r, number(0))
		r = w.choose(typ, w.op(opLogicalAnd, w.boolType(), differ, some), w.op(opIAdd, typ, r, y), r)
	}
	return w.choose(typ, w.op(opLogicalOr, w.boolType(), none, minus), number(0), r)
}

// powerInteger computes a power by repeated squaring. With a negative exponent, the result is 1 for 1, ±1 for −1 and 0
// for other bases.
func (w *writer) powerInteger(dt dtype.DType, typ, x, y id, number func(v uint64) id) id {
	result, base, left := w.variable(typ), w.variable(typ), w.variable(typ)
	w.set(result, number(1))
	w.set(base, x)
	w.set(left, y)
	negative := w.constantBool(false)
	if dt.IsSigned() {
		negative = w.test(opSLessThan, y, number(0))
		w.set(left, w.choose(typ, negative, number(0), y))
	}
	w.counted(sym.Const(int64(dt.Bits())), func() {
		w.loop(func() id { return w.test(opINotEqual, w.get(left, typ), number(0)) }, func() {
			odd := w.test(opINotEqual, w.op(opBitwiseAnd, typ, w.get(left, typ), number(1)), number(0))
			b := w.get(base, typ)
			w.set(result, w.choose(typ, odd, w.op(opIMul, typ, w.get(result, typ), b), w.get(result, typ)))
			w.set(base, w.op(opIMul, typ, b, b))
		}, func() { w.set(left, w.op(opShiftRightLogical, typ, w.get(left, typ), number(1))) })
	})
	out := w.get(result, typ)
	if !dt.IsSigned() {
		return out
	}
	one := w.test(opIEqual, x, number(1))
	minus := w.test(opIEqual, x, number(math.MaxUint64))
	even := w.test(opIEqual, w.op(opBitwiseAnd, typ, y, number(1)), number(0))
	below := w.choose(typ, minus, w.choose(typ, even, number(1), number(math.MaxUint64)), number(0))
	return w.choose(typ, negative, w.choose(typ, one, number(1), below), out)
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

// decided returns the result of a comparison of Index values, which is common in masks, if it is the same for every
// binding.
func (w *writer) decided(e *loop.Binary) (holds, known bool) {
	x, first := e.X.(*loop.Index)
	y, second := e.Y.(*loop.Index)
	if !first || !second {
		return false, false
	}
	r, _ := w.ranges.Of(x.X.Sub(y.X))
	switch e.Op {
	case loop.Lt:
		return r.Max < 0, r.Max < 0 || r.Min >= 0
	case loop.Le:
		return r.Max <= 0, r.Max <= 0 || r.Min > 0
	case loop.Gt:
		return r.Min > 0, r.Min > 0 || r.Max <= 0
	case loop.Ge:
		return r.Min >= 0, r.Min >= 0 || r.Max < 0
	}
	return false, false
}
