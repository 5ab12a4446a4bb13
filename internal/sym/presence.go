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
	for _, f := range p.factors {
		if !vanishes(x, f) {
			return x.Mul(p.X)
		}
	}
	return x
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
