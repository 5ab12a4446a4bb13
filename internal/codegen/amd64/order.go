package amd64

import (
	"encoding/binary"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// predicates are the comparisons of floats.
var predicates = map[loop.BinaryOp]predicate{loop.Eq: equal, loop.Ne: notEqual, loop.Lt: less, loop.Le: lessOrEqual,
	loop.Gt: greater, loop.Ge: greaterOrEqual}

// order compares two values of one type.
func (e *emitter) order(op loop.BinaryOp, a, b value) value {
	switch a.kind() {
	case floats, doubles:
		in := asm.VCMPPS
		if a.kind() == doubles {
			in = asm.VCMPPD
		}
		return e.tests(a, b, func(x, y asm.Reg) asm.Reg { return e.compareWith(in, int64(predicates[op]), x, y) })
	case flags:
		r := value{dtype: dtype.Bool, uniform: a.uniform && b.uniform, lo: e.maskXor(a.lo, b.lo)}
		switch op {
		case loop.Ne:
		case loop.Eq:
			r.lo = e.maskNot(r.lo)
		case loop.Lt:
			r.lo = e.maskAnd(r.lo, b.lo)
		case loop.Gt:
			r.lo = e.maskAnd(r.lo, a.lo)
		case loop.Le:
			r.lo = e.maskOr(e.maskNot(a.lo), b.lo)
		case loop.Ge:
			r.lo = e.maskOr(e.maskNot(b.lo), a.lo)
		}
		return r
	}
	same, above := e.equalInt, e.greaterInt
	flip := e.repeated32(1 << 31)
	if a.kind() == longs {
		same, above, flip = e.equalWide, e.greaterWide, e.repeated64(1<<63)
	}
	if (a.dtype == dtype.U32 || a.dtype == dtype.U64) && op != loop.Eq && op != loop.Ne {
		turn := func(x asm.Reg) asm.Reg { return e.xor(x, flip) }
		a, b = e.each(a, turn), e.each(b, turn)
	}
	negate := false
	var r value
	switch op {
	case loop.Eq, loop.Ne:
		r, negate = e.tests(a, b, same), op == loop.Ne
	case loop.Gt, loop.Le:
		r, negate = e.tests(a, b, above), op == loop.Le
	default:
		r, negate = e.tests(b, a, above), op == loop.Ge
	}
	if negate {
		r.lo = e.maskNot(r.lo)
	}
	return r
}

// condition emits a bool expression, as a mask.
func (e *emitter) condition(x loop.Expr) value { return e.value(x) }

// far exceeds all differences between the lanes of a strip. Differences of indices are compared as 32-bit lanes, and
// larger ones are limited to far.
const far = 1 << 30

// between compares two symbolic integers whose difference changes by a constant from lane to lane; false for others.
func (e *emitter) between(x *loop.Binary) (value, bool) {
	left, ok := x.X.(*loop.Index)
	right, also := x.Y.(*loop.Index)
	if !ok || !also {
		return value{}, false
	}
	slack := e.resolve(right.X.Sub(left.X)) // compared with 0 by the mirrored operation
	step, ok := e.constantStep(slack)
	if !ok {
		return e.betweenLanes(x.Op, slack), true
	}
	if step*int64(e.isa.lanes) >= far || step*int64(e.isa.lanes) <= -far {
		return value{}, false
	}
	r := value{dtype: dtype.Bool, uniform: step == 0}
	if v, ok := slack.Const(); ok {
		r.lo = e.maskConst(holds(x.Op, v))
		return r, true
	}
	difference := e.copyOf(e.integer(slack))
	limit := e.number(far)
	e.compareNumbers(difference, limit)
	e.integerOp(asm.CMOVG, difference, limit)
	limit = e.number(-far)
	e.compareNumbers(difference, limit)
	e.integerOp(asm.CMOVL, difference, limit)
	d := e.broadcastInt(difference)
	if step != 0 {
		var steps []byte
		for i := range e.isa.lanes {
			steps = binary.LittleEndian.AppendUint32(steps, uint32(int32(int64(i)*step)))
		}
		d = e.addInt(d, e.poolVector(steps))
	}
	r.lo = e.compareZero(x.Op, value{dtype: dtype.I32, lo: d, uniform: true}).lo
	return r, true
}

// compareZero compares left with right, whose difference right − left is in d.
func (e *emitter) compareZero(op loop.BinaryOp, d value) value {
	return e.order(mirrored[op], d, e.same(d.dtype, 0))
}

// mirrored maps a comparison of x and y to the comparison of y − x with 0.
var mirrored = map[loop.BinaryOp]loop.BinaryOp{loop.Eq: loop.Eq, loop.Ne: loop.Ne, loop.Lt: loop.Gt, loop.Le: loop.Ge,
	loop.Gt: loop.Lt, loop.Ge: loop.Le}

// betweenLanes is between for a difference that changes from lane to lane in any way.
func (e *emitter) betweenLanes(op loop.BinaryOp, slack sym.Expr) value {
	dt := dtype.I64
	if e.fits(slack) {
		dt = dtype.I32
	}
	return e.compareZero(op, e.laneInteger(slack, dt))
}

// holds reports whether a comparison of x and y holds, given the difference y − x.
func holds(op loop.BinaryOp, difference int64) bool {
	switch op {
	case loop.Eq:
		return difference == 0
	case loop.Ne:
		return difference != 0
	case loop.Lt:
		return difference > 0
	case loop.Le:
		return difference >= 0
	case loop.Gt:
		return difference < 0
	}
	return difference <= 0
}
