package amd64

import (
	"encoding/binary"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// predicates are the comparisons of floats.
var predicates = map[loop.BinaryOp]predicate{loop.Eq: equal, loop.Ne: notEqual, loop.Lt: less, loop.Le: lessOrEqual,
	loop.Gt: greater, loop.Ge: greaterOrEqual}

// order compares two values of one type.
func (e *machine) order(op loop.BinaryOp, a, b lanes.Value) lanes.Value {
	switch a.Kind() {
	case lanes.Floats, lanes.Doubles:
		in := asm.VCMPPS
		if a.Kind() == lanes.Doubles {
			in = asm.VCMPPD
		}
		return e.tests(a, b, func(x, y asm.Reg) asm.Reg { return e.compareWith(in, int64(predicates[op]), x, y) })
	case lanes.Flags:
		r := lanes.Value{DType: dtype.Bool, Uniform: a.Uniform && b.Uniform, Lo: e.maskXor(a.Lo, b.Lo)}
		switch op {
		case loop.Ne:
		case loop.Eq:
			r.Lo = e.maskNot(r.Lo)
		case loop.Lt:
			r.Lo = e.maskAnd(r.Lo, b.Lo)
		case loop.Gt:
			r.Lo = e.maskAnd(r.Lo, a.Lo)
		case loop.Le:
			r.Lo = e.maskOr(e.maskNot(a.Lo), b.Lo)
		case loop.Ge:
			r.Lo = e.maskOr(e.maskNot(b.Lo), a.Lo)
		}
		return r
	}
	same, above := e.equalInt, e.greaterInt
	flip := e.repeated32(1 << 31)
	if a.Kind() == lanes.Longs {
		same, above, flip = e.equalWide, e.greaterWide, e.repeated64(1<<63)
	}
	if (a.DType == dtype.U32 || a.DType == dtype.U64) && op != loop.Eq && op != loop.Ne {
		turn := func(x asm.Reg) asm.Reg { return e.xor(x, flip) }
		a, b = e.Each(a, turn), e.Each(b, turn)
	}
	negate := false
	var r lanes.Value
	switch op {
	case loop.Eq, loop.Ne:
		r, negate = e.tests(a, b, same), op == loop.Ne
	case loop.Gt, loop.Le:
		r, negate = e.tests(a, b, above), op == loop.Le
	default:
		r, negate = e.tests(b, a, above), op == loop.Ge
	}
	if negate {
		r.Lo = e.maskNot(r.Lo)
	}
	return r
}

// condition emits a bool expression, as a mask.
func (e *machine) condition(x loop.Expr) lanes.Value { return e.Value(x) }

// far exceeds all differences between the lanes of a strip. Differences of indices are compared as 32-bit lanes, and
// larger ones are limited to far.
const far = 1 << 30

// between compares two symbolic integers whose difference changes by a constant from lane to lane; false for others.
func (e *machine) between(x *loop.Binary) (lanes.Value, bool) {
	left, ok := x.X.(*loop.Index)
	right, also := x.Y.(*loop.Index)
	if !ok || !also {
		return lanes.Value{}, false
	}
	slack := e.Resolve(right.X.Sub(left.X)) // compared with 0 by the mirrored operation
	step, ok := e.ConstantStep(slack)
	if !ok {
		return e.betweenLanes(x.Op, slack), true
	}
	if step*int64(e.isa.lanes) >= far || step*int64(e.isa.lanes) <= -far {
		return lanes.Value{}, false
	}
	r := lanes.Value{DType: dtype.Bool, Uniform: step == 0}
	if v, ok := slack.Const(); ok {
		r.Lo = e.maskConst(holds(x.Op, v))
		return r, true
	}
	difference := e.CopyOf(e.IntegerOf(slack))
	limit := e.Number(far)
	e.CompareNumbers(difference, limit)
	e.integerOp(asm.CMOVG, difference, limit)
	limit = e.Number(-far)
	e.CompareNumbers(difference, limit)
	e.integerOp(asm.CMOVL, difference, limit)
	d := e.broadcastInt(difference)
	if step != 0 {
		var steps []byte
		for i := range e.isa.lanes {
			steps = binary.LittleEndian.AppendUint32(steps, uint32(int32(int64(i)*step)))
		}
		d = e.addInt(d, e.poolVector(steps))
	}
	r.Lo = e.compareZero(x.Op, lanes.Value{DType: dtype.I32, Lo: d, Uniform: true}).Lo
	return r, true
}

// compareZero compares left with right, whose difference right − left is in d.
func (e *machine) compareZero(op loop.BinaryOp, d lanes.Value) lanes.Value {
	return e.order(mirrored[op], d, e.same(d.DType, 0))
}

// mirrored maps a comparison of x and y to the comparison of y − x with 0.
var mirrored = map[loop.BinaryOp]loop.BinaryOp{loop.Eq: loop.Eq, loop.Ne: loop.Ne, loop.Lt: loop.Gt, loop.Le: loop.Ge,
	loop.Gt: loop.Lt, loop.Ge: loop.Le}

// betweenLanes is between for a difference that changes from lane to lane in any way.
func (e *machine) betweenLanes(op loop.BinaryOp, slack sym.Expr) lanes.Value {
	dt := dtype.I64
	if e.Fits(slack) {
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
