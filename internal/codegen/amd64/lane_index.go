package amd64

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
)

// This file emits symbolic integers that differ by lane in any way: quotients and remainders, minima and maxima,
// checked values, steps that are not constant. They are vectors of i32 if the ranges of their names show that all fit,
// else of i64.

// fewest and most are the ends of the integers that lanes of 32 bits hold.
const (
	fewest = math.MinInt32
	most   = math.MaxInt32
)

// varies reports whether a resolved integer differs from lane to lane.
func (e *emitter) varies(x sym.Expr) bool {
	return e.vector != nil && slices.ContainsFunc(x.Vars(), e.byLane)
}

// byLane reports whether a name's value differs from lane to lane.
func (e *emitter) byLane(n sym.Name) bool {
	return n == e.vector.variable || e.names[n].lanes.lo != asm.NoReg
}

// evenly returns the step of an integer that is linear in the vector loop's variable: the difference of one lane's
// value from the previous lane's, the same for all lanes.
func (e *emitter) evenly(x sym.Expr) (step sym.Expr, ok bool) {
	if !e.varies(x) {
		return step, true
	}
	factor, rest, ok := x.Linear(e.vector.variable)
	return factor, ok && !e.varies(factor) && !e.varies(rest)
}

// constantStep is evenly for constant steps; ok is false for others.
func (e *emitter) constantStep(x sym.Expr) (step int64, ok bool) {
	if factor, even := e.evenly(x); even {
		return factor.Const()
	}
	return 0, false
}

// simpler returns an integer that does not step evenly simplified within the ranges of its names; it may then step
// evenly.
func (e *emitter) simpler(x sym.Expr) sym.Expr {
	if _, even := e.evenly(x); even {
		return x
	}
	return e.k.ranges.Simplify(x)
}

// fits reports whether lanes of 32 bits hold an integer, and all operands whose overflow would change it.
func (e *emitter) fits(x sym.Expr) bool {
	lo, hi := e.bounds(x)
	return lo >= fewest && hi <= most && e.partsFit(x)
}

// partsFit reports whether the arguments of all functions in an integer fit, except those of sums and products: these
// are right in their low bits even if their arguments overflow.
func (e *emitter) partsFit(x sym.Expr) bool {
	_, terms := x.Terms()
	for _, t := range terms {
		for _, f := range t.Factors {
			if f.Kind == sym.Variable || !e.varies(f.Expr()) {
				continue
			}
			wraps := f.Kind == sym.FactorProduct || f.Kind == sym.FactorSum
			if slices.ContainsFunc(f.Args, func(x sym.Expr) bool {
				x = e.resolve(x)
				return wraps && !e.partsFit(x) || !wraps && !e.fits(x)
			}) {
				return false
			}
		}
	}
	return true
}

// laneInteger returns a symbolic integer in all lanes: as i32, of which the low bits are right, or as i64.
func (e *emitter) laneInteger(x sym.Expr, dt dtype.DType) value {
	x = e.resolve(x)
	if v, ok := x.Const(); ok {
		if dt == dtype.I32 {
			v = int64(int32(v))
		}
		return e.same(dt, v)
	}
	key := "n " + dt.String() + " " + x.Key()
	return e.once(e.depthOf(x), key, func() ready {
		if e.varies(x) {
			return ready{value: e.laneSum(x, dt)}
		}
		return ready{value: e.allLanes(e.integer(x), dt)}
	}).value
}

// allLanes returns a general register in all lanes.
func (e *emitter) allLanes(r asm.Reg, dt dtype.DType) value {
	v := value{dtype: dt, uniform: true}
	if dt == dtype.I64 {
		v.lo = e.broadcastWide(r)
		v.hi = v.lo
		return v
	}
	v.lo = e.broadcastInt(r)
	return v
}

// apart is an integer as a sum: base has the terms that step evenly from lane to lane, by step in all; rest has the
// others.
type apart struct{ base, step, rest sym.Expr }

// takeApart divides an index into the terms that step evenly from lane to lane, their step, and the rest.
func (e *emitter) takeApart(x sym.Expr) apart {
	constant, terms := x.Terms()
	p := apart{base: sym.Const(constant)}
	for _, t := range terms {
		t := t.Expr()
		if step, ok := e.evenly(t); ok {
			p.base, p.step = p.base.Add(t), p.step.Add(step)
		} else {
			p.rest = p.rest.Add(t)
		}
	}
	return p
}

// laneSum adds up an integer that differs by lane.
func (e *emitter) laneSum(x sym.Expr, dt dtype.DType) value {
	p := e.takeApart(x)
	var total value
	add := func(v value) {
		if total.lo == asm.NoReg {
			total = v
		} else {
			total = e.plus(total, v)
		}
	}
	if !isZero(p.step) {
		add(e.laneSteps(p.step, dt))
	}
	_, terms := p.rest.Terms()
	for _, t := range terms {
		add(e.laneProduct(t, dt))
	}
	if !isZero(p.base) {
		add(e.firstLane(p.base, dt))
	}
	return total
}

// firstLane returns the value of lane 0 of an integer that steps evenly, in all lanes.
func (e *emitter) firstLane(x sym.Expr, dt dtype.DType) value {
	if _, ok := x.Const(); ok {
		return e.laneInteger(x, dt)
	}
	return e.once(e.depthOf(x), "f "+dt.String()+" "+x.Key(), func() ready {
		return ready{value: e.allLanes(e.integer(x), dt)}
	}).value
}

// plus returns a sum of integers of one type.
func (e *emitter) plus(x, y value) value {
	op := asm.VPADDD
	if x.dtype == dtype.I64 {
		op = asm.VPADDQ
	}
	return e.pairs(x.dtype, x, y, func(x, y asm.Reg) asm.Reg { return e.three(op, x, y) })
}

// minus emits a difference of integers of 32 or 64 bits.
func (e *emitter) minus(x, y value) value {
	op := asm.VPSUBD
	if x.dtype == dtype.I64 {
		op = asm.VPSUBQ
	}
	return e.pairs(x.dtype, x, y, func(x, y asm.Reg) asm.Reg { return e.three(op, x, y) })
}

// timesLanes returns a product of integers of one type.
func (e *emitter) timesLanes(x, y value) value {
	op := e.mulInt
	if x.dtype == dtype.I64 {
		op = e.mulWide
	}
	return e.pairs(x.dtype, x, y, op)
}

// laneSteps returns 0, step, 2 × step, … in the lanes.
func (e *emitter) laneSteps(step sym.Expr, dt dtype.DType) value {
	by, constant := step.Const()
	if !constant {
		return e.once(e.depthOf(step), "s "+dt.String()+" "+step.Key(), func() ready {
			return ready{value: e.timesLanes(e.laneSteps(sym.Const(1), dt), e.allLanes(e.integer(step), dt))}
		}).value
	}
	if dt == dtype.I32 {
		var steps []byte
		for i := range e.isa.lanes {
			steps = binary.LittleEndian.AppendUint32(steps, uint32(int64(i)*by))
		}
		return value{dtype: dt, lo: e.poolVector(steps)}
	}
	half := e.isa.lanes / 2
	lo, hi := make([]int64, half), make([]int64, half)
	for i := range half {
		lo[i], hi[i] = int64(i)*by, int64(i+half)*by
	}
	return value{dtype: dt, lo: e.longs(lo), hi: e.longs(hi)}
}

// laneProduct returns a product of factors and a number.
func (e *emitter) laneProduct(t sym.Term, dt dtype.DType) value {
	var result value
	number := sym.Const(t.Coef)
	for _, f := range t.Factors {
		x := e.resolve(f.Expr())
		if !e.varies(x) {
			number = number.Mul(x)
			continue
		}
		v := e.laneFactor(f, dt)
		if result.lo != asm.NoReg {
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
		return e.each(result, func(x asm.Reg) asm.Reg { return e.twoImm(op, x, int64(log2(c))) })
	}
	return e.timesLanes(result, e.laneInteger(number, dt))
}

// laneFactor returns a factor's value in each lane.
func (e *emitter) laneFactor(f sym.Factor, dt dtype.DType) value {
	x := f.Expr()
	return e.once(e.depthOf(x), "q "+dt.String()+" "+x.Key(), func() ready {
		return ready{value: e.laneFunction(f, dt)}
	}).value
}

// laneFunction returns the value of one factor of an index in each lane, as an integer of type dt.
func (e *emitter) laneFunction(f sym.Factor, dt dtype.DType) value {
	switch f.Kind {
	case sym.Variable:
		if f.Name == e.vector.variable {
			return e.plus(e.laneSteps(sym.Const(1), dt), e.firstLane(f.Expr(), dt))
		}
		return e.cast(e.names[f.Name].lanes, dt)
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
	refuse("an integer that is too large")
	return value{}
}

// laneExtreme returns the greater or the lesser of two integers of one type.
func (e *emitter) laneExtreme(greatest bool, x, y value) value {
	if x.dtype == dtype.I64 && !e.isa.masks {
		if greatest {
			return e.choose(e.above(x, y), x, y)
		}
		return e.choose(e.above(x, y), y, x)
	}
	op := map[bool]map[dtype.DType]asm.Op{
		false: {dtype.I32: asm.VPMINSD, dtype.I64: asm.VPMINSQ},
		true:  {dtype.I32: asm.VPMAXSD, dtype.I64: asm.VPMAXSQ},
	}[greatest][x.dtype]
	return e.pairs(x.dtype, x, y, func(x, y asm.Reg) asm.Reg { return e.three(op, x, y) })
}

// laneQuotient divides each lane by one divisor, which is 1 or more, rounding down (or up), or takes the remainder.
func (e *emitter) laneQuotient(f sym.Factor, dt dtype.DType) value {
	x, y := e.resolve(f.Args[0]), e.resolve(f.Args[1])
	if e.varies(y) {
		refuse("a division by %s, which differs by lane", y)
	}
	if lo, _ := e.bounds(y); lo < 1 {
		if !e.overDims(y) || !e.k.divisors.Positive(y) {
			refuse("a division by %s, which is not known to be 1 or more", y)
		}
		y = y.Max(sym.Const(1))
	}
	if f.Kind == sym.Remainder && e.wraps(x, y) {
		v := e.laneInteger(x, dt)
		return e.choose(e.above(e.same(dt, 0), v), e.plus(v, e.laneInteger(y, dt)), v)
	}
	if f.Kind == sym.CeilQuotient { // ⌈x/y⌉ = ⌊(x+y−1)/y⌋
		x = x.Add(y).Sub(sym.Const(1))
		if dt == dtype.I32 && !e.fits(x) {
			refuse("a division of %s in lanes", x)
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
		return e.each(v, func(x asm.Reg) asm.Reg { return e.twoImm(op, x, int64(log2(c))) })
	}
	lo, hi := e.bounds(x)
	q := e.laneDivide(v, y, lo, hi)
	if f.Kind == sym.Remainder {
		return e.minus(v, e.timesLanes(q, e.laneInteger(y, dt)))
	}
	return q
}

// above returns the lanes in which x is greater than y.
func (e *emitter) above(x, y value) value {
	if x.dtype == dtype.I64 {
		return e.tests(x, y, e.greaterWide)
	}
	return e.tests(x, y, e.greaterInt)
}

// wraps reports whether x is one of −y to y − 1: its remainder is then x, or x + y if x is negative.
func (e *emitter) wraps(x, y sym.Expr) bool {
	if n, ok := x.Name(); ok {
		if b := e.names[n]; b.lanes.lo != asm.NoReg && e.below(y.Neg(), b.min) && e.below(b.max.Add(sym.Const(1)), y) {
			return true
		}
	}
	return e.below(y.Neg(), x) && e.below(x.Add(sym.Const(1)), y)
}

// below reports whether x is known to be y or less.
func (e *emitter) below(x, y sym.Expr) bool {
	lo, _ := e.bounds(y.Sub(x))
	return lo >= 0
}

// exactly is the magnitude below which x/y is found by one product of the f32 x + ½ and the reciprocal of y: the
// product is at least ½/y away from an integer, and its error is less than four parts in 2²⁴. With f64 all lanes of 32
// bits are below the magnitude, exactlyWide.
const exactly, exactlyWide = 1 << 20, 1 << 49

// laneDivide returns ⌊v/y⌋, v being at least lo and at most hi.
func (e *emitter) laneDivide(v value, y sym.Expr, lo, hi int64) value {
	down := lo < 0
	if v.dtype == dtype.I32 && lo > -exactly && hi < exactly {
		by := e.once(e.depthOf(y), "r32 "+y.Key(), func() ready {
			return ready{value: value{dtype: dtype.F32, uniform: true,
				lo: e.div(e.float(1), e.toFloat(e.laneInteger(y, dtype.I32).lo))}}
		}).value.lo
		half := e.once(e.depthOf(y), "h32 "+y.Key(), func() ready {
			return ready{value: value{dtype: dtype.F32, uniform: true, lo: e.mul(by, e.float(0.5))}}
		}).value.lo
		q := e.fma(e.toFloat(v.lo), by, half)
		if down {
			q = e.round(q, downward)
		}
		return value{dtype: dtype.I32, uniform: v.uniform, lo: e.truncateToInt(q)}
	}
	by, half := e.reciprocalWide(y)
	times := func(x asm.Reg) asm.Reg {
		q := e.fused(asm.VFMADD231PD, x, by, half)
		if down || v.dtype == dtype.I64 {
			q = e.roundDouble(q, downward)
		}
		return q
	}
	if v.dtype == dtype.I32 {
		d := e.each(e.halved(v, dtype.F64, asm.VCVTDQ2PD), times)
		return value{dtype: dtype.I32, uniform: v.uniform, lo: e.fromDoubles(d, asm.VCVTTPD2DQ)}
	}
	if !e.isa.masks {
		refuse("a division of 64 bits in lanes")
	}
	if lo > -exactlyWide && hi < exactlyWide {
		return e.each(v, func(x asm.Reg) asm.Reg { return e.two(asm.VCVTTPD2QQ, times(e.two(asm.VCVTQQ2PD, x))) })
	}
	return e.each(v, func(x asm.Reg) asm.Reg { return e.divideLong(x, e.laneInteger(y, dtype.I64).lo, times) })
}

// divideLong returns ⌊x/y⌋ of any integers: an estimate, an estimate of the remaining quotient, and a correction by 1.
func (e *emitter) divideLong(x, y asm.Reg, estimate func(x asm.Reg) asm.Reg) asm.Reg {
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
func (e *emitter) reciprocalWide(y sym.Expr) (by, half asm.Reg) {
	by = e.once(e.depthOf(y), "r64 "+y.Key(), func() ready {
		d := e.cast(e.allLanes(e.integer(y), dtype.I64), dtype.F64)
		return ready{value: value{dtype: dtype.F64, uniform: true, lo: e.three(asm.VDIVPD, e.double(1), d.lo)}}
	}).value.lo
	half = e.once(e.depthOf(y), "h64 "+y.Key(), func() ready {
		return ready{value: value{dtype: dtype.F64, uniform: true, lo: e.three(asm.VMULPD, by, e.double(0.5))}}
	}).value.lo
	return by, half
}

// dividedApart rewrites the quotients and remainders of x whose dividends step evenly over lane 0's value:
// ⌊(b + s·lane)/y⌋ is ⌊b/y⌋ + ⌊(b mod y + s·lane)/y⌋, whose second summand is small.
func (e *emitter) dividedApart(x sym.Expr) sym.Expr {
	constant, terms := x.Terms()
	sum := sym.Const(constant)
	for _, t := range terms {
		product := sym.Const(t.Coef)
		for _, f := range t.Factors {
			product = product.Mul(e.factorApart(f))
		}
		sum = sum.Add(product)
	}
	return sum
}

// factorApart rewrites a quotient or remainder by a constant, whose dividend steps evenly, over lane 0's value.
func (e *emitter) factorApart(f sym.Factor) sym.Expr {
	whole := f.Expr()
	if f.Kind != sym.FloorQuotient && f.Kind != sym.Remainder || !e.varies(whole) {
		return whole
	}
	x, y := f.Args[0], f.Args[1]
	step, even := e.constantStep(x)
	if _, number := y.Const(); !even || !number || step < 0 {
		return whole
	}
	first := x.Subst(func(n sym.Name) (sym.Expr, bool) { return sym.Var(e.vector.lane0), n == e.vector.variable })
	more := first.Mod(y).Add(sym.Var(e.vector.number).Mul(sym.Const(step)))
	if f.Kind == sym.Remainder {
		return more.Mod(y)
	}
	return first.FloorDiv(y).Add(more.FloorDiv(y))
}
