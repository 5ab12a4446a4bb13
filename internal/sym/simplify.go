package sym

import (
	"math"
	"slices"
)

// mostDivisions is the most steps of one division of polynomials.
const mostDivisions = 64

// divide returns quotient and remainder with e = quotient×by + remainder for all integers; it divides by the leading
// term as often as possible.
func (e Expr) divide(by Expr) (quotient, remainder Expr) {
	if by.n == nil {
		if by.c <= 0 {
			return Expr{}, e
		}
		return e.split(by.c)
	}
	lead := by.n.terms[0]
	remainder = e
	for range mostDivisions {
		t, ok := remainder.multipleOf(lead)
		if !ok {
			return quotient, remainder
		}
		quotient, remainder = quotient.Add(t), remainder.Sub(t.Mul(by))
		if remainder.unevaluated() || quotient.unevaluated() {
			return Expr{}, e
		}
	}
	return Expr{}, e
}

// multipleOf returns the factor by which the first suitable term is a multiple of lead; ok is false if no term is.
func (e Expr) multipleOf(lead term) (Expr, bool) {
	for _, t := range e.terms() {
		if t.coef%lead.coef != 0 || lead.coef == -1 && t.coef == -t.coef || len(t.atoms) < len(lead.atoms) {
			continue
		}
		rest := t.atoms
		for _, a := range lead.atoms {
			shorter := term{1, rest}.without(a, 1)
			if len(shorter) == len(rest) {
				rest = nil
				break
			}
			rest = shorter
		}
		switch {
		case rest == nil:
		case len(rest) == 0:
			return Const(t.coef / lead.coef), true
		default:
			return polynomial([]term{{t.coef / lead.coef, rest}}, 0), true
		}
	}
	return Expr{}, false
}

// Simplify returns an expression that equals e at every binding within the ranges for which e has a value. A dimension
// with one value becomes that value, an extremum loses arguments that cannot be it, and divisions that come out even
// and remainders that cannot wrap vanish.
func (d *Dims) Simplify(e Expr) Expr {
	if e.n == nil || e.huge() {
		return e
	}
	s := simplification{dims: d, done: map[hash]Expr{}}
	return s.expr(e)
}

// simplification is the state of Simplify.
type simplification struct {
	dims *Dims
	done map[hash]Expr // by atom
}

// expr simplifies the atoms of e, and its remainders.
func (s *simplification) expr(e Expr) Expr {
	if e.n == nil {
		return e
	}
	changed := false
	for _, t := range e.n.terms {
		for _, a := range t.atoms {
			x, known := s.done[a.hash]
			if !known {
				x = s.atom(a)
				s.done[a.hash] = x
			}
			changed = changed || !x.Equal(a.expr())
		}
	}
	if changed {
		list := []Expr{Const(e.c)}
		for _, t := range e.n.terms {
			factors := []Expr{Const(t.coef)}
			for _, a := range t.atoms {
				factors = append(factors, s.done[a.hash])
			}
			list = append(list, Product(factors...))
		}
		e = Sum(list...)
	}
	return s.dims.dropPresences(e).joinRemainders()
}

// atom simplifies an atom and its arguments.
func (s *simplification) atom(a *atom) Expr {
	if a.kind == variable {
		if r, ok := s.dims.Get(a.name); ok && r.Min == r.Max {
			return Const(r.Min)
		}
		return a.expr()
	}
	args := make([]Expr, len(a.args))
	for i, x := range a.args {
		args[i] = s.expr(x)
	}
	e := rebuild(a.kind, args)
	if b := e.atom(); b != nil {
		if f := simplifiers[b.kind]; f != nil {
			e = f(s.dims, b)
		}
	}
	if lo, hi := s.dims.interval(e); lo == hi {
		return Const(lo)
	}
	return e
}

// interval returns the interval of e, without a proof.
func (d *Dims) interval(e Expr) (lo, hi int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := query{dims: d}
	v := q.interval(e)
	return v.lo, v.hi
}

// simplifiers has the function that simplifies an atom of each kind; it returns the atom's expression if nothing can be
// done.
var simplifiers = [slack + 1]func(d *Dims, a *atom) Expr{
	floorDiv: (*Dims).simplifyFloor,
	ceilDiv:  (*Dims).simplifyCeil,
	modulo:   (*Dims).simplifyMod,
	minimum:  (*Dims).simplifyLeast,
	maximum:  (*Dims).simplifyExtremum,
}

// divisor prepares a division: it returns the operands without common factors, and the factor that was removed; ok is
// false unless the divisor is never zero.
func (d *Dims) divisor(a *atom) (x, y, factor Expr, ok bool) {
	x, y, factor = a.args[0], a.args[1], Const(1)
	if lo, hi := d.interval(y); lo < 1 && hi > -1 && d.sign(y.Sub(Const(1))) < notNegative &&
		d.sign(Const(-1).Sub(y)) < notNegative {
		return x, y, factor, false
	}
	for x.n != nil && y.n != nil && x.c == 0 && y.c == 0 {
		var common *atom
		for _, f := range y.n.terms[len(y.n.terms)-1].atoms {
			if shared(y.n.terms, f) && shared(x.n.terms, f) {
				common = f
			}
		}
		if common == nil {
			break
		}
		x, y, factor = x.dividedBy(common), y.dividedBy(common), factor.Mul(common.expr())
	}
	return x, y, factor, true
}

// within reports whether 0 ≤ r < y is proved.
func (d *Dims) within(r, y Expr) bool {
	return d.LE(Expr{}, r) == Yes && d.LT(r, y) == Yes
}

// constantQuotient returns ⌊x/y⌋ if y is a number of at least 1 and the quotient is the same for all values in the
// ranges.
func (d *Dims) constantQuotient(x, y Expr) (q int64, ok bool) {
	k, number := y.Const()
	if !number || k < 1 {
		return 0, false
	}
	lo, hi := d.interval(x)
	if lo == math.MinInt64 || hi == math.MaxInt64 {
		return 0, false
	}
	q = floorInts(lo, k)
	return q, q == floorInts(hi, k)
}

// simplifyFloor divides as far as possible.
func (d *Dims) simplifyFloor(a *atom) Expr {
	x, y, _, ok := d.divisor(a)
	if !ok {
		return a.expr()
	}
	quotient, remainder := x.divide(y)
	if remainder.Equal(Expr{}) || d.within(remainder, y) {
		return quotient
	} else if q, ok := d.constantQuotient(remainder, y); ok {
		return quotient.Add(Const(q))
	} else if q, ok := d.presentQuotient(remainder, y); ok {
		return quotient.Add(q)
	}
	return quotient.Add(remainder.FloorDiv(y))
}

// simplifyCeil divides as far as possible.
func (d *Dims) simplifyCeil(a *atom) Expr {
	x, y, _, ok := d.divisor(a)
	if !ok {
		return a.expr()
	}
	quotient, remainder := x.divide(y)
	switch {
	case remainder.Equal(Expr{}):
		return quotient
	case d.within(remainder.Sub(Const(1)), y):
		return quotient.Add(Const(1))
	}
	return quotient.Add(remainder.CeilDiv(y))
}

// simplifyMod removes multiples of the divisor.
func (d *Dims) simplifyMod(a *atom) Expr {
	x, y, factor, ok := d.divisor(a)
	if !ok {
		return a.expr()
	}
	_, remainder := x.divide(y)
	if remainder.Equal(Expr{}) || d.within(remainder, y) {
		return remainder.Mul(factor)
	} else if q, ok := d.constantQuotient(remainder, y); ok {
		return remainder.Sub(y.Mul(Const(q))).Mul(factor)
	}
	return remainder.Mod(y).Mul(factor)
}

// simplifyExtremum drops each argument that another one makes redundant.
func (d *Dims) simplifyExtremum(a *atom) Expr {
	if len(a.args) > mostCompared {
		return a.expr()
	}
	kept, values := slices.Clone(a.args), d.sampledArguments(a)
	for i := 0; i < len(kept); i++ {
		for j := range kept {
			low, high := i, j
			if a.kind == minimum {
				low, high = j, i
			}
			if i == j || values != nil && values[low].exceeds(values[high]) {
				continue
			}
			if d.LE(kept[low], kept[high]) == Yes {
				kept = slices.Delete(kept, i, i+1)
				if values != nil {
					values = slices.Delete(values, i, i+1)
				}
				i--
				break
			}
		}
	}
	return extremum(a.kind, kept)
}

// fewCompared is the most arguments that are compared without a look at their values first.
const fewCompared = 3

// sampledArguments returns the values of an extremum's arguments at some bindings; nil if there are few arguments.
func (d *Dims) sampledArguments(a *atom) []Values {
	if len(a.args) <= fewCompared {
		return nil
	}
	list := a.expr().Vars()
	names, bindings := NewNames(list), d.Spread(list)
	out := make([]Values, len(a.args))
	for i, x := range a.args {
		out[i] = names.ValuesAt(x, bindings)
	}
	return out
}

// joinRemainders turns k(x // k) + x % k into x. The remainder's x may lack multiples of k.
func (e Expr) joinRemainders() Expr {
	for again := true; again && e.n != nil && len(e.n.terms) <= mostRemainder; {
		again = false
		for _, t := range e.n.terms {
			for _, a := range t.atoms {
				if a.kind != modulo {
					continue
				}
				x, y := a.args[0], a.args[1]
				rest := e.Sub(polynomial([]term{t}, 0))
				cofactor := Const(t.coef)
				for _, b := range t.without(a, 1) {
					cofactor = cofactor.Mul(b.expr())
				}
				for _, x := range append([]Expr{x}, rest.congruent(x, y)...) {
					joined := rest.Sub(cofactor.Mul(y).Mul(x.FloorDiv(y))).Add(cofactor.Mul(x))
					if joined.size() < e.size() || joined.size() <= e.size()+1 && joined.remainders() < e.remainders() {
						e, again = joined, true
						break
					}
				}
				if again {
					break
				}
			}
			if again {
				break
			}
		}
	}
	return e
}

// remainders counts the factors of e that are remainders.
func (e Expr) remainders() (n int) {
	for _, t := range e.terms() {
		for _, a := range t.atoms {
			if a.kind == modulo {
				n++
			}
		}
	}
	return n
}

// congruent returns the dividends by y in e that differ from x by a constant multiple of y.
func (e Expr) congruent(x, y Expr) (list []Expr) {
	k, ok := y.Const()
	if !ok || k < 1 {
		return nil
	}
	for _, t := range e.terms() {
		for _, a := range t.atoms {
			if a.kind == floorDiv && a.args[1].Equal(y) && !a.args[0].Equal(x) {
				if _, remainder := a.args[0].Sub(x).split(k); remainder.Equal(Expr{}) {
					list = append(list, a.args[0])
				}
			}
		}
	}
	return list
}
