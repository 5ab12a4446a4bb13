package loop

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
)

// knowledge holds the known facts about symbolic integers at a point of a kernel: ranges of names, and expressions
// known to be 0 or more.
type knowledge struct {
	dims      *sym.Dims  // numeric ranges of dimensions, loop variables and checked values
	intervals []interval // symbolic ranges of loop variables and checked values, innermost last
	facts     []sym.Expr
	raised    []raise          // narrowed ranges of dims, to be undone
	mute      int              // number of known conditions that may make the point unreachable
	failed    map[attempt]bool // searches that failed with the present knowledge
	goal      int              // questions left for the current proof
	broken    bool             // the current proof has used up its questions
	all       int              // questions left for all proofs
}

// Limits of the search, which bound its time for any text: questions for one proof, and for one kernel.
const (
	goalQuestions   = 400
	kernelQuestions = 50_000
)

// raise is a range before it was narrowed.
type raise struct {
	name sym.Name
	was  sym.Range
}

// interval says that a name is at least each of low and at most each of high.
type interval struct {
	name      sym.Name
	low, high []sym.Expr
}

// attempt is a search that ran to its end. A repeated question is answered from the map. New knowledge drops the map;
// reset restores it when that knowledge is dropped.
type attempt struct {
	of      sym.Digest
	depth   int
	briefly bool
}

// mark is a state of the knowledge to which reset returns.
type mark struct {
	intervals, facts, raised, mute int
	failed                         map[attempt]bool
}

// newKnowledge returns the knowledge of the dimensions' ranges.
func newKnowledge(dims *sym.Dims) *knowledge {
	return &knowledge{dims: dims.Clone(), all: kernelQuestions}
}

// mark returns the present state.
func (k *knowledge) mark() mark {
	if k.failed == nil {
		k.failed = map[attempt]bool{}
	}
	return mark{len(k.intervals), len(k.facts), len(k.raised), k.mute, k.failed}
}

// reset drops the knowledge that was added after the mark.
func (k *knowledge) reset(m mark) {
	for _, r := range slices.Backward(k.raised[m.raised:]) {
		k.dims.Set(r.name, r.was)
	}
	k.intervals, k.facts, k.raised, k.mute = k.intervals[:m.intervals], k.facts[:m.facts], k.raised[:m.raised], m.mute
	k.failed = m.failed
}

// loop adds 0 ≤ name < extent.
func (k *knowledge) loop(name sym.Name, extent sym.Expr) {
	k.between(name, sym.Const(0), extent.Sub(sym.Const(1)))
}

// between adds min ≤ name ≤ max, and that the range is not empty.
func (k *knowledge) between(name sym.Name, min, max sym.Expr) {
	k.positive(max.Sub(min).Add(sym.Const(1)))
	low, _ := k.dims.Bounds(min)
	_, high := k.dims.Bounds(max)
	r := sym.Range{Min: low, Max: high}
	if r.Max == math.MaxInt64 {
		r.Max = sym.NoMax
	}
	if r.Max < r.Min {
		r.Max = r.Min // never reached
	}
	k.dims.Set(name, r)
	k.failed = nil
	k.intervals = append(k.intervals, interval{name, min.MaxArgs(), max.MinArgs()})
}

// positive adds that e is 1 or more.
func (k *knowledge) positive(e sym.Expr) {
	if low, _ := k.dims.Bounds(e); low < 1 {
		k.mute++
		k.assume(e.Sub(sym.Const(1)))
	}
}

// assume adds that f is 0 or more. If f cannot be 0 or more while some variable is 0, the variable is 1 or more.
func (k *knowledge) assume(f sym.Expr) {
	k.facts = append(k.facts, f)
	k.failed = nil
	for _, name := range f.Vars() {
		r, ok := k.dims.Get(name)
		if !ok || r.Min != 0 || r.Max < 1 {
			continue
		}
		without := f.Subst(func(n sym.Name) (sym.Expr, bool) { return sym.Const(0), n == name })
		if k.dims.Negative(without) {
			k.raised = append(k.raised, raise{name, r})
			k.dims.Set(name, sym.Range{Min: 1, Max: r.Max})
		}
	}
}

// condition adds the consequences of a bool expression known to be truth, as far as it compares symbolic integers. let
// returns the value of a name, or nil.
func (k *knowledge) condition(cond Expr, truth bool, let func(string) Expr) {
	k.mute++
	switch e := cond.(type) {
	case *Const:
		if (e.Bits != 0) != truth {
			k.assume(sym.Const(-1)) // the point is never reached
		}
	case *Ref:
		if x := let(e.Name); x != nil {
			k.condition(x, truth, let)
		}
	case *Unary:
		if e.Op == Not {
			k.condition(e.X, !truth, let)
		}
	case *Binary:
		if e.Op == And && truth || e.Op == Or && !truth {
			if e.X.DType() == dtype.Bool {
				k.condition(e.X, truth, let)
				k.condition(e.Y, truth, let)
			}
			return
		}
		x, okX := integerOf(e.X, let)
		y, okY := integerOf(e.Y, let)
		if okX && okY {
			k.compare(e.Op, truth, x, y)
		}
	}
}

// integerOf returns the symbolic integer that is the value of an i64 expression, if there is one.
func integerOf(e Expr, let func(string) Expr) (sym.Expr, bool) {
	switch e := e.(type) {
	case *Index:
		return e.X, true
	case *Const:
		return sym.Const(int64(e.Bits)), e.Type == dtype.I64
	case *Ref:
		if x := let(e.Name); x != nil {
			return integerOf(x, let)
		}
	}
	return sym.Expr{}, false
}

// opposite maps a comparison to its negation.
var opposite = map[BinaryOp]BinaryOp{Lt: Ge, Ge: Lt, Le: Gt, Gt: Le, Eq: Ne, Ne: Eq}

// compare adds the consequences of a comparison of x and y known to be truth.
func (k *knowledge) compare(op BinaryOp, truth bool, x, y sym.Expr) {
	if !truth {
		var ok bool
		if op, ok = opposite[op]; !ok {
			return
		}
	}
	one := sym.Const(1)
	switch op {
	case Lt:
		k.assume(y.Sub(x).Sub(one))
	case Le:
		k.assume(y.Sub(x))
	case Gt:
		k.assume(x.Sub(y).Sub(one))
	case Ge:
		k.assume(x.Sub(y))
	case Eq:
		k.assume(y.Sub(x))
		k.assume(x.Sub(y))
	}
}

// given adds a condition on dimensions that holds wherever the kernel runs.
func (k *knowledge) given(c sym.Cond) {
	switch slack := c.B.Sub(c.A); c.Rel {
	case sym.LE:
		k.assume(slack)
	case sym.LT:
		k.assume(slack.Sub(sym.Const(1)))
	case sym.EQ:
		k.assume(slack)
		k.assume(slack.Neg())
	}
}

// atLeastZero reports whether e ≥ 0 whenever this point is reached. It returns No if the point is certainly reached and
// e is negative there at least once.
func (k *knowledge) atLeastZero(e sym.Expr) sym.Truth {
	// This check uses no questions, so a guarded access is proved even if none are left.
	for _, f := range slices.Backward(k.facts) {
		if d, ok := e.Above(f); ok && d >= 0 {
			return sym.Yes
		}
	}
	for depth := range searchDepth + 1 {
		k.goal = min(goalQuestions, k.all)
		k.all -= k.goal
		k.broken = false
		proved := k.search(e, depth, false)
		k.all += k.goal
		if proved {
			return sym.Yes
		}
	}
	for _, f := range k.facts {
		if k.dims.Negative(f) {
			return sym.Yes // never reached
		}
	}
	if k.mute > 0 {
		return sym.Unknown
	}
	for _, s := range slices.Backward(k.intervals) {
		if least := k.least(e, s); len(least) == 1 {
			e = least[0]
		}
	}
	if k.dims.LE(sym.Const(0), e) == sym.No {
		return sym.No
	}
	return sym.Unknown
}

// searchDepth bounds the number of facts that one proof adds together.
const searchDepth = 3

// search proves e ≥ 0: from the ranges, by replacing a variable by the end of its interval at which e is least, and by
// subtracting facts from e. After the subtraction of a fact that has little to do with e, the difference is only
// examined briefly.
func (k *knowledge) search(e sym.Expr, depth int, briefly bool) bool {
	if k.goal--; k.goal < 0 {
		k.goal = 0
		k.broken = true
		return false
	}
	this := attempt{e.Digest(), depth, briefly}
	if k.failed[this] {
		return false
	}
	if k.look(e, depth, briefly) {
		return true
	}
	if !k.broken { // with more questions it might have succeeded
		if k.failed == nil {
			k.failed = map[attempt]bool{}
		}
		k.failed[this] = true
	}
	return false
}

// look is search without the record of failed searches.
func (k *knowledge) look(e sym.Expr, depth int, briefly bool) bool {
	if k.dims.NotNegative(e, briefly) {
		return true
	}
	names := e.Vars()
	for _, s := range slices.Backward(k.intervals) {
		if !slices.Contains(names, s.name) {
			continue
		}
		for _, least := range k.least(e, s) {
			if k.search(least, depth, briefly) {
				return true
			}
		}
		break
	}
	if depth == 0 {
		return false
	}
	for _, f := range slices.Backward(k.facts) {
		times := ratio(e, f, names)
		if times > 0 && k.search(e.Sub(f.Mul(sym.Const(times))), depth-1, briefly || !e.Lessens(f)) {
			return true
		}
	}
	return false
}

// least returns e with a variable replaced by the end of its interval at which e is least, if e is known to be
// monotonic in it: one expression for each known end. Each is a lower bound of e.
func (k *knowledge) least(e sym.Expr, s interval) []sym.Expr {
	at := func(ends []sym.Expr) []sym.Expr {
		list := make([]sym.Expr, len(ends))
		for i, end := range ends {
			list[i] = e.Subst(func(n sym.Name) (sym.Expr, bool) { return end, n == s.name })
		}
		return list
	}
	if coefficient, _, ok := e.Linear(s.name); ok {
		low, high := k.dims.Bounds(coefficient)
		switch {
		case low >= 0:
			return at(s.low)
		case high <= 0:
			return at(s.high)
		}
		return nil
	}
	next := at([]sym.Expr{sym.Var(s.name).Add(sym.Const(1))})[0]
	switch {
	case k.dims.LE(e, next) == sym.Yes:
		// The range over which e grows may begin above the interval's low end.
		if slices.ContainsFunc(k.raised, func(r raise) bool { return r.name == s.name }) {
			r, _ := k.dims.Get(s.name)
			return at([]sym.Expr{sym.Const(r.Min)})
		}
		return at(s.low)
	case k.dims.LE(next, e) == sym.Yes:
		return at(s.high)
	}
	return nil
}

// ratio returns how often f is subtracted from e: the quotient of their coefficients in a variable in which both are
// linear with constant coefficients; 1 if there is no such variable but they share a name; 0 if they share none.
func ratio(e, f sym.Expr, names []sym.Name) int64 {
	shared := int64(0)
	for _, name := range f.Vars() {
		if !slices.Contains(names, name) {
			continue
		}
		shared = 1
		ce, _, okE := e.Linear(name)
		cf, _, okF := f.Linear(name)
		if !okE || !okF {
			continue
		}
		x, okX := ce.Const()
		y, okY := cf.Const()
		if okX && okY && y != 0 && x/y > 0 {
			return x / y
		}
	}
	return shared
}
