package sym

import (
	"math"
	"slices"
)

// Measure bounds integers as a machine computes them. It has a range for each name, and returns for an expression the
// range of its value and the largest magnitude in its computation: of every partial sum, every partial product and
// every argument of a quotient, a remainder, a minimum or a maximum, in any order. A name without a range may be any
// integer. It is not safe for concurrent use.
type Measure struct {
	ranges map[Name]Range
	atoms  map[hash]interval
	sizes  map[hash]int64 // by atom: the largest magnitude in the computation of its value
}

// NewMeasure returns a measure without ranges.
func NewMeasure() *Measure {
	return &Measure{ranges: map[Name]Range{}, atoms: map[hash]interval{}, sizes: map[hash]int64{}}
}

// Set sets the range of a name. The range must not change after an expression with the name was measured.
func (m *Measure) Set(name Name, r Range) { m.ranges[name] = r }

// Of returns the range of e's value, and the largest magnitude in its computation. An end of the range beyond ±2^61 is
// math.MinInt64 or math.MaxInt64; a magnitude beyond 2^61 is math.MaxInt64. Every factor counts as at least 1, so that
// coefficients are bounded too.
func (m *Measure) Of(e Expr) (value Range, size int64) {
	v, size := m.expr(e)
	return Range{v.lo, v.hi}, size
}

// expr is Of with an interval.
func (m *Measure) expr(e Expr) (value interval, size int64) {
	if e.huge() {
		return everything, math.MaxInt64
	}
	value, size = between(e.c, e.c), sizeOf(between(e.c, e.c))
	inside := int64(0)
	for _, t := range e.terms() {
		v, term := between(t.coef, t.coef), sizeOf(between(t.coef, t.coef))
		for i := 0; i < len(t.atoms); {
			a, n := t.atoms[i], 1
			for i+n < len(t.atoms) && t.atoms[i+n].hash == a.hash {
				n++
			}
			x, most := m.atom(a)
			inside = max(inside, most)
			v = v.mul(x.power(n))
			for range n {
				term = multiplySizes(term, sizeOf(x))
			}
			i += n
		}
		value, size = value.add(v), addSizes(size, term)
	}
	return value, max(size, inside)
}

// atom is expr for an atom; it remembers the result.
func (m *Measure) atom(a *atom) (value interval, size int64) {
	switch a.kind {
	case variable:
		if r, ok := m.ranges[a.name]; ok {
			value = between(r.Min, r.Max)
			return value, sizeOf(value)
		}
		return everything, math.MaxInt64
	case huge, slack:
		return everything, math.MaxInt64
	}
	if v, ok := m.atoms[a.hash]; ok {
		return v, m.sizes[a.hash]
	}
	if v, ok := m.extremum(a); ok {
		m.atoms[a.hash], m.sizes[a.hash] = between(v, v), sizeOf(between(v, v))
		return m.atoms[a.hash], m.sizes[a.hash]
	}
	value, size = m.expr(a.args[0])
	for _, x := range a.args[1:] {
		v, s := m.expr(x)
		value = combineIntervals[a.kind](value, v)
		if a.kind == product {
			size = multiplySizes(size, s)
		} else { // rounding up adds the divisor first
			size = addSizes(size, s)
		}
	}
	m.atoms[a.hash], m.sizes[a.hash] = value, size
	return value, size
}

// extremum returns the value of a minimum or a maximum of polynomials of names that have one value each; ok is false
// for other atoms. Code only compares the polynomials, and partial results may wrap, so each may be any number of 64
// bits.
func (m *Measure) extremum(a *atom) (value int64, ok bool) {
	if !choice(a) {
		return 0, false
	}
	value, err := a.eval(func(name Name) (int64, bool) {
		r, known := m.ranges[name]
		return r.Min, known && r.Min == r.Max
	})
	return value, err == nil
}

// choice reports whether an atom is a minimum or a maximum of polynomials of names and of such atoms.
func choice(a *atom) bool {
	if a.kind != minimum && a.kind != maximum {
		return false
	}
	for _, x := range a.args {
		for _, t := range x.terms() {
			if slices.ContainsFunc(t.atoms, func(b *atom) bool { return b.kind != variable && !choice(b) }) {
				return false
			}
		}
	}
	return true
}

// sizeOf returns the largest magnitude in an interval, at least 1.
func sizeOf(x interval) int64 {
	if infinite(x.lo) || infinite(x.hi) {
		return math.MaxInt64
	}
	return max(1, x.hi, -x.lo)
}

// multiplySizes multiplies magnitudes; the result is math.MaxInt64 beyond 2^61.
func multiplySizes(x, y int64) int64 {
	if x > farthest/y {
		return math.MaxInt64
	}
	return x * y
}

// addSizes adds magnitudes; the result is math.MaxInt64 beyond 2^61.
func addSizes(x, y int64) int64 {
	if x > farthest || y > farthest || x+y > farthest {
		return math.MaxInt64
	}
	return x + y
}
