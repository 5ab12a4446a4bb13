package amd64

import (
	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// This file divides integers that differ by lane. The quotient of two integers below 2⁵² is the quotient in f64 without
// its fraction: rounding never reaches the next integer, which is at least 1/y away.

// divideLanes divides in each lane. By 0 the result is 0.
func (e *machine) divideLanes(op loop.BinaryOp, a, b lanes.Value) lanes.Value {
	if a.Kind() == lanes.Integers {
		return e.settle(e.divideExactly(op, a, b))
	}
	// Few numbers are so large that f64 cannot represent them.
	far := e.maskOr(e.beyondDoubles(a), e.beyondDoubles(b))
	usual := e.divideExactly(op, a, b)
	result := lanes.Value{DType: a.DType, Lo: e.CopyOf(usual.Lo), Hi: e.CopyOf(usual.Hi)}
	over := e.Label()
	e.integerImm(asm.CMP, e.bitsOf(far), 0)
	e.jump(asm.JE, over)
	e.divideEach(op, a, b, result)
	e.Bind(over)
	return result
}

// beyondDoubles returns the lanes of 64-bit integers that are not below 2⁵¹, or within ±2⁵⁰.
func (e *machine) beyondDoubles(v lanes.Value) asm.Reg {
	high := e.Each(v, func(x asm.Reg) asm.Reg {
		if v.DType.IsSigned() {
			x = e.three(asm.VPADDQ, x, e.repeated64(1<<50))
		}
		return e.twoImm(asm.VPSRLQ, x, 51)
	})
	zero := lanes.Value{DType: v.DType, Uniform: true, Lo: e.repeated64(0), Hi: e.repeated64(0)}
	return e.maskNot(e.tests(high, zero, e.equalWide).Lo)
}

// divideExactly divides by f64.
func (e *machine) divideExactly(op loop.BinaryOp, a, b lanes.Value) lanes.Value {
	x, y := e.cast(a, dtype.F64), e.cast(b, dtype.F64)
	quotient := e.pairs(dtype.F64, x, y, func(x, y asm.Reg) asm.Reg {
		return e.roundDouble(e.three(asm.VDIVPD, x, y), towardZero)
	})
	quotient.Uniform = false
	if quotient.Hi == asm.NoReg {
		quotient.Hi = quotient.Lo
	}
	zero := e.same(a.DType, 0)
	q := e.wholeQuotient(quotient, a.DType)
	q = e.Choose(e.order(loop.Eq, b, zero), zero, q)
	if op == loop.Div {
		return q
	}
	r := e.settle(e.minus32(a, e.times32(q, b)))
	r = e.Choose(e.order(loop.Eq, b, zero), zero, r)
	if op == loop.FloorMod && a.DType.IsSigned() {
		r = e.withDivisorsSign(r, b)
	}
	return r
}

// wholeQuotient returns a quotient as an integer of a type, wrapped.
func (e *machine) wholeQuotient(q lanes.Value, dt dtype.DType) lanes.Value {
	if lanes.KindOf(dt) == lanes.Integers && dt != dtype.U32 {
		return lanes.Value{DType: dt, Lo: e.fromDoubles(q, asm.VCVTTPD2DQ)}
	}
	return e.cast(q, dt)
}

// minus32 emits a difference of integers of one type, before it is settled.
func (e *machine) minus32(x, y lanes.Value) lanes.Value {
	op := integerOps[loop.Sub][0]
	if x.Kind() == lanes.Longs {
		op = integerOps[loop.Sub][1]
	}
	return e.pairs(x.DType, x, y, func(x, y asm.Reg) asm.Reg { return e.three(op, x, y) })
}

// times32 emits a product of integers of 32 or 64 bits, which wraps.
func (e *machine) times32(x, y lanes.Value) lanes.Value {
	if x.Kind() == lanes.Longs {
		return e.pairs(x.DType, x, y, e.mulWide)
	}
	return e.pairs(x.DType, x, y, e.mulInt)
}

// withDivisorsSign adds the divisor to remainders that are not 0 and have the other sign.
func (e *machine) withDivisorsSign(r, b lanes.Value) lanes.Value {
	zero := e.same(r.DType, 0)
	other := e.maskXor(e.order(loop.Lt, r, zero).Lo, e.order(loop.Lt, b, zero).Lo)
	off := e.maskAnd(other, e.order(loop.Ne, r, zero).Lo)
	return e.Choose(lanes.Value{DType: dtype.Bool, Lo: off}, e.settle(e.minus32(r, e.minus32(zero, b))), r)
}

// divideEach divides 64-bit integers lane after lane in general registers.
func (e *machine) divideEach(op loop.BinaryOp, a, b, result lanes.Value) {
	lane, again := e.General(), e.Label()
	e.SetNumber(lane, 0)
	e.wholeTurns(again, int64(e.isa.lanes))
	x, y := e.laneAt(asI64(a), lane), e.laneAt(asI64(b), lane)
	one := e.divide(op, e.fromNumber(a.DType, x), e.fromNumber(a.DType, y))
	here := e.allLanes(lane, dtype.I64)
	numbers := lanes.Value{DType: dtype.I64, Lo: e.longs(counting(0, e.isa.lanes/2)),
		Hi: e.longs(counting(e.isa.lanes/2, e.isa.lanes/2))}
	e.Assign(result.Lo, e.selectWide(e.equalWide(numbers.Lo, here.Lo), one.Lo, result.Lo))
	e.Assign(result.Hi, e.selectWide(e.equalWide(numbers.Hi, here.Lo), one.Lo, result.Hi))
	e.integerImm(asm.ADD, lane, 1)
	e.integerImm(asm.CMP, lane, int64(e.isa.lanes))
	e.jump(asm.JL, again)
}

// asI64 returns the bits of an integer of 64 bits as an i64.
func asI64(v lanes.Value) lanes.Value {
	v.DType = dtype.I64
	return v
}

// counting returns count integers: first, first+1, ….
func counting(first, count int) []int64 {
	list := make([]int64, count)
	for i := range list {
		list[i] = int64(first + i)
	}
	return list
}
