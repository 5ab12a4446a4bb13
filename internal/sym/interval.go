package sym

import "math"

// interval is the integers from lo to hi. A finite end is within ±2^61, so that two can be added; minusInfinity and
// plusInfinity mean no end. An end beyond the limit becomes infinite, or the limit if that widens the interval.
type interval struct{ lo, hi int64 }

const (
	minusInfinity = math.MinInt64
	plusInfinity  = math.MaxInt64
	farthest      = 1 << 61
)

var everything = interval{minusInfinity, plusInfinity}

func infinite(x int64) bool { return x == minusInfinity || x == plusInfinity }

// between returns the interval from lo to hi, which may be infinite or beyond the limit.
func between(lo, hi int64) interval {
	if lo < -farthest {
		lo = minusInfinity
	}
	if hi > farthest {
		hi = plusInfinity
	}
	return interval{min(lo, farthest), max(hi, -farthest)}
}

func (x interval) neg() interval { return interval{negate(x.hi), negate(x.lo)} }

// negate returns −x for an end, which may be infinite.
func negate(x int64) int64 {
	switch x {
	case minusInfinity:
		return plusInfinity
	case plusInfinity:
		return minusInfinity
	}
	return -x
}

// add returns the interval of sums.
func (x interval) add(y interval) interval {
	lo, hi := int64(minusInfinity), int64(plusInfinity)
	if !infinite(x.lo) && !infinite(y.lo) {
		lo = x.lo + y.lo
	}
	if !infinite(x.hi) && !infinite(y.hi) {
		hi = x.hi + y.hi
	}
	return between(lo, hi)
}

// multiplyEnds returns x×y; infinity times zero is zero, and a product that does not fit is infinite.
func multiplyEnds(x, y int64) int64 {
	if x == 0 || y == 0 {
		return 0
	}
	if !infinite(x) && !infinite(y) {
		if p, ok := mulInts(x, y); ok {
			return p
		}
	}
	if (x < 0) != (y < 0) {
		return minusInfinity
	}
	return plusInfinity
}

// mul returns the interval of products.
func (x interval) mul(y interval) interval {
	a, b := multiplyEnds(x.lo, y.lo), multiplyEnds(x.lo, y.hi)
	c, d := multiplyEnds(x.hi, y.lo), multiplyEnds(x.hi, y.hi)
	return between(min(a, b, c, d), max(a, b, c, d))
}

// power returns the interval of n-th powers, n ≥ 1.
func (x interval) power(n int) interval {
	out := x
	for range n - 1 {
		out = out.mul(x)
	}
	if n%2 == 0 {
		out.lo = max(out.lo, 0)
	}
	return out
}

// floorEnds returns ⌊x/y⌋ for y ≥ 1, either of which may be infinite.
func floorEnds(x, y int64) int64 {
	switch {
	case infinite(x):
		return x
	case infinite(y) && x < 0:
		return -1
	case infinite(y):
		return 0
	}
	return floorInts(x, y)
}

// floorDiv returns the interval of quotients, rounded down; divisors of 0 do not count.
func (x interval) floorDiv(y interval) interval {
	switch {
	case y.lo >= 1:
		lo, hi := floorEnds(x.lo, y.lo), floorEnds(x.hi, y.lo)
		if x.lo >= 0 {
			lo = floorEnds(x.lo, y.hi)
		}
		if x.hi < 0 {
			hi = floorEnds(x.hi, y.hi)
		}
		return interval{lo, hi}
	case y.hi <= -1:
		return x.neg().floorDiv(y.neg())
	}
	// A divisor of magnitude 1 or more makes no magnitude larger.
	largest := max(negate(x.lo), x.hi)
	if x.lo == plusInfinity || largest < 0 {
		largest = plusInfinity
	}
	return interval{negate(largest), largest}
}

// mod returns the interval of remainders, with the sign of the divisor.
func (x interval) mod(y interval) interval {
	switch {
	case y.lo >= 1:
		if !infinite(x.lo) && !infinite(x.hi) && y.lo == y.hi && floorInts(x.lo, y.lo) == floorInts(x.hi, y.lo) {
			return interval{modInts(x.lo, y.lo), modInts(x.hi, y.lo)}
		}
		out := interval{0, plusInfinity}
		if !infinite(y.hi) {
			out.hi = y.hi - 1
		}
		if x.lo >= 0 {
			out.hi = min(out.hi, x.hi)
			if x.hi < y.lo {
				out.lo = x.lo
			}
		}
		return out
	case y.hi <= -1:
		return x.neg().mod(y.neg()).neg()
	}
	out := everything
	if !infinite(y.lo) {
		out.lo = min(0, y.lo+1)
	}
	if !infinite(y.hi) {
		out.hi = max(0, y.hi-1)
	}
	return out
}

// interval returns the interval of e from the intervals of its atoms.
func (q *query) interval(e Expr) interval {
	out := between(e.c, e.c)
	for _, t := range e.terms() {
		v := between(t.coef, t.coef)
		for i := 0; i < len(t.atoms); {
			a, n := t.atoms[i], 1
			for i+n < len(t.atoms) && t.atoms[i+n].hash == a.hash {
				n++
			}
			v = v.mul(q.atomInterval(a).power(n))
			i += n
		}
		out = out.add(v)
	}
	return out
}

// mostExact is the largest number of names of an expression of which exact knows that it has no name twice.
const mostExact = 6

// exact reports whether e takes the values of both ends of its interval, or any value beyond a limit: it is a
// polynomial in which each name occurs once, and no range is empty. Nothing but its interval is to be proved of it.
func (q *query) exact(e Expr) bool {
	var names [mostExact]*atom
	count := 0
	for _, t := range e.terms() {
		for _, a := range t.atoms {
			if a.kind != variable || count == mostExact {
				return false
			}
			if r, ok := q.dims.ranges[a.name]; ok && r.Min > r.Max {
				return false
			}
			for _, b := range names[:count] {
				if a.hash == b.hash {
					return false
				}
			}
			names[count] = a
			count++
		}
	}
	return true
}

// atomInterval returns the interval of an atom, and remembers it.
func (q *query) atomInterval(a *atom) interval {
	switch a.kind {
	case variable:
		if r, ok := q.dims.ranges[a.name]; ok {
			return between(r.Min, r.Max)
		}
		return everything
	case slack:
		return interval{0, max(q.interval(a.args[0]).hi, 0)}
	case huge:
		return everything
	}
	if v, ok := q.dims.intervals[a.hash]; ok {
		return v
	}
	out := q.interval(a.args[0])
	for _, x := range a.args[1:] {
		out = combineIntervals[a.kind](out, q.interval(x))
	}
	if q.dims.intervals == nil {
		q.dims.intervals = map[hash]interval{}
	}
	if len(q.dims.intervals) >= mostRemembered {
		clear(q.dims.intervals)
	}
	q.dims.intervals[a.hash] = out
	return out
}

// combineIntervals has the operations of two operands, by kind.
var combineIntervals = [...]func(x, y interval) interval{
	floorDiv: interval.floorDiv,
	ceilDiv:  func(x, y interval) interval { return x.neg().floorDiv(y).neg() },
	modulo:   interval.mod,
	minimum:  func(x, y interval) interval { return interval{min(x.lo, y.lo), min(x.hi, y.hi)} },
	maximum:  func(x, y interval) interval { return interval{max(x.lo, y.lo), max(x.hi, y.hi)} },
	product:  interval.mul,
	sum:      interval.add,
}
