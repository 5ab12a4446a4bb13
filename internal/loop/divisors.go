package loop

import (
	"math"

	"github.com/weirml/weir/internal/sym"
)

// Divisors are the divisors in a kernel that depend on dimensions only. For each it is known whether it is 1 or more
// wherever the kernel divides by it. At a division, the enclosing loops have iterations, preceding Checks and enclosing
// masks hold, and so do the module's requirements.
type Divisors struct {
	kernel   *Kernel
	positive map[string]bool // by the divisor's key
}

// DivisorsOf collects the divisors of a kernel of a module. If the module has no range for a dimension, the dimension
// is 0 or more.
func DivisorsOf(k *Kernel, m *Module) *Divisors {
	d := &Divisors{kernel: k}
	divides := false
	WalkIntegers(k.Body, func(x sym.Expr) { divides = divides || d.dividesIn(x) })
	if !divides {
		return d
	}
	d.positive = map[string]bool{}
	dims := sym.NewDims()
	if m.Dims != nil {
		dims = m.Dims
	}
	dims = dims.Clone()
	for _, name := range k.Dims {
		dims.Set(name, m.RangeOf(name))
	}
	var given []sym.Cond
	for _, r := range m.Requires {
		given = append(given, r.Cond)
	}
	w := divisorWalk{d, newKnowledge(dims), map[string]Expr{}}
	for _, c := range m.about(k, given) {
		w.known.given(c)
	}
	w.body(k.Body)
	return d
}

// RangeOf returns the range of a dimension: 0 or more if the module has none.
func (m *Module) RangeOf(dim sym.Name) sym.Range {
	if m.Dims != nil {
		if r, ok := m.Dims.Get(dim); ok {
			return r
		}
	}
	return sym.Range{Max: sym.NoMax}
}

// Positive reports whether a divisor over dimensions is 1 or more wherever the kernel divides by it.
func (d *Divisors) Positive(y sym.Expr) bool { return d.positive[y.Key()] }

// Safe returns an expression over dimensions with max(y, 1) for each positive divisor y. Wherever the
// kernel uses the expression, the value is the same; and it has a value for all dimensions, even if enclosing loops
// have no iterations.
func (d *Divisors) Safe(x sym.Expr) sym.Expr {
	if !d.dividesIn(x) {
		return x
	}
	constant, terms := x.Terms()
	sum := []sym.Expr{sym.Const(constant)}
	for _, t := range terms {
		product := sym.Const(t.Coef)
		for _, f := range t.Factors {
			product = product.Mul(d.safe(f))
		}
		sum = append(sum, product)
	}
	return sym.Sum(sum...)
}

// safe is Safe for one factor.
func (d *Divisors) safe(f sym.Factor) sym.Expr {
	if f.Kind == sym.Variable || f.Kind == sym.Impossible {
		return f.Expr()
	}
	args := make([]sym.Expr, len(f.Args))
	for i, x := range f.Args {
		args[i] = d.Safe(x)
	}
	if divides(f) && d.Positive(f.Args[1]) {
		args[1] = args[1].Max(sym.Const(1))
	}
	return sym.Factor{Kind: f.Kind, Args: args}.Expr()
}

// divides reports whether a factor is a quotient or a remainder.
func divides(f sym.Factor) bool {
	return f.Kind == sym.FloorQuotient || f.Kind == sym.CeilQuotient || f.Kind == sym.Remainder
}

// each calls visit for each divisor in x that depends on dimensions only and is not a constant.
func (d *Divisors) each(x sym.Expr, visit func(y sym.Expr)) {
	if len(x.Vars()) > 0 && x.Multilinear() {
		return // it has no operations
	}
	_, terms := x.Terms()
	for _, t := range terms {
		for _, f := range t.Factors {
			for _, arg := range f.Args {
				d.each(arg, visit)
			}
			if !divides(f) {
				continue
			}
			y := f.Args[1]
			if _, number := y.Const(); !number && d.kernel.overDims(y) {
				visit(y)
			}
		}
	}
}

// dividesIn reports whether x has a divisor that depends on dimensions only.
func (d *Divisors) dividesIn(x sym.Expr) (found bool) {
	d.each(x, func(sym.Expr) { found = true })
	return found
}

// divisorWalk decides whether each divisor is positive, from the facts known at each of its divisions.
type divisorWalk struct {
	*Divisors
	known *knowledge
	lets  map[string]Expr
}

// integers decides for the divisors in symbolic integers.
func (w *divisorWalk) integers(list ...sym.Expr) {
	for _, x := range list {
		w.each(x, func(y sym.Expr) {
			key := y.Key()
			if positive, met := w.positive[key]; !met || positive {
				w.positive[key] = w.known.atLeastOne(y)
			}
		})
	}
}

// body walks a list of statements.
func (w *divisorWalk) body(body []Stmt) {
	mark := w.known.mark()
	for _, s := range body {
		w.statement(s)
	}
	w.known.reset(mark)
}

// statement walks a statement and the statements inside it.
func (w *divisorWalk) statement(s Stmt) {
	list, n := values(s)
	for _, e := range list[:n] {
		w.value(e)
	}
	switch s := s.(type) {
	case *Store:
		w.assuming(s.Mask, true, func() { w.integers(s.Index...) })
		return
	case *Let:
		w.lets[s.Name] = s.X
	case *When:
		w.assuming(s.Cond, true, func() { w.body(s.Then) })
		w.assuming(s.Cond, false, func() { w.body(s.Else) })
		return
	}
	w.integers(Integers(s)...)
	switch s := s.(type) {
	case *For:
		mark := w.known.mark()
		w.known.loop(s.Var, s.Extent)
		w.body(s.Body)
		w.known.reset(mark)
	case *Check:
		w.known.between(s.Name, s.Min, s.Max)
	default:
		for _, inner := range Bodies(s) {
			w.body(*inner)
		}
	}
}

// value walks an expression.
func (w *divisorWalk) value(e Expr) {
	if load, ok := e.(*Load); ok {
		w.assuming(load.Mask, true, func() { w.integers(load.Index...) })
	} else {
		w.integers(IntegersOf(e)...)
	}
	inside, n := operands(e)
	for _, x := range inside[:n] {
		w.value(x)
	}
}

// assuming calls do while a condition counts as truth. A nil condition adds nothing.
func (w *divisorWalk) assuming(cond Expr, truth bool, do func()) {
	mark := w.known.mark()
	if cond != nil {
		w.known.condition(cond, truth, func(name string) Expr { return w.lets[name] })
	}
	do()
	w.known.reset(mark)
}

// atLeastOne reports whether y ≥ 1 is proved whenever this point is reached. In addition to atLeastZero's search, it
// looks for a fact that is contradicted if y is 0 or less.
func (k *knowledge) atLeastOne(y sym.Expr) bool {
	one := sym.Const(1)
	if low, _ := k.dims.Bounds(y); low >= 1 || k.atLeastZero(y.Sub(one)) == sym.Yes {
		return true
	}
	return k.emptyBelow(y) || k.risen(y)
}

// emptyBelow replaces a name that is a term of y by the value at which y is −z, for z ≥ 0, and looks for a fact that
// this contradicts.
func (k *knowledge) emptyBelow(y sym.Expr) bool {
	z := sym.Hidden("z")
	dims := k.dims.Clone()
	dims.Set(z, sym.Range{Max: sym.NoMax})
	for _, name := range y.Vars() {
		coefficient, rest, ok := y.Linear(name)
		sign, number := coefficient.Const()
		if !ok || !number || sign != 1 && sign != -1 {
			continue
		}
		at := sym.Var(z).Add(rest).Mul(sym.Const(-sign)) // the name's value at which y is −z
		for _, f := range k.facts {
			x := f.Subst(func(n sym.Name) (sym.Expr, bool) { return at, n == name })
			for _, part := range x.MinArgs() {
				if _, high := dims.Bounds(part); high < 0 || dims.LT(part, sym.Const(0)) == sym.Yes {
					return true
				}
			}
		}
	}
	return false
}

// risen raises the lower ends of the ranges of y's names while lower values contradict a fact, and reports whether y ≥
// 1 within the raised ranges.
func (k *knowledge) risen(y sym.Expr) bool {
	dims := k.dims.Clone()
	for range risenRounds {
		rose := false
		for _, name := range y.Vars() {
			r, ok := dims.Get(name)
			if !ok || r.Min == math.MinInt64 || r.Min >= r.Max {
				continue
			}
			if low := k.lowest(dims, name, r); low > r.Min {
				dims.Set(name, sym.Range{Min: low, Max: r.Max})
				rose = true
			} else {
				dims.Set(name, r)
			}
		}
		if low, _ := dims.Bounds(y); low >= 1 {
			return true
		}
		if !rose {
			return false
		}
	}
	return false
}

// Limits of risen: the number of times that each name is raised, and by how much.
const (
	risenRounds = 3
	mostRisen   = 1 << 20
)

// lowest returns the largest bound that its search finds such that r.Min ≤ name < bound contradicts a fact; r.Min if it
// finds none. It leaves dims with another range of the name.
func (k *knowledge) lowest(dims *sym.Dims, name sym.Name, r sym.Range) int64 {
	broken := func(below int64) bool { // for r.Min ≤ name < below
		dims.Set(name, sym.Range{Min: r.Min, Max: below - 1})
		for _, f := range k.facts {
			if _, high := dims.Bounds(f); high < 0 {
				return true
			}
		}
		return false
	}
	low, step := r.Min, int64(1)
	for ; step <= mostRisen && step <= r.Max-low && broken(low+step); step *= 2 {
		low += step
	}
	for ; step > 0; step /= 2 {
		if step <= r.Max-low && broken(low+step) {
			low += step
		}
	}
	return low
}
