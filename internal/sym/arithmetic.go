package sym

import (
	"math"
	"math/bits"
	"slices"
)

// wide is a 128-bit integer in two's complement.
type wide struct {
	hi int64
	lo uint64
}

// add adds v; the sum must fit 128 bits.
func (w *wide) add(v int64) {
	lo, carry := bits.Add64(w.lo, uint64(v), 0)
	w.lo, w.hi = lo, w.hi+v>>63+int64(carry)
}

// int64 returns the value; ok is false if it does not fit.
func (w wide) int64() (int64, bool) { return int64(w.lo), w.hi == int64(w.lo)>>63 }

// addInts returns x + y; ok is false if it does not fit.
func addInts(x, y int64) (int64, bool) {
	s := x + y
	return s, (s > x) == (y > 0)
}

// plus returns x + sign×y for a sign of 1 or −1; ok is false if it does not fit.
func plus(x, y, sign int64) (int64, bool) {
	if sign > 0 {
		return addInts(x, y)
	}
	d := x - y
	return d, (d < x) == (y > 0)
}

// mulInts returns x×y; ok is false if it does not fit.
func mulInts(x, y int64) (int64, bool) {
	if x == 0 || y == 0 {
		return 0, true
	}
	if x == -1 || y == -1 {
		return x * y, x != math.MinInt64 && y != math.MinInt64
	}
	p := x * y
	return p, p/y == x
}

// floorInts returns ⌊x/y⌋. y must not be 0, and not −1 if x is MinInt64.
func floorInts(x, y int64) int64 {
	q := x / y
	if r := x % y; r != 0 && (r < 0) != (y < 0) {
		q--
	}
	return q
}

// modInts returns x − y⌊x/y⌋; y must not be 0.
func modInts(x, y int64) int64 {
	if y == -1 {
		return 0
	}
	r := x % y
	if r != 0 && (r < 0) != (y < 0) {
		r += y
	}
	return r
}

// gcd returns the greatest common divisor, 0 for two zeros; 1 if it is 2^63, which does not fit.
func gcd(x, y int64) int64 {
	a, b := magnitude(x), magnitude(y)
	for b != 0 {
		a, b = b, a%b
	}
	if a > math.MaxInt64 {
		return 1
	}
	return int64(a)
}

// magnitude returns |x|.
func magnitude(x int64) uint64 {
	if x < 0 {
		return -uint64(x)
	}
	return uint64(x)
}

// Add returns e + o.
func (e Expr) Add(o Expr) Expr { return e.combine(o, 1) }

// Sub returns e − o.
func (e Expr) Sub(o Expr) Expr { return e.combine(o, -1) }

// Neg returns −e.
func (e Expr) Neg() Expr { return e.scale(-1) }

// combine returns e + sign×o for a sign of 1 or −1.
func (e Expr) combine(o Expr, sign int64) Expr {
	if e.huge() || o.huge() {
		return tooLarge
	}
	if c, ok := plus(e.c, o.c, sign); ok {
		switch {
		case o.n == nil:
			return Expr{e.n, c}
		case e.n == nil && sign == 1:
			return Expr{o.n, c}
		}
		if terms, ok := merge(e.terms(), o.n.terms, sign); ok {
			return polynomial(terms, c)
		}
	}
	if sign < 0 {
		return e.Add(o.Neg())
	}
	return unevaluatedSum(e, o)
}

// merge returns the sum of two sorted lists of terms, the second times sign; ok is false if a coefficient does not fit.
func merge(x, y []term, sign int64) ([]term, bool) {
	out := make([]term, 0, len(x)+len(y))
	i, j := 0, 0
	for i < len(x) && j < len(y) {
		order := compareProducts(x[i].atoms, y[j].atoms)
		if order < 0 {
			out = append(out, x[i])
			i++
			continue
		}
		x0 := int64(0)
		if order == 0 {
			x0 = x[i].coef
			i++
		}
		c, ok := plus(x0, y[j].coef, sign)
		if !ok {
			return nil, false
		}
		if c != 0 {
			out = append(out, term{c, y[j].atoms})
		}
		j++
	}
	out = append(out, x[i:]...)
	for ; j < len(y); j++ {
		c, ok := plus(0, y[j].coef, sign)
		if !ok {
			return nil, false
		}
		out = append(out, term{c, y[j].atoms})
	}
	return out, true
}

// unevaluatedSum returns a sum that is kept as an atom.
func unevaluatedSum(list ...Expr) Expr {
	slices.SortFunc(list, compareExprs)
	return makeAtom(sum, list...)
}

// Sum returns the sum of a list, 0 for an empty one.
func Sum(list ...Expr) Expr {
	switch len(list) {
	case 0:
		return Expr{}
	case 1:
		return list[0]
	case 2:
		return list[0].Add(list[1])
	}
	count := 0
	var c wide
	for _, e := range list {
		if e.huge() {
			return tooLarge
		}
		count += len(e.terms())
		c.add(e.c)
	}
	terms := make([]term, 0, count)
	for _, e := range list {
		terms = append(terms, e.terms()...)
	}
	if constant, fits := c.int64(); fits {
		if terms, ok := collect(terms); ok {
			return polynomial(terms, constant)
		}
	}
	return unevaluatedSum(slices.DeleteFunc(slices.Clone(list), func(e Expr) bool { return e.Equal(Expr{}) })...)
}

// collect sorts terms and adds those of the same product, in place; ok is false if a coefficient does not fit.
func collect(terms []term) ([]term, bool) {
	slices.SortFunc(terms, func(x, y term) int { return compareProducts(x.atoms, y.atoms) })
	out := terms[:0]
	for i := 0; i < len(terms); {
		var c wide
		first := terms[i]
		for ; i < len(terms) && compareProducts(terms[i].atoms, first.atoms) == 0; i++ {
			c.add(terms[i].coef)
		}
		coef, fits := c.int64()
		if !fits {
			return nil, false
		}
		if coef != 0 {
			out = append(out, term{coef, first.atoms})
		}
	}
	return out, true
}

// scale returns e×k.
func (e Expr) scale(k int64) Expr {
	switch {
	case e.huge() || k == 1:
		return e
	case k == 0:
		return Expr{}
	}
	c, ok := mulInts(e.c, k)
	if ok && e.n == nil {
		return Expr{c: c}
	}
	var terms []term
	if ok {
		terms = make([]term, len(e.n.terms))
		for i, t := range e.n.terms {
			if t.coef, ok = mulInts(t.coef, k); !ok {
				break
			}
			terms[i] = t
		}
	}
	if !ok {
		return unevaluatedProduct(e, Const(k))
	}
	return polynomial(terms, c)
}

// unevaluatedProduct returns a product that is kept as an atom.
func unevaluatedProduct(x, y Expr) Expr {
	if compareExprs(x, y) > 0 {
		x, y = y, x
	}
	return makeAtom(product, x, y)
}

// Mul returns e × o. Sums are multiplied out unless the result has more than 4096 terms.
func (e Expr) Mul(o Expr) Expr {
	switch {
	case e.huge() || o.huge():
		return tooLarge
	case o.n == nil:
		return e.scale(o.c)
	case e.n == nil:
		return o.scale(e.c)
	}
	count := func(x Expr) int64 {
		if x.c != 0 {
			return int64(len(x.n.terms)) + 1
		}
		return int64(len(x.n.terms))
	}
	left, right := count(e), count(o)
	if left > 1 && right > 1 &&
		(left*right > mostTerms || left*int64(o.size())+right*int64(e.size()) > mostExpansion) {
		return unevaluatedProduct(e, o)
	}
	terms := make([]term, 0, left*right)
	ok := true
	one := func(x, y term) {
		c, fits := mulInts(x.coef, y.coef)
		ok = ok && fits
		if len(x.atoms) == 0 {
			terms = append(terms, term{c, y.atoms})
			return
		}
		terms = append(terms, term{c, mergeAtoms(x.atoms, y.atoms)})
	}
	each := func(x Expr, f func(term)) {
		for _, t := range x.n.terms {
			f(t)
		}
		if x.c != 0 {
			f(term{coef: x.c})
		}
	}
	if left*int64(o.size())+right*int64(e.size()) > largestTree {
		return tooLarge
	}
	each(e, func(x term) { each(o, func(y term) { one(x, y) }) })
	if !ok {
		return unevaluatedProduct(e, o)
	}
	c := int64(0)
	if e.c != 0 && o.c != 0 {
		c = terms[len(terms)-1].coef
		terms = terms[:len(terms)-1]
	}
	if left > 1 && right > 1 {
		if terms, ok = collect(terms); !ok {
			return unevaluatedProduct(e, o)
		}
	}
	return polynomial(terms, c)
}

// mergeAtoms merges two sorted lists of atoms.
func mergeAtoms(x, y []*atom) []*atom {
	if len(y) == 0 {
		return x
	}
	out := make([]*atom, 0, len(x)+len(y))
	i, j := 0, 0
	for i < len(x) && j < len(y) {
		if compareAtoms(x[i], y[j]) <= 0 {
			out = append(out, x[i])
			i++
		} else {
			out = append(out, y[j])
			j++
		}
	}
	out = append(out, x[i:]...)
	return append(out, y[j:]...)
}

// Product returns the product of a list, 1 for an empty one.
func Product(list ...Expr) Expr {
	switch len(list) {
	case 0:
		return Const(1)
	case 1:
		return list[0]
	}
	half := len(list) / 2
	return Product(list[:half]...).Mul(Product(list[half:]...))
}
