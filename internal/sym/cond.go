package sym

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Rel is the relation of a condition.
type Rel uint8

// The relations. The zero value is LE.
const (
	LE Rel = iota // ≤
	LT            // <
	EQ            // =
	NE            // ≠
)

var relNames = [...]string{LE: "<=", LT: "<", EQ: "==", NE: "!="}

// String returns the relation as Python writes it.
func (r Rel) String() string { return relNames[r] }

// Holds reports whether a and b have the relation.
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

// String returns the condition as Python writes it, such as m <= 16. ParseCond parses it.
func (c Cond) String() string { return c.A.String() + " " + c.Rel.String() + " " + c.B.String() }

// Shown returns the condition with both sides as Expr.Shown has them.
func (c Cond) Shown(labels map[Name]string) Cond {
	return Cond{A: c.A.Shown(labels), Rel: c.Rel, B: c.B.Shown(labels)}
}

// Shown returns the expression with the names that people read: names that the compiler made become their labels, or
// lose their mark; a model's names stay, quoted if necessary.
func (e Expr) Shown(labels map[Name]string) Expr {
	return e.Subst(func(name Name) (Expr, bool) {
		label, ok := labels[name]
		if !ok {
			label = name.Text()
		}
		return Var(Shown(label)), name.Made()
	})
}

// Vars returns the names of a condition, sorted.
func (c Cond) Vars() []Name {
	names := slices.Concat(c.A.Vars(), c.B.Vars())
	slices.SortFunc(names, Name.Compare)
	return slices.Compact(names)
}

// Words returns the condition for a reader: a maximum or minimum that must not be negative becomes several comparisons,
// joined by or or and, and a common factor of all terms is left out. Unlike String's, the result may not parse.
func (c Cond) Words() string {
	if text, ok := c.rootWords(); ok {
		return text
	}
	if text, ok := c.repeatsWords(); ok {
		return text
	}
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

// rootWords returns an equation of the second degree in one name as its two solutions; ok is false if these are not
// integers.
func (c Cond) rootWords() (string, bool) {
	names := c.Vars()
	if len(names) != 1 || c.Rel != EQ {
		return "", false
	}
	x := Var(names[0])
	difference := c.A.Sub(c.B)
	at := func(v int64) int64 {
		value, err := difference.Eval(func(Name) (int64, bool) { return v, true })
		if err != nil {
			return math.MaxInt64
		}
		return value
	}
	const most = 1 << 30
	product, twice := at(0), at(1) // the values p and 1 − s + p of x·x − s·x + p
	if product < -most || product > most || twice < -most || twice > most {
		return "", false
	}
	sum := 1 + product - twice
	root := int64(math.Sqrt(float64(max(0, sum*sum-4*product))))
	low := (sum - root) / 2
	if high := sum - low; low*high == product && low != high &&
		difference.Equal(x.Sub(Const(low)).Mul(x.Sub(Const(high)))) {
		text := x.String()
		return text + " == " + strconv.FormatInt(low, 10) + " or " + text + " == " + strconv.FormatInt(high, 10), true
	}
	return "", false
}

// notNegativeWords returns 0 <= e as a comparison of two sums without negative terms.
func notNegativeWords(e Expr) string {
	if g := e.content(0); g > 1 {
		constant := e.c
		e = Expr{n: e.n}.quotient(g)
		e = e.Add(Const(floorInts(constant, g)))
	}
	a, b := e.sides()
	return Cond{A: a, B: b}.String()
}

// sides returns two sums without negative terms: e is the second less the first.
func (e Expr) sides() (a, b Expr) {
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
		return a.Add(Const(-constant)), b
	}
	return a, b.Add(Const(constant))
}

// At returns what the condition says of sums and products of names where all other operations have the values that
// they have for these values of the names. Conditions of branches become short: of the factors that tell whether a
// branch is taken, numbers are left. ok is false if nothing but numbers is left, or an operation has no value.
func (c Cond) At(value func(name Name) (int64, bool)) (at Cond, ok bool) {
	constant, terms := c.B.Sub(c.A).Terms()
	left := Const(constant)
	for _, t := range terms {
		product := Const(t.Coef)
		for _, f := range t.Factors {
			x := f.Expr()
			if f.Kind != Variable {
				v, err := x.Eval(value)
				if err != nil {
					return c, false
				}
				x = Const(v)
			}
			product = product.Mul(x)
		}
		left = left.Add(product)
	}
	a, b := left.sides()
	return Cond{A: a, Rel: c.Rel, B: b}, len(left.Vars()) > 0
}

// Eval decides the condition for the given values of the names. The errors are those of Expr.Eval.
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

// Prove decides the condition for all values in the ranges.
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
