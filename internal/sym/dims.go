package sym

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// NoMax is the upper end of an unlimited range.
const NoMax = math.MaxInt64

// Range is the integers from Min to Max, inclusive. A Min of math.MinInt64 means no lower end, a Max of NoMax no upper
// end.
type Range struct{ Min, Max int64 }

// String returns the range as in texts: 1..16, 1.. or 16.
func (r Range) String() string {
	switch {
	case r.Min == r.Max:
		return fmt.Sprint(r.Min)
	case r.Min == math.MinInt64 && r.Max == NoMax:
		return ".."
	case r.Min == math.MinInt64:
		return fmt.Sprintf("..%d", r.Max)
	case r.Max == NoMax:
		return fmt.Sprintf("%d..", r.Min)
	}
	return fmt.Sprintf("%d..%d", r.Min, r.Max)
}

// Truth is the result of a proof.
type Truth uint8

// The results.
const (
	Unknown Truth = iota // neither was shown
	Yes                  // it holds for every binding
	No                   // it holds for no binding
)

// String returns the result in words.
func (t Truth) String() string { return [...]string{"unknown", "yes", "no"}[t] }

func (t Truth) not() Truth { return [...]Truth{Unknown, No, Yes}[t] }

// Dims is a set of named dimensions with their ranges, and the prover over them. A name that is not in the set may be
// any integer. A result holds for all bindings within the ranges for which the expressions have a value: if a divisor
// is zero there is nothing to compare, and for an empty range every result is correct. Values are compared as
// mathematical integers, beyond 64 bits too.
//
// It is safe for concurrent use. Results are remembered until Set changes a range.
type Dims struct {
	credit    *atomic.Int64 // the remaining cost of proofs; shared with clones
	mu        sync.Mutex
	ranges    map[Name]Range
	signs     map[hash]sign
	vain      map[hash]uint8 // expressions that were not shown to be ≥ 0, and with which effort
	intervals map[hash]interval
	bounds    map[hash]Range // the bounds of expressions; math.MaxInt64 means no upper end
}

// NewDims returns an empty set.
func NewDims() *Dims {
	d := &Dims{ranges: map[Name]Range{}, credit: new(atomic.Int64)}
	d.credit.Store(firstCredit)
	return d
}

// Credit limits the cost of proofs, in names, numbers and operations examined, each about a microsecond. Each query has
// limits of its own; credit bounds all of them together, so that a small file cannot keep the prover busy for minutes.
// The code that adds an operation to a model grants opCredit for it.
const (
	firstCredit = 1 << 24
	opCredit    = 400_000
	mostCredit  = 512 << 20
)

// Grant adds the credit for operations that were added to a model.
func (d *Dims) Grant(operations int) {
	if left := d.credit.Load(); left >= 0 && left < mostCredit {
		d.credit.Add(min(int64(operations), mostCredit/opCredit) * opCredit)
	}
}

// Renew sets the credit to that of a model of so many operations, whatever was used before.
func (d *Dims) Renew(operations int) {
	d.credit.Store(firstCredit + min(int64(operations), mostCredit/opCredit)*opCredit)
}

// Empty returns a set without dimensions that shares the credit.
func (d *Dims) Empty() *Dims { return &Dims{ranges: map[Name]Range{}, credit: d.credit} }

// Fresh is Clone with its own credit.
func (d *Dims) Fresh() *Dims {
	c := d.Clone()
	c.credit = new(atomic.Int64)
	c.credit.Store(firstCredit)
	return c
}

// Exhausted reports whether the credit is used up. From then on only obvious facts are proved: results are still
// correct, but more of them are Unknown.
func (d *Dims) Exhausted() bool { return d.credit.Load() < 0 }

// Set gives a dimension its range.
func (d *Dims) Set(name Name, r Range) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old, ok := d.ranges[name]; ok && old == r {
		return
	}
	d.ranges[name] = r
	d.signs, d.vain, d.intervals, d.bounds = nil, nil, nil, nil
}

// Get returns a dimension's range, and whether it is in the set.
func (d *Dims) Get(name Name) (Range, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r, ok := d.ranges[name]
	return r, ok
}

// Names returns the dimensions' names, sorted.
func (d *Dims) Names() []Name {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.SortedFunc(maps.Keys(d.ranges), Name.Compare)
}

// All yields the dimensions with their ranges, in no order. The loop's body must not use the set.
func (d *Dims) All() iter.Seq2[Name, Range] {
	return func(yield func(Name, Range) bool) {
		d.mu.Lock()
		defer d.mu.Unlock()
		maps.All(d.ranges)(yield)
	}
}

// Clone returns a copy that can be changed independently; it shares the credit.
func (d *Dims) Clone() *Dims {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &Dims{ranges: maps.Clone(d.ranges), credit: d.credit}
}

// Bounds returns bounds of e over all bindings. math.MinInt64 and math.MaxInt64 mean no bound.
func (d *Dims) Bounds(e Expr) (lo, hi int64) {
	if e.n == nil {
		return e.c, e.c
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	h := e.hash()
	if r, known := d.bounds[h]; known {
		return r.Min, r.Max
	}
	q := query{dims: d, steps: boundSteps}
	lo, hi = q.bounds(e)
	if !d.Exhausted() { // bounds that were found without credit may be wider than possible
		if d.bounds == nil || len(d.bounds) >= mostRemembered {
			d.bounds = map[hash]Range{}
		}
		d.bounds[h] = Range{lo, hi}
	}
	return lo, hi
}

// Negative reports whether the upper bound of e is below zero, as Bounds does, with less work if it is not.
func (d *Dims) Negative(e Expr) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r, known := d.bounds[e.hash()]; known {
		return r.Max < 0
	}
	q := query{dims: d}
	return q.negative(e)
}

// Digest identifies an expression within the process: expressions have the same digest if they are Equal.
type Digest hash

// Digest returns the expression's digest.
func (e Expr) Digest() Digest { return Digest(e.hash()) }

// LE decides a ≤ b.
func (d *Dims) LE(a, b Expr) Truth {
	switch d.sign(b.Sub(a)) {
	case notNegative, zero, positive:
		return Yes
	case negative:
		return No
	}
	return Unknown
}

// AllLE reports whether each of x is proved to be at most the element of y at its index.
func (d *Dims) AllLE(x, y []Expr) bool {
	for i := range x {
		if d.LE(x[i], y[i]) != Yes {
			return false
		}
	}
	return true
}

// NotNegative reports whether e ≥ 0 is shown. It does not try to refute it. If briefly is true, it stops after a few
// steps, for callers with many questions that mostly fail.
func (d *Dims) NotNegative(e Expr, briefly bool) bool {
	if e.n == nil {
		return e.c >= 0
	}
	if e.huge() {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	h := e.hash()
	if s, known := d.signs[h]; known && s != unknown {
		return s != negative
	}
	if d.vain[h] >= effort(briefly) {
		return false
	}
	q := query{dims: d, steps: proofSteps, proving: true}
	shown := q.interval(e).lo >= 0
	if !shown && !q.exact(e) && e.size() <= largestProof && d.credit.Add(-int64(e.size())) >= 0 {
		if low, _ := q.sample(e, func(low, _ int64) bool { return low < 0 }); low >= 0 {
			if briefly {
				q.steps, q.quick = briefSteps, true
				shown = q.lower(e, 0) >= 0
			} else {
				shown = q.proves(e)
			}
		}
	}
	if shown {
		d.remember(h, notNegative)
		return true
	}
	if d.vain == nil || len(d.vain) >= mostRemembered {
		d.vain = map[hash]uint8{}
	}
	d.vain[h] = effort(briefly)
	return false
}

// effort returns 1 for a brief attempt at a proof, and 2 for a full one.
func effort(briefly bool) uint8 {
	if briefly {
		return 1
	}
	return 2
}

// LT decides a < b.
func (d *Dims) LT(a, b Expr) Truth { return d.LE(b, a).not() }

// EQ decides a = b.
func (d *Dims) EQ(a, b Expr) Truth {
	difference := b.Sub(a)
	if g := difference.content(0); g > 1 && difference.c%g != 0 {
		return No
	}
	switch d.sign(difference) {
	case zero:
		return Yes
	case positive, negative:
		return No
	case notNegative:
		switch d.sign(difference.Neg()) {
		case notNegative, zero:
			return Yes
		}
		if d.sign(difference.Sub(Const(1))) == notNegative {
			return No
		}
	}
	return Unknown
}

// sign is a known fact about an expression's sign.
type sign uint8

const (
	unknown     sign = iota
	negative         // below zero
	zero             // zero
	notNegative      // zero or above
	positive         // above zero
)

// sign decides whether e is always or never below zero, and remembers the result.
func (d *Dims) sign(e Expr) sign {
	if e.n == nil {
		switch {
		case e.c < 0:
			return negative
		case e.c == 0:
			return zero
		}
		return positive
	}
	if e.huge() {
		return unknown
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	h := e.hash()
	s, known := d.signs[h]
	if !known {
		s = d.decide(e)
		d.remember(h, s)
	}
	return s
}

// remember stores a result; if too many are stored, it first forgets them.
func (d *Dims) remember(h hash, s sign) {
	if d.signs == nil || len(d.signs) >= mostRemembered {
		d.signs = map[hash]sign{}
	}
	d.signs[h] = s
}

const mostRemembered = 1 << 16
