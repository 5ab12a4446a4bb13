package sym

// remover returns a lower bound of e, computed without the atom a.
type remover func(q *query, e Expr, a *atom, goal int64) int64

// choose picks the atom to remove next: first an atom that can be removed without loss, and a quotient before those
// within it.
func (q *query) choose(e Expr) (*atom, remover) {
	var best *atom
	var how remover
	rank := -1
	offer := func(a *atom, r int, f remover) {
		if r > rank {
			best, how, rank = a, f, r
		}
	}
	var buffer [16]*atom
	seen := distinct(e, buffer[:0])
	for _, a := range seen {
		switch a.kind {
		case slack:
			offer(a, 1<<20, (*query).removeSlack)
		case variable:
			free := true
			for _, b := range seen {
				if b != a && b.kind != slack && b.mentions(a.name) {
					free = false
					break
				}
			}
			if free {
				offer(a, 1<<19, (*query).removeVariable)
			} else {
				offer(a, 0, (*query).removeVariable)
			}
		case modulo:
			if v := q.interval(a.args[1]); v.lo >= 1 || v.hi <= -1 {
				offer(a, 1<<18, (*query).rewriteMod)
			} else {
				offer(a, 1, (*query).removeOpaque)
			}
		case ceilDiv:
			offer(a, 1<<18, (*query).rewriteCeil)
		case minimum, maximum: // below
		case floorDiv:
			offer(a, 4+int(a.depth), (*query).removeFloor)
		default:
			offer(a, 1, (*query).removeOpaque)
		}
	}
	const mostOfExtremum = 1 << 17
	if rank >= mostOfExtremum {
		return best, how
	}
	for _, a := range seen {
		if a.kind != minimum && a.kind != maximum {
			continue
		}
		if q.picksOne(e, a) {
			offer(a, 2, (*query).removeExtremum)
		} else {
			offer(a, mostOfExtremum, (*query).removeExtremum)
			break
		}
	}
	return best, how
}

// distinct appends the atoms of e, each once.
func distinct(e Expr, list []*atom) []*atom {
	for _, t := range e.terms() {
	next:
		for _, a := range t.atoms {
			for _, b := range list {
				if a == b || a.hash == b.hash {
					continue next
				}
			}
			list = append(list, a)
		}
	}
	return list
}

// ends are the ends of a quantity's range, which need not be constant.
type ends struct {
	lo, hi       Expr
	hasLo, hasHi bool
}

// constantEnds returns an interval as ends.
func constantEnds(v interval) ends {
	return ends{Const(v.lo), Const(v.hi), !infinite(v.lo), !infinite(v.hi)}
}

// removeVariable uses the range of a name.
func (q *query) removeVariable(e Expr, a *atom, goal int64) int64 {
	return q.removeBetween(e, a, constantEnds(q.atomInterval(a)), goal)
}

// removeOpaque uses the interval of an operation.
func (q *query) removeOpaque(e Expr, a *atom, goal int64) int64 {
	return q.removeBetween(e, a, constantEnds(q.atomInterval(a)), goal)
}

// removeSlack uses the upper end of a slack, which is at least 0.
func (q *query) removeSlack(e Expr, a *atom, goal int64) int64 {
	return q.removeBetween(e, a, ends{hi: a.args[0], hasLo: true, hasHi: true}, goal)
}

// removeBetween uses only that a lies between two ends.
func (q *query) removeBetween(e Expr, a *atom, at ends, goal int64) int64 {
	list := e.coefficients(a)
	if len(list) > 2 {
		return q.removePower(list, at, goal)
	}
	slope, rest := list[1], list[0]
	v := q.interval(slope)
	needLo, needHi := v.hi > 0, v.lo < 0
	if needLo && needHi {
		switch {
		case !at.hasHi && at.hasLo:
			needHi = q.lower(slope, 0) < 0
		case !at.hasLo && at.hasHi:
			needLo = q.lower(slope.Neg(), 0) < 0
		}
	}
	if needLo && !at.hasLo || needHi && !at.hasHi {
		return minusInfinity
	}
	low := int64(plusInfinity)
	if needLo || !needHi {
		if low = q.lower(slope.Mul(at.lo).Add(rest), goal); low == minusInfinity || low < goal && q.proving {
			return minusInfinity
		}
	}
	if needHi {
		low = min(low, q.lower(slope.Mul(at.hi).Add(rest), goal))
	}
	return low
}

// removePower bounds a polynomial of higher degree in a quantity. If it is a parabola that opens downward, it is least
// at an end. If it is shifted so that the quantity is counted from an end, and no coefficient except the constant one
// is negative, it is least there; the integers next to the end may be tried one by one.
func (q *query) removePower(list []Expr, at ends, goal int64) int64 {
	if len(list) == 3 && at.hasLo && at.hasHi && q.interval(list[2]).hi <= 0 {
		low := q.lower(evaluate(list, at.lo), goal)
		if low != minusInfinity && (low >= goal || !q.proving) {
			low = min(low, q.lower(evaluate(list, at.hi), goal))
		}
		if low >= goal {
			return low
		}
	}
	for _, end := range []struct {
		at   Expr
		has  bool
		sign int64
	}{{at.lo, at.hasLo, 1}, {at.hi, at.hasHi, -1}} {
		if !end.has {
			continue
		}
		low := int64(plusInfinity)
		for i := range int64(3) {
			shifted := shift(list, end.at.Add(Const(i*end.sign)))
			rises, sign := true, int64(1)
			for _, c := range shifted[1:] {
				sign *= end.sign
				rises = rises && q.lower(c.scale(sign), 0) >= 0
			}
			low = min(low, q.lower(shifted[0], goal))
			if rises && (low >= goal || !q.proving) {
				return low
			}
			if low == minusInfinity || low < goal && q.proving {
				break
			}
		}
	}
	return minusInfinity
}

// evaluate returns the value at x of a polynomial with these coefficients.
func evaluate(list []Expr, x Expr) Expr {
	out := list[len(list)-1]
	for i := len(list) - 2; i >= 0; i-- {
		out = out.Mul(x).Add(list[i])
	}
	return out
}

// shift returns the coefficients in x − at of a polynomial in x.
func shift(list []Expr, at Expr) []Expr {
	out := append([]Expr(nil), list...)
	for i := range out {
		for j := len(out) - 2; j >= i; j-- {
			out[j] = out[j].Add(out[j+1].Mul(at))
		}
	}
	return out
}

// rewriteMod uses x % y = x − y(x // y).
func (q *query) rewriteMod(e Expr, a *atom, goal int64) int64 {
	x, y := a.args[0], a.args[1]
	return q.lower(e.replace(a, x.Sub(y.Mul(x.FloorDiv(y)))), goal)
}

// rewriteCeil uses ⌈x/y⌉ = −(−x // y).
func (q *query) rewriteCeil(e Expr, a *atom, goal int64) int64 {
	return q.lower(e.replace(a, a.args[0].Neg().FloorDiv(a.args[1]).Neg()), goal)
}

// picksOne reports whether any argument of the extremum gives a bound of e: of a maximum with which e grows, or a
// minimum with which e falls.
func (q *query) picksOne(e Expr, a *atom) bool { return q.picks(e.coefficients(a), a) }

// picks is picksOne for the coefficients of the expression.
func (q *query) picks(list []Expr, a *atom) bool {
	if len(list) > 2 {
		return false
	}
	v := q.interval(list[1])
	return a.kind == maximum && v.lo >= 0 || a.kind == minimum && v.hi <= 0
}

// removeExtremum replaces an extremum by its arguments: any of them if picksOne, otherwise all of them.
func (q *query) removeExtremum(e Expr, a *atom, goal int64) int64 {
	list := e.coefficients(a)
	one := q.picks(list, a)
	low := int64(plusInfinity)
	if one {
		low = minusInfinity
	}
	for _, x := range a.args {
		with := q.lower(evaluate(list, x), goal)
		if one {
			if low = max(low, with); low >= goal {
				return low
			}
			continue
		}
		if low = min(low, with); low == minusInfinity || low < goal && q.proving {
			return minusInfinity
		}
	}
	return low
}

// removeFloor removes a quotient by the best of several ways.
func (q *query) removeFloor(e Expr, a *atom, goal int64) int64 {
	x, y := a.args[0], a.args[1]
	v := q.interval(y)
	if v.hi <= -1 {
		return q.lower(e.replace(a, x.Neg().FloorDiv(y.Neg())), goal)
	}
	if v.lo < 1 {
		return q.removeOpaque(e, a, goal)
	}
	if q.quick {
		return q.relate(e, a, goal)
	}
	low := int64(minusInfinity)
	for _, f := range []remover{(*query).removePair, (*query).relate, (*query).removeRounded, (*query).removeOpaque} {
		if low = max(low, f(q, e, a, goal)); low >= goal || q.steps < 0 {
			break
		}
	}
	return low
}

// removePair finds another quotient with the opposite sign, and writes the larger of the two as the smaller plus a
// quotient of the difference.
func (q *query) removePair(e Expr, a *atom, goal int64) int64 {
	for _, t := range e.n.terms {
		if t.degree(a) != 1 {
			continue
		}
		cofactor := t.without(a, 1)
		for _, u := range e.n.terms {
			if (u.coef < 0) == (t.coef < 0) || len(u.atoms) != len(t.atoms) {
				continue
			}
			for _, b := range u.atoms {
				if b.kind != floorDiv || b.hash == a.hash || compareProducts(u.without(b, 1), cofactor) != 0 {
					continue
				}
				x, y, by, ok := commonDivisor(a, b)
				if !ok {
					continue
				}
				less, more, difference := a, b, y.Sub(x)
				if v := q.interval(difference); v.lo < 0 {
					if v.hi > 0 {
						continue
					}
					less, more, difference = b, a, difference.Neg()
				}
				carry := newAtom(slack, Hidden("carry"), []Expr{Const(1), less.expr(), more.expr()}).expr()
				return q.lower(e.replace(more, Sum(less.expr(), difference.FloorDiv(by), carry)), goal)
			}
		}
	}
	return minusInfinity
}

// commonDivisor writes two quotients as x // by and y // by; ok is false if they have no such form.
func commonDivisor(a, b *atom) (x, y, by Expr, ok bool) {
	x, y, by = a.args[0], b.args[0], a.args[1]
	if by.Equal(b.args[1]) {
		return x, y, by, true
	}
	k, constant := by.Const()
	l, alsoConstant := b.args[1].Const()
	if !constant || !alsoConstant || k < 1 || l < 1 {
		return x, y, by, false
	}
	g := gcd(k, l)
	common, fits := mulInts(k, l/g)
	return x.scale(l / g), y.scale(k / g), Const(common), fits
}

// relate uses y(x // y) = x − r with 0 ≤ r < y, for y ≥ 1.
func (q *query) relate(e Expr, a *atom, goal int64) int64 {
	x, y := a.args[0], a.args[1]
	list := e.coefficients(a)
	if len(list) > 3 {
		return minusInfinity
	}
	r := newAtom(slack, Hidden("remainder"), []Expr{y.Sub(Const(1)), a.expr()}).expr()
	multiple := x.Sub(r)
	k, constant := y.Const()
	if len(list) == 2 {
		quotient, remainder := list[1].divide(y)
		if remainder.Equal(Expr{}) {
			return q.lower(quotient.Mul(multiple).Add(list[0]), goal)
		}
		if constant {
			g := list[1].content(gcd(k, list[1].c))
			return q.scaled(list[1].quotient(g).Mul(multiple), list[0], k/g, goal)
		}
		if q.lower(list[1].Mul(multiple).Add(y.Mul(list[0].Sub(Const(goal-1)))).Sub(Const(1)), 0) >= 0 {
			return goal
		}
		return minusInfinity
	}
	if square, fits := mulInts(k, k); constant && fits {
		return q.scaled(list[2].Mul(multiple).Mul(multiple).Add(list[1].Mul(multiple).scale(k)), list[0], square, goal)
	}
	return minusInfinity
}

// removeRounded uses (x + c) // y ≤ x for x ≥ 0 and 0 ≤ c < y, which is better than relate if x is small.
func (q *query) removeRounded(e Expr, a *atom, goal int64) int64 {
	k, constant := a.args[1].Const()
	list := e.coefficients(a)
	if !constant || len(list) > 2 || q.interval(list[1]).hi > 0 || a.args[0].c >= k {
		return minusInfinity
	}
	x := Expr{n: a.args[0].n}
	if q.interval(x).lo < 0 && q.lower(x, 0) < 0 {
		return minusInfinity
	}
	return q.lower(list[1].Mul(x).Add(list[0]), goal)
}

// scaled bounds the integer e = numerator/k + rest by bounding k×e.
func (q *query) scaled(numerator, rest Expr, k, goal int64) int64 {
	want, ok := mulInts(goal-1, k)
	if !ok {
		return minusInfinity
	}
	low := q.lower(numerator.Add(rest.scale(k)), want+1)
	if infinite(low) {
		return low
	}
	return -floorInts(-low, k)
}
