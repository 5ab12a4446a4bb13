package sym

import "math"

// FloorDiv returns ⌊e / o⌋, which is Python's //. A division by zero stays: it is an error of evaluation.
func (e Expr) FloorDiv(o Expr) Expr {
	if k, ok := o.Const(); ok && k != 0 && k != math.MinInt64 && !e.huge() {
		if k < 0 {
			return floorBy(e.Neg(), -k)
		}
		return floorBy(e, k)
	}
	return divideAtom(floorDiv, e, o)
}

// divideAtom keeps a division as an atom, unless both operands are constants that it can be computed of.
func divideAtom(k kind, e, o Expr) Expr {
	if e.n == nil && o.n == nil {
		if v, err := apply[k](e.c, o.c); err == nil {
			return Const(v)
		}
	}
	return makeAtom(k, e, o)
}

// CeilDiv returns ⌈e / o⌉. By a constant it is (e + o − 1) // o, and kept so.
func (e Expr) CeilDiv(o Expr) Expr {
	if k, ok := o.Const(); ok && k != 0 && k != math.MinInt64 && !e.huge() {
		if k < 0 {
			e, k = e.Neg(), -k
		}
		return floorBy(e.Add(Const(k-1)), k)
	}
	return divideAtom(ceilDiv, e, o)
}

// Mod returns e − o⌊e / o⌋, which is Python's % and has the sign of o.
func (e Expr) Mod(o Expr) Expr {
	if k, ok := o.Const(); ok && k != 0 && k != math.MinInt64 && !e.huge() {
		if k < 0 {
			return modBy(e.Neg(), -k).Neg()
		}
		return modBy(e, k)
	}
	return divideAtom(modulo, e, o)
}

// Multiple returns k where e is k times o for every value of the names in them; ok is false if it is no multiple.
func (e Expr) Multiple(o Expr) (k int64, ok bool) {
	if e.huge() || o.huge() {
		return 0, false
	}
	by := o.c
	if k = e.c; o.n != nil {
		if e.n == nil {
			return 0, false
		}
		k, by = e.terms()[0].coef, o.terms()[0].coef
	}
	if by == 0 || k%by != 0 {
		return 0, false
	}
	k /= by
	return k, o.scale(k).Equal(e)
}

// split writes e as k×whole + part, where whole takes the terms that k > 0 divides and the constant's quotient.
func (e Expr) split(k int64) (whole, part Expr) {
	var divided, rest []term
	for _, t := range e.terms() {
		if t.coef%k == 0 {
			divided = append(divided, term{t.coef / k, t.atoms})
		} else {
			rest = append(rest, t)
		}
	}
	return polynomial(divided, floorInts(e.c, k)), polynomial(rest, modInts(e.c, k))
}

// content is the greatest common divisor of k and the coefficients that are not constant.
func (e Expr) content(k int64) int64 {
	for _, t := range e.terms() {
		k = gcd(k, t.coef)
	}
	return k
}

// quotient divides every coefficient by g, which divides all but the constant, and the constant rounding down.
func (e Expr) quotient(g int64) Expr {
	if g == 1 || e.n == nil {
		return Expr{e.n, floorInts(e.c, g)}
	}
	terms := make([]term, len(e.n.terms))
	for i, t := range e.n.terms {
		terms[i] = term{t.coef / g, t.atoms}
	}
	return polynomial(terms, floorInts(e.c, g))
}

// floorBy is ⌊e/k⌋ for k ≥ 1. All it uses holds for every integer:
// ⌊(kq+r)/k⌋ = q + ⌊r/k⌋, ⌊gx+c / gk⌋ = ⌊(x + ⌊c/g⌋) / k⌋, ⌊(⌊x/a⌋+y) / k⌋ = ⌊(x+ay) / ak⌋, ⌊−x/k⌋ = −⌊(x+k−1) / k⌋.
func floorBy(e Expr, k int64) Expr {
	if k == 1 {
		return e
	}
	whole, part := e.split(k)
	if part.n == nil {
		return whole
	}
	g := part.content(k)
	part, k = part.quotient(g), k/g
	if inner, rest, ok := part.onlyFloor(); ok {
		a := inner.args[1].c
		if ak, fits := mulInts(a, k); fits {
			if x := inner.args[0].Add(rest.scale(a)); !x.unevaluated() {
				return whole.Add(floorBy(x, ak))
			}
		}
	}
	if part.n.terms[0].coef < 0 {
		if x := Const(k - 1).Sub(part); !x.unevaluated() {
			return whole.Sub(floorBy(x, k))
		}
	}
	return whole.Add(makeAtom(floorDiv, part, Const(k)))
}

// onlyFloor finds the one term that is a floor division by a positive constant, with coefficient 1.
func (e Expr) onlyFloor() (inner *atom, rest Expr, ok bool) {
	for _, t := range e.n.terms {
		if a := t.atoms[0]; t.coef == 1 && len(t.atoms) == 1 && a.kind == floorDiv && a.args[1].n == nil && a.args[1].c > 0 {
			if inner != nil {
				return nil, Expr{}, false
			}
			inner = a
		}
	}
	if inner == nil {
		return nil, Expr{}, false
	}
	return inner, e.Sub(inner.expr()), true
}

// unevaluated reports whether arithmetic gave up on the expression: it is a sum or a product kept as an atom, or huge.
func (e Expr) unevaluated() bool {
	a := e.atom()
	return a != nil && (a.kind == sum || a.kind == product || a.kind == huge)
}

// modBy is e mod k for k ≥ 1: multiples of k fall away, and (gx+c) mod gk = g((x + ⌊c/g⌋) mod k) + c mod g.
func modBy(e Expr, k int64) Expr {
	if k == 1 {
		return Expr{}
	}
	var rest []term
	for _, t := range e.terms() {
		if t.coef %= k; t.coef == 0 {
			continue
		}
		rest = append(rest, t)
	}
	part := polynomial(rest, modInts(e.c, k))
	for _, t := range rest {
		// A remainder of a multiple of k is its dividend here.
		if a := t.atoms[0]; len(t.atoms) == 1 && a.kind == modulo && a.args[1].n == nil && a.args[1].c > 0 &&
			modProduct(t.coef, a.args[1].c, k) == 0 {
			if x := part.Sub(polynomial([]term{t}, 0)).Add(a.args[0].scale(t.coef)); !x.unevaluated() {
				return modBy(x, k)
			}
		}
	}
	if part.n == nil {
		return part
	}
	g := part.content(k)
	if g == 1 {
		return makeAtom(modulo, part, Const(k))
	}
	inner := part.quotient(g)
	return makeAtom(modulo, inner, Const(k/g)).scale(g).Add(Const(modInts(part.c, g)))
}

// modProduct is x×y mod k for k ≥ 1, or -1 if x×y does not fit.
func modProduct(x, y, k int64) int64 {
	p, ok := mulInts(x, y)
	if !ok {
		return -1
	}
	return modInts(p, k)
}
