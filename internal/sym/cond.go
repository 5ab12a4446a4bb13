package sym

import (
	"math"
	"strings"
)

// Rel is how a condition compares.
type Rel uint8

// The relations. The zero value is LE.
const (
	LE Rel = iota // ≤
	LT            // <
	EQ            // =
	NE            // ≠
)

var relNames = [...]string{LE: "<=", LT: "<", EQ: "==", NE: "!="}

// String is the relation as Python writes it.
func (r Rel) String() string { return relNames[r] }

// Holds reports whether a is so related to b.
func (r Rel) Holds(a, b int64) bool {
	switch r {
	case LE:
		return a <= b
	case LT:
		return a < b
	case EQ:
		return a == b
	}
	return a != b
}

// Cond is a comparison of two expressions.
type Cond struct {
	A   Expr
	Rel Rel
	B   Expr
}

// String is the condition as Python writes it, such as m <= 16. ParseCond reads it back.
func (c Cond) String() string { return c.A.String() + " " + c.Rel.String() + " " + c.B.String() }

// Words is the condition for a reader: a choice between quantities that must not be negative, max(a, b), is said as one
// between comparisons, and a common factor of all terms is left out. Unlike String, it may be no condition that
// ParseCond reads.
func (c Cond) Words() string {
	if c.Rel != LE && c.Rel != LT {
		return c.String()
	}
	slack := c.B.Sub(c.A)
	if c.Rel == LT {
		slack = slack.Sub(Const(1))
	}
	join, args := " or ", slack.MaxArgs()
	if len(args) == 1 {
		join, args = " and ", slack.MinArgs()
	}
	if len(args) == 1 || slack.unevaluated() {
		return c.String()
	}
	words := make([]string, len(args))
	for i, e := range args {
		words[i] = notNegativeWords(e)
	}
	return strings.Join(words, join)
}

// notNegativeWords says 0 <= e as a comparison of two sums without negative terms.
func notNegativeWords(e Expr) string {
	if g := e.content(0); g > 1 {
		constant := e.c
		e = Expr{n: e.n}.quotient(g)
		e = e.Add(Const(floorInts(constant, g)))
	}
	var a, b Expr
	constant, terms := e.Terms()
	for _, t := range terms {
		if t.Coef < 0 && t.Coef != math.MinInt64 {
			t.Coef = -t.Coef
			a = a.Add(t.Expr())
		} else {
			b = b.Add(t.Expr())
		}
	}
	if constant < 0 && constant != math.MinInt64 {
		a = a.Add(Const(-constant))
	} else {
		b = b.Add(Const(constant))
	}
	return Cond{A: a, B: b}.String()
}

// Eval decides the condition, given the names' values. Errors are those of Expr.Eval.
func (c Cond) Eval(value func(name Name) (int64, bool)) (bool, error) {
	a, err := c.A.Eval(value)
	if err != nil {
		return false, err
	}
	b, err := c.B.Eval(value)
	if err != nil {
		return false, err
	}
	return c.Rel.Holds(a, b), nil
}

// Prove decides the condition over the ranges.
func (d *Dims) Prove(c Cond) Truth {
	switch c.Rel {
	case LE:
		return d.LE(c.A, c.B)
	case LT:
		return d.LT(c.A, c.B)
	case EQ:
		return d.EQ(c.A, c.B)
	}
	return d.EQ(c.A, c.B).not()
}
