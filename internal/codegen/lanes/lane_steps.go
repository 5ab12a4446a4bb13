package lanes

import (
	"math"
	"math/bits"
	"slices"

	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/sym"
)

// This file finds how symbolic integers differ from lane to lane: by a step that is the same for all lanes, or in any
// other way, and whether lanes of 32 bits hold them.

// fewest and most are the ends of the integers that lanes of 32 bits hold.
const (
	fewest = math.MinInt32
	most   = math.MaxInt32
)

// Varies reports whether a resolved integer differs from lane to lane.
func (e *Emitter) Varies(x sym.Expr) bool {
	return e.Strip != nil && slices.ContainsFunc(x.Vars(), e.byLane)
}

// byLane reports whether a name's value differs from lane to lane.
func (e *Emitter) byLane(n sym.Name) bool {
	return n == e.Strip.Variable || e.Names[n].Lanes.Lo != regalloc.NoReg
}

// evenly returns the step of an integer that is linear in the vector loop's variable: the difference of one lane's
// value from the previous lane's, the same for all lanes.
func (e *Emitter) evenly(x sym.Expr) (step sym.Expr, ok bool) {
	if !e.Varies(x) {
		return step, true
	}
	factor, rest, ok := x.Linear(e.Strip.Variable)
	return factor, ok && !e.Varies(factor) && !e.Varies(rest)
}

// ConstantStep is evenly for constant steps; ok is false for others.
func (e *Emitter) ConstantStep(x sym.Expr) (step int64, ok bool) {
	if factor, even := e.evenly(x); even {
		return factor.Const()
	}
	return 0, false
}

// Simpler returns an integer that does not step evenly simplified within the ranges of its names; it may then step
// evenly.
func (e *Emitter) Simpler(x sym.Expr) sym.Expr {
	if _, even := e.evenly(x); even {
		return x
	}
	return e.Kernel.Ranges.Simplify(x)
}

// Fits reports whether lanes of 32 bits hold an integer, and all operands whose overflow would change it.
func (e *Emitter) Fits(x sym.Expr) bool {
	lo, hi := e.Bounds(x)
	return lo >= fewest && hi <= most && e.PartsFit(x)
}

// PartsFit reports whether the arguments of all functions in an integer fit, except those of sums and products: these
// are right in their low bits even if their arguments overflow.
func (e *Emitter) PartsFit(x sym.Expr) bool {
	_, terms := x.Terms()
	for _, t := range terms {
		for _, f := range t.Factors {
			if f.Kind == sym.Variable || !e.Varies(f.Expr()) {
				continue
			}
			wraps := f.Kind == sym.FactorProduct || f.Kind == sym.FactorSum
			if slices.ContainsFunc(f.Args, func(x sym.Expr) bool {
				x = e.Resolve(x)
				return wraps && !e.PartsFit(x) || !wraps && !e.Fits(x)
			}) {
				return false
			}
		}
	}
	return true
}

// apart is an integer as a sum: base has the terms that step evenly from lane to lane, by step in all; rest has the
// others.
type apart struct{ Base, Step, Rest sym.Expr }

// TakeApart divides an index into the terms that step evenly from lane to lane, their step, and the rest.
func (e *Emitter) TakeApart(x sym.Expr) apart {
	constant, terms := x.Terms()
	p := apart{Base: sym.Const(constant)}
	for _, t := range terms {
		t := t.Expr()
		if step, ok := e.evenly(t); ok {
			p.Base, p.Step = p.Base.Add(t), p.Step.Add(step)
		} else {
			p.Rest = p.Rest.Add(t)
		}
	}
	return p
}

// Wraps reports whether x is one of −y to y − 1: its remainder is then x, or x + y if x is negative.
func (e *Emitter) Wraps(x, y sym.Expr) bool {
	if n, ok := x.Name(); ok {
		if b := e.Names[n]; b.Lanes.Lo != regalloc.NoReg && e.below(y.Neg(), b.Min) && e.below(b.Max.Add(sym.Const(1)), y) {
			return true
		}
	}
	return e.below(y.Neg(), x) && e.below(x.Add(sym.Const(1)), y)
}

// below reports whether x is known to be y or less.
func (e *Emitter) below(x, y sym.Expr) bool {
	lo, _ := e.Bounds(y.Sub(x))
	return lo >= 0
}

// DividedApart rewrites the quotients and remainders of x whose dividends step evenly over lane 0's value:
// ⌊(b + s·lane)/y⌋ is ⌊b/y⌋ + ⌊(b mod y + s·lane)/y⌋, whose second summand is small.
func (e *Emitter) DividedApart(x sym.Expr) sym.Expr {
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
func (e *Emitter) factorApart(f sym.Factor) sym.Expr {
	whole := f.Expr()
	if f.Kind != sym.FloorQuotient && f.Kind != sym.Remainder || !e.Varies(whole) {
		return whole
	}
	x, y := f.Args[0], f.Args[1]
	step, even := e.ConstantStep(x)
	if _, number := y.Const(); !even || !number || step < 0 {
		return whole
	}
	first := x.Subst(func(n sym.Name) (sym.Expr, bool) { return sym.Var(e.Strip.lane0), n == e.Strip.Variable })
	more := first.Mod(y).Add(sym.Var(e.Strip.number).Mul(sym.Const(step)))
	if f.Kind == sym.Remainder {
		return more.Mod(y)
	}
	return first.FloorDiv(y).Add(more.FloorDiv(y))
}

// Log2 returns the binary logarithm of v, rounded down; 0 for v below 2.
func Log2(v int64) int { return max(bits.Len64(uint64(max(v, 0)))-1, 0) }
