package lanes

import (
	"encoding/binary"
	"math"

	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// perLane returns a constant of 32-bit lanes.
func (e *Emitter) perLane(of func(lane int) int) regalloc.Reg {
	var bytes []byte
	for lane := range e.lanes {
		bytes = binary.LittleEndian.AppendUint32(bytes, uint32(of(lane)))
	}
	return e.Vector(bytes)
}

// core returns the type of the core that computes a type's values.
func core(dt dtype.DType) dtype.DType {
	switch Kinds[dt] {
	case Floats:
		return dtype.F32
	case Integers:
		if dt != dtype.U32 {
			return dtype.I32
		}
	}
	return dt
}

// signed returns the type of the core that has the bits of a type's integers, if the sign does not matter.
func signed(dt dtype.DType) dtype.DType {
	if Kinds[dt] == Longs {
		return dtype.I64
	}
	return dtype.I32
}

// unsigned returns the unsigned type of the core of signed's size.
func unsigned(dt dtype.DType) dtype.DType {
	if dt == dtype.I64 {
		return dtype.U64
	}
	return dtype.U32
}

// unary emits a function of one operand; it refuses types that the function does not accept.
func (e *Emitter) unary(x *loop.Unary) Value {
	v := e.Value(x.X)
	dt := v.DType
	switch v.Kind() {
	case Flags:
		if x.Op == loop.Not {
			return Value{DType: dt, Uniform: v.Uniform, Lo: e.MaskNot(v.Lo)}
		}
	case Floats:
		return e.unaryFloat(x.Op, v)
	case Doubles:
		return e.unaryDouble(x.Op, v)
	case Integers, Longs:
		return e.unaryInteger(x.Op, v)
	}
	Refuse("%s of %s", x.Op, dt)
	return Value{}
}

// unaryFloat emits a function of floats that are computed as f32, and rounds the result to the type.
func (e *Emitter) unaryFloat(op loop.UnaryOp, v Value) Value {
	r := Value{DType: v.DType, Uniform: v.Uniform}
	x := v.Lo
	switch op {
	case loop.Neg, loop.Abs:
		r.Lo = e.Unary(op, dtype.F32, x)
		return e.settleCoded(r, true)
	case loop.Sign:
		one := e.word.Or(e.word.And(x, e.word.number32(1<<31)), e.word.Float(1))
		r.Lo = e.word.SelectLanes(e.word.Compare(mathematics.Equal, x, e.word.Float(0)), e.word.Float(0), one)
		r.Lo = e.word.SelectLanes(e.word.Compare(mathematics.Unordered, x, x), x, r.Lo)
		return r
	case loop.Floor, loop.Ceil, loop.Round, loop.Trunc, loop.Sqrt:
		r.Lo = e.Unary(op, dtype.F32, x)
	case loop.Reciprocal:
		r.Lo = e.word.Div(e.word.Float(1), x)
	case loop.IsNaN:
		return Value{DType: dtype.Bool, Uniform: v.Uniform, Lo: e.word.Compare(mathematics.Unordered, x, x)}
	case loop.IsInf:
		return Value{DType: dtype.Bool, Uniform: v.Uniform, Lo: e.word.Compare(mathematics.Equal,
			e.Unary(loop.Abs, dtype.F32, x), e.word.Float(float32(math.Inf(1))))}
	default:
		f, ok := functions[op]
		if !ok {
			Refuse("%s of %s", op, v.DType)
		}
		r.Lo = f(e.Functions(), x)
	}
	return e.settle(r)
}

// unaryDouble emits a function of f64 lanes.
func (e *Emitter) unaryDouble(op loop.UnaryOp, v Value) Value {
	one := func(op loop.UnaryOp) Value {
		return e.Each(v, func(x regalloc.Reg) regalloc.Reg { return e.Unary(op, dtype.F64, x) })
	}
	switch op {
	case loop.Neg, loop.Abs, loop.Floor, loop.Ceil, loop.Round, loop.Trunc, loop.Sqrt:
		return one(op)
	case loop.Reciprocal:
		return e.Each(v, func(x regalloc.Reg) regalloc.Reg { return e.wide.Div(e.wide.Float(1), x) })
	case loop.IsNaN:
		return e.compare(mathematics.Unordered, v, v)
	case loop.IsInf:
		size := one(loop.Abs)
		limit := Value{DType: dtype.F64, Uniform: true, Lo: e.wide.Float(math.Inf(1))}
		limit.Hi = limit.Lo
		return e.compare(mathematics.Equal, size, limit)
	}
	f, ok := wideFunctions[op]
	if !ok {
		Refuse("%s of %s", op, v.DType)
	}
	return e.Each(v, func(x regalloc.Reg) regalloc.Reg { return f(e.WideFunctions(), x) })
}

// compare compares two values of floats.
func (e *Emitter) compare(p mathematics.Predicate, a, b Value) Value {
	return e.tests(a, b, func(x, y regalloc.Reg) regalloc.Reg { return e.Compare(p, core(a.DType), x, y) })
}

// unaryInteger emits a function of integer lanes, which wrap.
func (e *Emitter) unaryInteger(op loop.UnaryOp, v Value) Value {
	e.word.Integer(0) // fixes its place among the constants
	dt := signed(v.DType)
	negated := func() Value {
		return e.settle(e.Each(v, func(x regalloc.Reg) regalloc.Reg { return e.Unary(loop.Neg, dt, x) }))
	}
	switch op {
	case loop.Neg:
		return negated()
	case loop.BitNot:
		return e.settle(e.Each(v, func(x regalloc.Reg) regalloc.Reg { return e.Unary(op, dtype.I32, x) }))
	case loop.Abs:
		if !v.DType.IsSigned() {
			return v
		}
		n := negated()
		return e.Choose(e.order(loop.Lt, v, e.same(v.DType, 0)), n, v)
	case loop.Sign:
		one := e.same(v.DType, 1)
		if !v.DType.IsSigned() {
			return e.Choose(e.order(loop.Eq, v, e.same(v.DType, 0)), v, one)
		}
		r := e.Choose(e.order(loop.Lt, v, e.same(v.DType, 0)), e.same(v.DType, -1), one)
		return e.Choose(e.order(loop.Eq, v, e.same(v.DType, 0)), v, r)
	}
	Refuse("%s of %s", op, v.DType)
	return Value{}
}

// same returns an integer in all lanes.
func (e *Emitter) same(dt dtype.DType, v int64) Value {
	return e.Constant(&loop.Const{Type: dt, Bits: loop.FromInt(dt, v)})
}

// binary emits a function of two operands; comparisons give a mask.
func (e *Emitter) binary(x *loop.Binary) Value {
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
	if small, signed := e.isSmall(x); small && !signed {
		return Value{DType: dtype.I32, Uniform: a.Uniform && b.Uniform, Lo: e.SmallProduct(a.Lo, b.Lo)}
	}
	return e.Combine(x.Op, a, b)
}

// isSmall reports whether an expression is a product of i32 of two numbers that are bytes or signed words, and whether
// none of them is an unsigned byte.
func (e *Emitter) isSmall(x *loop.Binary) (small, signed bool) {
	if x.Op != loop.Mul || x.DType() != dtype.I32 {
		return false, false
	}
	a, b := e.narrowOf(x.X), e.narrowOf(x.Y)
	return a != dtype.Invalid && b != dtype.Invalid, a != dtype.U8 && b != dtype.U8
}

// narrowOf returns the type of which an i32, or the value of a name, is a conversion that changes no number; Invalid if
// it is none.
func (e *Emitter) narrowOf(x loop.Expr) dtype.DType {
	switch x := x.(type) {
	case *loop.Cast:
		if dt := x.X.DType(); x.Type == dtype.I32 && (dt == dtype.U8 || dt == dtype.I8 || dt == dtype.I16) {
			return dt
		}
	case *loop.Ref:
		return e.bound[x.Name].narrow
	}
	return dtype.Invalid
}

// product32 returns a product with 1 or with a sigmoid in a cheaper way; ok is false for other products.
func (e *Emitter) product32(x *loop.Binary) (Value, bool) {
	for _, f := range [][2]loop.Expr{{x.X, x.Y}, {x.Y, x.X}} {
		switch factor := f[0].(type) {
		case *loop.Const:
			if factor.Bits == uint64(math.Float32bits(1)) {
				return e.Value(f[1]), true
			}
		case *loop.Unary:
			if factor.Op == loop.Sigmoid {
				a, b := e.Value(f[1]), e.Value(factor.X)
				return Value{DType: dtype.F32, Uniform: a.Uniform && b.Uniform,
					Lo: e.Functions().Gated(a.Lo, b.Lo)}, true
			}
		}
	}
	return Value{}, false
}

// expFrom returns select(lt(x, low), 0, exp(x)) for a constant low, as one function: exp computes nothing of lanes that
// are not chosen.
func (e *Emitter) expFrom(s *loop.Select) (Value, bool) {
	below, isLess := s.Cond.(*loop.Binary)
	power, isUnary := s.Y.(*loop.Unary)
	if !isLess || below.Op != loop.Lt || !isUnary || power.Op != loop.Exp || !loop.Same(below.X, power.X) {
		return Value{}, false
	}
	low, zero := constantOf(below.Y), constantOf(s.X)
	if low == nil || zero == nil || zero.Bits != 0 {
		return Value{}, false
	}
	switch limit := loop.ToFloat(low.Type, low.Bits); {
	case s.DType() == dtype.F32 && limit >= mathematics.ExpLow && limit <= 0:
		return e.Each(e.Value(power.X), func(x regalloc.Reg) regalloc.Reg {
			return e.Functions().ExpFrom(x, float32(limit))
		}), true
	case s.DType() == dtype.F64 && limit >= mathematics.ExpLowWide && limit <= 0:
		return e.Each(e.Value(power.X), func(x regalloc.Reg) regalloc.Reg {
			return e.WideFunctions().ExpFrom(x, limit)
		}), true
	}
	return Value{}, false
}

// Combine applies an operation to two values of one type.
func (e *Emitter) Combine(op loop.BinaryOp, a, b Value) Value {
	switch a.Kind() {
	case Floats:
		if op == loop.Rem {
			return e.remainderFloats(a, b)
		}
		return e.settle(e.combineFloats(op, a, b))
	case Doubles:
		return e.combineDoubles(op, a, b)
	case Integers, Longs:
		return e.combineIntegers(op, a, b)
	case Flags:
		r := Value{DType: dtype.Bool, Uniform: a.Uniform && b.Uniform}
		switch op {
		case loop.And, loop.Min:
			r.Lo = e.Masks(loop.And, a.Lo, b.Lo)
		case loop.Or, loop.Max:
			r.Lo = e.Masks(loop.Or, a.Lo, b.Lo)
		case loop.Xor:
			r.Lo = e.Masks(loop.Xor, a.Lo, b.Lo)
		default:
			Refuse("%s of %s", op, a.DType)
		}
		return r
	}
	Refuse("%s of %s", op, a.DType)
	return Value{}
}

// combineFloats emits a function of two f32 values; comparisons are left to order.
func (e *Emitter) combineFloats(op loop.BinaryOp, a, b Value) Value {
	r := Value{DType: a.DType, Uniform: a.Uniform && b.Uniform}
	if f, ok := functions2[op]; ok {
		r.Lo = f(e, a.Lo, b.Lo)
		return r
	}
	if !e.Has(op, dtype.F32) {
		Refuse("%s of %s", op, a.DType)
	}
	r.Lo = e.Binary(op, dtype.F32, a.Lo, b.Lo)
	return r
}

// combineDoubles emits a function of two f64 values; comparisons are left to order.
func (e *Emitter) combineDoubles(op loop.BinaryOp, a, b Value) Value {
	if !e.Has(op, dtype.F64) {
		Refuse("%s of %s", op, a.DType)
	}
	return e.both(op, a, b)
}

// both applies an operation of the core to two integers, which are not settled, or to two f64.
func (e *Emitter) both(op loop.BinaryOp, a, b Value) Value {
	dt := dtype.F64
	if a.Kind() != Doubles {
		dt = signed(a.DType)
	}
	return e.pairs(a.DType, a, b, func(x, y regalloc.Reg) regalloc.Reg { return e.Binary(op, dt, x, y) })
}

// combineIntegers emits a function of two integers, which wrap; comparisons are left to order.
func (e *Emitter) combineIntegers(op loop.BinaryOp, a, b Value) Value {
	switch op {
	case loop.Add, loop.Sub, loop.Mul, loop.And, loop.Or, loop.Xor:
		return e.settle(e.both(op, a, b))
	case loop.Min:
		return e.Choose(e.order(loop.Lt, a, b), a, b)
	case loop.Max:
		return e.Choose(e.order(loop.Lt, a, b), b, a)
	case loop.Dot:
		sum := e.CopyOf(e.word.Integer(0))
		e.AddDot(sum, a.Lo, b.Lo)
		return Value{DType: a.DType, Uniform: a.Uniform && b.Uniform, Lo: sum}
	case loop.Shl, loop.Shr:
		return e.shift(op, a, b)
	case loop.Pow:
		return e.powerInts(a, b)
	case loop.Div, loop.Rem, loop.FloorMod:
		if a.Uniform && b.Uniform {
			return e.divide(op, a, b)
		}
		return e.divideLanes(op, a, b)
	}
	Refuse("%s of %s", op, a.DType)
	return Value{}
}

// shift moves bits by counts that are at least 0 as unsigned numbers; shifts by the width or more leave only copies
// of the sign.
func (e *Emitter) shift(op loop.BinaryOp, a, b Value) Value {
	dt := signed(a.DType)
	if op == loop.Shr && !a.DType.IsSigned() {
		dt = unsigned(dt)
	}
	if !e.Has(op, dt) {
		Refuse("%s of %s", op, a.DType)
	}
	if b.DType.IsSigned() && b.DType.Bits() < 32 {
		b.Lo = e.word.And(b.Lo, e.word.Integer(int32(1)<<b.DType.Bits()-1)) // the count counts as unsigned: −1 is a large one
	}
	return e.settle(e.pairs(a.DType, a, b, func(x, y regalloc.Reg) regalloc.Reg { return e.Binary(op, dt, x, y) }))
}

// divide divides uniform integers. By 0 the result is 0.
func (e *Emitter) divide(op loop.BinaryOp, a, b Value) Value {
	x, y := e.WholeNumber(a), e.WholeNumber(b)
	return e.fromNumber(a.DType, e.Divide(op, a.DType.IsSigned(), x, y))
}
