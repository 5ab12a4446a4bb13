package portable

import (
	"slices"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
)

// integer is a compiled symbolic integer: a constant, or a function of the frame. It is the same for all lanes.
type integer struct {
	fixed bool
	value int64
	get   func(f frame) int64
}

// constant returns a constant integer.
func constant(v int64) integer {
	return integer{fixed: true, value: v, get: func(frame) int64 { return v }}
}

// derived is a word that is computed from the dimensions when a kernel begins.
type derived struct {
	slot int
	code *sym.Code
}

// derive returns the word that holds an expression over dimensions.
func (c *compiler) derive(e sym.Expr) int {
	if name, ok := e.Name(); ok {
		return c.integers[name]
	}
	key := e.Key()
	if slot, ok := c.known[key]; ok {
		return slot
	}
	slot := c.newWord()
	c.known[key] = slot
	c.launch = append(c.launch, derived{slot, c.code(c.divisors.Safe(e), c.kernel.Dims)})
	return slot
}

// code compiles an expression over names.
func (c *compiler) code(e sym.Expr, names []sym.Name) *sym.Code {
	code, err := e.Compile(names)
	if err != nil {
		c.bug("%s: %v", e, err)
	}
	return code
}

// overDims reports whether an expression mentions dimensions only.
func (c *compiler) overDims(e sym.Expr) bool {
	return !slices.ContainsFunc(e.Vars(), func(name sym.Name) bool { return c.integers[name] >= len(c.kernel.Dims) })
}

// product is a word that varies, times one that stays the same in a run.
type product struct{ slot, factor int }

// integer compiles an expression. If it is linear in loop variables and checked values, with coefficients over
// dimensions, it costs one multiplication a variable; others are evaluated term by term.
func (c *compiler) integer(e sym.Expr) integer {
	if v, ok := e.Const(); ok {
		return constant(v)
	}
	var products []product
	var sums []int
	rest := e
	for _, name := range e.Vars() {
		slot, ok := c.integers[name]
		if !ok {
			c.bug("%s has no value in %s", name, e)
		}
		if slot < len(c.kernel.Dims) {
			continue
		}
		factor, r, ok := rest.Linear(name)
		if !ok || !c.overDims(factor) {
			return c.general(e)
		}
		rest = r
		if one, ok := factor.Const(); ok && one == 1 {
			sums = append(sums, slot)
		} else {
			products = append(products, product{slot, c.derive(factor)})
		}
	}
	if !c.overDims(rest) {
		return c.general(e)
	}
	if zero, ok := rest.Const(); !ok || zero != 0 {
		sums = append(sums, c.derive(rest))
	}
	return integer{get: linear(products, sums)}
}

// linear returns the sum of products and words; frequent numbers of them have a function of their own.
func linear(products []product, sums []int) func(f frame) int64 {
	w := func(f frame, slot int) int64 { return *word[int64](f, slot) }
	switch {
	case len(products) == 0 && len(sums) == 1:
		a := sums[0]
		return func(f frame) int64 { return w(f, a) }
	case len(products) == 0 && len(sums) == 2:
		a, b := sums[0], sums[1]
		return func(f frame) int64 { return w(f, a) + w(f, b) }
	case len(products) == 1 && len(sums) == 0:
		p := products[0]
		return func(f frame) int64 { return w(f, p.slot) * w(f, p.factor) }
	case len(products) == 1 && len(sums) == 1:
		p, a := products[0], sums[0]
		return func(f frame) int64 { return w(f, p.slot)*w(f, p.factor) + w(f, a) }
	case len(products) == 2 && len(sums) == 1:
		p, q, a := products[0], products[1], sums[0]
		return func(f frame) int64 {
			return w(f, p.slot)*w(f, p.factor) + w(f, q.slot)*w(f, q.factor) + w(f, a)
		}
	}
	return func(f frame) int64 {
		total := int64(0)
		for _, p := range products {
			total += w(f, p.slot) * w(f, p.factor)
		}
		for _, slot := range sums {
			total += w(f, slot)
		}
		return total
	}
}

// general compiles an expression that is evaluated term by term.
func (c *compiler) general(e sym.Expr) integer {
	code, count := c.code(e, c.names), len(c.names)
	return integer{get: func(f frame) int64 {
		v, err := code.Eval(unsafe.Slice(word[int64](f, 0), count))
		if err != nil {
			panic(failure{diag.Inputf("an index or an extent cannot be computed: %v", err)})
		}
		return v
	}}
}

// laneIndex is an integer in each lane of a vector loop: start + lane·step, plus terms with checked values, which
// differ by lane. If it does not have that form, evaluate computes each lane's.
type laneIndex struct {
	start, step integer
	checked     []checkedTerm
	evaluate    func(f frame, n int, to []int64)
}

// checkedTerm is a checked value in each lane, times a factor.
type checkedTerm struct {
	strip  int // of int64
	factor integer
}

// uniform reports whether all lanes are the same.
func (l *laneIndex) uniform() bool {
	return l.evaluate == nil && len(l.checked) == 0 && l.step.fixed && l.step.value == 0
}

// regular reports whether lanes are a fixed step apart.
func (l *laneIndex) regular() bool { return l.evaluate == nil && len(l.checked) == 0 }

// lanes compiles an expression inside the vector loop that is being compiled; outside of one it is uniform.
func (c *compiler) lanes(e sym.Expr) laneIndex {
	if c.vector == nil || !slices.ContainsFunc(e.Vars(), c.varies) {
		return laneIndex{start: c.integer(e), step: constant(0)}
	}
	result := laneIndex{step: constant(0)}
	rest, start := e, e
	for _, name := range e.Vars() {
		if !c.varies(name) {
			continue
		}
		factor, r, ok := rest.Linear(name)
		if !ok || slices.ContainsFunc(factor.Vars(), c.varies) {
			return c.laneByLane(e)
		}
		rest = r
		if name == c.vector.variable {
			result.step = c.integer(factor)
			continue
		}
		result.checked = append(result.checked, checkedTerm{c.checked[name], c.integer(factor)})
		start = start.Sub(factor.Mul(sym.Var(name)))
	}
	if slices.ContainsFunc(rest.Vars(), c.varies) || slices.ContainsFunc(start.Vars(), func(name sym.Name) bool {
		return c.varies(name) && name != c.vector.variable
	}) {
		return c.laneByLane(e)
	}
	result.start = c.integer(start)
	return result
}

// varies reports whether the value of a name differs by lane.
func (c *compiler) varies(name sym.Name) bool {
	if c.vector == nil {
		return false
	}
	_, checked := c.checked[name]
	return checked || name == c.vector.variable
}

// laneByLane compiles an expression that is evaluated once per lane, after the words of the varying names are set to
// the lane's values.
func (c *compiler) laneByLane(e sym.Expr) laneIndex {
	value := c.general(e)
	variable := c.integers[c.vector.variable]
	type source struct{ slot, strip int }
	var sources []source
	for _, name := range e.Vars() {
		if at, ok := c.checked[name]; ok {
			sources = append(sources, source{c.integers[name], at})
		}
	}
	return laneIndex{evaluate: func(f frame, n int, to []int64) {
		lane := word[int64](f, variable)
		first := *lane
		for i := range to[:n] {
			for _, s := range sources {
				*word[int64](f, s.slot) = strip[int64](f, s.strip, n)[i]
			}
			to[i] = value.get(f)
			*lane++
		}
		*lane = first
	}}
}

// fill sets to to the lanes' values.
func (l *laneIndex) fill(f frame, to []int64) {
	if l.evaluate != nil {
		l.evaluate(f, len(to), to)
		return
	}
	v, step := l.start.get(f), l.step.get(f)
	for i := range to {
		to[i] = v
		v += step
	}
	for _, t := range l.checked {
		factor := t.factor.get(f)
		for i, x := range strip[int64](f, t.strip, len(to)) {
			to[i] += x * factor
		}
	}
}
