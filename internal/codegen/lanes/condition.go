package lanes

import (
	"slices"

	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// This file emits conditions. It decides which of them are known, which are the same in all lanes and so become
// branches, and in which iterations of a loop they hold.

// Uniform reports whether an expression is the same in all lanes.
func (e *Emitter) Uniform(x loop.Expr) bool {
	if e.Strip == nil {
		return true
	}
	same := func(s sym.Expr) bool { return !e.Varies(e.Resolve(s)) }
	switch x := x.(type) {
	case *loop.Ref:
		return e.bound[x.Name].Uniform
	case *loop.Index:
		return same(x.X)
	case *loop.Load:
		if slices.ContainsFunc(x.Index, func(s sym.Expr) bool { return !same(s) }) {
			return false
		}
	}
	return !slices.ContainsFunc(loop.Operands(x), func(y loop.Expr) bool { return !e.Uniform(y) })
}

// comparison reads a comparison of two symbolic integers: for Ge it holds if slack is at least 0, for Eq if slack is 0,
// for Ne if it is not.
func comparison(x loop.Expr) (op loop.BinaryOp, slack sym.Expr, ok bool) {
	b, ok := x.(*loop.Binary)
	if !ok || !b.Op.Test() {
		return 0, slack, false
	}
	left, ok1 := b.X.(*loop.Index)
	right, ok2 := b.Y.(*loop.Index)
	if !ok1 || !ok2 {
		return 0, slack, false
	}
	switch b.Op {
	case loop.Le:
		return loop.Ge, right.X.Sub(left.X), true
	case loop.Lt:
		return loop.Ge, right.X.Sub(left.X).Sub(sym.Const(1)), true
	case loop.Ge:
		return loop.Ge, left.X.Sub(right.X), true
	case loop.Gt:
		return loop.Ge, left.X.Sub(right.X).Sub(sym.Const(1)), true
	}
	return b.Op, left.X.Sub(right.X), true
}

// Decided returns the value of a condition that the ranges of its variables decide for all lanes; known is false for
// others.
func (e *Emitter) Decided(x loop.Expr) (holds, known bool) {
	if op, slack, ok := comparison(x); ok {
		lo, hi := e.Bounds(e.resolveLanes(slack))
		switch {
		case op == loop.Ge && lo >= 0, op == loop.Eq && lo == 0 && hi == 0, op == loop.Ne && (lo > 0 || hi < 0):
			return true, true
		case op == loop.Ge && hi < 0, op == loop.Ne && lo == 0 && hi == 0, op == loop.Eq && (lo > 0 || hi < 0):
			return false, true
		}
		return false, false
	}
	b, ok := x.(*loop.Binary)
	if !ok || b.Op != loop.And && b.Op != loop.Or {
		return false, false
	}
	first, known1 := e.Decided(b.X)
	second, known2 := e.Decided(b.Y)
	settles := b.Op == loop.Or // the value of one side that decides the condition
	switch {
	case known1 && first == settles, known2 && second == settles:
		return settles, true
	case known1 && known2:
		return !settles, true
	}
	return false, false
}

// resolveLanes is resolve, except that it keeps the vector loop's variable, which has a value for each lane.
func (e *Emitter) resolveLanes(x sym.Expr) sym.Expr {
	return x.Subst(func(n sym.Name) (sym.Expr, bool) {
		b := e.Names[n]
		return b.value, b.replaced && (e.Strip == nil || n != e.Strip.original)
	})
}

// Branch jumps to a label if a uniform condition equals when.
func (e *Emitter) Branch(x loop.Expr, when bool, to regalloc.Label) {
	e.compareEarly(x)
	e.branchOn(x, when, to)
}

// compareEarly computes the operands of all comparisons of a condition before its first branch: after a branch, they
// would not be computed on every path.
func (e *Emitter) compareEarly(x loop.Expr) {
	if _, known := e.Decided(x); known {
		return
	}
	if _, slack, ok := comparison(x); ok {
		if rest, _, _ := compared(e.Resolve(slack)); !IsZero(rest) {
			e.IntegerOf(rest)
		}
		return
	}
	if b, ok := x.(*loop.Binary); ok && (b.Op == loop.And || b.Op == loop.Or) {
		e.compareEarly(b.X)
		e.compareEarly(b.Y)
	}
}

// branchOn jumps to a label if a condition is equal to when, and falls through if not.
func (e *Emitter) branchOn(x loop.Expr, when bool, to regalloc.Label) {
	if holds, known := e.Decided(x); known {
		if holds == when {
			e.Jump(to)
		}
		return
	}
	if op, slack, ok := comparison(x); ok {
		e.branchOnComparison(op, e.Resolve(slack), when, to)
		return
	}
	// Values computed after a branch do not exist on every path, so they are dropped.
	second := func(x loop.Expr, when bool, to regalloc.Label) {
		s := e.Open(nil)
		e.branchOn(x, when, to)
		body := e.Close()
		e.Place(s, body)
	}
	switch x := x.(type) {
	case *loop.Unary:
		if x.Op == loop.Not {
			e.branchOn(x.X, !when, to)
			return
		}
	case *loop.Binary:
		if x.Op != loop.And && x.Op != loop.Or {
			break
		}
		if (x.Op == loop.And) != when { // either side alone causes the jump
			e.branchOn(x.X, when, to)
			second(x.Y, when, to)
			return
		}
		stay := e.Label()
		e.branchOn(x.X, !when, stay)
		second(x.Y, when, to)
		e.Bind(stay)
		return
	}
	e.JumpOnSet(e.LaneWord(dtype.I32, e.Value(x).Lo), 0, when, to)
}

// compared splits the comparison of slack with 0 into one of rest with a number, the constant term, so that rest is
// shared with other comparisons. mirrored is true if the comparison's direction is reversed.
func compared(slack sym.Expr) (rest sym.Expr, limit int64, mirrored bool) {
	constant, terms := slack.Terms()
	rest = slack.Sub(sym.Const(constant))
	if len(terms) > 0 && terms[0].Coef < 0 { // −t + c ≥ 0 if t ≤ c
		return rest.Neg(), constant, true
	}
	return rest, -constant, false
}

// branchOnComparison is branchOn for the comparison slack op 0.
func (e *Emitter) branchOnComparison(op loop.BinaryOp, slack sym.Expr, when bool, to regalloc.Label) {
	rest, limit, mirrored := compared(slack)
	taken, other := GreaterOrEqual, Less
	if mirrored {
		taken, other = LessOrEqual, Greater
	}
	switch op {
	case loop.Eq:
		taken, other = Equal, NotEqual
	case loop.Ne:
		taken, other = NotEqual, Equal
	}
	if constant, ok := slack.Const(); ok { // the bounds did not decide it, but the resolved expression does
		if (op == loop.Ge && constant >= 0 || op == loop.Eq && constant == 0 || op == loop.Ne && constant != 0) == when {
			e.Jump(to)
		}
		return
	}
	e.CompareNumber(e.IntegerOf(rest), limit)
	if !when {
		taken = other
	}
	e.JumpIf(taken, to)
}

// interior returns the iterations of a loop of n in which all comparisons of symbolic integers hold whatever the
// variables of inner loops are; ok is true if these are most iterations but not all, and the body is not too large.
func (e *Emitter) interior(variable sym.Name, n int64, body []loop.Stmt) (first, end int64, ok bool) {
	if n < 3 || size(body) > mostCopied {
		return 0, 0, false
	}
	end = n
	var visit func(x loop.Expr)
	visit = func(x loop.Expr) {
		if op, slack, ok := comparison(x); ok && op == loop.Ge {
			factor, rest, linear := e.resolveLanes(slack).Linear(variable)
			f, constant := factor.Const()
			if lo, _ := e.Bounds(rest); linear && constant && lo > -1<<40 && lo < 1<<40 {
				switch {
				case f > 0:
					first = max(first, (-lo+f-1)/f)
				case f < 0 && lo >= 0:
					end = min(end, lo/-f+1)
				case f < 0:
					end = 0
				}
			}
		}
		for _, y := range loop.Operands(x) {
			visit(y)
		}
	}
	loop.Walk(body, func(s loop.Stmt) bool {
		for _, x := range loop.Values(s) {
			visit(x)
		}
		return true
	})
	return first, end, (first > 0 || end < n) && end-first >= (n+1)/2
}

// mostCopied is the largest number of emitted statements of a body of which three versions are made.
const mostCopied = 200

// size returns the number of statements that are emitted for a body.
func size(list []loop.Stmt) int64 {
	total := int64(0)
	for _, s := range list {
		inner := int64(1)
		for _, body := range loop.Bodies(s) {
			inner += size(*body)
		}
		if f, ok := s.(*loop.For); ok {
			if n, constant := f.Extent.Const(); constant && f.Kind != loop.Vector && copied(n, f.Body) <= mostUnrolled {
				inner *= max(n, 1)
			} else if f.Kind == loop.Vector {
				inner *= 2
			}
		}
		total += inner
	}
	return total
}
