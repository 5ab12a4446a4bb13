package amd64

import (
	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// This file divides integers that differ by lane. The quotient of two integers below 2⁵² is the quotient in f64 without
// its fraction: rounding never reaches the next integer, which is at least 1/y away.

// divideLanes divides in each lane. By 0 the result is 0.
func (e *emitter) divideLanes(op loop.BinaryOp, a, b value) value {
	if a.kind() == integers {
		return e.settle(e.divideExactly(op, a, b))
	}
	// Few numbers are so large that f64 cannot represent them.
	far := e.maskOr(e.beyondDoubles(a), e.beyondDoubles(b))
	usual := e.divideExactly(op, a, b)
	result := value{dtype: a.dtype, lo: e.copyOf(usual.lo), hi: e.copyOf(usual.hi)}
	over := e.label()
	e.integerImm(asm.CMP, e.bitsOf(far), 0)
	e.jump(asm.JE, over)
	e.divideEach(op, a, b, result)
	e.bind(over)
	return result
}

// beyondDoubles returns the lanes of 64-bit integers that are not below 2⁵¹, or within ±2⁵⁰.
func (e *emitter) beyondDoubles(v value) asm.Reg {
	high := e.each(v, func(x asm.Reg) asm.Reg {
		if v.dtype.IsSigned() {
			x = e.three(asm.VPADDQ, x, e.repeated64(1<<50))
		}
		return e.twoImm(asm.VPSRLQ, x, 51)
	})
	zero := value{dtype: v.dtype, uniform: true, lo: e.repeated64(0), hi: e.repeated64(0)}
	return e.maskNot(e.tests(high, zero, e.equalWide).lo)
}

// divideExactly divides by f64.
func (e *emitter) divideExactly(op loop.BinaryOp, a, b value) value {
	x, y := e.cast(a, dtype.F64), e.cast(b, dtype.F64)
	quotient := e.pairs(dtype.F64, x, y, func(x, y asm.Reg) asm.Reg {
		return e.roundDouble(e.three(asm.VDIVPD, x, y), towardZero)
	})
	quotient.uniform = false
	if quotient.hi == asm.NoReg {
		quotient.hi = quotient.lo
	}
	zero := e.same(a.dtype, 0)
	q := e.wholeQuotient(quotient, a.dtype)
	q = e.choose(e.order(loop.Eq, b, zero), zero, q)
	if op == loop.Div {
		return q
	}
	r := e.settle(e.minus32(a, e.times32(q, b)))
	r = e.choose(e.order(loop.Eq, b, zero), zero, r)
	if op == loop.FloorMod && a.dtype.IsSigned() {
		r = e.withDivisorsSign(r, b)
	}
	return r
}

// wholeQuotient returns a quotient as an integer of a type, wrapped.
func (e *emitter) wholeQuotient(q value, dt dtype.DType) value {
	if kindOf(dt) == integers && dt != dtype.U32 {
		return value{dtype: dt, lo: e.fromDoubles(q, asm.VCVTTPD2DQ)}
	}
	return e.cast(q, dt)
}

// minus32 emits a difference of integers of one type, before it is settled.
func (e *emitter) minus32(x, y value) value {
	op := integerOps[loop.Sub][0]
	if x.kind() == longs {
		op = integerOps[loop.Sub][1]
	}
	return e.pairs(x.dtype, x, y, func(x, y asm.Reg) asm.Reg { return e.three(op, x, y) })
}

// times32 emits a product of integers of 32 or 64 bits, which wraps.
func (e *emitter) times32(x, y value) value {
	if x.kind() == longs {
		return e.pairs(x.dtype, x, y, e.mulWide)
	}
	return e.pairs(x.dtype, x, y, e.mulInt)
}

// withDivisorsSign adds the divisor to remainders that are not 0 and have the other sign.
func (e *emitter) withDivisorsSign(r, b value) value {
	zero := e.same(r.dtype, 0)
	other := e.maskXor(e.order(loop.Lt, r, zero).lo, e.order(loop.Lt, b, zero).lo)
	off := e.maskAnd(other, e.order(loop.Ne, r, zero).lo)
	return e.choose(value{dtype: dtype.Bool, lo: off}, e.settle(e.minus32(r, e.minus32(zero, b))), r)
}

// divideEach divides 64-bit integers lane after lane in general registers.
func (e *emitter) divideEach(op loop.BinaryOp, a, b, result value) {
	lane, again := e.general(), e.label()
	e.setNumber(lane, 0)
	e.wholeTurns(again, int64(e.isa.lanes))
	x, y := e.laneAt(a.asI64(), lane), e.laneAt(b.asI64(), lane)
	one := e.divide(op, e.fromNumber(a.dtype, x), e.fromNumber(a.dtype, y))
	here := e.allLanes(lane, dtype.I64)
	numbers := value{dtype: dtype.I64, lo: e.longs(counting(0, e.isa.lanes/2)),
		hi: e.longs(counting(e.isa.lanes/2, e.isa.lanes/2))}
	e.assign(result.lo, e.selectWide(e.equalWide(numbers.lo, here.lo), one.lo, result.lo))
	e.assign(result.hi, e.selectWide(e.equalWide(numbers.hi, here.lo), one.lo, result.hi))
	e.integerImm(asm.ADD, lane, 1)
	e.integerImm(asm.CMP, lane, int64(e.isa.lanes))
	e.jump(asm.JL, again)
}

// asI64 returns the bits of an integer of 64 bits as an i64.
func (v value) asI64() value {
	v.dtype = dtype.I64
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
