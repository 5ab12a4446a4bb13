package ops

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// sought returns a name that stands for the limit of a varying extent in other limits, while a loop's body is built and
// the limit is not known yet.
func sought(name sym.Name) sym.Name { return sym.Hidden("sought " + name.String()) }

// growth is a dimension that varies: its largest value when the loop begins, and its largest value after an iteration,
// as an expression over the names of sought, which stand for the values before the iteration.
type growth struct {
	name            sym.Name
	begins, becomes sym.Expr
	bounded         bool     // becomes is known
	first, next     sym.Expr // the extents themselves: before the loop, and after an iteration
	value           int      // the carried value's index
}

// LimitLoop finds limits for the dimensions that vary in a loop's body, and puts them into the limits of dimensions
// derived from these. trip is the number of iterations. A dimension without a bound stays unlimited.
func LimitLoop(c *ir.Inference, body *ir.Block, trip sym.Expr, carried []*ir.Value) {
	l := limiting{c: c, dims: c.Dims().Clone(), own: map[sym.Name]bool{}, found: map[sym.Name]sym.Expr{}}
	l.dims.Set(step, sym.Range{Min: 0, Max: sym.NoMax})
	for name, limit := range c.Module.Limits {
		if own, ok := limit.Name(); ok && own == sought(name) {
			l.dims.Set(own, sym.Range{Min: 0, Max: sym.NoMax})
		}
	}
	var open []growth
	for i, v := range carried {
		for axis, extent := range body.Params[2+i].Type.Shape {
			name, _ := extent.Name()
			if limit, ok := c.Module.Limits[name]; !ok || !limit.Equal(sym.Var(sought(name))) {
				continue
			}
			g := growth{name: name, value: i, first: v.Type.Shape[axis], next: body.Results[1+i].Type.Shape[axis]}
			var begins bool
			g.begins, begins = l.atMost(g.first)
			g.becomes, g.bounded = l.atMost(g.next)
			g.bounded = g.bounded && begins
			l.own[sought(name)] = true
			open = append(open, g)
		}
	}
	if open == nil {
		return
	}
	l.trip, l.counted = l.atMost(trip.Max(sym.Const(0)))
	if most, constant := l.trip.Const(); constant && most >= LoopLimit {
		l.counted = false
	}
	open = l.cycles(open)
	for before := -1; before != len(open); {
		before = len(open)
		open = slices.DeleteFunc(open, l.settle)
	}
	l.together(open)
	l.spread()
}

// limiting is the search for the limits of one loop.
type limiting struct {
	c       *ir.Inference
	dims    *sym.Dims // with the sought limits and step as integers that are not negative
	trip    sym.Expr
	counted bool                  // trip bounds the number of iterations
	own     map[sym.Name]bool     // the names that this loop seeks limits for
	found   map[sym.Name]sym.Expr // the limits found for own names
	cycled  []sym.Choice          // of own names: the values that several have together
}

// step is a name for the difference between two values of a dimension.
var step = sym.Hidden("step")

// atMost returns the largest value of an extent as an expression over the inputs' dimensions and the sought limits; ok
// is false if none is found.
func (l *limiting) atMost(x sym.Expr) (most sym.Expr, ok bool) {
	for _, name := range x.Vars() {
		limit, decided := l.c.Module.Limits[name]
		if !decided {
			continue
		}
		more := x.Subst(func(n sym.Name) (sym.Expr, bool) { return sym.Var(n).Add(sym.Var(step)), n == name })
		if isNoLimit(limit) || l.dims.LE(x, more) != sym.Yes {
			return x, false
		}
	}
	return x.Subst(func(name sym.Name) (sym.Expr, bool) { limit, ok := l.c.Module.Limits[name]; return limit, ok }), true
}

// isNoLimit reports whether a limit stands for no limit.
func isNoLimit(limit sym.Expr) bool { return limit.Equal(sym.Const(sym.NoMax)) }

// with replaces the names in x by the limits found so far; ok is false if one of them has no limit.
func (l *limiting) with(x sym.Expr) (out sym.Expr, ok bool) {
	ok = true
	return x.Subst(func(name sym.Name) (sym.Expr, bool) {
		limit, found := l.found[name]
		ok = ok && !(found && isNoLimit(limit))
		return limit, found
	}), ok
}

// settle finds the limit of one dimension if the limits that it depends on are known; it handles dimensions that become
// a constant, that never grow, that grow equally in every iteration, and that a first guess bounds. Others have no
// limit.
func (l *limiting) settle(g growth) bool {
	own := sought(g.name)
	becomes, ok := l.with(g.becomes)
	if !g.bounded || !ok {
		l.found[own] = sym.Const(sym.NoMax)
		return true
	}
	alone, depends := true, false
	for _, name := range becomes.Vars() {
		depends = depends || name == own
		alone = alone && (name == own || !l.open(name))
	}
	if !alone {
		return false
	}
	grows := becomes.Sub(sym.Var(own))
	switch {
	case !depends:
		l.found[own] = l.dims.Simplify(g.begins.Max(becomes))
	case l.dims.LE(becomes, sym.Var(own)) == sym.Yes:
		l.found[own] = g.begins
	case l.counted && !slices.Contains(grows.Vars(), own):
		l.found[own] = l.dims.Simplify(g.begins.Add(l.trip.Mul(grows.Max(sym.Const(0)))))
	default:
		l.found[own] = l.guessed(g.begins, becomes, own)
	}
	return true
}

// guessed returns a limit that is the larger of what a dimension begins as and what it becomes after that, if it stays
// within that limit; else it returns no limit. What it becomes may be the least of several bounds, as for a broadcast
// that a run decides: each of them serves.
func (l *limiting) guessed(begins, becomes sym.Expr, own sym.Name) sym.Expr {
	for _, most := range append([]sym.Expr{becomes}, becomes.MinArgs()...) {
		guess := begins.Max(l.at(most, own, begins))
		if l.dims.LE(l.at(most, own, guess), guess) == sym.Yes {
			return l.dims.Simplify(guess)
		}
	}
	return sym.Const(sym.NoMax)
}

// open reports whether a name stands for a limit that this loop still seeks; names of an enclosing loop count as given.
func (l *limiting) open(name sym.Name) bool {
	_, found := l.found[name]
	return !found && l.own[name]
}

// at replaces a name in x by a value.
func (l *limiting) at(x sym.Expr, name sym.Name, value sym.Expr) sym.Expr {
	return x.Subst(func(n sym.Name) (sym.Expr, bool) { return value, n == name })
}

// together finds one limit for dimensions that become one another: the largest initial value, if they do not grow.
func (l *limiting) together(open []growth) {
	largest := sym.Const(0)
	for _, g := range open {
		largest = largest.Max(g.begins)
	}
	holds := true
	for _, g := range open {
		becomes, ok := l.with(g.becomes)
		all := becomes.Subst(func(name sym.Name) (sym.Expr, bool) { return largest, l.open(name) })
		holds = holds && ok && l.dims.LE(all, largest) == sym.Yes
	}
	for _, g := range open {
		if l.found[sought(g.name)] = sym.Const(sym.NoMax); holds {
			l.found[sought(g.name)] = l.dims.Simplify(largest)
		}
	}
}

// spread puts the found limits into all limits that mention them.
func (l *limiting) spread() {
	m := l.c.Module
	for name, limit := range m.Limits {
		known, ok := l.with(limit)
		if !ok {
			known = sym.Const(sym.NoMax)
		}
		if known.Equal(limit) {
			continue
		}
		m.Limits[name] = known
		r, _ := m.Dims.Get(name)
		_, r.Max = m.Dims.Bounds(known)
		m.Dims.Set(name, r)
	}
	l.spreadChoices()
}
