package lanes

import (
	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Predicates are the comparisons of floats.
var Predicates = map[loop.BinaryOp]mathematics.Predicate{loop.Eq: mathematics.Equal, loop.Ne: mathematics.NotEqual,
	loop.Lt: mathematics.Less, loop.Le: mathematics.LessOrEqual, loop.Gt: mathematics.Greater,
	loop.Ge: mathematics.GreaterOrEqual}

// order compares two values of one type.
func (e *Emitter) order(op loop.BinaryOp, a, b Value) Value {
	switch a.Kind() {
	case Floats, Doubles:
		return e.compare(Predicates[op], a, b)
	case Flags:
		r := Value{DType: dtype.Bool, Uniform: a.Uniform && b.Uniform, Lo: e.Masks(loop.Xor, a.Lo, b.Lo)}
		switch op {
		case loop.Ne:
		case loop.Eq:
			r.Lo = e.MaskNot(r.Lo)
		case loop.Lt:
			r.Lo = e.Masks(loop.And, r.Lo, b.Lo)
		case loop.Gt:
			r.Lo = e.Masks(loop.And, r.Lo, a.Lo)
		case loop.Le:
			r.Lo = e.Masks(loop.Or, e.MaskNot(a.Lo), b.Lo)
		case loop.Ge:
			r.Lo = e.Masks(loop.Or, e.MaskNot(b.Lo), a.Lo)
		}
		return r
	}
	dt, flip := signed(a.DType), e.Repeated(dtype.I32, 1<<31)
	if dt == dtype.I64 {
		flip = e.Repeated(dtype.I64, 1<<63)
	}
	test := func(op loop.BinaryOp, as dtype.DType, a, b Value) Value {
		return e.tests(a, b, func(x, y regalloc.Reg) regalloc.Reg { return e.Test(op, as, x, y) })
	}
	switch as := core(a.DType); {
	case op == loop.Eq:
		return test(op, dt, a, b)
	case op != loop.Ne && e.Has(op, as):
		return test(op, as, a, b)
	case op != loop.Ne && as != dt:
		turn := func(x regalloc.Reg) regalloc.Reg { return e.word.Xor(x, flip) }
		a, b = e.Each(a, turn), e.Each(b, turn)
	}
	negate := false
	var r Value
	switch op {
	case loop.Ne:
		r, negate = test(loop.Eq, dt, a, b), true
	case loop.Gt, loop.Le:
		r, negate = test(loop.Gt, dt, a, b), op == loop.Le
	default:
		r, negate = test(loop.Gt, dt, b, a), op == loop.Ge
	}
	if negate {
		r.Lo = e.MaskNot(r.Lo)
	}
	return r
}

// far exceeds all differences between the lanes of a strip. Differences of indices are compared as 32-bit lanes, and
// larger ones are limited to far.
const far = 1 << 30

// between compares two symbolic integers whose difference changes by a constant from lane to lane; false for others.
func (e *Emitter) between(x *loop.Binary) (Value, bool) {
	left, ok := x.X.(*loop.Index)
	right, also := x.Y.(*loop.Index)
	if !ok || !also {
		return Value{}, false
	}
	slack := e.Resolve(right.X.Sub(left.X)) // compared with 0 by the mirrored operation
	step, ok := e.ConstantStep(slack)
	if !ok {
		return e.betweenLanes(x.Op, slack), true
	}
	if step*int64(e.lanes) >= far || step*int64(e.lanes) <= -far {
		return Value{}, false
	}
	r := Value{DType: dtype.Bool, Uniform: step == 0}
	if v, ok := slack.Const(); ok {
		r.Lo = e.MaskOf(holds(x.Op, v))
		return r, true
	}
	difference := e.CopyOf(e.IntegerOf(slack))
	limit := e.Number(far)
	e.CompareNumbers(difference, limit)
	e.AssignIf(Greater, difference, limit)
	limit = e.Number(-far)
	e.CompareNumbers(difference, limit)
	e.AssignIf(Less, difference, limit)
	d := e.Broadcast(dtype.I32, difference)
	if step != 0 {
		d = e.word.AddInt(d, e.LaneSteps(sym.Const(step), dtype.I32).Lo)
	}
	r.Lo = e.compareZero(x.Op, Value{DType: dtype.I32, Lo: d, Uniform: true}).Lo
	return r, true
}

// compareZero compares left with right, whose difference right − left is in d.
func (e *Emitter) compareZero(op loop.BinaryOp, d Value) Value {
	return e.order(mirrored[op], d, e.same(d.DType, 0))
}

// mirrored maps a comparison of x and y to the comparison of y − x with 0.
var mirrored = map[loop.BinaryOp]loop.BinaryOp{loop.Eq: loop.Eq, loop.Ne: loop.Ne, loop.Lt: loop.Gt, loop.Le: loop.Ge,
	loop.Gt: loop.Lt, loop.Ge: loop.Le}

// betweenLanes is between for a difference that changes from lane to lane in any way.
func (e *Emitter) betweenLanes(op loop.BinaryOp, slack sym.Expr) Value {
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
