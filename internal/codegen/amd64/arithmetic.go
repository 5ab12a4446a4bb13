package amd64

import (
	"encoding/binary"
	"math"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// longs returns a constant of 64-bit lanes.
func (b *builder) longs(list []int64) asm.Reg {
	var bytes []byte
	for _, v := range list {
		bytes = binary.LittleEndian.AppendUint64(bytes, uint64(v))
	}
	return b.poolVector(bytes)
}

// unary emits a function of one operand; it refuses types that the function does not accept.
func (e *machine) unary(x *loop.Unary) lanes.Value {
	v := e.Value(x.X)
	dt := v.DType
	switch v.Kind() {
	case lanes.Flags:
		if x.Op == loop.Not {
			return lanes.Value{DType: dt, Uniform: v.Uniform, Lo: e.maskNot(v.Lo)}
		}
	case lanes.Floats:
		return e.unaryFloat(x.Op, v)
	case lanes.Doubles:
		return e.unaryDouble(x.Op, v)
	case lanes.Integers, lanes.Longs:
		return e.unaryInteger(x.Op, v)
	}
	lanes.Refuse("%s of %s", x.Op, dt)
	return lanes.Value{}
}

// unaryFloat emits a function of floats that are computed as f32, and rounds the result to the type.
func (e *machine) unaryFloat(op loop.UnaryOp, v lanes.Value) lanes.Value {
	r := lanes.Value{DType: v.DType, Uniform: v.Uniform}
	x := v.Lo
	switch op {
	case loop.Neg:
		r.Lo = e.xor(x, e.repeated32(1<<31))
		return e.settleCoded(r, true)
	case loop.Abs:
		r.Lo = e.and(x, e.repeated32(1<<31-1))
		return e.settleCoded(r, true)
	case loop.Sign:
		one := e.or(e.and(x, e.repeated32(1<<31)), e.float(1))
		r.Lo = e.selectLanes(e.compare(equal, x, e.float(0)), e.float(0), one)
		r.Lo = e.selectLanes(e.compare(unordered, x, x), x, r.Lo)
		return r
	case loop.Floor:
		r.Lo = e.round(x, downward)
	case loop.Ceil:
		r.Lo = e.round(x, upward)
	case loop.Round:
		r.Lo = e.round(x, toNearest)
	case loop.Trunc:
		r.Lo = e.round(x, towardZero)
	case loop.Sqrt:
		r.Lo = e.sqrt(x)
	case loop.Reciprocal:
		r.Lo = e.div(e.float(1), x)
	case loop.IsNaN:
		return lanes.Value{DType: dtype.Bool, Uniform: v.Uniform, Lo: e.compare(unordered, x, x)}
	case loop.IsInf:
		return lanes.Value{DType: dtype.Bool, Uniform: v.Uniform, Lo: e.compare(equal, e.and(x, e.repeated32(1<<31-1)),
			e.float(float32(math.Inf(1))))}
	default:
		f, ok := functions[op]
		if !ok {
			lanes.Refuse("%s of %s", op, v.DType)
		}
		r.Lo = f(e.builder, x)
	}
	return e.settle(r)
}

// unaryDouble emits a function of f64 lanes.
func (e *machine) unaryDouble(op loop.UnaryOp, v lanes.Value) lanes.Value {
	r := lanes.Value{DType: v.DType, Uniform: v.Uniform}
	sign := uint64(1 << 63)
	rounding := func(mode int64) lanes.Value {
		op := asm.VROUNDPD
		if e.isa.masks {
			op = asm.VRNDSCALEPD
		}
		return e.Each(v, func(x asm.Reg) asm.Reg { return e.twoImm(op, x, mode) })
	}
	switch op {
	case loop.Neg:
		return e.Each(v, func(x asm.Reg) asm.Reg { return e.xor(x, e.repeated64(sign)) })
	case loop.Abs:
		return e.Each(v, func(x asm.Reg) asm.Reg { return e.and(x, e.repeated64(sign-1)) })
	case loop.Floor:
		return rounding(downward)
	case loop.Ceil:
		return rounding(upward)
	case loop.Round:
		return rounding(toNearest)
	case loop.Trunc:
		return rounding(towardZero)
	case loop.Sqrt:
		return e.Each(v, func(x asm.Reg) asm.Reg { return e.two(asm.VSQRTPD, x) })
	case loop.Reciprocal:
		return e.Each(v, func(x asm.Reg) asm.Reg { return e.three(asm.VDIVPD, e.double(1), x) })
	case loop.IsNaN:
		return e.tests(v, v, func(x, y asm.Reg) asm.Reg { return e.compareWith(asm.VCMPPD, int64(unordered), x, y) })
	case loop.IsInf:
		size := e.Each(v, func(x asm.Reg) asm.Reg { return e.and(x, e.repeated64(sign-1)) })
		limit := lanes.Value{DType: dtype.F64, Uniform: true, Lo: e.double(math.Inf(1))}
		limit.Hi = limit.Lo
		return e.tests(size, limit, func(x, y asm.Reg) asm.Reg { return e.compareWith(asm.VCMPPD, int64(equal), x, y) })
	}
	if f, ok := wideFunctions[op]; ok {
		return e.Each(v, func(x asm.Reg) asm.Reg { return f(e.builder, x) })
	}
	lanes.Refuse("%s of %s", op, v.DType)
	return r
}

// unaryInteger emits a function of integer lanes, which wrap.
func (e *machine) unaryInteger(op loop.UnaryOp, v lanes.Value) lanes.Value {
	zero := e.integer32(0)
	sub, signed := asm.VPSUBD, v.DType.IsSigned()
	if v.Kind() == lanes.Longs {
		sub = asm.VPSUBQ
	}
	negated := func() lanes.Value {
		return e.settle(e.Each(v, func(x asm.Reg) asm.Reg { return e.three(sub, zero, x) }))
	}
	switch op {
	case loop.Neg:
		return negated()
	case loop.BitNot:
		return e.settle(e.Each(v, func(x asm.Reg) asm.Reg { return e.xor(x, e.repeated32(0xffffffff)) }))
	case loop.Abs:
		if !signed {
			return v
		}
		n := negated()
		return e.Choose(e.order(loop.Lt, v, e.same(v.DType, 0)), n, v)
	case loop.Sign:
		one := e.same(v.DType, 1)
		if !signed {
			return e.Choose(e.order(loop.Eq, v, e.same(v.DType, 0)), v, one)
		}
		r := e.Choose(e.order(loop.Lt, v, e.same(v.DType, 0)), e.same(v.DType, -1), one)
		return e.Choose(e.order(loop.Eq, v, e.same(v.DType, 0)), v, r)
	}
	lanes.Refuse("%s of %s", op, v.DType)
	return lanes.Value{}
}

// same returns an integer in all lanes.
func (e *machine) same(dt dtype.DType, v int64) lanes.Value {
	return e.Constant(&loop.Const{Type: dt, Bits: loop.FromInt(dt, v)})
}

// binary emits a function of two operands; comparisons give a mask.
func (e *machine) binary(x *loop.Binary) lanes.Value {
	if x.Op.Test() {
		if v, ok := e.between(x); ok {
			return v
		}
	}
	if x.Op == loop.Mul && x.DType() == dtype.F32 {
		if v, ok := e.product32(x); ok {
			return v
		}
	}
	if v, ok := e.lookedUp(x); ok {
		return v
	}
	a, b := e.Value(x.X), e.Value(x.Y)
	if x.Op.Test() {
		return e.order(x.Op, a, b)
	}
	if x.Op == loop.Mul && x.DType() == dtype.I32 && (unsignedByte(x.X) && signedWord(x.Y) || signedWord(x.X) &&
		unsignedByte(x.Y)) {
		return lanes.Value{DType: dtype.I32, Uniform: a.Uniform && b.Uniform, Lo: e.three(asm.VPMADDWD, a.Lo, b.Lo)}
	}
	return e.Combine(x.Op, a, b)
}

// unsignedByte reports whether an i32 is one of 0 to 255. With any word beside it, the product of the upper halves,
// which VPMADDWD adds to that of the lower halves, is 0: it takes half as long as a product of 32 bits.
func unsignedByte(x loop.Expr) bool {
	c, ok := x.(*loop.Cast)
	return ok && c.X.DType() == dtype.U8
}

// signedWord reports whether an i32 is one of −2¹⁵ to 2¹⁵ − 1.
func signedWord(x loop.Expr) bool {
	c, ok := x.(*loop.Cast)
	return ok && (c.X.DType() == dtype.U8 || c.X.DType() == dtype.I8 || c.X.DType() == dtype.I16)
}

// product32 returns a product with 1 or with a sigmoid in a cheaper way; ok is false for other products.
func (e *machine) product32(x *loop.Binary) (lanes.Value, bool) {
	for _, f := range [][2]loop.Expr{{x.X, x.Y}, {x.Y, x.X}} {
		switch factor := f[0].(type) {
		case *loop.Const:
			if factor.Bits == uint64(math.Float32bits(1)) {
				return e.Value(f[1]), true
			}
		case *loop.Unary:
			if factor.Op == loop.Sigmoid {
				a, b := e.Value(f[1]), e.Value(factor.X)
				return lanes.Value{DType: dtype.F32, Uniform: a.Uniform && b.Uniform,
					Lo: emitted{Algebra: vectors{e.builder}}.Gated(a.Lo, b.Lo)}, true
			}
		}
	}
	return lanes.Value{}, false
}

// expFrom returns select(lt(x, low), 0, exp(x)) for a constant low, as one function: exp computes nothing of lanes that
// are not chosen.
func (e *machine) expFrom(s *loop.Select) (lanes.Value, bool) {
	below, isLess := s.Cond.(*loop.Binary)
	power, isUnary := s.Y.(*loop.Unary)
	if !isLess || below.Op != loop.Lt || !isUnary || power.Op != loop.Exp || !loop.Same(below.X, power.X) {
		return lanes.Value{}, false
	}
	low, zero := constantOf(below.Y), constantOf(s.X)
	if low == nil || zero == nil || zero.Bits != 0 {
		return lanes.Value{}, false
	}
	switch limit := loop.ToFloat(low.Type, low.Bits); {
	case s.DType() == dtype.F32 && limit >= mathematics.ExpLow && limit <= 0:
		return e.Each(e.Value(power.X), func(x asm.Reg) asm.Reg {
			return emitted{Algebra: vectors{e.builder}}.ExpFrom(x, float32(limit))
		}), true
	case s.DType() == dtype.F64 && limit >= mathematics.ExpLowWide && limit <= 0:
		return e.Each(e.Value(power.X), func(x asm.Reg) asm.Reg {
			return emittedWide{WideAlgebra: wideBuilder{e.builder}}.ExpFrom(x, limit)
		}), true
	}
	return lanes.Value{}, false
}

// Combine applies an operation to two values of one type.
func (e *machine) Combine(op loop.BinaryOp, a, b lanes.Value) lanes.Value {
	switch a.Kind() {
	case lanes.Floats:
		if op == loop.Rem {
			return e.remainderFloats(a, b)
		}
		return e.settle(e.combineFloats(op, a, b))
	case lanes.Doubles:
		return e.combineDoubles(op, a, b)
	case lanes.Integers, lanes.Longs:
		return e.combineIntegers(op, a, b)
	case lanes.Flags:
		r := lanes.Value{DType: dtype.Bool, Uniform: a.Uniform && b.Uniform}
		switch op {
		case loop.And, loop.Min:
			r.Lo = e.maskAnd(a.Lo, b.Lo)
		case loop.Or, loop.Max:
			r.Lo = e.maskOr(a.Lo, b.Lo)
		case loop.Xor:
			r.Lo = e.maskXor(a.Lo, b.Lo)
		default:
			lanes.Refuse("%s of %s", op, a.DType)
		}
		return r
	}
	lanes.Refuse("%s of %s", op, a.DType)
	return lanes.Value{}
}

var floatOps = map[loop.BinaryOp]asm.Op{loop.Add: asm.VADDPS, loop.Sub: asm.VSUBPS, loop.Mul: asm.VMULPS,
	loop.Div: asm.VDIVPS}

var doubleOps = map[loop.BinaryOp]asm.Op{loop.Add: asm.VADDPD, loop.Sub: asm.VSUBPD, loop.Mul: asm.VMULPD,
	loop.Div: asm.VDIVPD}

// combineFloats emits a function of two f32 values; comparisons are left to order.
func (e *machine) combineFloats(op loop.BinaryOp, a, b lanes.Value) lanes.Value {
	r := lanes.Value{DType: a.DType, Uniform: a.Uniform && b.Uniform}
	switch op {
	case loop.Min, loop.Max:
		r.Lo = e.extreme(floatExtremes[op], a.Lo, b.Lo)
	case loop.Pow, loop.Atan2:
		f, ok := functions2[op]
		if !ok {
			lanes.Refuse("%s of %s", op, a.DType)
		}
		r.Lo = f(e.builder, a.Lo, b.Lo)
	default:
		in, ok := floatOps[op]
		if !ok {
			lanes.Refuse("%s of %s", op, a.DType)
		}
		r.Lo = e.three(in, a.Lo, b.Lo)
	}
	return r
}

// extremes are the machine's instructions for the greater or lesser of two floats of a type. They give the second
// operand if one operand is NaN, and if both are zeros.
type extremes struct {
	machine, ranged, add, compare asm.Op
	greatest                      bool
}

var floatExtremes = map[loop.BinaryOp]extremes{
	loop.Min: {asm.VMINPS, asm.VRANGEPS, asm.VADDPS, asm.VCMPPS, false},
	loop.Max: {asm.VMAXPS, asm.VRANGEPS, asm.VADDPS, asm.VCMPPS, true},
}

var doubleExtremes = map[loop.BinaryOp]extremes{
	loop.Min: {asm.VMINPD, asm.VRANGEPD, asm.VADDPD, asm.VCMPPD, false},
	loop.Max: {asm.VMAXPD, asm.VRANGEPD, asm.VADDPD, asm.VCMPPD, true},
}

// number returns the float that a constant has in all lanes; ok is false for other registers, and for NaN.
func (x extremes) number(e *machine, r asm.Reg) (v float64, ok bool) {
	bytes := e.constantBytes(r)
	switch {
	case bytes == nil:
		return 0, false
	case x.compare == asm.VCMPPD:
		v = math.Float64frombits(binary.LittleEndian.Uint64(bytes))
	default:
		v = float64(math.Float32frombits(binary.LittleEndian.Uint32(bytes)))
	}
	return v, !math.IsNaN(v)
}

// extreme returns the lesser or greater of two registers: NaN if an operand is NaN, and −0 less than 0, so that no
// order of a reduction changes a bit.
func (e *machine) extreme(in extremes, x, y asm.Reg) asm.Reg {
	if _, number := in.number(e, y); number {
		x, y = y, x
	}
	if v, number := in.number(e, x); number {
		zero, negative := v == 0, math.Signbit(v)
		switch r := e.three(in.machine, x, y); { // y if y is NaN, or equal to x
		case !zero || negative == in.greatest:
			return r
		case in.greatest:
			return e.three(in.add, r, x) // −0 + 0 is 0
		}
		// the lesser of −0 and x is the general case below
	}
	switch {
	case e.isa.masks:
		mode := int64(4) // the lesser, with its sign
		if in.greatest {
			mode = 5
		}
		r := e.vectorOf(in.ranged, mode, x, y)
		nan := e.compareWith(in.compare, int64(unordered), x, y)
		if in.compare == asm.VCMPPD {
			return e.selectWide(nan, e.repeated32(0xffffffff), r)
		}
		return e.selectLanes(nan, e.repeated32(0xffffffff), r)
	case !in.greatest:
		return e.or(e.three(in.machine, x, y), e.three(in.machine, y, x)) // of zeros, the sign; of NaN and a number, NaN
	}
	r := e.and(e.three(in.machine, x, y), e.three(in.machine, y, x))
	return e.or(r, e.compareWith(in.compare, int64(unordered), x, y))
}

// combineDoubles emits a function of two f64 values; comparisons are left to order.
func (e *machine) combineDoubles(op loop.BinaryOp, a, b lanes.Value) lanes.Value {
	if in, ok := doubleOps[op]; ok {
		return e.pairs(a.DType, a, b, func(x, y asm.Reg) asm.Reg { return e.three(in, x, y) })
	}
	in, ok := doubleExtremes[op]
	if !ok {
		lanes.Refuse("%s of %s", op, a.DType)
	}
	return e.pairs(a.DType, a, b, func(x, y asm.Reg) asm.Reg { return e.extreme(in, x, y) })
}

// integerOps are the operations that are one instruction, of 32 and of 64 bits.
var integerOps = map[loop.BinaryOp][2]asm.Op{
	loop.Add: {asm.VPADDD, asm.VPADDQ}, loop.Sub: {asm.VPSUBD, asm.VPSUBQ}, loop.And: {asm.VANDPS, asm.VANDPS},
	loop.Or: {asm.VORPS, asm.VORPS}, loop.Xor: {asm.VXORPS, asm.VXORPS},
}

// combineIntegers emits a function of two integers, which wrap; comparisons are left to order.
func (e *machine) combineIntegers(op loop.BinaryOp, a, b lanes.Value) lanes.Value {
	wide := 0
	if a.Kind() == lanes.Longs {
		wide = 1
	}
	if in, ok := integerOps[op]; ok {
		return e.settle(e.pairs(a.DType, a, b, func(x, y asm.Reg) asm.Reg { return e.three(in[wide], x, y) }))
	}
	switch op {
	case loop.Min:
		return e.Choose(e.order(loop.Lt, a, b), a, b)
	case loop.Max:
		return e.Choose(e.order(loop.Lt, a, b), b, a)
	case loop.Mul:
		if wide == 0 {
			return e.settle(e.pairs(a.DType, a, b, e.mulInt))
		}
		return e.pairs(a.DType, a, b, e.mulWide)
	case loop.Dot:
		sum := e.CopyOf(e.integer32(0))
		e.AddDot(sum, a.Lo, b.Lo)
		return lanes.Value{DType: a.DType, Uniform: a.Uniform && b.Uniform, Lo: sum}
	case loop.Shl, loop.Shr:
		return e.shift(op, a, b, wide)
	case loop.Pow:
		return e.powerInts(a, b)
	case loop.Div, loop.Rem, loop.FloorMod:
		if a.Uniform && b.Uniform {
			return e.divide(op, a, b)
		}
		return e.divideLanes(op, a, b)
	}
	lanes.Refuse("%s of %s", op, a.DType)
	return lanes.Value{}
}

// AddDot adds to each lane of a sum the products of x's bytes, unsigned, and y's, signed.
func (e *machine) AddDot(sum, x, y asm.Reg) {
	if e.isa.dot == 4 {
		e.accumulate(asm.VPDPBUSD, sum, x, y)
		return
	}
	// VPMADDUBSW saturates a sum of two products, which no two of at most 127 reach: the highest bits are multiplied
	// separately.
	ones := e.integer32(0x0001_0001)
	low := e.three(asm.VPMADDUBSW, e.and(x, e.integer32(0x7f7f7f7f)), y)
	high := e.three(asm.VPMADDUBSW, e.and(e.shiftRight(x, 7), e.integer32(0x01010101)), y)
	e.Assign(sum, e.addInt(sum, e.three(asm.VPMADDWD, low, ones)))
	e.Assign(sum, e.addInt(sum, e.shiftLeft(e.three(asm.VPMADDWD, high, ones), 7)))
}

// mulWide returns the low 64 bits of products of 64-bit lanes.
func (e *machine) mulWide(x, y asm.Reg) asm.Reg {
	if e.isa.masks {
		return e.three(asm.VPMULLQ, x, y)
	}
	high := func(x asm.Reg) asm.Reg { return e.twoImm(asm.VPSRLQ, x, 32) }
	cross := e.three(asm.VPADDQ, e.three(asm.VPMULUDQ, high(x), y), e.three(asm.VPMULUDQ, x, high(y)))
	return e.three(asm.VPADDQ, e.three(asm.VPMULUDQ, x, y), e.twoImm(asm.VPSLLQ, cross, 32))
}

// shift moves bits by counts that are at least 0 as unsigned numbers; shifts by the width or more leave only copies
// of the sign.
func (e *machine) shift(op loop.BinaryOp, a, b lanes.Value, wide int) lanes.Value {
	in := [2]asm.Op{asm.VPSLLVD, asm.VPSLLVQ}
	if op == loop.Shr {
		in = [2]asm.Op{asm.VPSRLVD, asm.VPSRLVQ}
		if a.DType.IsSigned() {
			if in = [2]asm.Op{asm.VPSRAVD, asm.VPSRAVQ}; wide == 1 && !e.isa.masks {
				lanes.Refuse("%s of %s", op, a.DType)
			}
		}
	}
	if b.DType.IsSigned() && b.DType.Bits() < 32 {
		b.Lo = e.and(b.Lo, e.integer32(int32(1)<<b.DType.Bits()-1)) // the count counts as unsigned: −1 is a large one
	}
	return e.settle(e.pairs(a.DType, a, b, func(x, y asm.Reg) asm.Reg { return e.three(in[wide], x, y) }))
}

// divide divides uniform integers in general registers. By 0 the result is 0.
func (e *machine) divide(op loop.BinaryOp, a, b lanes.Value) lanes.Value {
	x, y := e.WholeNumber(a), e.WholeNumber(b)
	r := e.Number(0)
	done, minusOne := e.Label(), e.Label()
	e.integerOp(asm.TEST, y, y)
	e.jump(asm.JE, done)
	e.Emit(asm.Inst{Op: asm.MOV, Bits: 64, Args: [4]asm.Reg{asm.RAX, x}})
	if a.DType.IsSigned() {
		e.integerImm(asm.CMP, y, -1) // the least integer divided by −1 would trap
		e.jump(asm.JE, minusOne)
		e.Emit(asm.Inst{Op: asm.CQO, Bits: 64})
		e.Emit(asm.Inst{Op: asm.IDIV, Bits: 64, Args: [4]asm.Reg{y}})
	} else {
		e.Emit(asm.Inst{Op: asm.MOV, Bits: 32, Args: [4]asm.Reg{asm.RDX}, Imm: 0})
		e.Emit(asm.Inst{Op: asm.DIV, Bits: 64, Args: [4]asm.Reg{y}})
	}
	result := asm.RAX
	if op != loop.Div {
		result = asm.RDX
	}
	e.Assign(r, result)
	if op == loop.FloorMod && a.DType.IsSigned() {
		// A remainder that is not 0 and does not have the divisor's sign is one divisor off.
		e.integerOp(asm.TEST, r, r)
		e.jump(asm.JE, done)
		sign := e.CopyOf(r)
		e.integerOp(asm.XOR, sign, y)
		e.integerOp(asm.TEST, sign, sign)
		e.jump(asm.JNS, done)
		e.integerOp(asm.ADD, r, y)
	}
	if a.DType.IsSigned() {
		e.jump(asm.JMP, done)
		e.Bind(minusOne)
		if op == loop.Div {
			e.Assign(r, x)
			e.Emit(asm.Inst{Op: asm.NEG, Bits: 64, Args: [4]asm.Reg{r}})
		}
	}
	e.Bind(done)
	return e.fromNumber(a.DType, r)
}
