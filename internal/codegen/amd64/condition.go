package amd64

import (
	"slices"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// This file is about conditions: which are known, which are the same in all lanes and so branches, and in which
// iterations of a loop they hold.

// uniform reports whether an expression is the same in all lanes.
func (e *emitter) uniform(x loop.Expr) bool {
	if e.vector == nil {
		return true
	}
	same := func(s sym.Expr) bool { return !e.varies(e.resolve(s)) }
	switch x := x.(type) {
	case *loop.Ref:
		return e.bound[x.Name].uniform
	case *loop.Index:
		return same(x.X)
	case *loop.Load:
		if slices.ContainsFunc(x.Index, func(s sym.Expr) bool { return !same(s) }) {
			return false
		}
	}
	return !slices.ContainsFunc(loop.Operands(x), func(y loop.Expr) bool { return !e.uniform(y) })
}

// comparison takes a comparison of two symbolic integers apart: it holds where slack is at least 0, or for Eq and Ne,
// where it is 0 or is not.
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

// decided returns what a condition is for every lane there is, where the ranges of its variables tell.
func (e *emitter) decided(x loop.Expr) (holds, known bool) {
	if op, slack, ok := comparison(x); ok {
		lo, hi := e.bounds(e.resolveLanes(slack))
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
	first, known1 := e.decided(b.X)
	second, known2 := e.decided(b.Y)
	settles := b.Op == loop.Or // the value that settles the whole
	switch {
	case known1 && first == settles, known2 && second == settles:
		return settles, true
	case known1 && known2:
		return !settles, true
	}
	return false, false
}

// resolveLanes is resolve, but for the variable of the vector loop: each lane has its own value of that.
func (e *emitter) resolveLanes(x sym.Expr) sym.Expr {
	return x.Subst(func(n sym.Name) (sym.Expr, bool) {
		b := e.names[n]
		return b.value, b.replaced && (e.vector == nil || n != e.vector.original)
	})
}

// branch goes to a label where a uniform condition is as said.
func (e *emitter) branch(x loop.Expr, when bool, to asm.Label) {
	e.compareEarly(x)
	e.branchOn(x, when, to)
}

// compareEarly computes what the comparisons of a condition need before any of its branches: behind one, it would not
// be there on every way.
func (e *emitter) compareEarly(x loop.Expr) {
	if _, known := e.decided(x); known {
		return
	}
	if _, slack, ok := comparison(x); ok {
		if rest, _, _ := compared(e.resolve(slack)); !isZero(rest) {
			e.integer(rest)
		}
		return
	}
	if b, ok := x.(*loop.Binary); ok && (b.Op == loop.And || b.Op == loop.Or) {
		e.compareEarly(b.X)
		e.compareEarly(b.Y)
	}
}

func (e *emitter) branchOn(x loop.Expr, when bool, to asm.Label) {
	if holds, known := e.decided(x); known {
		if holds == when {
			e.jump(asm.JMP, to)
		}
		return
	}
	if op, slack, ok := comparison(x); ok {
		e.branchOnComparison(op, e.resolve(slack), when, to)
		return
	}
	// What comes behind a branch is not computed on every way: it is forgotten.
	second := func(x loop.Expr, when bool, to asm.Label) {
		s := e.open(nil)
		e.branchOn(x, when, to)
		body := e.close()
		e.append(s.head)
		e.append(body)
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
		if (x.Op == loop.And) != when { // either side is enough to go
			e.branchOn(x.X, when, to)
			second(x.Y, when, to)
			return
		}
		stay := e.label()
		e.branchOn(x.X, !when, stay)
		second(x.Y, when, to)
		e.bind(stay)
		return
	}
	r := e.bitsOf(e.value(x).lo)
	e.emit(asm.Inst{Op: asm.TEST, Bits: 32, Args: [4]asm.Reg{r}, Imm: 1})
	if when {
		e.jump(asm.JNE, to)
	} else {
		e.jump(asm.JE, to)
	}
}

// compared returns what is compared with a number to compare slack with 0: its constant part is that number, so that
// the rest is shared with other comparisons. mirrored says that the comparison is turned around.
func compared(slack sym.Expr) (rest sym.Expr, limit int64, mirrored bool) {
	constant, terms := slack.Terms()
	rest = slack.Sub(sym.Const(constant))
	if len(terms) > 0 && terms[0].Coef < 0 { // −t + c ≥ 0 if t ≤ c
		return rest.Neg(), constant, true
	}
	return rest, -constant, false
}

func (e *emitter) branchOnComparison(op loop.BinaryOp, slack sym.Expr, when bool, to asm.Label) {
	rest, limit, mirrored := compared(slack)
	taken, other := asm.JGE, asm.JL
	if mirrored {
		taken, other = asm.JLE, asm.JG
	}
	switch op {
	case loop.Eq:
		taken, other = asm.JE, asm.JNE
	case loop.Ne:
		taken, other = asm.JNE, asm.JE
	}
	if constant, ok := slack.Const(); ok { // not decided by bounds, but now it is
		if (op == loop.Ge && constant >= 0 || op == loop.Eq && constant == 0 || op == loop.Ne && constant != 0) == when {
			e.jump(asm.JMP, to)
		}
		return
	}
	e.integerImm(asm.CMP, e.integer(rest), limit)
	if !when {
		taken = other
	}
	e.jump(taken, to)
}

// interior returns the iterations of a loop of n in which all comparisons of symbolic integers hold whatever the
// variables of inner loops are, where these are most iterations and not all. A large body is not written three times.
func (e *emitter) interior(variable sym.Name, n int64, body []loop.Stmt) (first, end int64, ok bool) {
	if n < 3 || size(body) > mostCopied {
		return 0, 0, false
	}
	end = n
	var visit func(x loop.Expr)
	visit = func(x loop.Expr) {
		if op, slack, ok := comparison(x); ok && op == loop.Ge {
			factor, rest, linear := e.resolveLanes(slack).Linear(variable)
			f, constant := factor.Const()
			if lo, _ := e.bounds(rest); linear && constant && lo > -1<<40 && lo < 1<<40 {
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

// mostCopied is how many statements a body may have, as it is written out, of which three versions are made.
const mostCopied = 200

// size returns how many statements are written out for a body.
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
