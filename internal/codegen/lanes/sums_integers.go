package lanes

import (
	"math"

	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// This file converts a tile's sums to and from the integers of a quantised result. Registers hold narrow integers as
// lanes of i32.

// cast emits a conversion among i32, f32 and narrower integers.
func (x *sumExpressions) cast(v *loop.Cast) (regalloc.Reg, bool) {
	from := v.X.DType()
	switch {
	case v.Type == dtype.F32 && x.widened(v.X), v.Type == dtype.I32 && inLanes(from):
		return x.value(v.X)
	case v.Type == dtype.F32 && inLanes(from):
		return x.converted(ToFloat, v.X)
	case from == dtype.F32 && inLanes(v.Type):
		if q, ok := loop.QuantisedOf(v); ok {
			return x.quantise(q)
		}
		if within(v) {
			return x.truncated(v.X)
		}
	}
	Refuse("a conversion of %s to %s among sums", from, v.Type)
	return regalloc.NoReg, false
}

// converted emits a conversion.
func (x *sumExpressions) converted(how Conversion, v loop.Expr) (regalloc.Reg, bool) {
	r, own := x.value(v)
	to := x.t.result(r, own)
	x.t.ConvertLanes(x.t, how, to, r)
	return to, true
}

// widened reports whether an expression has narrow floats, which registers hold as f32.
func (x *sumExpressions) widened(v loop.Expr) bool {
	l, ok := v.(*loop.Load)
	return ok && x.places[l].form.Narrow() && l.Type.IsFloat()
}

// inLanes reports whether lanes of i32 hold all numbers of a type.
func inLanes(dt dtype.DType) bool {
	return Kinds[dt] == Integers && dt != dtype.U32 && !Packs(dt)
}

// within reports whether a maximum and a minimum keep a conversion's operand within the result type's range; it may
// still be NaN.
func within(c *loop.Cast) bool {
	low, high, v := math.Inf(-1), math.Inf(1), c.X
	for {
		if bound, rest, ok := loop.ConstantAnd(v, loop.Max); ok && math.IsInf(low, -1) {
			low, v = float64(bound), rest
		} else if bound, rest, ok := loop.ConstantAnd(v, loop.Min); ok && math.IsInf(high, 1) {
			high, v = float64(bound), rest
		} else {
			break
		}
	}
	return c.Type.Bits() <= 16 && low <= high && low >= float64(c.Type.MinInt()) && high <= float64(c.Type.MaxInt())
}

// truncated converts floats within a type's range to integers, toward zero; NaN becomes 0.
func (x *sumExpressions) truncated(v loop.Expr) (regalloc.Reg, bool) {
	t := x.t
	r, own := x.value(v)
	to := t.result(r, own)
	numbers := t.takeMask()
	t.NumberLanes(t, numbers, r)
	t.ConvertLanes(t, TowardZero, to, r)
	t.KeepLanes(t, numbers, to)
	t.giveMask(numbers)
	return to, true
}

// quantise emits a quotient by a constant that is rounded and kept within bounds.
func (x *sumExpressions) quantise(q loop.Quantised) (regalloc.Reg, bool) {
	t := x.t
	from, own := x.value(q.X)
	all := func(v float32) Operand { return t.RepeatedBits(t, uint64(math.Float32bits(v))) }
	calculate := func(op loop.BinaryOp, to, x regalloc.Reg, y Operand) { t.Calculate(t, op, dtype.F32, to, x, y) }
	r := regalloc.NoReg
	if q.Rest == 0 {
		r = t.result(from, own)
		calculate(loop.Mul, r, from, all(q.First))
	} else {
		r = t.Take()
		calculate(loop.Mul, r, from, all(q.Rest))
		t.AddTimes(t, r, from, all(q.First))
		if own {
			t.Give(from)
		}
	}
	// NaN must become 0. If the least value takes its place (Sums.Second), and becomes 0 at the end, it does.
	numbers, lost := regalloc.NoReg, !t.Second || q.Low != 0
	if lost {
		numbers = t.takeMask()
		t.NumberLanes(t, numbers, r)
	}
	calculate(loop.Max, r, r, all(q.Low-q.Zero))
	calculate(loop.Min, r, r, all(q.High-q.Zero))
	t.ConvertLanes(t, ToNearest, r, r)
	if q.Zero != 0 {
		t.Calculate(t, loop.Add, dtype.I32, r, r, t.RepeatedBits(t, uint64(uint32(int32(q.Zero)))))
	}
	if lost {
		t.KeepLanes(t, numbers, r)
		t.giveMask(numbers)
	}
	return r, true
}
