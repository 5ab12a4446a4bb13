package sym

import "math"

// FloorDiv returns ⌊e / o⌋, Python's //. A division by zero is kept; its evaluation is an error.
func (e Expr) FloorDiv(o Expr) Expr {
	if k, ok := o.Const(); ok && k != 0 && k != math.MinInt64 && !e.huge() {
		if k < 0 {
			return floorBy(e.Neg(), -k)
		}
		return floorBy(e, k)
	}
	return divideAtom(floorDiv, e, o)
}

// divideAtom returns a division as an atom, or its value if both operands are constants.
func divideAtom(k kind, e, o Expr) Expr {
	if e.n == nil && o.n == nil {
		if v, err := apply[k](e.c, o.c); err == nil {
			return Const(v)
		}
	}
	return makeAtom(k, e, o)
}

// CeilDiv returns ⌈e / o⌉. For a constant o it is (e + o − 1) // o, and has that form.
func (e Expr) CeilDiv(o Expr) Expr {
	if k, ok := o.Const(); ok && k != 0 && k != math.MinInt64 && !e.huge() {
		if k < 0 {
			e, k = e.Neg(), -k
		}
		return floorBy(e.Add(Const(k-1)), k)
	}
	return divideAtom(ceilDiv, e, o)
}

// Mod returns e − o⌊e / o⌋, Python's %, which has the sign of o.
func (e Expr) Mod(o Expr) Expr {
	if k, ok := o.Const(); ok && k != 0 && k != math.MinInt64 && !e.huge() {
		if k < 0 {
			return modBy(e.Neg(), -k).Neg()
		}
		return modBy(e, k)
	}
	return divideAtom(modulo, e, o)
}

// Multiple returns k with e = k × o for every value of the names; ok is false if there is none.
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

// split returns quotient and remainder with e = k×quotient + remainder, for k > 0: the terms that k divides, and the
// quotient of the constant, are in quotient.
func (e Expr) split(k int64) (quotient, remainder Expr) {
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

// content returns the greatest common divisor of k and the coefficients other than the constant.
func (e Expr) content(k int64) int64 {
	for _, t := range e.terms() {
		k = gcd(k, t.coef)
	}
	return k
}

// quotient divides every coefficient by g, and rounds the constant down; g must divide the other coefficients.
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

// floorBy returns ⌊e/k⌋ for k ≥ 1. It uses identities that hold for all integers:
// ⌊(kq+r)/k⌋ = q + ⌊r/k⌋, ⌊gx+c / gk⌋ = ⌊(x + ⌊c/g⌋) / k⌋, ⌊(⌊x/a⌋+y) / k⌋ = ⌊(x+ay) / ak⌋, ⌊−x/k⌋ = −⌊(x+k−1) / k⌋.
func floorBy(e Expr, k int64) Expr {
	if k == 1 {
		return e
	}
	quotient, remainder := e.split(k)
	if remainder.n == nil {
		return quotient
	}
	g := remainder.content(k)
	remainder, k = remainder.quotient(g), k/g
	if inner, rest, ok := remainder.onlyFloor(); ok {
		a := inner.args[1].c
		if ak, fits := mulInts(a, k); fits && ak <= largestDivisor {
			if x := inner.args[0].Add(rest.scale(a)); !x.unevaluated() {
				return quotient.Add(floorBy(x, ak))
			}
		}
	}
	if remainder.n.terms[0].coef < 0 {
		if x := Const(k - 1).Sub(remainder); !x.unevaluated() {
			return quotient.Sub(floorBy(x, k))
		}
	}
	return quotient.Add(makeAtom(floorDiv, remainder, Const(k)))
}

// largestDivisor is the largest product of two divisors that one division replaces: code that computes with a larger
// one would leave 64 bits.
const largestDivisor = 1 << 56

// onlyFloor returns the atom of the only term that is a floor division by a positive constant with coefficient 1, and
// the other terms.
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

// unevaluated reports whether the expression is a sum or a product that is kept as an atom, or huge.
func (e Expr) unevaluated() bool {
	a := e.atom()
	return a != nil && (a.kind == sum || a.kind == product || a.kind == huge)
}

// modBy returns e mod k for k ≥ 1: multiples of k vanish, and (gx+c) mod gk = g((x + ⌊c/g⌋) mod k) + c mod g.
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
	reduced := polynomial(rest, modInts(e.c, k))
	for _, t := range rest {
		// The remainder by a multiple of k can be replaced by its dividend.
		if a := t.atoms[0]; len(t.atoms) == 1 && a.kind == modulo && a.args[1].n == nil && a.args[1].c > 0 &&
			modProduct(t.coef, a.args[1].c, k) == 0 {
			if x := reduced.Sub(polynomial([]term{t}, 0)).Add(a.args[0].scale(t.coef)); !x.unevaluated() {
				return modBy(x, k)
			}
		}
	}
	if reduced.n == nil {
		return reduced
	}
	g := reduced.content(k)
	if g == 1 {
		return makeAtom(modulo, reduced, Const(k))
	}
	inner := reduced.quotient(g)
	return makeAtom(modulo, inner, Const(k/g)).scale(g).Add(Const(modInts(reduced.c, g)))
}

// modProduct returns x×y mod k for k ≥ 1; −1 if x×y does not fit.
func modProduct(x, y, k int64) int64 {
	p, ok := mulInts(x, y)
	if !ok {
		return -1
	}
	return modInts(p, k)
}

// Unravel returns the index of element flat, in row-major order, of the given shape. Leading axes of extent 1 have
// index 0, so that the axis after them needs no remainder: flat is less than the number of elements.
func Unravel(flat Expr, shape []Expr) []Expr {
	index, first := make([]Expr, len(shape)), 0
	for first < len(shape)-1 && shape[first].Equal(Const(1)) {
		first++
	}
	for axis := len(shape) - 1; axis > first; axis-- {
		index[axis] = flat.Mod(shape[axis])
		flat = flat.FloorDiv(shape[axis])
	}
	if len(shape) > 0 {
		index[first] = flat
	}
	return index
}
