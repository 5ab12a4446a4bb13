package ir

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
)

// MaxKnown is the largest number of elements that a value's Known has.
const MaxKnown = 4096

// Inference is the state that shape rules share: the module with its dimensions and conditions.
type Inference struct {
	Module   *Module
	fresh    map[string]int
	narrowed []was                 // the ranges that conditions narrowed, in order
	names    map[string]int        // of the module's values, for builders: how often a name was asked for
	meant    map[*Value][]sym.Expr // elements that are not certain; see Learn
	// Broadcasts are conditions of the module without which an operand would have to repeat.
	Broadcasts []sym.Cond
}

// NewInference begins inference over a module; its Dims and Requires grow as nodes are inferred.
func NewInference(m *Module) *Inference {
	if m.Dims == nil {
		m.Dims = sym.NewDims()
	}
	c := &Inference{Module: m, fresh: map[string]int{}, names: map[string]int{}}
	for _, f := range m.Funcs {
		if f.Body != nil {
			f.Body.walkAll(func(v *Value) { c.names[v.Name] = 1 })
		}
	}
	return c
}

// Dims returns the named dimensions and their ranges.
func (c *Inference) Dims() *sym.Dims { return c.Module.Dims }

// Require states that cond must hold for n. If it is proved, it joins the module's Proved; if it is refuted, Require
// returns an error; otherwise it becomes a condition of the module.
func (c *Inference) Require(n *Node, cond sym.Cond, why string) error {
	return c.RequireOf(n.Source, n.Op.Name(), n.Line, cond, why)
}

// RequireOf is Require without a node: source is the model's name for the node, op its operator, and line its line in
// the text or 0.
func (c *Inference) RequireOf(source, op string, line int, cond sym.Cond, why string) error {
	from := diag.Words(source, op)
	if line > 0 {
		from += fmt.Sprintf(", line %d", line)
	}
	from += ": " + why
	truth, written := c.Dims().Prove(cond), cond
	if truth == sym.Unknown {
		cond.A, cond.B = c.Dims().Simplify(cond.A), c.Dims().Simplify(cond.B)
		truth = c.Dims().Prove(cond)
	}
	switch truth {
	case sym.Yes:
		if _, constant := cond.A.Sub(cond.B).Const(); !constant {
			c.Module.Proved = append(c.Module.Proved, Require{Cond: cond, From: from})
		}
		return nil
	case sym.No:
		return Never{c.never(written, why, line).AtNode(source, op)}
	}
	for _, r := range c.Module.Requires {
		if r.Cond.String() == cond.String() {
			return nil
		}
	}
	c.Module.Requires = append(c.Module.Requires, Require{Cond: cond, From: from})
	c.narrow(cond)
	return nil
}

// never returns the error of a condition that no value in the dimensions' ranges meets.
func (c *Inference) never(cond sym.Cond, why string, line int) *diag.Error {
	labels, names := sym.Labels(c.Dims().Names()), cond.Vars()
	said := fmt.Sprintf("%s: %s can never hold", why, cond.Shown(labels))
	if line > 0 {
		said = fmt.Sprintf("line %d: %s", line, said)
	}
	e := diag.Inputf("%s", said)
	if with := sym.Bindings(names, labels, nil, c.Dims().Ranges); with != "" {
		e.Detail += " with " + with
		e = e.WithFix("give the dimensions other values")
	}
	if len(names) == 1 {
		e.Dim = labels[names[0]]
	}
	return e
}

// Never is the error of a condition that no value of the dimensions meets; other fixed sizes might.
type Never struct{ error }

// Unwrap returns the error without the mark.
func (n Never) Unwrap() error { return n.error }

// mostNarrowed is the most values that one condition removes from each end of a dimension's range.
const mostNarrowed = 64

// narrow removes from the ends of a dimension's range the values that break a condition on it alone. A run with such a
// value is refused at entry with that condition, so later inference may rely on the narrower range. Data dimensions
// keep their range.
func (c *Inference) narrow(cond sym.Cond) {
	names := slices.Concat(cond.A.Vars(), cond.B.Vars())
	slices.SortFunc(names, sym.Name.Compare)
	if names = slices.Compact(names); len(names) != 1 {
		return
	}
	r, known := c.Dims().Get(names[0])
	if _, decided := c.Module.Limits[names[0]]; !known || decided {
		return
	}
	broken := func(value int64) bool {
		holds, err := cond.Eval(func(sym.Name) (int64, bool) { return value, true })
		return err == nil && !holds
	}
	before := r
	for taken := 0; taken < mostNarrowed && r.Min < r.Max && r.Min != math.MinInt64 && broken(r.Min); taken++ {
		r.Min++
	}
	for taken := 0; taken < mostNarrowed && r.Min < r.Max && r.Max != sym.NoMax && broken(r.Max); taken++ {
		r.Max--
	}
	if r != before {
		c.narrowed = append(c.narrowed, was{names[0], before})
		c.Dims().Set(names[0], r)
	}
}

// was is the range that a dimension had.
type was struct {
	name sym.Name
	r    sym.Range
}

// Tentative begins an inference that leaves no conditions. The function that it returns removes those inferred since,
// with the ranges that they narrowed, and reports whether there were conditions that are not proved.
func (c *Inference) Tentative() (undo func() (more bool)) {
	m := c.Module
	requires, proved, narrowed := len(m.Requires), len(m.Proved), len(c.narrowed)
	return func() bool {
		more := len(m.Requires) > requires
		m.Requires, m.Proved = m.Requires[:requires], m.Proved[:proved]
		for i := len(c.narrowed) - 1; i >= narrowed; i-- {
			m.Dims.Set(c.narrowed[i].name, c.narrowed[i].r)
		}
		c.narrowed = c.narrowed[:narrowed]
		return more
	}
}

// RequireEqual states that two extents are equal.
func (c *Inference) RequireEqual(n *Node, a, b sym.Expr, why string) error {
	return c.Require(n, sym.Cond{A: a, Rel: sym.EQ, B: b}, why)
}

// Equal reports whether two extents are proved to be equal, or a condition of the module says so.
func (c *Inference) Equal(a, b sym.Expr) bool {
	return c.Dims().EQ(a, b) == sym.Yes || slices.ContainsFunc(c.Module.Requires, func(r Require) bool {
		return r.Cond.Rel == sym.EQ &&
			(r.Cond.A.Equal(a) && r.Cond.B.Equal(b) || r.Cond.A.Equal(b) && r.Cond.B.Equal(a))
	})
}

// Fresh makes a data dimension of at most max. If max is sym.Unlimited, memory of that size is allocated after the run
// has bound the dimension. max may contain such dimensions, which the run binds earlier. origin says in words
// which operator gives the dimension its value.
func (c *Inference) Fresh(hint, origin string, lo int64, max sym.Expr) sym.Expr {
	hint = strings.Map(func(r rune) rune {
		if r == '_' || r == '.' || r == '[' || r == ']' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' ||
			r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, hint)
	if hint == "" || hint[0] >= '0' && hint[0] <= '9' {
		hint = "d" + hint
	}
	name := sym.Made(hint)
	for {
		if _, taken := c.Dims().Get(name); !taken {
			break
		}
		c.fresh[hint]++
		name = sym.Made(fmt.Sprintf("%s.%d", hint, c.fresh[hint]))
	}
	_, hi := c.Dims().Bounds(max)
	c.Dims().Set(name, sym.Range{Min: lo, Max: hi})
	if c.Module.Limits == nil {
		c.Module.Limits = map[sym.Name]sym.Expr{}
	}
	most, ok := c.Module.Decided().Largest(max, c.Dims())
	if !ok {
		most = sym.AtLimits(max, c.Module.Limits)
	}
	c.Module.Limits[name] = most
	if c.Module.Origins == nil {
		c.Module.Origins = map[sym.Name]string{}
	}
	c.Module.Origins[name] = origin
	return sym.Var(name)
}

// Choose states that the values of data dimensions are at most those of one of the cases, each given by extents that
// may be data dimensions too. Dimensions without a limit are left out.
func (c *Inference) Choose(names []sym.Name, from string, cases ...[]sym.Expr) {
	m, choice := c.Module, sym.Choice{Names: names, From: from}
	for _, values := range cases {
		limited := make([]sym.Expr, len(values))
		for i, x := range values {
			if limited[i] = x; sym.IsUnlimited(m.Limits[names[i]]) {
				limited[i] = sym.Const(0) // it is left out below
			}
		}
		at, ok := m.Decided().AtMost(limited, c.Dims())
		if !ok {
			return
		}
		choice.Cases = append(choice.Cases, at...)
	}
	if choice, ok := choice.Only(func(name sym.Name) bool { return !sym.IsUnlimited(m.Limits[name]) }); ok {
		c.AddChoice(choice)
	}
}

// AddChoice adds a choice over the inputs' dimensions, without the cases that another is at least as large as, unless
// it is one too many.
func (c *Inference) AddChoice(choice sym.Choice) {
	var kept [][]sym.Expr
	within := c.Dims().AllLE
	for _, x := range choice.Cases {
		if !slices.ContainsFunc(kept, func(y []sym.Expr) bool { return within(x, y) }) {
			kept = append(slices.DeleteFunc(kept, func(y []sym.Expr) bool { return within(y, x) }), x)
		}
	}
	if choice.Cases = kept; len(kept) <= sym.MostCases {
		c.Module.Choices = append(c.Module.Choices, choice)
	}
}

// Elements returns the elements of an integer value as symbolic integers. If they are not known, and the value has a
// small static size, they become fresh dimensions in [lo, hi] that the run binds once the value is computed. reader
// names the node that asks.
func (c *Inference) Elements(v *Value, reader string, lo, hi int64) ([]sym.Expr, error) {
	return c.ElementsWithin(v, reader, lo, sym.Const(hi))
}

// ElementsWithin is Elements with an upper bound over the dimensions.
func (c *Inference) ElementsWithin(v *Value, reader string, lo int64, hi sym.Expr) ([]sym.Expr, error) {
	if known := c.Settle(v, func(cond sym.Cond, why string) error {
		return c.RequireOf(reader, "", 0, cond, why)
	}); known != nil {
		return known, nil
	}
	if !v.Type.DType.IsInt() && v.Type.DType != dtype.Bool {
		return nil, diag.Inputf("%s must be integers, not %s", v.Name, v.Type.DType).AtTensor(v.Name)
	}
	n := int64(1)
	for _, e := range v.Type.Shape {
		size, ok := e.Const()
		if !ok || size > MaxKnown || n*size > MaxKnown {
			return nil, diag.Unsupportedf("the values of %s decide a shape, and there are %s of them", v.Name, v.Type).
				AtTensor(v.Name)
		}
		n *= size
	}
	argument := slices.Contains(c.Module.Main.Body.Params, v)
	if argument && !v.Type.DType.IsInt() {
		return nil, diag.Unsupportedf("the values of %s decide a shape, and they are %s", v.Name, v.Type.DType).
			AtTensor(v.Name)
	}
	v.Known, v.Bound = make([]sym.Expr, n), true
	for i := range v.Known {
		v.Known[i] = c.Fresh(fmt.Sprintf("%s[%d]", v.Name, i), fmt.Sprintf("element %d of %s, read by %s", i, v.Name, reader),
			lo, hi)
		if name, _ := v.Known[i].Name(); argument {
			// An argument's elements are known when the run begins: the plan is made for them, not for their bound.
			delete(c.Module.Limits, name)
		}
	}
	return v.Known, nil
}
