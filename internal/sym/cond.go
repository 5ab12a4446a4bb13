package sym

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
