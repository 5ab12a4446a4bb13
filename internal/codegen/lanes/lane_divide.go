package lanes

import (
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// This file divides integers that differ by lane. The quotient of two integers below 2⁵² is the quotient in f64 without
// its fraction: rounding never reaches the next integer, which is at least 1/y away.

// divideLanes divides in each lane. By 0 the result is 0.
func (e *Emitter) divideLanes(op loop.BinaryOp, a, b Value) Value {
	if a.Kind() == Integers {
		return e.settle(e.divideExactly(op, a, b))
	}
	// Few numbers are so large that f64 cannot represent them.
	far := e.Masks(loop.Or, e.beyondDoubles(a), e.beyondDoubles(b))
	usual := e.divideExactly(op, a, b)
	result := Value{DType: a.DType, Lo: e.CopyOf(usual.Lo), Hi: e.CopyOf(usual.Hi)}
	over := e.Label()
	e.CompareNumber(e.LaneWord(dtype.I32, far), 0)
	e.JumpIf(Equal, over)
	e.divideEach(op, a, b, result)
	e.Bind(over)
	return result
}

// beyondDoubles returns the lanes of 64-bit integers that are not below 2⁵¹, or within ±2⁵⁰.
func (e *Emitter) beyondDoubles(v Value) regalloc.Reg {
	high := e.Each(v, func(x regalloc.Reg) regalloc.Reg {
		if v.DType.IsSigned() {
			x = e.wide.AddInt(x, e.Repeated(dtype.I64, 1<<50))
		}
		return e.wide.ShiftRight(x, 51)
	})
	zero := Value{DType: v.DType, Uniform: true, Lo: e.Repeated(dtype.I64, 0), Hi: e.Repeated(dtype.I64, 0)}
	return e.MaskNot(e.tests(high, zero, e.wide.EqualInt).Lo)
}

// divideExactly divides by f64.
func (e *Emitter) divideExactly(op loop.BinaryOp, a, b Value) Value {
	x, y := e.cast(a, dtype.F64), e.cast(b, dtype.F64)
	quotient := e.pairs(dtype.F64, x, y, func(x, y regalloc.Reg) regalloc.Reg {
		return e.Unary(loop.Trunc, dtype.F64, e.wide.Div(x, y))
	})
	quotient.Uniform = false
	zero := e.same(a.DType, 0)
	q := e.wholeQuotient(quotient, a.DType)
	q = e.Choose(e.order(loop.Eq, b, zero), zero, q)
	if op == loop.Div {
		return q
	}
	r := e.settle(e.both(loop.Sub, a, e.both(loop.Mul, q, b)))
	r = e.Choose(e.order(loop.Eq, b, zero), zero, r)
	if op == loop.FloorMod && a.DType.IsSigned() {
		r = e.withDivisorsSign(r, b)
	}
	return r
}

// wholeQuotient returns a quotient as an integer of a type, wrapped.
func (e *Emitter) wholeQuotient(q Value, dt dtype.DType) Value {
	if KindOf(dt) == Integers && dt != dtype.U32 {
		return Value{DType: dt, Lo: e.narrow(q, dtype.I32)}
	}
	return e.cast(q, dt)
}

// withDivisorsSign adds the divisor to remainders that are not 0 and have the other sign.
func (e *Emitter) withDivisorsSign(r, b Value) Value {
	zero := e.same(r.DType, 0)
	other := e.Masks(loop.Xor, e.order(loop.Lt, r, zero).Lo, e.order(loop.Lt, b, zero).Lo)
	off := e.Masks(loop.And, other, e.order(loop.Ne, r, zero).Lo)
	return e.Choose(Value{DType: dtype.Bool, Lo: off}, e.settle(e.both(loop.Sub, r, e.both(loop.Sub, zero, b))), r)
}

// divideEach divides 64-bit integers lane after lane in general registers.
func (e *Emitter) divideEach(op loop.BinaryOp, a, b, result Value) {
	lane, again := e.General(), e.Label()
	e.SetNumber(lane, 0)
	e.WholeTurns(again, int64(e.lanes))
	x, y := e.laneAt(asI64(a), lane), e.laneAt(asI64(b), lane)
	one := e.divide(op, e.fromNumber(a.DType, x), e.fromNumber(a.DType, y))
	here := e.allLanes(lane, dtype.I64)
	numbers := e.LaneSteps(sym.Const(1), dtype.I64)
	e.Assign(result.Lo, e.wide.SelectLanes(e.wide.EqualInt(numbers.Lo, here.Lo), one.Lo, result.Lo))
	e.Assign(result.Hi, e.wide.SelectLanes(e.wide.EqualInt(numbers.Hi, here.Lo), one.Lo, result.Hi))
	e.IntegerNumber(Add, lane, 1)
	e.CompareNumber(lane, int64(e.lanes))
	e.JumpIf(Less, again)
}

// asI64 returns the bits of an integer of 64 bits as an i64.
func asI64(v Value) Value {
	v.DType = dtype.I64
	return v
}
