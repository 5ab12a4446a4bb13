package sym

import (
	"slices"
	"strconv"
)

// Limits of a grid: the number of divisors of one name, and their common multiple.
const (
	mostUnits   = 12
	longestUnit = 1 << 20
)

// grid shows e ≥ 0 by writing each name in digits: in units of the common multiple of its quotients' divisors, and the
// rest. With x = 32q + d, the quotient x // 8 is 4q plus the digit d // 8, which is 0 to 3. e is then a polynomial in
// quantities that are not negative. Digits in negative terms are replaced by their largest values, and positive terms
// must cover the negative terms. Before that, pairs of quotients whose difference is not negative are removed, and
// other quotients, minima and maxima are replaced by bounds.
type grid struct {
	q      *query
	digits map[hash]int64 // the largest value of a digit
	count  int
}

// grid reports whether e ≥ 0 is shown, at once or by cases of its names.
func (q *query) grid(e Expr) bool {
	if q.gridAsIs(e) {
		return true
	}
	var names []Name
	for _, name := range e.Vars() {
		if r, ok := q.dims.ranges[name]; ok && r.Min == 0 && r.Max > 0 {
			names = append(names, name)
		}
	}
	return len(names) > 0 && len(names) <= mostCases && q.gridByCases(e, names)
}

// mostCases is the most names for which the cases 0 and at least 1 are distinguished.
const mostCases = 3

// gridByCases shows e ≥ 0 separately for each name being 0 and being at least 1: if it is at least 1, sizes that are
// rounded up can be bounded by multiples of their units, and max(x − 1, 0) is x − 1.
func (q *query) gridByCases(e Expr, names []Name) bool {
	if len(names) == 0 {
		return q.gridAsIs(e)
	}
	at := func(x Expr) Expr {
		s := substitution{with: func(name Name) (Expr, bool) { return x, name == names[0] }, settle: q.onlyArgument,
			done: map[*atom]Expr{}}
		return s.expr(e)
	}
	if !q.gridByCases(at(Expr{}), names[1:]) {
		return false
	}
	less, r := Hidden("less "+names[0].text), q.dims.ranges[names[0]]
	if r.Max != NoMax {
		r.Max--
	}
	q.dims.ranges[less] = r
	defer delete(q.dims.ranges, less)
	return q.gridByCases(at(Var(less).Add(Const(1))), names[1:])
}

// gridAsIs is grid for all values at once.
func (q *query) gridAsIs(e Expr) bool {
	if e.n == nil {
		return e.c >= 0
	}
	g := grid{q: q, digits: map[hash]int64{}}
	e, ok := g.simplified(e)
	if !ok {
		return false
	}
	for _, name := range e.Vars() {
		if e, ok = g.inDigits(e, name); !ok || e.huge() || len(e.terms()) > longestProof {
			return false
		}
	}
	q.dims.credit.Add(-int64(e.size()))
	return g.covered(e)
}

// simplified bounds a positive multiple of e from below by an expression over names and quotients of a name by a
// number.
func (g *grid) simplified(e Expr) (Expr, bool) {
	e = g.cancelled(e)
	for range mostUnits {
		t, a, ok := awkward(e)
		if a == nil || !ok {
			return e, ok
		}
		factor := polynomial([]term{{t.coef, t.without(a, 1)}}, 0)
		if len(t.atoms) == 1 {
			factor = Const(t.coef)
		}
		v := g.q.interval(factor)
		if v.lo < 0 && v.hi > 0 {
			return e, false
		}
		e = e.Sub(factor.Mul(a.expr()))
		if x, ok := g.q.onlyArgument(a); ok {
			e = e.Add(factor.Mul(x))
			continue
		}
		negative, settled := v.hi <= 0, g.q.atomInterval(a)
		switch {
		case settled.lo == settled.hi:
			e = e.Add(factor.scale(settled.lo))
		case a.kind == floorDiv:
			k, _ := a.args[1].Const()
			bound := a.args[0].Sub(Const(k - 1))
			if negative {
				bound = g.roundedUp(a.args[0], k)
			}
			e = e.scale(k).Add(factor.Mul(bound))
		case a.kind == minimum && negative || a.kind == maximum && !negative:
			bound := a.args[0]
			for _, x := range a.args[1:] { // a bound with a name, so that the term stays 0 if the name is 0
				if _, number := bound.Const(); number {
					bound = x
				}
			}
			e = e.Add(factor.Mul(bound))
		default:
			bound := g.q.atomInterval(a)
			if negative {
				bound.lo = bound.hi
			}
			if infinite(bound.lo) || a.kind == product {
				return e, false
			}
			e = e.Add(factor.scale(bound.lo))
		}
		if e.unevaluated() || e.huge() {
			return e, false
		}
	}
	return e, false
}

// cancelled removes pairs f·(y // l) − f·(x // k) from e, with the same f ≥ 0 and x/k ≤ y/l: they are not negative.
func (g *grid) cancelled(e Expr) Expr {
	for again := true; again; {
		again = false
	pairs:
		for _, t := range e.terms() {
			if t.coef >= 0 {
				continue
			}
			for _, u := range e.terms() {
				if u.coef > 0 && len(u.atoms) == len(t.atoms) && g.exceeds(u, t) {
					pair := polynomial([]term{{1, u.atoms}}, 0).Sub(polynomial([]term{{1, t.atoms}}, 0))
					e, again = e.Sub(pair.scale(min(u.coef, -t.coef))), true
					break pairs
				}
			}
		}
	}
	return e
}

// exceeds reports whether the products of two terms differ in one quotient, and that of u is shown to be no less.
func (g *grid) exceeds(u, t term) bool {
	for _, a := range t.atoms {
		if x := a.args; a.kind != floorDiv || x[0].atom() != nil && x[0].atom().kind == variable {
			continue // digits tell more of the quotients of a name
		}
		rest := t.without(a, 1)
		if slices.ContainsFunc(rest, func(f *atom) bool { return g.q.atomInterval(f).lo < 0 }) {
			continue
		}
		for _, b := range u.atoms {
			if b.kind != floorDiv || compareProducts(u.without(b, 1), rest) != 0 {
				continue
			}
			if x, y, _, ok := commonDivisor(a, b); ok && g.q.interval(a.args[1]).lo >= 1 && g.q.gridAsIs(y.Sub(x)) {
				return true
			}
		}
	}
	return false
}

// onlyArgument returns the argument of an extremum that is always its value; ok is false if none is known to be.
func (q *query) onlyArgument(a *atom) (x Expr, ok bool) {
	if a.kind != minimum && a.kind != maximum {
		return Expr{}, false
	}
	for _, x := range a.args {
		if !slices.ContainsFunc(a.args, func(y Expr) bool {
			if v := q.interval(x.Sub(y)); a.kind == maximum {
				return v.lo < 0
			} else {
				return v.hi > 0
			}
		}) {
			return x, true
		}
	}
	return Expr{}, false
}

// roundedUp returns an upper bound of k·(x // k). If x is f·y + c with a name f that is not negative and c < k, the
// quotient is at most f·⌈y/k⌉, which is 0 if f is 0.
func (g *grid) roundedUp(x Expr, k int64) Expr {
	product := Expr{n: x.n}
	if x.n == nil || x.c >= k {
		return x
	}
	for _, f := range x.n.terms[0].atoms {
		if f.kind == variable && shared(x.n.terms, f) && g.q.atomInterval(f).lo == 0 {
			return f.expr().Mul(product.dividedBy(f).Add(Const(k - 1)))
		}
	}
	return x
}

// awkward returns an atom of e that is neither a name nor a quotient of one name by a number, and its term; nil if
// there is none. ok is false if e divides by anything but a positive number.
func awkward(e Expr) (t term, a *atom, ok bool) {
	for _, t := range e.terms() {
		for _, a := range t.atoms {
			switch a.kind {
			case variable:
			case floorDiv:
				if k, number := a.args[1].Const(); !number || k < 1 {
					return t, a, false
				}
				if x := (Expr{n: a.args[0].n}).atom(); x == nil || x.kind != variable {
					return t, a, true
				}
			default:
				return t, a, true
			}
		}
	}
	return term{}, nil, true
}

// unit is a quotient (x + offset) // by of a name x, in which x is counted from the low end of its range.
type unit struct {
	a          *atom
	by, offset int64
}

// inDigits replaces the name and its quotients by digits.
func (g *grid) inDigits(e Expr, name Name) (Expr, bool) {
	r, ok := g.q.dims.ranges[name]
	if !ok || r.Min < -farthest || r.Min > farthest {
		return e, false
	}
	var units []unit
	multiple := int64(1)
	var buffer [16]*atom
	for _, a := range distinct(e, buffer[:0]) {
		switch {
		case a.kind == variable && a.name == name:
			units = append(units, unit{a, 1, 0})
		case a.kind == floorDiv && a.mentions(name):
			by, _ := a.args[1].Const()
			if a.args[0].c < -farthest || a.args[0].c > farthest {
				return e, false
			}
			multiple = multiple / gcd(multiple, by) * by
			if units = append(units, unit{a, by, a.args[0].c + r.Min}); multiple > longestUnit || len(units) > mostUnits {
				return e, false
			}
		}
	}
	slices.SortFunc(units, func(x, y unit) int {
		if x.by != y.by {
			return int(y.by - x.by)
		}
		return int(max(min(x.offset-y.offset, 1), -1))
	})
	// The digits of one chain belong to divisors that divide one another, with offsets that are multiples of them.
	base := g.digit(-1)
	chain, last := base, multiple
	for _, u := range units {
		shift, rest := floorInts(u.offset, u.by), modInts(u.offset, u.by)
		var x Expr
		switch {
		case rest != 0: // separately from the chain: between two multiples of the coarsest unit
			x = base.scale(multiple / u.by).Add(g.digit(multiple / u.by))
		case last%u.by != 0:
			return e, false
		default:
			if u.by != last {
				chain, last = chain.scale(last/u.by).Add(g.digit(last/u.by-1)), u.by
			}
			x = chain
		}
		if u.by == 1 {
			shift = r.Min
		}
		e = e.replace(u.a, x.Add(Const(shift)))
	}
	return e, true
}

// digit returns a new name for an integer from 0 to most; if most is negative, it has no upper end.
func (g *grid) digit(most int64) Expr {
	x := Var(Hidden("digit" + strconv.Itoa(g.count)))
	g.count++
	if most >= 0 {
		g.digits[x.n.terms[0].atoms[0].hash] = most
	}
	return x
}

// covered reports whether the positive terms of e cover the negative terms, if all names are at least 0.
func (g *grid) covered(e Expr) bool {
	out := []Expr{Const(e.c)}
	for _, t := range e.terms() {
		if slices.ContainsFunc(t.atoms, func(a *atom) bool { return a.kind != variable }) {
			return false
		}
		if t.coef > 0 {
			out = append(out, polynomial([]term{t}, 0))
			continue
		}
		x := Const(t.coef)
		for _, a := range t.atoms {
			if most, digit := g.digits[a.hash]; digit {
				x = x.Mul(Const(most))
			} else {
				x = x.Mul(a.expr())
			}
		}
		out = append(out, x)
	}
	e = Sum(out...)
	if e.unevaluated() || e.huge() || e.c < 0 {
		return false
	}
	return !slices.ContainsFunc(e.terms(), func(t term) bool { return t.coef < 0 })
}
