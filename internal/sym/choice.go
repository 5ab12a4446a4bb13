package sym

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Choice says that data decide dimensions together: their values are at most those of one of the cases, each over the
// inputs' dimensions. So a row or a column of n numbers has extents [1, n] or [n, 1], and never n × n elements.
type Choice struct {
	Names []Name
	Cases [][]Expr // each beside Names
	From  string   // in words, which operator decides
}

// MostCases limits the cases of a choice, and those that AtMost compares.
const MostCases = 16

// String returns the choice as in texts: choice [?a, ?b] in [[1, n], [n, 1]] from "…".
func (c Choice) String() string {
	names, cases := make([]string, len(c.Names)), make([]string, len(c.Cases))
	for i, name := range c.Names {
		names[i] = name.String()
	}
	for i, values := range c.Cases {
		words := make([]string, len(values))
		for k, x := range values {
			words[k] = x.String()
		}
		cases[i] = "[" + strings.Join(words, ", ") + "]"
	}
	return fmt.Sprintf("choice [%s] in [%s] from %s", strings.Join(names, ", "), strings.Join(cases, ", "),
		strconv.Quote(c.From))
}

// Cond returns the condition that the values of the dimensions are at most those of one of the cases.
func (c Choice) Cond() Cond {
	var cases []Expr
	for _, values := range c.Cases {
		over := make([]Expr, len(values))
		for i, x := range values {
			over[i] = Var(c.Names[i]).Sub(x)
		}
		cases = append(cases, MaxOf(over...))
	}
	return Cond{A: MinOf(cases...), Rel: LE, B: Const(0)}
}

// ChoiceOf returns the choice that a condition states, as Cond made it; ok is false if it is another condition. data
// tells the dimensions that data decide.
func ChoiceOf(c Cond, data func(name Name) bool) (out Choice, ok bool) {
	if n, constant := c.B.Const(); c.Rel != LE || !constant || n != 0 {
		return out, false
	}
	for _, least := range c.A.MinArgs() {
		var names []Name
		var values []Expr
		for _, over := range least.MaxArgs() {
			for _, name := range over.Vars() {
				coef, rest, linear := over.Linear(name)
				if data(name) && linear && coef.Equal(Const(1)) && !slices.ContainsFunc(rest.Vars(), data) {
					names, values = append(names, name), append(values, Const(0).Sub(rest))
				}
			}
		}
		if out.Names == nil {
			out.Names = names
		}
		in := make([]Expr, len(out.Names))
		for i, name := range out.Names {
			at := slices.Index(names, name)
			if at < 0 || len(names) != len(out.Names) {
				return out, false
			}
			in[i] = values[at]
		}
		out.Cases = append(out.Cases, in)
	}
	return out, len(out.Names) > 1
}

// Limited returns a function that reports whether a dimension has one of these limits.
func Limited(limits map[Name]Expr) func(name Name) bool {
	return func(name Name) bool {
		limit, known := limits[name]
		return known && !IsUnlimited(limit)
	}
}

// Check returns an error unless the choice is of dimensions that have a limit, each named once, and its cases
// mention no such dimension.
func (c Choice) Check(limited func(name Name) bool) error {
	for i, name := range c.Names {
		if !limited(name) || slices.Contains(c.Names[:i], name) {
			return fmt.Errorf("a choice of %s, which has no limit or is named twice", name)
		}
	}
	for _, x := range slices.Concat(c.Cases...) {
		if slices.ContainsFunc(x.Vars(), limited) {
			return fmt.Errorf("the case %s of a choice depends on a dimension that data decide", x)
		}
	}
	return nil
}

// Only returns the choice without the dimensions for which keep returns false; ok is false if fewer than two are left,
// for which limits suffice.
func (c Choice) Only(keep func(name Name) bool) (out Choice, ok bool) {
	var kept []int
	for i, name := range c.Names {
		if keep(name) {
			kept = append(kept, i)
		}
	}
	if len(kept) == len(c.Names) {
		return c, true
	}
	out.From = c.From
	for _, i := range kept {
		out.Names = append(out.Names, c.Names[i])
	}
	for _, values := range c.Cases {
		var some []Expr
		for _, i := range kept {
			some = append(some, values[i])
		}
		out.Cases = append(out.Cases, some)
	}
	return out, len(kept) > 1
}

// Renamed returns the choice of other dimensions, which stand for those of its own that to has; ok is false if these
// are fewer than two.
func (c Choice) Renamed(to map[Name]Name) (out Choice, ok bool) {
	out, ok = c.Only(func(name Name) bool { _, has := to[name]; return has })
	out.Names = slices.Clone(out.Names)
	for i, name := range out.Names {
		out.Names[i] = to[name]
	}
	return out, ok
}

// Subst returns the choice with names replaced in its cases.
func (c Choice) Subst(f func(name Name) (Expr, bool)) Choice {
	cases := make([][]Expr, len(c.Cases))
	for i, values := range c.Cases {
		cases[i] = make([]Expr, len(values))
		for k, x := range values {
			cases[i][k] = x.Subst(f)
		}
	}
	c.Cases = cases
	return c
}

// At returns an expression with the choice's dimensions replaced by their values in a case.
func (c Choice) At(e Expr, at int) Expr { return e.Subst(c.with(at)) }

// with returns the function that replaces the choice's dimensions by their values in a case.
func (c Choice) with(at int) func(name Name) (Expr, bool) {
	return func(name Name) (Expr, bool) {
		if i := slices.Index(c.Names, name); i >= 0 {
			return c.Cases[at][i], true
		}
		return Expr{}, false
	}
}

// Decided is what is known of the dimensions that data decide: the limit of each, and choices of several.
type Decided struct {
	Limits  map[Name]Expr
	Choices []Choice
}

// AtMost returns an upper bound of a list of expressions over the inputs' dimensions: the list at each of the cases of
// the choices that it mentions, with all other data dimensions at their limits. ok is false if an expression is not
// proved to rise with the dimensions, or the cases are more than MostCases.
func (d Decided) AtMost(list []Expr, dims *Dims) (cases [][]Expr, ok bool) {
	for _, e := range list {
		if !d.Rises(e, dims) {
			return nil, false
		}
	}
	left := MostCases
	cases = d.cases(list, &left)
	return cases, left >= 0
}

// cases is AtMost of a list that rises. It counts the cases down from left.
func (d Decided) cases(list []Expr, left *int) (out [][]Expr) {
	if *left < 0 {
		return nil
	}
	var named []Name
	for _, e := range list {
		named = append(named, e.Vars()...)
	}
	var best Choice
	most := 1
	for _, c := range d.Choices {
		mentioned := 0
		for _, name := range c.Names {
			if slices.Contains(named, name) {
				mentioned++
			}
		}
		if mentioned > most {
			best, most = c, mentioned
		}
	}
	if most > 1 {
		for at := range best.Cases {
			out = append(out, d.cases(substAll(list, best.with(at)), left)...)
		}
		return out
	}
	*left--
	return [][]Expr{substAll(list, func(name Name) (Expr, bool) {
		limit, known := d.Limits[name]
		return limit, known && !IsUnlimited(limit)
	})}
}

// substAll returns the expressions with names replaced.
func substAll(list []Expr, f func(name Name) (Expr, bool)) []Expr {
	out := make([]Expr, len(list))
	for i, e := range list {
		out[i] = e.Subst(f)
	}
	return out
}

// Largest returns the largest value of an expression over the inputs' dimensions, as AtMost; ok is false as there.
func (d Decided) Largest(e Expr, dims *Dims) (most Expr, ok bool) {
	cases, ok := d.AtMost([]Expr{e}, dims)
	if !ok {
		return e, false
	}
	var all []Expr
	for _, values := range cases {
		if !slices.ContainsFunc(all, func(x Expr) bool { return dims.LE(values[0], x) == Yes }) {
			all = append(all, values[0])
		}
	}
	if most = MaxOf(all...); len(all) > 1 {
		most = dims.Simplify(most)
	}
	return most, true
}

// Rises reports whether an expression is proved not to fall as a dimension with a limit grows.
func (d Decided) Rises(e Expr, dims *Dims) bool {
	for _, name := range e.Vars() {
		if limit, data := d.Limits[name]; !data || IsUnlimited(limit) {
			continue
		}
		coef, _, linear := e.Linear(name)
		if (!linear || dims.LE(Const(0), coef) != Yes) && !rising(e, name, dims) {
			return false
		}
	}
	return true
}

// rising is Rises for one name, of sums, products and extrema whose parts all rise.
func rising(e Expr, name Name, dims *Dims) bool {
	_, terms := e.Terms()
	return !slices.ContainsFunc(terms, func(t Term) bool {
		return mentions(t.Expr(), name) && (t.Coef < 0 || slices.ContainsFunc(t.Factors, func(f Factor) bool {
			return dims.LE(Const(0), f.Expr()) != Yes || mentions(f.Expr(), name) && !f.rising(name, dims)
		}))
	})
}

// rising is rising for a factor that mentions the name.
func (f Factor) rising(name Name, dims *Dims) bool {
	switch f.Kind {
	case Variable:
		return true
	case Least, Greatest, FactorProduct, FactorSum:
		return !slices.ContainsFunc(f.Args, func(x Expr) bool { return mentions(x, name) && !rising(x, name, dims) })
	}
	return false
}

// mentions reports whether an expression has a name.
func mentions(e Expr, name Name) bool { return slices.Contains(e.Vars(), name) }
