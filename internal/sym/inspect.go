package sym

// MinArgs returns expressions whose least is e: if e is a minimum plus a constant, the minimum's arguments, each plus
// the constant; otherwise e alone.
func (e Expr) MinArgs() []Expr { return e.extremumArgs(minimum) }

// MaxArgs returns expressions whose greatest is e: if e is a maximum plus a constant, the maximum's arguments, each
// plus the constant; otherwise e alone.
func (e Expr) MaxArgs() []Expr { return e.extremumArgs(maximum) }

// extremumArgs is MinArgs or MaxArgs, by kind.
func (e Expr) extremumArgs(k kind) []Expr {
	a := e.Sub(Const(e.c)).atom()
	if a == nil || a.kind != k {
		return []Expr{e}
	}
	list := make([]Expr, len(a.args))
	for i, x := range a.args {
		list[i] = x.Add(Const(e.c))
	}
	return list
}

// Term is a product: Coef times its factors.
type Term struct {
	Coef    int64
	Factors []Factor
	of      term // the term from which it was taken, if any
}

// FactorKind is the kind of a factor.
type FactorKind uint8

// The kinds of factor. All but Variable are functions of Args: the quotients and the remainder of two, the least and
// the greatest of two or more, a product and a sum that are not expanded.
const (
	Variable FactorKind = iota
	FloorQuotient
	CeilQuotient
	Remainder
	Least
	Greatest
	FactorProduct
	FactorSum
	Impossible // the expression exceeded its limits
)

// Factor is an atom of an expression: a name, or a function that is not linear.
type Factor struct {
	Kind FactorKind
	Name Name
	Args []Expr
	of   *atom // the atom from which it was taken, if any
}

// Terms returns the constant and the products whose sum is the expression.
func (e Expr) Terms() (constant int64, terms []Term) {
	if e.n == nil {
		return e.c, nil
	}
	count := 0
	for _, t := range e.n.terms {
		count += len(t.atoms)
	}
	terms = make([]Term, len(e.n.terms))
	factors := make([]Factor, count)
	for n, t := range e.n.terms {
		own := factors[:len(t.atoms):len(t.atoms)]
		factors = factors[len(t.atoms):]
		for i, a := range t.atoms {
			own[i] = Factor{Kind: factorKinds[a.kind], Name: a.name, Args: a.args, of: a}
		}
		terms[n] = Term{Coef: t.coef, Factors: own, of: t}
	}
	return e.c, terms
}

var factorKinds = [...]FactorKind{variable: Variable, floorDiv: FloorQuotient, ceilDiv: CeilQuotient, modulo: Remainder,
	minimum: Least, maximum: Greatest,
	product: FactorProduct, sum: FactorSum, huge: Impossible, slack: Impossible}

// Expr returns the factor as an expression.
func (f Factor) Expr() Expr {
	if f.of != nil {
		return f.of.expr()
	}
	switch f.Kind {
	case Variable:
		return Var(f.Name)
	case FloorQuotient:
		return f.Args[0].FloorDiv(f.Args[1])
	case CeilQuotient:
		return f.Args[0].CeilDiv(f.Args[1])
	case Remainder:
		return f.Args[0].Mod(f.Args[1])
	case Least:
		return MinOf(f.Args...)
	case Greatest:
		return MaxOf(f.Args...)
	case FactorProduct:
		return f.Args[0].Mul(f.Args[1])
	}
	return Sum(f.Args...)
}

// Expr returns the product as an expression.
func (t Term) Expr() Expr {
	if t.of.atoms != nil && t.of.coef == t.Coef && len(t.of.atoms) == len(t.Factors) {
		return polynomial([]term{t.of}, 0)
	}
	e := Const(t.Coef)
	for _, f := range t.Factors {
		e = e.Mul(f.Expr())
	}
	return e
}

// Lessens reports whether a product of names occurs in both e and f, with the same sign. Otherwise e − f is no easier
// to decide than e.
func (e Expr) Lessens(f Expr) bool {
	x, y := e.terms(), f.terms()
	for len(x) > 0 && len(y) > 0 {
		switch order := compareProducts(x[0].atoms, y[0].atoms); {
		case order < 0:
			x = x[1:]
		case order > 0:
			y = y[1:]
		case (x[0].coef < 0) == (y[0].coef < 0):
			return true
		default:
			x, y = x[1:], y[1:]
		}
	}
	return false
}
