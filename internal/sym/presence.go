package sym

import "slices"

// Presence says whether a quantity that is not negative is at least 1.
type Presence struct {
	X       Expr   // 1 if the quantity is at least 1, 0 if it is 0
	factors []Expr // the quantity is 0 exactly if one of them is
}

// Presence returns the presence of e, which must not be negative. Factors that are proved to be at least 1 are omitted,
// so that quantities that are 0 together have the same presence.
func (d *Dims) Presence(e Expr) Presence {
	var p Presence
	d.factorise(e, &p)
	if len(p.factors) == 0 {
		return Presence{X: Const(1)}
	}
	p.X = Product(p.factors...).Min(Const(1))
	return p
}

// factorise adds the factors of e to p: e is 0 if one of them is.
func (d *Dims) factorise(e Expr, p *Presence) {
	for f := d.sharedFactor(e); f != nil; f = d.sharedFactor(e) {
		e = e.dividedBy(f)
		d.factor(f.expr(), p)
	}
	// If every removed factor is at least 1, the rest is not negative.
	d.factor(e.quotient(max(e.content(e.c), 1)), p)
}

// factor adds a factor that has no further factors. A quotient that is rounded up is 0 if its dividend is.
func (d *Dims) factor(x Expr, p *Presence) {
	if lo, _ := d.Bounds(x); lo >= 1 || slices.ContainsFunc(p.factors, x.Equal) {
		return
	}
	if a := x.atom(); a != nil && a.kind == floorDiv {
		k, number := a.args[1].Const()
		dividend := Expr{n: a.args[0].n}
		if lo, _ := d.Bounds(dividend); number && k >= 1 && lo >= 0 && a.args[0].c == k-1 {
			d.factorise(dividend, p)
			return
		}
	}
	p.factors = append(p.factors, x)
}

// sharedFactor returns an atom that is not negative and occurs in each term of e; nil if there is none.
func (d *Dims) sharedFactor(e Expr) *atom {
	if e.n == nil || e.c != 0 || e.huge() {
		return nil
	}
	terms := e.n.terms
	for _, a := range terms[len(terms)-1].atoms { // the shortest
		if lo, _ := d.Bounds(a.expr()); lo >= 0 && shared(terms, a) {
			return a
		}
	}
	return nil
}

// Times returns x·p.X, or x if x is evidently 0 whenever p.X is.
func (p Presence) Times(x Expr) Expr {
	if p.needless(x) {
		return x
	}
	return x.Mul(p.X)
}

// needless reports whether x is evidently 0 whenever p.X is.
func (p Presence) needless(x Expr) bool {
	return !slices.ContainsFunc(p.factors, func(f Expr) bool { return !vanishes(x, f) })
}

// vanishes reports whether x is evidently 0 if f is.
func vanishes(x, f Expr) bool {
	a := f.atom()
	if a == nil || x.huge() {
		return false
	}
	if a.kind == variable {
		x = x.Subst(func(name Name) (Expr, bool) { return Expr{}, name == a.name })
		return x.Equal(Expr{})
	}
	return x.c == 0 && (x.n == nil || shared(x.n.terms, a))
}

// presentQuotient returns x // max(b, 1) if y is that maximum, b is not negative, and x is q·b: it is q·min(b, 1).
func (d *Dims) presentQuotient(x, y Expr) (quotient Expr, ok bool) {
	a := y.atom()
	if a == nil || a.kind != maximum || len(a.args) != 2 || !a.args[1].Equal(Const(1)) {
		return Expr{}, false
	}
	q, remainder := x.divide(a.args[0])
	if !remainder.Equal(Expr{}) || d.sign(a.args[0]) < zero {
		return Expr{}, false
	}
	return q.Mul(d.simplifyPresence(a.args[0])), true
}

// simplifyLeast simplifies a minimum.
func (d *Dims) simplifyLeast(a *atom) Expr {
	e := d.simplifyExtremum(a)
	if x, ok := d.presenceOf(e.atom()); ok {
		return d.simplifyPresence(x)
	}
	return e
}

// presenceOf returns x if an atom is min(x, 1) and x is not negative; ok is false otherwise.
func (d *Dims) presenceOf(a *atom) (x Expr, ok bool) {
	if a == nil || a.kind != minimum || len(a.args) != 2 || !a.args[1].Equal(Const(1)) {
		return Expr{}, false
	}
	return a.args[0], d.sign(a.args[0]) >= zero
}

// simplifyPresence returns min(x, 1) for x that is not negative.
func (d *Dims) simplifyPresence(x Expr) Expr { return d.Presence(x).X }

// dropPresences drops each factor min(x, 1) from a term whose other factors are 0 if x is.
func (d *Dims) dropPresences(e Expr) Expr {
	for again := true; again; {
		again = false
	terms:
		for _, t := range e.terms() {
			for _, a := range t.atoms {
				x, ok := d.presenceOf(a)
				if !ok || len(t.atoms) == 1 {
					continue
				}
				rest := polynomial([]term{{t.coef, t.without(a, 1)}}, 0)
				if d.Presence(x).needless(rest) {
					e, again = e.Sub(polynomial([]term{t}, 0)).Add(rest), true
					break terms
				}
			}
		}
	}
	return e
}
