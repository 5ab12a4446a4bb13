package ir

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
)

// PlaceOp is the operator that stands for a carve while a module is rewritten.
const PlaceOp = "place"

// need is a condition that memory safety needs, with its origin, and advice if it never holds.
type need struct {
	cond   sym.Cond
	from   string
	line   int
	tensor string
	fix    string
	silent bool       // it does not join Proved when it is proved
	shown  []sym.Cond // each implies cond: the first that is proved stands for it in Proved
}

// conditions collects the conditions on a module's dimensions: stated by the text, and inferred.
type conditions struct {
	module   *Module
	given    assumptions // ranges, and the conditions that the text requires and asserts
	all      assumptions // given, and the inferred conditions
	inferred []Require
}

// assumptions are ranges of dimensions, and quantities that are not negative.
type assumptions struct {
	dims   *sym.Dims
	slacks [][]sym.Expr // at least one quantity of each list is not negative
}

// mostAssumed limits the conditions that are compared pairwise.
const mostAssumed = 256

// newConditions returns the ranges and conditions that a module states.
func newConditions(m *Module) *conditions {
	c := &conditions{module: m, given: assumptions{dims: m.Dims.Clone()}, all: assumptions{dims: m.Dims.Clone()}}
	for _, r := range m.Requires {
		c.given.assume(r.Cond)
		c.all.assume(r.Cond)
	}
	return c
}

// slacksOf returns quantities that are all nonnegative exactly if the condition holds; nil for sym.NE, which has none.
func slacksOf(c sym.Cond) []sym.Expr {
	switch c.Rel {
	case sym.LE:
		return excess(c.B, c.A)
	case sym.LT:
		return excess(c.B.Sub(sym.Const(1)), c.A)
	case sym.EQ:
		return append(excess(c.B, c.A), excess(c.A, c.B)...)
	}
	return nil
}

// excess returns quantities that are all nonnegative exactly if a is at least b.
func excess(a, b sym.Expr) (list []sym.Expr) {
	for _, x := range a.MinArgs() {
		for _, y := range b.MaxArgs() {
			list = append(list, x.Sub(y).MinArgs()...)
		}
	}
	return list
}

// assume adds a condition. It does not narrow a range to an empty one.
func (a *assumptions) assume(c sym.Cond) {
	for _, slack := range slacksOf(c) {
		args := slices.Clone(slack.MaxArgs())
		for i := range args {
			args[i] = reduced(args[i])
		}
		if len(a.slacks) < mostAssumed {
			a.slacks = append(a.slacks, args)
		}
		names := slack.Vars()
		if len(names) != 1 {
			continue
		}
		coef, rest, ok := slack.Linear(names[0])
		k, fixed := coef.Const()
		e, constant := rest.Const()
		if !ok || !fixed || !constant || k == 0 || k == math.MinInt64 || e == math.MinInt64 {
			continue
		}
		r, known := a.dims.Get(names[0])
		if !known {
			continue
		}
		if k < 0 {
			r.Max = min(r.Max, floorDiv(e, -k))
		} else {
			r.Min = max(r.Min, -floorDiv(e, k))
		}
		if r.Min <= r.Max {
			a.dims.Set(names[0], r)
		}
	}
}

// floorDiv returns a/b rounded down.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

// decide reports whether a condition follows from the assumptions, or contradicts them.
func (a *assumptions) decide(c sym.Cond) sym.Truth {
	truth := a.dims.Prove(c)
	slacks := slacksOf(c)
	if truth != sym.Unknown || slacks == nil {
		return truth
	}
	all := true
	for _, s := range slacks {
		args := slices.Clone(s.MaxArgs())
		never := true
		for i := range args {
			never = never && a.negative(args[i])
			args[i] = reduced(args[i])
		}
		for i := 0; i < len(args); i++ {
			if q, ok := a.quotient(args[i]); ok {
				args = append(args, q)
			}
		}
		if never {
			return sym.No
		}
		all = all && (a.dims.LE(sym.Const(0), s) == sym.Yes || slices.ContainsFunc(a.slacks, func(known []sym.Expr) bool {
			return a.implies(known, args)
		}))
	}
	if all {
		return sym.Yes
	}
	return sym.Unknown
}

// implies reports whether one of list is nonnegative if one of known is.
func (a *assumptions) implies(known, list []sym.Expr) bool {
	for _, k := range known {
		if !slices.ContainsFunc(list, func(e sym.Expr) bool {
			return a.dims.LE(k, e) == sym.Yes || a.dims.LE(sym.Const(0), e) == sym.Yes
		}) {
			return false
		}
	}
	return true
}

// negative reports whether a quantity is proved to be negative.
func (a *assumptions) negative(e sym.Expr) bool {
	if a.dims.LT(e, sym.Const(0)) == sym.Yes {
		return true
	}
	opposite := []sym.Expr{reduced(sym.Const(-1).Sub(e))}
	return slices.ContainsFunc(a.slacks, func(known []sym.Expr) bool { return a.implies(known, opposite) })
}

// reduced returns a quantity divided by the common factor of its coefficients, which has the same sign.
func reduced(e sym.Expr) sym.Expr {
	constant, terms := e.Terms()
	divisor := int64(0)
	for _, t := range terms {
		divisor = gcd(divisor, t.Coef)
	}
	if divisor <= 1 {
		return e
	}
	out := sym.Const(floorDiv(constant, divisor))
	for _, t := range terms {
		t.Coef /= divisor
		out = out.Add(t.Expr())
	}
	return out
}

// quotient returns a quantity divided by a nonnegative factor of all its terms: if the quotient is not negative, the
// quantity is not. ok is false if there is no such factor.
func (a *assumptions) quotient(e sym.Expr) (q sym.Expr, ok bool) {
	constant, terms := e.Terms()
	if constant != 0 || len(terms) < 2 {
		return q, false
	}
	for i, f := range terms[0].Factors {
		common := f.Expr()
		if a.dims.LE(sym.Const(0), common) != sym.Yes {
			continue
		}
		q, ok = without(terms[0], i), true
		for _, t := range terms[1:] {
			at := slices.IndexFunc(t.Factors, func(g sym.Factor) bool { return g.Expr().Equal(common) })
			if ok = ok && at >= 0; ok {
				q = q.Add(without(t, at))
			}
		}
		if ok {
			return reduced(q), true
		}
	}
	return q, false
}

// without returns a term divided by one of its factors.
func without(t sym.Term, factor int) sym.Expr {
	return sym.Term{Coef: t.Coef, Factors: slices.Delete(slices.Clone(t.Factors), factor, factor+1)}.Expr()
}

// assert adds a condition that the text asserts.
func (c *conditions) assert(cond sym.Cond, from string, line int) error {
	return c.settle(need{cond: cond, from: from, line: line}, true)
}

// need adds an inferred condition.
func (c *conditions) need(n need) error {
	return c.settle(n, false)
}

// settle decides a condition: if it is proved, it joins Proved; if it is refuted, settle returns an error; otherwise
// its simplest form becomes a requirement, unless others imply it. given says that the text states it.
func (c *conditions) settle(n need, given bool) error {
	r := Require{Cond: n.cond, From: fmt.Sprintf("%s, line %d", n.from, n.line), Tensor: n.tensor}
	for _, e := range []sym.Expr{n.cond.A, n.cond.B} {
		if _, err := e.Eval(func(sym.Name) (int64, bool) { return 1, true }); errors.Is(err, sym.ErrTooLarge) {
			return c.refused(n, "is a formula too intricate to be compared")
		}
	}
	switch c.given.decide(n.cond) {
	case sym.Yes:
		if n.silent {
			return nil
		}
		r.Cond = c.simplest(n.cond)
		for _, shown := range n.shown {
			if c.given.decide(shown) == sym.Yes {
				r.Cond = shown
				break
			}
		}
		c.module.Proved = append(c.module.Proved, r)
		return nil
	case sym.No:
		return c.never(n, c.given.dims)
	}
	if len(n.cond.A.Vars())+len(n.cond.B.Vars()) == 0 {
		return c.refused(n, "does not fit 64 bits")
	}
	switch c.all.decide(n.cond) {
	case sym.Yes:
		return nil // earlier inferred conditions imply it
	case sym.No:
		return c.never(n, c.all.dims)
	}
	for _, cond := range c.split(n.cond) {
		r.Cond = cond
		if c.all.decide(cond) == sym.Yes {
			continue
		}
		if given {
			c.module.Requires = append(c.module.Requires, r)
			c.given.assume(cond)
		} else {
			c.inferred = append(c.inferred, r)
		}
		c.all.assume(cond)
		if c.all.empty(cond) {
			return c.never(n, c.all.dims)
		}
	}
	return nil
}

// empty reports whether the assumptions leave no value for a dimension that a condition bounds.
func (a *assumptions) empty(c sym.Cond) bool { return a.decide(c) == sym.No }

// finish adds to the module the inferred conditions that no others imply.
func (c *conditions) finish() {
	kept := slices.Clone(c.inferred)
	for i := 0; i < len(kept) && len(kept) <= mostAssumed; {
		others := assumptions{dims: c.given.dims.Clone(), slacks: slices.Clone(c.given.slacks)}
		for j, r := range kept {
			if j != i {
				others.assume(r.Cond)
			}
		}
		if others.decide(kept[i].Cond) == sym.Yes {
			kept = slices.Delete(kept, i, i+1)
		} else {
			i++
		}
	}
	c.module.Requires = append(c.module.Requires, kept...)
}

// split returns simpler conditions that together are equivalent to a condition.
func (c *conditions) split(cond sym.Cond) []sym.Cond {
	slacks := slacksOf(cond)
	if cond.Rel == sym.EQ || slacks == nil {
		return []sym.Cond{c.simplest(cond)}
	}
	var out []sym.Cond
	for _, s := range slacks {
		out = append(out, c.simplest(sym.Cond{B: s}))
	}
	return out
}

// simplest returns an equivalent condition with its terms sorted by sign and divided by their common factor, and
// without alternatives that the ranges exclude.
func (c *conditions) simplest(cond sym.Cond) sym.Cond {
	if cond.Rel == sym.LT {
		cond = sym.Cond{A: cond.A.Add(sym.Const(1)), B: cond.B}
	}
	if cond.Rel != sym.LE && cond.Rel != sym.EQ {
		return cond
	}
	slack := c.module.Dims.Simplify(cond.B.Sub(cond.A))
	if cond.Rel == sym.LE {
		slack = c.choices(slack)
	}
	constant, terms := slack.Terms()
	divisor := int64(0)
	for _, t := range terms {
		divisor = gcd(divisor, t.Coef)
	}
	if divisor < 1 || cond.Rel == sym.EQ && constant%divisor != 0 {
		divisor = 1
	}
	var a, b sym.Expr
	for _, t := range terms {
		t.Coef /= divisor
		if t.Coef < 0 && t.Coef != math.MinInt64 {
			t.Coef = -t.Coef
			a = a.Add(t.Expr())
		} else {
			b = b.Add(t.Expr())
		}
	}
	if constant = floorDiv(constant, divisor); constant < 0 && constant != math.MinInt64 {
		a = a.Add(sym.Const(-constant))
	} else {
		b = b.Add(sym.Const(constant))
	}
	return sym.Cond{A: a, Rel: cond.Rel, B: b}
}

// choices removes from a maximum the arguments that cannot be the reason why it is nonnegative.
func (c *conditions) choices(slack sym.Expr) sym.Expr {
	args := slack.MaxArgs()
	if len(args) == 1 {
		return slack
	}
	for i := 0; i < len(args); {
		drop := c.given.negative(args[i])
		for j := 0; j < len(args) && !drop; j++ {
			drop = j != i && c.given.dims.LE(args[i], args[j]) == sym.Yes
		}
		if drop && len(args) > 1 {
			args = slices.Delete(args, i, i+1)
		} else {
			i++
		}
	}
	return sym.MaxOf(args...)
}

// gcd returns the greatest common divisor of a ≥ 0 and b.
func gcd(a, b int64) int64 {
	if b < 0 {
		b = -b
	}
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// never returns the error of a condition that no binding meets, with an example.
func (c *conditions) never(n need, dims *sym.Dims) error {
	names := slices.Concat(n.cond.A.Vars(), n.cond.B.Vars())
	slices.SortFunc(names, sym.Name.Compare)
	names = slices.Compact(names)
	at := map[sym.Name]int64{}
	for _, name := range names {
		r, _ := dims.Get(name)
		at[name] = max(r.Min, min(r.Max, 0))
		if r.Min > 0 {
			at[name] = r.Min
		}
	}
	value := func(name sym.Name) (int64, bool) { v, ok := at[name]; return v, ok }
	words := make([]string, len(names))
	for i, name := range names {
		words[i] = fmt.Sprintf("%s = %d", name, at[name])
	}
	a, err1 := n.cond.A.Eval(value)
	b, err2 := n.cond.B.Eval(value)
	said := fmt.Sprintf("%s never holds", n.cond)
	if len(n.shown) > 1 {
		said = fmt.Sprintf("neither %s nor %s", n.shown[0], n.shown[1])
		if len(names) > 0 {
			said += ", as at " + strings.Join(words, ", ")
		}
	} else if err1 == nil && err2 == nil && len(names) > 0 {
		said += fmt.Sprintf(": at %s it is %d against %d", strings.Join(words, ", "), a, b)
	}
	var others []string
	for _, r := range slices.Concat(c.module.Requires, c.inferred) {
		if slices.ContainsFunc(slices.Concat(r.Cond.A.Vars(), r.Cond.B.Vars()), func(name sym.Name) bool {
			return slices.Contains(names, name)
		}) {
			others = append(others, fmt.Sprintf("%s (from %s)", r.Cond, r.From))
		}
	}
	if len(others) > 0 && c.module.Dims.Prove(n.cond) != sym.No {
		said += ", given " + strings.Join(others, " and ")
	}
	if n.fix == "" && len(names) > 0 {
		n.fix = "give the dimensions other values"
	}
	return c.refused(n, said)
}

// refused returns the error of a condition, with its origin, its tensor and its advice.
func (c *conditions) refused(n need, said string) error {
	e := diag.Inputf("%s: %s", n.from, said).AtTensor(n.tensor)
	if names := slices.Concat(n.cond.A.Vars(), n.cond.B.Vars()); len(names) == 1 {
		e = e.AtDim(names[0].Text())
	}
	if n.fix != "" {
		e = e.WithFix("%s", n.fix)
	}
	return e
}

// Narrowed returns the ranges that conditions on single dimensions leave.
func Narrowed(dims *sym.Dims, conds ...sym.Cond) *sym.Dims {
	a := assumptions{dims: dims.Clone()}
	for _, c := range conds {
		a.assume(c)
	}
	return a.dims
}

// Bytes is a range of bytes in a storage.
type Bytes struct{ Begin, Size sym.Expr }

// Assuming returns a module's requirements, as assumptions for proofs.
func Assuming(m *Module) *Assumptions { return &Assumptions{newConditions(m).given} }

// Assumptions are the known facts about dimensions.
type Assumptions struct{ known assumptions }

// Disjoint reports whether two ranges of bytes are proved to be disjoint.
func (a *Assumptions) Disjoint(x, y Bytes) bool {
	return a.known.decide(disjoint(x.Begin, x.Size, y.Begin, y.Size)) == sym.Yes
}
