package lanes

import (
	"math"

	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// This file emits functions whose number of steps depends on the operands: powers of integers, and remainders of
// floats.

// powerInts returns x to the y for integers, by squaring, until no lane's exponent has a bit left.
func (e *Emitter) powerInts(x, y Value) Value {
	zero, one := e.same(x.DType, 0), e.same(x.DType, 1)
	exponent := y
	if y.DType.IsSigned() {
		exponent = e.Choose(e.order(loop.Lt, y, zero), zero, y)
	}
	result, base, left := e.ownCopy(one), e.ownCopy(x), e.ownCopy(exponent)
	again := e.Label()
	e.Turns(again, int64(x.DType.Bits()), false, regalloc.NoReg, 0)
	odd := e.order(loop.Ne, e.bitsIn(left, one), zero)
	e.become(result, e.Choose(odd, e.both(loop.Mul, result, base), result))
	e.become(base, e.both(loop.Mul, base, base))
	e.become(left, e.halvedInts(left))
	e.CompareNumber(e.LaneWord(dtype.I32, e.order(loop.Ne, left, zero).Lo), 0)
	e.JumpIf(NotEqual, again)
	result = e.settle(result)
	if y.DType.IsSigned() {
		result = e.Choose(e.order(loop.Lt, y, zero), e.inversePower(x, y), result)
	}
	result.Uniform = x.Uniform && y.Uniform
	return result
}

// inversePower returns x to a negative y, as an integer: 0 except for x = 1 and x = −1.
func (e *Emitter) inversePower(x, y Value) Value {
	zero, one, less := e.same(x.DType, 0), e.same(x.DType, 1), e.same(x.DType, -1)
	odd := e.order(loop.Ne, e.bitsIn(y, one), zero)
	r := e.Choose(e.order(loop.Eq, x, less), e.Choose(odd, less, one), zero)
	return e.Choose(e.order(loop.Eq, x, one), one, r)
}

// halvedInts shifts the bits of lanes down by one.
func (e *Emitter) halvedInts(v Value) Value {
	dt := unsigned(signed(v.DType))
	return e.Each(v, func(x regalloc.Reg) regalloc.Reg { return e.ShiftBy(loop.Shr, dt, x, 1) })
}

// bitsIn returns the bits that x and y share.
func (e *Emitter) bitsIn(x, y Value) Value { return e.both(loop.And, x, y) }

// ownCopy returns a copy of a value in new registers, which become may overwrite.
func (e *Emitter) ownCopy(v Value) Value {
	r := Value{DType: v.DType, Lo: e.CopyOf(v.Lo)}
	if v.Kind().Wide() {
		r.Hi = e.CopyOf(v.Hi)
	}
	return r
}

// become overwrites the registers of a value with another's.
func (e *Emitter) become(to, v Value) {
	e.Assign(to.Lo, v.Lo)
	if to.Kind().Wide() {
		e.Assign(to.Hi, v.Hi)
	}
}

// remainderFloats returns the remainder of x by y with the sign of x, for floats of up to 32 bits. It is exact, since
// f64 represents all intermediate results.
func (e *Emitter) remainderFloats(x, y Value) Value {
	a, b := e.ownCopy(e.cast(x, dtype.F64)), e.ownCopy(e.cast(y, dtype.F64))
	r := e.pairs(dtype.F64, a, b, e.remainderWide)
	r.Uniform = x.Uniform && y.Uniform
	return e.cast(r, x.DType)
}

// remainderWide is remainderFloats for one register of f64.
func (e *Emitter) remainderWide(x, y regalloc.Reg) regalloc.Reg {
	size := e.Repeated(dtype.I64, 1<<63-1)
	a, b := e.wide.And(x, size), e.wide.And(y, size)
	compare := e.wide.Compare
	finite := compare(mathematics.Less, a, e.wide.Float(math.Inf(1)))
	some := compare(mathematics.Greater, b, e.wide.Float(0))
	endless := compare(mathematics.Equal, b, e.wide.Float(math.Inf(1)))
	b = e.wide.SelectLanes(some, b, e.wide.Float(1))
	b = e.wide.SelectLanes(endless, e.wide.Float(math.MaxFloat64), b)
	r := e.CopyOf(e.wide.SelectLanes(finite, a, e.wide.Float(0)))
	e.remainderSteps(r, b)
	signed := e.wide.Or(r, e.wide.And(x, e.Repeated(dtype.I64, 1<<63)))
	nan := e.wide.Float(math.NaN())
	return e.wide.SelectLanes(finite, e.wide.SelectLanes(some, signed, nan), nan)
}

// remainderSteps takes multiples of b, which is normal, from r until r is less. Each step takes forty bits of the 300
// by which they may differ.
func (e *Emitter) remainderSteps(r, b regalloc.Reg) {
	const bits = 40
	again := e.Label()
	e.Turns(again, 300/bits+1, false, regalloc.NoReg, 0)
	exponent := func(x regalloc.Reg) regalloc.Reg { return e.wide.ShiftRight(x, 52) }
	apart := e.wide.SubInt(e.wide.SubInt(exponent(r), exponent(b)), e.Repeated(dtype.I64, bits))
	apart = e.wide.SelectLanes(e.wide.GreaterInt(apart, e.Repeated(dtype.I64, 0)), apart, e.Repeated(dtype.I64, 0))
	t := e.wide.AddInt(b, e.wide.ShiftLeft(apart, 52))
	q := e.Unary(loop.Trunc, dtype.F64, e.wide.Div(r, t))
	next := e.wide.Fnma(q, t, r)
	below := e.wide.Compare(mathematics.Less, next, e.wide.Float(0))
	e.Assign(r, e.wide.SelectLanes(below, e.wide.Add(next, t), next))
	more := e.wide.Compare(mathematics.GreaterOrEqual, r, b)
	e.CompareNumber(e.LaneWord(dtype.I64, more), 0)
	e.JumpIf(NotEqual, again)
}
