package sym

import "math"

// Limits of a query. A step is an expression that is examined; a long one counts more.
const (
	proofSteps    = 400
	briefSteps    = 40
	boundSteps    = 300
	longestProof  = 256  // terms
	largestProof  = 8192 // names, numbers and operations
	mostCompared  = 64   // arguments of an extremum that are compared with each other
	mostRemainder = 32   // terms among which Simplify looks for x // y beside x % y
)

// query is one question to the prover; the set stays locked meanwhile.
//
// The proof of e ≥ goal computes a lower bound of e by removing one atom after the other, each time by an equal or
// smaller expression:
//   - a polynomial that is linear in a quantity between two ends is least at an end, and a quantity without an upper
//     end may only have a coefficient that is not negative;
//   - x % y is x − y(x // y), and x // y for y ≥ 1 is (x − r) / y with 0 ≤ r < y, so that e times y is a polynomial
//     again; since e is an integer, y·e > y·(goal − 1) suffices;
//   - of two quotients by one divisor, x // y = z // y + (x − z) // y + (0 or 1);
//   - max(a, b) is one of the two, and at least each.
//
// Every step also holds if the occurrences of a name were different names, so steps can be taken in any order.
type query struct {
	dims    *Dims
	steps   int
	proving bool // a bound below the goal is useless
	quick   bool // quotients are only related to their dividends
}

// decide finds whether e is always or never below zero.
func (d *Dims) decide(e Expr) sign {
	q := query{dims: d, steps: proofSteps, proving: true}
	v := q.interval(e)
	switch {
	case v.lo == 0 && v.hi == 0:
		return zero
	case v.lo > 0:
		return positive
	case v.lo == 0:
		return notNegative
	case v.hi < 0:
		return negative
	case q.exact(e):
		return unknown
	}
	if e.size() > largestProof || d.credit.Add(-int64(e.size())) < 0 {
		return unknown
	}
	low, high := q.sample(e, func(low, high int64) bool { return low < 0 && high >= 0 })
	if low >= 0 && q.proves(e) {
		return notNegative
	}
	if high < 0 && q.proves(Const(-1).Sub(e)) {
		return negative
	}
	return unknown
}

// proves reports whether e ≥ 0 is shown, first quickly, then with all means.
func (q *query) proves(e Expr) bool {
	if q.refuted(e) {
		return false
	}
	if q.grid(e) || q.provesArgument(e) {
		return true
	}
	for _, q.quick = range []bool{true, false} {
		q.steps = proofSteps
		if q.lower(e, 0) >= 0 {
			return true
		}
	}
	return false
}

// provesArgument reports whether e ≥ 0 is shown in a few steps after an extremum is replaced by one of its arguments,
// if any argument gives a bound. Terms that cancel then need not be examined.
func (q *query) provesArgument(e Expr) bool {
	var buffer [16]*atom
	for _, a := range distinct(e, buffer[:0]) {
		if a.kind != minimum && a.kind != maximum || !q.picksOne(e, a) {
			continue
		}
		list := e.coefficients(a)
		for _, x := range a.args {
			q.steps, q.quick = briefSteps, true
			if q.lower(evaluate(list, x), 0) >= 0 {
				return true
			}
		}
	}
	return false
}

// samples has offsets from the near end of each range, by the index of the name; −1 means the far end.
var samples = [...][3]int64{
	{0, 0, 0}, {-1, -1, -1}, {1, 2, 5}, {0, -1, 3}, {-1, 0, 17}, {63, 64, 0}, {2, 1, -1},
	{1, 0, 0}, {1, 32, 0}, {1, 0, 32}, {1, -1, 0}, {1, 32, 32}, // a batch of few, and sizes just above a multiple
	{1, 1, 1}, {3, -1, 1}, {1, 1, -1}, {1, 33, 1}, {1, 1, 33}, // the same for sizes that may be 0
}

// sample evaluates e at some bindings and returns the least and the greatest value. If no value could be computed, low
// is math.MaxInt64 and high math.MinInt64. It stops when enough returns true for the values so far.
func (q *query) sample(e Expr, enough func(low, high int64) bool) (low, high int64) {
	low, high = math.MaxInt64, math.MinInt64
	var names []Name
	if e.n != nil {
		names = e.Vars()
	}
	for _, steps := range samples {
		v, err := e.Eval(func(name Name) (int64, bool) {
			at := 0
			for at < len(names) && names[at] != name {
				at++
			}
			return q.sampleValue(name, steps[at%3]), true
		})
		if err == nil {
			low, high = min(low, v), max(high, v)
		}
		if enough != nil && enough(low, high) {
			break
		}
	}
	return low, high
}

// sampleValue returns a value in the range of the name: step from the near end, or the far end if step is −1.
func (q *query) sampleValue(name Name, step int64) int64 {
	r, ok := q.dims.ranges[name]
	const far = 4099
	switch {
	case !ok || r.Min == math.MinInt64 && r.Max == NoMax:
		if step < 0 {
			return -far
		}
		return step
	case r.Min == math.MinInt64:
		if step < 0 {
			return max(r.Max, math.MinInt64+far) - far
		}
		return max(r.Max, math.MinInt64+step) - step
	case step >= 0 && step <= r.Max-r.Min || r.Max-r.Min < 0:
		return min(r.Min, r.Max-max(step, 0)) + max(step, 0)
	case r.Max == NoMax:
		return min(r.Min, NoMax-far) + far
	}
	return r.Max
}

// bounds returns the interval of e, narrowed by proof.
func (q *query) bounds(e Expr) (lo, hi int64) {
	switch a := e.atom(); {
	case e.n == nil:
		return e.c, e.c
	case a != nil && a.kind == variable:
		if r, ok := q.dims.ranges[a.name]; ok {
			return r.Min, r.Max
		}
	}
	v := q.interval(e)
	if e.huge() || e.size() > largestProof || q.dims.Exhausted() || q.exact(e) {
		return v.lo, v.hi
	}
	least, greatest := q.sample(e, nil)
	if v.lo < least {
		v.lo = max(v.lo, q.lower(e, least))
	}
	if v.hi > greatest {
		q.steps = boundSteps
		v.hi = min(v.hi, negate(q.lower(e.Neg(), negate(greatest))))
	}
	return v.lo, v.hi
}

// negative reports whether the upper bound that bounds finds for e is below zero. A value of e that is not refutes it
// without a proof.
func (q *query) negative(e Expr) bool {
	if a := e.atom(); e.n == nil || a != nil && a.kind == variable {
		_, hi := q.bounds(e)
		return hi < 0
	}
	v := q.interval(e)
	if v.hi < 0 || e.huge() || e.size() > largestProof || q.dims.Exhausted() {
		return v.hi < 0
	}
	_, greatest := q.sample(e, func(_, high int64) bool { return high >= 0 })
	if greatest >= 0 || v.hi <= greatest {
		return false
	}
	q.steps = boundSteps
	return negate(q.lower(e.Neg(), negate(greatest))) < 0
}

// lower returns a lower bound of e, minusInfinity if it finds none. It stops when the bound reaches the goal.
func (q *query) lower(e Expr, goal int64) int64 {
	v := q.interval(e)
	q.steps -= 1 + len(e.terms())/8
	if v.lo >= goal || q.steps < 0 || q.dims.credit.Add(-int64(e.size())) < 0 || v.hi < goal && q.proving ||
		infinite(goal) || e.n == nil || len(e.n.terms) > longestProof {
		return v.lo
	}
	if e.c != 0 {
		if inner := between(goal, goal).add(between(e.c, e.c).neg()); !infinite(inner.lo) {
			if low := q.lower(Expr{n: e.n}, inner.lo); !infinite(low) {
				return max(v.lo, between(low, low).add(between(e.c, e.c)).lo)
			}
		}
		return v.lo
	}
	if g := e.content(0); g > 1 {
		return max(v.lo, multiplyLow(g, q.lower(e.quotient(g), -floorInts(-goal, g))))
	}
	low, done := q.lowerFactor(e, goal)
	if low = max(low, v.lo); !done {
		a, remove := q.choose(e)
		low = max(low, remove(q, e, a, goal))
	}
	return low
}

// multiplyLow returns k×low for k ≥ 0, as a lower end.
func multiplyLow(k, low int64) int64 { return between(multiplyEnds(k, low), plusInfinity).lo }

// lowerFactor bounds f×rest, where f is an atom that is never below zero.
func (q *query) lowerFactor(e Expr, goal int64) (low int64, done bool) {
	terms := e.n.terms
	if len(terms) == 1 && len(terms[0].atoms) == 1 {
		return minusInfinity, false
	}
	var f *atom
	var v interval
	for _, a := range terms[len(terms)-1].atoms { // the shortest term
		if shared(terms, a) {
			if v = q.atomInterval(a); v.lo >= 0 {
				f = a
				break
			}
		}
	}
	if f == nil {
		return minusInfinity, false
	}
	want := int64(0)
	switch {
	case goal > 0 && v.lo == 0:
		return minusInfinity, true
	case goal > 0:
		want = -floorInts(-goal, v.lo)
	case goal < 0 && v.hi == 0:
		return 0, true
	case goal < 0 && !infinite(v.hi):
		want = -floorInts(-goal, v.hi) // rounds toward zero
	}
	others := e.dividedBy(f)
	rest := q.lower(others, want)
	if rest >= 0 {
		return multiplyLow(v.lo, rest), true
	}
	low = multiplyLow(v.hi, rest)
	return low, low >= goal || !others.dependsOn(f)
}

// dependsOn reports whether a name of the atom occurs in e.
func (e Expr) dependsOn(a *atom) bool {
	var buffer [8]Name
	for _, name := range a.appendNames(buffer[:0]) {
		if e.mentions(name) {
			return true
		}
	}
	return false
}

// shared reports whether every term has the atom.
func shared(terms []term, a *atom) bool {
	for _, t := range terms {
		if t.degree(a) == 0 {
			return false
		}
	}
	return true
}

// degree returns how often a occurs in the term.
func (t term) degree(a *atom) int {
	n := 0
	for _, b := range t.atoms {
		if b == a || b.hash == a.hash {
			n++
		}
	}
	return n
}

// dividedBy returns e divided by an atom that each of its terms has.
func (e Expr) dividedBy(a *atom) Expr {
	var out []term
	c := int64(0)
	for _, t := range e.n.terms {
		if rest := t.without(a, 1); len(rest) > 0 {
			out = append(out, term{t.coef, rest})
		} else {
			c = t.coef
		}
	}
	return polynomial(out, c)
}

// coefficients returns the coefficients of e as a polynomial in one atom, ascending.
func (e Expr) coefficients(a *atom) []Expr {
	terms, degree := e.terms(), 0
	var buffer [64]int32
	degrees, counts := buffer[:0], [4]int{} // counts: of terms, by degree; of the last, and above
	for _, t := range terms {
		n := t.degree(a)
		degrees = append(degrees, int32(n))
		degree = max(degree, n)
		counts[min(n, len(counts)-1)]++
	}
	lists, constants := make([][]term, degree+1), make([]int64, degree+1)
	constants[0] = e.c
	for i, t := range terms {
		n := int(degrees[i])
		if rest := t.without(a, n); len(rest) > 0 {
			if lists[n] == nil {
				lists[n] = make([]term, 0, counts[min(n, len(counts)-1)])
			}
			lists[n] = append(lists[n], term{t.coef, rest})
		} else {
			constants[n] = t.coef
		}
	}
	out := make([]Expr, degree+1)
	for i := range out {
		out[i] = polynomial(lists[i], constants[i])
	}
	return out
}

// without returns the term's atoms except n occurrences of a.
func (t term) without(a *atom, n int) []*atom {
	if n == 0 {
		return t.atoms
	}
	out := make([]*atom, 0, len(t.atoms)-n)
	for _, b := range t.atoms {
		if n > 0 && (b == a || b.hash == a.hash) {
			n--
			continue
		}
		out = append(out, b)
	}
	return out
}

// replace replaces a by x, except within other atoms.
func (e Expr) replace(a *atom, x Expr) Expr { return evaluate(e.coefficients(a), x) }
