package amd64

import (
	"math"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// This file emits functions whose number of steps depends on the operands: powers of integers, and remainders of
// floats.

// powerInts returns x to the y for integers, by squaring, until no lane's exponent has a bit left.
func (e *machine) powerInts(x, y lanes.Value) lanes.Value {
	zero, one := e.same(x.DType, 0), e.same(x.DType, 1)
	exponent := y
	if y.DType.IsSigned() {
		exponent = e.Choose(e.order(loop.Lt, y, zero), zero, y)
	}
	result, base, left := e.ownCopy(one), e.ownCopy(x), e.ownCopy(exponent)
	again := e.Label()
	e.Turns(again, int64(x.DType.Bits()), false, asm.NoReg, 0)
	odd := e.order(loop.Ne, e.bitsIn(left, one), zero)
	e.become(result, e.Choose(odd, e.times32(result, base), result))
	e.become(base, e.times32(base, base))
	e.become(left, e.Each(left, e.halvedInts(x)))
	e.integerImm(asm.CMP, e.bitsOf(e.order(loop.Ne, left, zero).Lo), 0)
	e.jump(asm.JNE, again)
	result = e.settle(result)
	if y.DType.IsSigned() {
		result = e.Choose(e.order(loop.Lt, y, zero), e.inversePower(x, y), result)
	}
	result.Uniform = x.Uniform && y.Uniform
	return result
}

// inversePower returns x to a negative y, as an integer: 0 except for x = 1 and x = −1.
func (e *machine) inversePower(x, y lanes.Value) lanes.Value {
	zero, one, less := e.same(x.DType, 0), e.same(x.DType, 1), e.same(x.DType, -1)
	odd := e.order(loop.Ne, e.bitsIn(y, one), zero)
	r := e.Choose(e.order(loop.Eq, x, less), e.Choose(odd, less, one), zero)
	return e.Choose(e.order(loop.Eq, x, one), one, r)
}

// halvedInts returns a function that shifts the bits of lanes down by one.
func (e *machine) halvedInts(x lanes.Value) func(x asm.Reg) asm.Reg {
	op := asm.VPSRLD
	if x.Kind() == lanes.Longs {
		op = asm.VPSRLQ
	}
	return func(x asm.Reg) asm.Reg { return e.twoImm(op, x, 1) }
}

// bitsIn returns the bits that x and y share.
func (e *machine) bitsIn(x, y lanes.Value) lanes.Value { return e.pairs(x.DType, x, y, e.and) }

// ownCopy returns a copy of a value in new registers, which become may overwrite.
func (e *machine) ownCopy(v lanes.Value) lanes.Value {
	r := lanes.Value{DType: v.DType, Lo: e.CopyOf(v.Lo)}
	if v.Kind().Wide() {
		r.Hi = e.CopyOf(v.Hi)
	}
	return r
}

// become overwrites the registers of a value with another's.
func (e *machine) become(to, v lanes.Value) {
	e.Assign(to.Lo, v.Lo)
	if to.Kind().Wide() {
		e.Assign(to.Hi, v.Hi)
	}
}

// remainderFloats returns the remainder of x by y with the sign of x, for floats of up to 32 bits. It is exact, since
// f64 represents all intermediate results.
func (e *machine) remainderFloats(x, y lanes.Value) lanes.Value {
	a, b := e.ownCopy(e.cast(x, dtype.F64)), e.ownCopy(e.cast(y, dtype.F64))
	r := e.pairs(dtype.F64, a, b, e.remainderWide)
	r.Uniform = x.Uniform && y.Uniform
	return e.cast(r, x.DType)
}

// remainderWide is remainderFloats for one register of f64.
func (e *machine) remainderWide(x, y asm.Reg) asm.Reg {
	size := e.repeated64(1<<63 - 1)
	a, b := e.and(x, size), e.and(y, size)
	compare := func(p predicate, x, y asm.Reg) asm.Reg { return e.compareWith(asm.VCMPPD, int64(p), x, y) }
	finite, some := compare(less, a, e.double(math.Inf(1))), compare(greater, b, e.double(0))
	endless := compare(equal, b, e.double(math.Inf(1)))
	b = e.selectWide(some, b, e.double(1))
	b = e.selectWide(endless, e.double(math.MaxFloat64), b)
	r := e.CopyOf(e.selectWide(finite, a, e.double(0)))
	e.remainderSteps(r, b)
	signed := e.or(r, e.and(x, e.repeated64(1<<63)))
	nan := e.double(math.NaN())
	return e.selectWide(finite, e.selectWide(some, signed, nan), nan)
}

// remainderSteps takes multiples of b, which is normal, from r until r is less. Each step takes forty bits of the 300
// by which they may differ.
func (e *machine) remainderSteps(r, b asm.Reg) {
	const bits = 40
	again := e.Label()
	e.Turns(again, 300/bits+1, false, asm.NoReg, 0)
	exponent := func(x asm.Reg) asm.Reg { return e.twoImm(asm.VPSRLQ, x, 52) }
	apart := e.three(asm.VPSUBQ, e.three(asm.VPSUBQ, exponent(r), exponent(b)), e.repeated64(bits))
	apart = e.selectWide(e.greaterWide(apart, e.repeated64(0)), apart, e.repeated64(0))
	t := e.three(asm.VPADDQ, b, e.twoImm(asm.VPSLLQ, apart, 52))
	q := e.roundDouble(e.three(asm.VDIVPD, r, t), towardZero)
	next := e.fused(asm.VFNMADD231PD, q, t, r)
	below := e.compareWith(asm.VCMPPD, int64(less), next, e.double(0))
	e.Assign(r, e.selectWide(below, e.three(asm.VADDPD, next, t), next))
	more := e.compareWith(asm.VCMPPD, int64(greaterOrEqual), r, b)
	e.integerImm(asm.CMP, e.bitsOfWide(more), 0)
	e.jump(asm.JNE, again)
}

// bitsOfWide is bitsOf for a mask of lanes of 64 bits.
func (e *machine) bitsOfWide(mask asm.Reg) asm.Reg {
	r := e.General()
	if !e.isa.masks {
		e.Emit(asm.Inst{Op: asm.VMOVMSKPD, Bits: uint16(e.isa.bits), Args: [4]asm.Reg{r, mask}})
		return r
	}
	e.Emit(asm.Inst{Op: asm.KMOVW, Bits: 32, Args: [4]asm.Reg{r, mask}})
	e.integerImm(asm.AND, r, 1<<(e.isa.lanes/2)-1)
	return r
}
