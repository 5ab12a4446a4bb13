package lanes

import (
	"encoding/binary"

	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// This file emits symbolic integers that differ by lane in any way: quotients and remainders, minima and maxima,
// checked values, steps that are not constant. They are vectors of i32 if the ranges of their names show that all fit,
// else of i64.

// laneInteger returns a symbolic integer in all lanes: as i32, of which the low bits are right, or as i64.
func (e *Emitter) laneInteger(x sym.Expr, dt dtype.DType) Value {
	x = e.Resolve(x)
	if v, ok := x.Const(); ok {
		if dt == dtype.I32 {
			v = int64(int32(v))
		}
		return e.same(dt, v)
	}
	key := "n " + dt.String() + " " + x.Key()
	return e.Once(e.DepthOf(x), key, func() Ready {
		if e.Varies(x) {
			return Ready{Value: e.laneSum(x, dt)}
		}
		return Ready{Value: e.allLanes(e.IntegerOf(x), dt)}
	}).Value
}

// allLanes returns a general register in all lanes.
func (e *Emitter) allLanes(r regalloc.Reg, dt dtype.DType) Value {
	v := Value{DType: dt, Uniform: true}
	if dt == dtype.I64 {
		v.Lo = e.Broadcast(dtype.I64, r)
		v.Hi = v.Lo
		return v
	}
	v.Lo = e.Broadcast(dtype.I32, r)
	return v
}

// laneSum adds up an integer that differs by lane.
func (e *Emitter) laneSum(x sym.Expr, dt dtype.DType) Value {
	p := e.TakeApart(x)
	var total Value
	add := func(v Value) {
		if total.Lo == regalloc.NoReg {
			total = v
		} else {
			total = e.plus(total, v)
		}
	}
	if !IsZero(p.Step) {
		add(e.LaneSteps(p.Step, dt))
	}
	_, terms := p.Rest.Terms()
	for _, t := range terms {
		add(e.laneProduct(t, dt))
	}
	if !IsZero(p.Base) {
		add(e.firstLane(p.Base, dt))
	}
	return total
}

// firstLane returns the value of lane 0 of an integer that steps evenly, in all lanes.
func (e *Emitter) firstLane(x sym.Expr, dt dtype.DType) Value {
	if _, ok := x.Const(); ok {
		return e.laneInteger(x, dt)
	}
	return e.Once(e.DepthOf(x), "f "+dt.String()+" "+x.Key(), func() Ready {
		return Ready{Value: e.allLanes(e.IntegerOf(x), dt)}
	}).Value
}

// plus, minus and times return a sum, a difference and a product of integers of one type, i32 or i64.
func (e *Emitter) plus(x, y Value) Value  { return e.both(loop.Add, x, y) }
func (e *Emitter) minus(x, y Value) Value { return e.both(loop.Sub, x, y) }
func (e *Emitter) times(x, y Value) Value { return e.both(loop.Mul, x, y) }

// LaneSteps returns 0, step, 2 × step, … in the lanes.
func (e *Emitter) LaneSteps(step sym.Expr, dt dtype.DType) Value {
	by, constant := step.Const()
	if !constant {
		return e.Once(e.DepthOf(step), "s "+dt.String()+" "+step.Key(), func() Ready {
			return Ready{Value: e.times(e.LaneSteps(sym.Const(1), dt), e.allLanes(e.IntegerOf(step), dt))}
		}).Value
	}
	if dt == dtype.I32 {
		return Value{DType: dt, Lo: e.perLane(func(lane int) int { return lane * int(by) })}
	}
	half := func(first int) regalloc.Reg {
		var bytes []byte
		for lane := range e.lanes / 2 {
			bytes = binary.LittleEndian.AppendUint64(bytes, uint64(int64(first+lane)*by))
		}
		return e.Vector(bytes)
	}
	return Value{DType: dt, Lo: half(0), Hi: half(e.lanes / 2)}
}

// laneProduct returns a product of factors and a number.
func (e *Emitter) laneProduct(t sym.Term, dt dtype.DType) Value {
	var result Value
	number := sym.Const(t.Coef)
	for _, f := range t.Factors {
		x := e.Resolve(f.Expr())
		if !e.Varies(x) {
			number = number.Mul(x)
			continue
		}
		v := e.laneFactor(f, dt)
		if result.Lo != regalloc.NoReg {
			v = e.times(result, v)
		}
		result = v
	}
	switch c, ok := number.Const(); {
	case ok && c == 1:
		return result
	case ok && c == -1:
		return e.minus(e.same(dt, 0), result)
	case ok && c > 0 && c&(c-1) == 0:
		return e.shiftBy(loop.Shl, result, int64(Log2(c)))
	}
	return e.times(result, e.laneInteger(number, dt))
}

// shiftBy shifts integers of i32 or i64 by one count.
func (e *Emitter) shiftBy(op loop.BinaryOp, v Value, n int64) Value {
	return e.Each(v, func(x regalloc.Reg) regalloc.Reg { return e.ShiftBy(op, v.DType, x, n) })
}

// laneFactor returns a factor's value in each lane.
func (e *Emitter) laneFactor(f sym.Factor, dt dtype.DType) Value {
	x := f.Expr()
	return e.Once(e.DepthOf(x), "q "+dt.String()+" "+x.Key(), func() Ready {
		return Ready{Value: e.laneFunction(f, dt)}
	}).Value
}

// laneFunction returns the value of one factor of an index in each lane, as an integer of type dt.
func (e *Emitter) laneFunction(f sym.Factor, dt dtype.DType) Value {
	switch f.Kind {
	case sym.Variable:
		if f.Name == e.Strip.Variable {
			return e.plus(e.LaneSteps(sym.Const(1), dt), e.firstLane(f.Expr(), dt))
		}
		return e.cast(e.Names[f.Name].Lanes, dt)
	case sym.Least, sym.Greatest:
		r := e.laneInteger(f.Args[0], dt)
		for _, x := range f.Args[1:] {
			r = e.laneExtreme(f.Kind == sym.Greatest, r, e.laneInteger(x, dt))
		}
		return r
	case sym.FloorQuotient, sym.Remainder, sym.CeilQuotient:
		return e.laneQuotient(f, dt)
	case sym.FactorProduct, sym.FactorSum:
		op := e.times
		if f.Kind == sym.FactorSum {
			op = e.plus
		}
		r := e.laneInteger(f.Args[0], dt)
		for _, x := range f.Args[1:] {
			r = op(r, e.laneInteger(x, dt))
		}
		return r
	}
	Refuse("an integer that is too large")
	return Value{}
}

// laneExtreme returns the greater or the lesser of two integers of one type.
func (e *Emitter) laneExtreme(greatest bool, x, y Value) Value {
	op := map[bool]loop.BinaryOp{false: loop.Min, true: loop.Max}[greatest]
	switch {
	case e.Has(op, x.DType):
		return e.both(op, x, y)
	case greatest:
		return e.Choose(e.above(x, y), x, y)
	}
	return e.Choose(e.above(x, y), y, x)
}

// laneQuotient divides each lane by one divisor, which is 1 or more, rounding down (or up), or takes the remainder.
func (e *Emitter) laneQuotient(f sym.Factor, dt dtype.DType) Value {
	x, y := e.Resolve(f.Args[0]), e.Resolve(f.Args[1])
	if e.Varies(y) {
		Refuse("a division by %s, which differs by lane", y)
	}
	if lo, _ := e.Bounds(y); lo < 1 {
		if !e.OverDims(y) || !e.Kernel.Divisors.Positive(y) {
			Refuse("a division by %s, which is not known to be 1 or more", y)
		}
		y = y.Max(sym.Const(1))
	}
	if f.Kind == sym.Remainder && e.Wraps(x, y) {
		v := e.laneInteger(x, dt)
		return e.Choose(e.above(e.same(dt, 0), v), e.plus(v, e.laneInteger(y, dt)), v)
	}
	if f.Kind == sym.CeilQuotient { // ⌈x/y⌉ = ⌊(x+y−1)/y⌋
		x = x.Add(y).Sub(sym.Const(1))
		if dt == dtype.I32 && !e.Fits(x) {
			Refuse("a division of %s in lanes", x)
		}
	}
	v := e.laneInteger(x, dt)
	if c, ok := y.Const(); ok && c&(c-1) == 0 && e.Has(loop.Shr, dt) {
		if f.Kind == sym.Remainder {
			mask := e.same(dt, c-1)
			return e.both(loop.And, v, mask)
		}
		return e.shiftBy(loop.Shr, v, int64(Log2(c)))
	}
	lo, hi := e.Bounds(x)
	q := e.laneDivide(v, y, lo, hi)
	if f.Kind == sym.Remainder {
		return e.minus(v, e.times(q, e.laneInteger(y, dt)))
	}
	return q
}

// above returns the lanes in which x is greater than y.
func (e *Emitter) above(x, y Value) Value {
	if x.DType == dtype.I64 {
		return e.tests(x, y, e.wide.GreaterInt)
	}
	return e.tests(x, y, e.word.GreaterInt)
}

// exactly is the magnitude below which x/y is found by one product of the f32 x + ½ and the reciprocal of y: the
// product is at least ½/y away from an integer, and its error is less than four parts in 2²⁴. With f64 all lanes of 32
// bits are below the magnitude, exactlyWide.
const exactly, exactlyWide = 1 << 20, 1 << 49

// laneDivide returns ⌊v/y⌋, v being at least lo and at most hi.
func (e *Emitter) laneDivide(v Value, y sym.Expr, lo, hi int64) Value {
	down := lo < 0
	if v.DType == dtype.I32 && lo > -exactly && hi < exactly {
		by := e.Once(e.DepthOf(y), "r32 "+y.Key(), func() Ready {
			return Ready{Value: Value{DType: dtype.F32, Uniform: true,
				Lo: e.word.Div(e.word.Float(1), e.word.ToFloat(e.laneInteger(y, dtype.I32).Lo))}}
		}).Value.Lo
		half := e.Once(e.DepthOf(y), "h32 "+y.Key(), func() Ready {
			return Ready{Value: Value{DType: dtype.F32, Uniform: true, Lo: e.word.Mul(by, e.word.Float(0.5))}}
		}).Value.Lo
		q := e.word.Fma(e.word.ToFloat(v.Lo), by, half)
		if down {
			q = e.Unary(loop.Floor, dtype.F32, q)
		}
		return Value{DType: dtype.I32, Uniform: v.Uniform, Lo: e.Convert(dtype.F32, dtype.I32, q)}
	}
	by, half := e.reciprocalWide(y)
	times := func(x regalloc.Reg) regalloc.Reg {
		q := e.wide.Fma(x, by, half)
		if down || v.DType == dtype.I64 {
			q = e.Unary(loop.Floor, dtype.F64, q)
		}
		return q
	}
	if v.DType == dtype.I32 {
		d := e.Each(e.widen(v, dtype.F64), times)
		return Value{DType: dtype.I32, Uniform: v.Uniform, Lo: e.narrow(d, dtype.I32)}
	}
	if !e.Converts(dtype.I64, dtype.F64) {
		Refuse("a division of 64 bits in lanes")
	}
	if lo > -exactlyWide && hi < exactlyWide {
		return e.Each(v, func(x regalloc.Reg) regalloc.Reg {
			return e.Convert(dtype.F64, dtype.I64, times(e.Convert(dtype.I64, dtype.F64, x)))
		})
	}
	return e.Each(v, func(x regalloc.Reg) regalloc.Reg { return e.divideLong(x, e.laneInteger(y, dtype.I64).Lo, times) })
}

// divideLong returns ⌊x/y⌋ of any integers: an estimate, an estimate of the remaining quotient, and a correction by 1.
func (e *Emitter) divideLong(x, y regalloc.Reg, estimate func(x regalloc.Reg) regalloc.Reg) regalloc.Reg {
	rest, q := x, e.Repeated(dtype.I64, 0)
	for range 2 {
		part := e.Convert(dtype.F64, dtype.I64, estimate(e.Convert(dtype.I64, dtype.F64, rest)))
		q, rest = e.wide.AddInt(q, part), e.wide.SubInt(rest, e.wide.MulInt(part, y))
	}
	one := e.Repeated(dtype.I64, 1)
	few, many := e.wide.GreaterInt(e.Repeated(dtype.I64, 0), rest), e.MaskNot(e.wide.GreaterInt(y, rest))
	q = e.wide.SelectLanes(few, e.wide.SubInt(q, one), q)
	return e.wide.SelectLanes(many, e.wide.AddInt(q, one), q)
}

// reciprocalWide returns 1/y and ½/y as f64 in all lanes.
func (e *Emitter) reciprocalWide(y sym.Expr) (by, half regalloc.Reg) {
	by = e.Once(e.DepthOf(y), "r64 "+y.Key(), func() Ready {
		d := e.cast(e.allLanes(e.IntegerOf(y), dtype.I64), dtype.F64)
		return Ready{Value: Value{DType: dtype.F64, Uniform: true, Lo: e.wide.Div(e.wide.Float(1), d.Lo)}}
	}).Value.Lo
	half = e.Once(e.DepthOf(y), "h64 "+y.Key(), func() Ready {
		return Ready{Value: Value{DType: dtype.F64, Uniform: true, Lo: e.wide.Mul(by, e.wide.Float(0.5))}}
	}).Value.Lo
	return by, half
}
