package sym

import "slices"

// Joined returns the extent of a broadcast over extents, none of them negative, of which each is 1 or equal to the
// others that are not 1: that other extent, 0 if one of them is 0. For other extents it has no meaning; Repeats is the
// condition that they meet. Its value leaves 64 bits only if an extent does.
func (d *Dims) Joined(list ...Expr) Expr {
	var all []Expr
	for _, e := range list {
		for _, x := range joinedOf(e) {
			if !slices.ContainsFunc(all, x.Equal) {
				all = append(all, x)
			}
		}
	}
	for _, x := range all {
		if lo, _ := d.Bounds(x); lo < 1 {
			return joined(all)
		}
	}
	return MaxOf(all...)
}

// joined returns the largest of some extents, or 0 if one of them is 0, as two bounds of which the first is that value.
func joined(list []Expr) Expr {
	most := MaxOf(list...)
	return MinOf(append(slices.Clone(list), Const(1))...).Mul(most).Min(most)
}

// joinedOf returns the extents that e joins, if Joined made e, or Simplify from that; else e alone.
func joinedOf(e Expr) []Expr {
	if most := e.MaxArgs(); len(most) > 1 {
		return most
	}
	for _, x := range e.MinArgs() {
		if list := x.MaxArgs(); len(list) > 1 && joined(list).Equal(e) {
			return list
		}
	}
	if _, terms := e.Terms(); len(terms) == 1 {
		for _, f := range terms[0].Factors {
			if list := f.Expr().MaxArgs(); len(list) > 1 && slices.ContainsFunc(joined(list).MinArgs(), e.Equal) {
				return list
			}
		}
	}
	return []Expr{e}
}

// Joins reports whether e is of the form that Joined gives to several extents.
func Joins(e Expr) bool { return len(joinedOf(e)) > 1 }

// Step returns the distance, in elements of an operand's axis of the given extent, between elements that a broadcast to
// the extent to combines with neighbours: 1 if the extents are equal, and 0 otherwise.
func (d *Dims) Step(extent, to Expr) Expr {
	above := extent.Sub(to)
	return d.Simplify(Const(1).Sub(above).Min(Const(1).Add(above)).Max(Const(0)))
}

// Repeats returns the condition that an axis of the given extent, walked in the steps of Step, fits a broadcast to the
// extent to: the extent is 1 or equal to it.
func Repeats(extent, step, to Expr) Cond {
	return Cond{A: extent, Rel: EQ, B: step.Mul(to.Sub(Const(1))).Add(Const(1))}
}

// Repeated returns the arguments of Repeats for a condition that it made with a step of Step. For other conditions, ok
// is false.
func (c Cond) Repeated() (extent, step, to Expr, ok bool) {
	if c.Rel != EQ {
		return Expr{}, Expr{}, Expr{}, false
	}
	for _, t := range c.B.terms() {
		for _, a := range t.atoms {
			if a.kind != maximum {
				continue
			}
			for _, x := range a.args {
				for _, least := range x.MinArgs() {
					to = c.A.Sub(least).Add(Const(1)) // if least is 1 + extent − to
					if !to.Equal(c.A) && c.B.Equal(Repeats(c.A, a.expr(), to).B) {
						return c.A, a.expr(), to, true
					}
				}
			}
		}
	}
	return Expr{}, Expr{}, Expr{}, false
}

// Replace returns e with a name or an operation replaced by another expression, except within other operations. If old
// is neither, it returns e.
func (e Expr) Replace(old, by Expr) Expr {
	a := old.atom()
	if a == nil || e.n == nil {
		return e
	}
	return e.replace(a, by)
}

// repeatsWords returns a condition that Repeats made for a reader; ok is false for other conditions.
func (c Cond) repeatsWords() (text string, ok bool) {
	extent, _, to, ok := c.Repeated()
	if !ok {
		return "", false
	}
	equal := func(a, b Expr) string { return Cond{a, EQ, b}.String() }
	one, others := Const(1), slices.DeleteFunc(slices.Clone(joinedOf(to)), extent.Equal)
	switch {
	case len(others) != 1:
		return equal(extent, to) + " or " + equal(extent, one), true
	case others[0].n == nil || others[0].Equal(to):
		return equal(extent, others[0]) + " or " + equal(extent, one), true
	}
	return equal(extent, others[0]) + " or " + equal(extent, one) + " or " + equal(others[0], one), true
}
