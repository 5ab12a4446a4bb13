package amd64

import (
	"encoding/binary"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
)

// This file emits symbolic integers that differ by lane in any way: quotients and remainders, minima and maxima,
// checked values, steps that are not constant. They are vectors of i32 if the ranges of their names show that all fit,
// else of i64.

// laneInteger returns a symbolic integer in all lanes: as i32, of which the low bits are right, or as i64.
func (e *machine) laneInteger(x sym.Expr, dt dtype.DType) lanes.Value {
	x = e.Resolve(x)
	if v, ok := x.Const(); ok {
		if dt == dtype.I32 {
			v = int64(int32(v))
		}
		return e.same(dt, v)
	}
	key := "n " + dt.String() + " " + x.Key()
	return e.Once(e.DepthOf(x), key, func() lanes.Ready {
		if e.Varies(x) {
			return lanes.Ready{Value: e.laneSum(x, dt)}
		}
		return lanes.Ready{Value: e.allLanes(e.IntegerOf(x), dt)}
	}).Value
}

// allLanes returns a general register in all lanes.
func (e *machine) allLanes(r asm.Reg, dt dtype.DType) lanes.Value {
	v := lanes.Value{DType: dt, Uniform: true}
	if dt == dtype.I64 {
		v.Lo = e.broadcastWide(r)
		v.Hi = v.Lo
		return v
	}
	v.Lo = e.broadcastInt(r)
	return v
}

// laneSum adds up an integer that differs by lane.
func (e *machine) laneSum(x sym.Expr, dt dtype.DType) lanes.Value {
	p := e.TakeApart(x)
	var total lanes.Value
	add := func(v lanes.Value) {
		if total.Lo == asm.NoReg {
			total = v
		} else {
			total = e.plus(total, v)
		}
	}
	if !lanes.IsZero(p.Step) {
		add(e.LaneSteps(p.Step, dt))
	}
	_, terms := p.Rest.Terms()
	for _, t := range terms {
		add(e.laneProduct(t, dt))
	}
	if !lanes.IsZero(p.Base) {
		add(e.firstLane(p.Base, dt))
	}
	return total
}

// firstLane returns the value of lane 0 of an integer that steps evenly, in all lanes.
func (e *machine) firstLane(x sym.Expr, dt dtype.DType) lanes.Value {
	if _, ok := x.Const(); ok {
		return e.laneInteger(x, dt)
	}
	return e.Once(e.DepthOf(x), "f "+dt.String()+" "+x.Key(), func() lanes.Ready {
		return lanes.Ready{Value: e.allLanes(e.IntegerOf(x), dt)}
	}).Value
}

// plus returns a sum of integers of one type.
func (e *machine) plus(x, y lanes.Value) lanes.Value {
	op := asm.VPADDD
	if x.DType == dtype.I64 {
		op = asm.VPADDQ
	}
	return e.pairs(x.DType, x, y, func(x, y asm.Reg) asm.Reg { return e.three(op, x, y) })
}

// minus emits a difference of integers of 32 or 64 bits.
func (e *machine) minus(x, y lanes.Value) lanes.Value {
	op := asm.VPSUBD
	if x.DType == dtype.I64 {
		op = asm.VPSUBQ
	}
	return e.pairs(x.DType, x, y, func(x, y asm.Reg) asm.Reg { return e.three(op, x, y) })
}

// timesLanes returns a product of integers of one type.
func (e *machine) timesLanes(x, y lanes.Value) lanes.Value {
	op := e.mulInt
	if x.DType == dtype.I64 {
		op = e.mulWide
	}
	return e.pairs(x.DType, x, y, op)
}

// LaneSteps returns 0, step, 2 × step, … in the lanes.
func (e *machine) LaneSteps(step sym.Expr, dt dtype.DType) lanes.Value {
	by, constant := step.Const()
	if !constant {
		return e.Once(e.DepthOf(step), "s "+dt.String()+" "+step.Key(), func() lanes.Ready {
			return lanes.Ready{Value: e.timesLanes(e.LaneSteps(sym.Const(1), dt), e.allLanes(e.IntegerOf(step), dt))}
		}).Value
	}
	if dt == dtype.I32 {
		var steps []byte
		for i := range e.isa.lanes {
			steps = binary.LittleEndian.AppendUint32(steps, uint32(int64(i)*by))
		}
		return lanes.Value{DType: dt, Lo: e.poolVector(steps)}
	}
	half := e.isa.lanes / 2
	lo, hi := make([]int64, half), make([]int64, half)
	for i := range half {
		lo[i], hi[i] = int64(i)*by, int64(i+half)*by
	}
	return lanes.Value{DType: dt, Lo: e.longs(lo), Hi: e.longs(hi)}
}

// laneProduct returns a product of factors and a number.
func (e *machine) laneProduct(t sym.Term, dt dtype.DType) lanes.Value {
	var result lanes.Value
	number := sym.Const(t.Coef)
	for _, f := range t.Factors {
		x := e.Resolve(f.Expr())
		if !e.Varies(x) {
			number = number.Mul(x)
			continue
		}
		v := e.laneFactor(f, dt)
		if result.Lo != asm.NoReg {
			v = e.timesLanes(result, v)
		}
		result = v
	}
	switch c, ok := number.Const(); {
	case ok && c == 1:
		return result
	case ok && c == -1:
		return e.minus(e.same(dt, 0), result)
	case ok && c > 0 && c&(c-1) == 0:
		op := asm.VPSLLD
		if dt == dtype.I64 {
			op = asm.VPSLLQ
		}
		return e.Each(result, func(x asm.Reg) asm.Reg { return e.twoImm(op, x, int64(log2(c))) })
	}
	return e.timesLanes(result, e.laneInteger(number, dt))
}

// laneFactor returns a factor's value in each lane.
func (e *machine) laneFactor(f sym.Factor, dt dtype.DType) lanes.Value {
	x := f.Expr()
	return e.Once(e.DepthOf(x), "q "+dt.String()+" "+x.Key(), func() lanes.Ready {
		return lanes.Ready{Value: e.laneFunction(f, dt)}
	}).Value
}

// laneFunction returns the value of one factor of an index in each lane, as an integer of type dt.
func (e *machine) laneFunction(f sym.Factor, dt dtype.DType) lanes.Value {
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
		op := e.timesLanes
		if f.Kind == sym.FactorSum {
			op = e.plus
		}
		r := e.laneInteger(f.Args[0], dt)
		for _, x := range f.Args[1:] {
			r = op(r, e.laneInteger(x, dt))
		}
		return r
	}
	lanes.Refuse("an integer that is too large")
	return lanes.Value{}
}

// laneExtreme returns the greater or the lesser of two integers of one type.
func (e *machine) laneExtreme(greatest bool, x, y lanes.Value) lanes.Value {
	if x.DType == dtype.I64 && !e.isa.masks {
		if greatest {
			return e.Choose(e.above(x, y), x, y)
		}
		return e.Choose(e.above(x, y), y, x)
	}
	op := map[bool]map[dtype.DType]asm.Op{
		false: {dtype.I32: asm.VPMINSD, dtype.I64: asm.VPMINSQ},
		true:  {dtype.I32: asm.VPMAXSD, dtype.I64: asm.VPMAXSQ},
	}[greatest][x.DType]
	return e.pairs(x.DType, x, y, func(x, y asm.Reg) asm.Reg { return e.three(op, x, y) })
}

// laneQuotient divides each lane by one divisor, which is 1 or more, rounding down (or up), or takes the remainder.
func (e *machine) laneQuotient(f sym.Factor, dt dtype.DType) lanes.Value {
	x, y := e.Resolve(f.Args[0]), e.Resolve(f.Args[1])
	if e.Varies(y) {
		lanes.Refuse("a division by %s, which differs by lane", y)
	}
	if lo, _ := e.Bounds(y); lo < 1 {
		if !e.OverDims(y) || !e.Kernel.Divisors.Positive(y) {
			lanes.Refuse("a division by %s, which is not known to be 1 or more", y)
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
			lanes.Refuse("a division of %s in lanes", x)
		}
	}
	v := e.laneInteger(x, dt)
	if c, ok := y.Const(); ok && c&(c-1) == 0 && (dt == dtype.I32 || e.isa.masks) {
		if f.Kind == sym.Remainder {
			mask := e.same(dt, c-1)
			return e.pairs(dt, v, mask, e.and)
		}
		op := asm.VPSRAD
		if dt == dtype.I64 {
			op = asm.VPSRAQ
		}
		return e.Each(v, func(x asm.Reg) asm.Reg { return e.twoImm(op, x, int64(log2(c))) })
	}
	lo, hi := e.Bounds(x)
	q := e.laneDivide(v, y, lo, hi)
	if f.Kind == sym.Remainder {
		return e.minus(v, e.timesLanes(q, e.laneInteger(y, dt)))
	}
	return q
}

// above returns the lanes in which x is greater than y.
func (e *machine) above(x, y lanes.Value) lanes.Value {
	if x.DType == dtype.I64 {
		return e.tests(x, y, e.greaterWide)
	}
	return e.tests(x, y, e.greaterInt)
}

// exactly is the magnitude below which x/y is found by one product of the f32 x + ½ and the reciprocal of y: the
// product is at least ½/y away from an integer, and its error is less than four parts in 2²⁴. With f64 all lanes of 32
// bits are below the magnitude, exactlyWide.
const exactly, exactlyWide = 1 << 20, 1 << 49

// laneDivide returns ⌊v/y⌋, v being at least lo and at most hi.
func (e *machine) laneDivide(v lanes.Value, y sym.Expr, lo, hi int64) lanes.Value {
	down := lo < 0
	if v.DType == dtype.I32 && lo > -exactly && hi < exactly {
		by := e.Once(e.DepthOf(y), "r32 "+y.Key(), func() lanes.Ready {
			return lanes.Ready{Value: lanes.Value{DType: dtype.F32, Uniform: true,
				Lo: e.div(e.float(1), e.toFloat(e.laneInteger(y, dtype.I32).Lo))}}
		}).Value.Lo
		half := e.Once(e.DepthOf(y), "h32 "+y.Key(), func() lanes.Ready {
			return lanes.Ready{Value: lanes.Value{DType: dtype.F32, Uniform: true, Lo: e.mul(by, e.float(0.5))}}
		}).Value.Lo
		q := e.fma(e.toFloat(v.Lo), by, half)
		if down {
			q = e.round(q, downward)
		}
		return lanes.Value{DType: dtype.I32, Uniform: v.Uniform, Lo: e.truncateToInt(q)}
	}
	by, half := e.reciprocalWide(y)
	times := func(x asm.Reg) asm.Reg {
		q := e.fused(asm.VFMADD231PD, x, by, half)
		if down || v.DType == dtype.I64 {
			q = e.roundDouble(q, downward)
		}
		return q
	}
	if v.DType == dtype.I32 {
		d := e.Each(e.halved(v, dtype.F64, asm.VCVTDQ2PD), times)
		return lanes.Value{DType: dtype.I32, Uniform: v.Uniform, Lo: e.fromDoubles(d, asm.VCVTTPD2DQ)}
	}
	if !e.isa.masks {
		lanes.Refuse("a division of 64 bits in lanes")
	}
	if lo > -exactlyWide && hi < exactlyWide {
		return e.Each(v, func(x asm.Reg) asm.Reg { return e.two(asm.VCVTTPD2QQ, times(e.two(asm.VCVTQQ2PD, x))) })
	}
	return e.Each(v, func(x asm.Reg) asm.Reg { return e.divideLong(x, e.laneInteger(y, dtype.I64).Lo, times) })
}

// divideLong returns ⌊x/y⌋ of any integers: an estimate, an estimate of the remaining quotient, and a correction by 1.
func (e *machine) divideLong(x, y asm.Reg, estimate func(x asm.Reg) asm.Reg) asm.Reg {
	rest, q := x, e.repeated64(0)
	for range 2 {
		part := e.two(asm.VCVTTPD2QQ, estimate(e.two(asm.VCVTQQ2PD, rest)))
		q, rest = e.three(asm.VPADDQ, q, part), e.three(asm.VPSUBQ, rest, e.mulWide(part, y))
	}
	one := e.repeated64(1)
	few, many := e.greaterWide(e.repeated64(0), rest), e.maskNot(e.greaterWide(y, rest))
	q = e.selectWide(few, e.three(asm.VPSUBQ, q, one), q)
	return e.selectWide(many, e.three(asm.VPADDQ, q, one), q)
}

// reciprocalWide returns 1/y and ½/y as f64 in all lanes.
func (e *machine) reciprocalWide(y sym.Expr) (by, half asm.Reg) {
	by = e.Once(e.DepthOf(y), "r64 "+y.Key(), func() lanes.Ready {
		d := e.cast(e.allLanes(e.IntegerOf(y), dtype.I64), dtype.F64)
		return lanes.Ready{Value: lanes.Value{DType: dtype.F64, Uniform: true, Lo: e.three(asm.VDIVPD, e.double(1), d.Lo)}}
	}).Value.Lo
	half = e.Once(e.DepthOf(y), "h64 "+y.Key(), func() lanes.Ready {
		return lanes.Ready{Value: lanes.Value{DType: dtype.F64, Uniform: true, Lo: e.three(asm.VMULPD, by, e.double(0.5))}}
	}).Value.Lo
	return by, half
}
