package lanes

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// This file cuts vector loops at the iterations at which an index begins to change in another way: at the border of a
// padded, clamped or repeated axis. Between the cuts, where most iterations are, elements are adjacent and conditions
// are known.

// vectorParts emits a vector loop, in three parts if most of its iterations lie in an interior.
func (e *Emitter) vectorParts(s *loop.For) {
	extent := e.Resolve(s.Extent)
	n, fixed := extent.Const()
	if !fixed || n <= int64(e.lanes) || len(e.reductions(s)) > 0 {
		e.vectorLoop(s, 0, extent)
		return
	}
	first, end, ok := e.interior(s.Var, n, s.Body)
	if !ok {
		first, end = 0, n
	}
	first, end = e.smooth(s, first, end)
	if end-first == n || end-first < max(n/2, int64(e.lanes)) || size(s.Body) > mostCopied {
		e.vectorLoop(s, 0, extent)
		return
	}
	e.vectorPart(s, 0, first)
	e.vectorPart(s, first, end)
	e.vectorPart(s, end, n)
}

// vectorPart emits the iterations of a vector loop from first on and below end.
func (e *Emitter) vectorPart(s *loop.For, first, end int64) {
	if end <= first {
		return
	}
	defer e.within(s.Var, first, end)()
	e.vectorLoop(s, first, sym.Const(end-first))
}

// within restricts a loop's variable to some iterations, until undo is called.
func (e *Emitter) within(variable sym.Name, first, end int64) (undo func()) {
	known, _ := e.Kernel.Ranges.Get(variable)
	e.Kernel.Ranges.Set(variable, sym.Range{Min: first, Max: end - 1})
	return func() { e.Kernel.Ranges.Set(variable, known) }
}

// mostCuts is the largest number of cuts of a range of iterations.
const mostCuts = 8

// smooth returns a subrange of the iterations [first, end) in which as many indices as possible change evenly.
func (e *Emitter) smooth(s *loop.For, first, end int64) (int64, int64) {
	list := e.unevenIndices(s)
	for range mostCuts {
		if len(list) == 0 {
			break
		}
		undo := e.within(s.Var, first, end)
		c := cuts{e: e, variable: s.Var, first: first, end: end}
		for _, x := range list {
			c.of(e.Kernel.Ranges.Simplify(x))
		}
		undo()
		if len(c.at) == 0 {
			break
		}
		first, end = c.longest()
	}
	return first, end
}

// unevenIndices returns the integers of a loop's body that are not linear in its variable.
func (e *Emitter) unevenIndices(s *loop.For) (list []sym.Expr) {
	add := func(x sym.Expr) {
		if x = e.Resolve(x); slices.Contains(x.Vars(), s.Var) && !x.Multilinear() {
			list = append(list, x)
		}
	}
	loop.Walk(s.Body, func(s loop.Stmt) bool {
		if s, ok := s.(*loop.Store); ok {
			for _, x := range s.Index {
				add(x)
			}
		}
		for _, x := range loop.Values(s) {
			loop.WalkExpr(x, func(x loop.Expr) {
				switch x := x.(type) {
				case *loop.Load:
					for _, x := range x.Index {
						add(x)
					}
				case *loop.Index:
					add(x.X)
				}
			})
		}
		return true
	})
	return list
}

// cuts collects the iterations at which an index begins to change in another way.
type cuts struct {
	e          *Emitter
	variable   sym.Name
	first, end int64
	at         []int64
}

// of adds the cuts of all minima, maxima, quotients and remainders in x, at any depth.
func (c *cuts) of(x sym.Expr) {
	_, terms := x.Terms()
	for _, t := range terms {
		for _, f := range t.Factors {
			if f.Kind == sym.Variable || !slices.Contains(f.Expr().Vars(), c.variable) {
				continue
			}
			c.factor(f)
			for _, a := range f.Args {
				c.of(a)
			}
		}
	}
}

// factor adds the iterations at which a minimum, a maximum, a quotient or a remainder changes its form.
func (c *cuts) factor(f sym.Factor) {
	switch f.Kind {
	case sym.Least, sym.Greatest:
		for i, x := range f.Args {
			for _, y := range f.Args[i+1:] {
				c.zero(x.Sub(y))
			}
		}
	case sym.FloorQuotient, sym.Remainder:
		if y, ok := f.Args[1].Const(); ok && y > 0 {
			c.multiples(f.Args[0], y)
		}
	}
}

// linear returns an integer as by × the variable + from; ok is false if it is not linear.
func (c *cuts) linear(x sym.Expr) (by, from int64, ok bool) {
	factor, rest, linear := x.Linear(c.variable)
	by, ok1 := factor.Const()
	from, ok2 := rest.Const()
	return by, from, linear && ok1 && ok2 && by != 0
}

// zero adds the cut at which an integer changes its sign.
func (c *cuts) zero(x sym.Expr) {
	if by, from, ok := c.linear(x); ok {
		c.add(floorOf(-from, by) + 1)
	}
}

// multiples adds the cuts at which an integer that changes by 1 is a multiple of y.
func (c *cuts) multiples(x sym.Expr, y int64) {
	by, from, ok := c.linear(x)
	if !ok || by != 1 && by != -1 || (c.end-c.first)/y > mostCuts {
		return
	}
	for q := floorOf(min(by*c.first, by*c.end)+from, y); q*y <= max(by*c.first, by*c.end)+from; q++ {
		at := (q*y - from) * by
		if by < 0 { // the iteration of the multiple is the last before the cut
			at++
		}
		c.add(at)
	}
}

// add adds a cut, if it lies inside the range.
func (c *cuts) add(at int64) {
	if c.first < at && at < c.end {
		c.at = append(c.at, at)
	}
}

// longest returns the longest range between two cuts.
func (c *cuts) longest() (first, end int64) {
	slices.Sort(c.at)
	from := c.first
	for _, to := range append(c.at, c.end) {
		if to-from > end-first {
			first, end = from, to
		}
		from = to
	}
	return first, end
}

// floorOf returns ⌊x/y⌋.
func floorOf(x, y int64) int64 {
	q := x / y
	if x%y != 0 && (x < 0) != (y < 0) {
		q--
	}
	return q
}
