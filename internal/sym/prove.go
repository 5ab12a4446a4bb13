package sym

import (
	"fmt"
	"math"
	"sort"
)

// Truth is a prover's answer.
type Truth uint8

const (
	Unknown Truth = iota
	Yes
	No
)

// NoMax is no upper limit.
const NoMax = math.MaxInt64

// Range is inclusive.
type Range struct{ Min, Max int64 }

func (r Range) String() string {
	if r.Max == NoMax {
		return fmt.Sprintf("%d..", r.Min)
	}
	return fmt.Sprintf("%d..%d", r.Min, r.Max)
}

// Dims are named ranges.
type Dims struct{ m map[string]Range }

func NewDims() *Dims                       { return &Dims{map[string]Range{}} }
func (d *Dims) Set(n string, r Range)      { d.m[n] = r }
func (d *Dims) Get(n string) (Range, bool) { r, ok := d.m[n]; return r, ok }
func (d *Dims) Names() []string {
	var out []string
	for n := range d.m {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}
func (d *Dims) Clone() *Dims {
	c := NewDims()
	for n, r := range d.m {
		c.m[n] = r
	}
	return c
}
func satAdd(a, b int64) int64 {
	if a == math.MinInt64 || b == math.MinInt64 {
		return math.MinInt64
	}
	if a == math.MaxInt64 || b == math.MaxInt64 {
		return math.MaxInt64
	}
	if s, over := add64(a, b); !over {
		return s
	}
	if a > 0 {
		return math.MaxInt64
	}
	return math.MinInt64
}
func satMul(a, b int64) int64 {
	if a == 0 || b == 0 {
		return 0
	}
	inf := func(x int64) bool { return x == math.MinInt64 || x == math.MaxInt64 }
	if p, over := mul64(a, b); !over && !inf(a) && !inf(b) {
		return p
	}
	if (a < 0) != (b < 0) {
		return math.MinInt64
	}
	return math.MaxInt64
}
func mulRange(a, b Range) Range {
	p := [4]int64{satMul(a.Min, b.Min), satMul(a.Min, b.Max), satMul(a.Max, b.Min), satMul(a.Max, b.Max)}
	return Range{min(p[0], p[1], p[2], p[3]), max(p[0], p[1], p[2], p[3])}
}
func (d *Dims) Bounds(e Expr) (lo, hi int64) { r := d.bounds(e); return r.Min, r.Max }
func (d *Dims) bounds(e Expr) Range {
	sum := Range{}
	for _, t := range e.terms() {
		r := Range{t.coef, t.coef}
		for i, a := range t.factors {
			ar := d.atomBounds(a)
			if i > 0 && t.factors[i-1].key == a.key && ar.Min < 0 {
				ar = Range{math.MinInt64, math.MaxInt64}
			}
			r = mulRange(r, ar)
		}
		sum = Range{satAdd(sum.Min, r.Min), satAdd2(sum.Max, r.Max)}
	}
	return sum
}
func satAdd2(a, b int64) int64 {
	if a == math.MaxInt64 || b == math.MaxInt64 {
		return math.MaxInt64
	}
	return satAdd(a, b)
}
func (d *Dims) atomBounds(a *atom) Range {
	all := Range{math.MinInt64, math.MaxInt64}
	if a.op == opVar {
		if r, ok := d.m[a.name]; ok {
			return r
		}
		return all
	}
	x := d.bounds(a.args[0])
	switch a.op {
	case opMin, opMax:
		for _, y := range a.args[1:] {
			r := d.bounds(y)
			if a.op == opMin {
				x = Range{min(x.Min, r.Min), min(x.Max, r.Max)}
			} else {
				x = Range{max(x.Min, r.Min), max(x.Max, r.Max)}
			}
		}
		return x
	case opMul:
		for _, y := range a.args[1:] {
			x = mulRange(x, d.bounds(y))
		}
		return x
	case opAdd:
		for _, y := range a.args[1:] {
			r := d.bounds(y)
			x = Range{satAdd(x.Min, r.Min), satAdd2(x.Max, r.Max)}
		}
		return x
	}
	y := d.bounds(a.args[1])
	if y.Min < 1 {
		return all
	}
	div := func(v, w int64, ceil bool) int64 {
		if v == math.MinInt64 || v == math.MaxInt64 {
			return v
		}
		r, _ := apply(map[bool]op{false: opFloorDiv, true: opCeilDiv}[ceil], v, w)
		return r
	}
	switch a.op {
	case opMod:
		hi := y.Max
		if hi != math.MaxInt64 {
			hi--
		}
		if x.Min >= 0 {
			hi = min(hi, x.Max)
		}
		return Range{0, hi}
	default:
		c := a.op == opCeilDiv
		p := []int64{div(x.Min, y.Min, c), div(x.Min, y.Max, c), div(x.Max, y.Min, c), div(x.Max, y.Max, c)}
		return Range{min(p[0], p[1], p[2], p[3]), max(p[0], p[1], p[2], p[3])}
	}
}

// shift writes each variable with a finite minimum as minimum + a variable that is not negative.
func (d *Dims) shift(e Expr) (Expr, *Dims) {
	s := NewDims()
	x := e.Subst(func(n string) (Expr, bool) {
		r, ok := d.m[n]
		if !ok || r.Min == math.MinInt64 {
			s.m[n] = r
			return Expr{}, false
		}
		m := "_" + n
		hi := r.Max
		if hi != math.MaxInt64 {
			hi = satAdd(hi, -r.Min)
		}
		s.m[m] = Range{0, hi}
		return Var(m).Add(Const(r.Min)), true
	})
	return x, s
}
func (d *Dims) nonNegative(e Expr) bool {
	if d.bounds(e).Min >= 0 {
		return true
	}
	x, s := d.shift(e)
	if s.bounds(x).Min >= 0 {
		return true
	}
	// Replace opaque atoms by a bound that makes e smaller.
	for depth := 0; depth < 4; depth++ {
		y, did := d.relax(e)
		if !did {
			return false
		}
		if d.bounds(y).Min >= 0 {
			return true
		}
		x, s := d.shift(y)
		if s.bounds(x).Min >= 0 {
			return true
		}
		e = y
	}
	return false
}
func (d *Dims) relax(e Expr) (Expr, bool) {
	for i, t := range e.terms() {
		if len(t.factors) != 1 || t.factors[0].op == opVar {
			continue
		}
		a := t.factors[0]
		rest := append(append([]term{}, e.terms()[:i]...), e.terms()[i+1:]...)
		r, _ := collect(rest)
		c := Const(t.coef)
		switch a.op {
		case opMin:
			if t.coef < 0 {
				for _, x := range a.args {
					if d.nonNegative(r.Add(c.Mul(x))) {
						return Const(0), true
					}
				}
				return r.Add(c.Mul(a.args[0])), true
			}
			ok := true
			for _, x := range a.args {
				ok = ok && d.nonNegative(r.Add(c.Mul(x)))
			}
			if ok {
				return Const(0), true
			}
		case opMax:
			if t.coef > 0 {
				for _, x := range a.args {
					if d.nonNegative(r.Add(c.Mul(x))) {
						return Const(0), true
					}
				}
				return r.Add(c.Mul(a.args[0])), true
			}
			ok := true
			for _, x := range a.args {
				ok = ok && d.nonNegative(r.Add(c.Mul(x)))
			}
			if ok {
				return Const(0), true
			}
		case opFloorDiv, opCeilDiv:
			k, isConst := a.args[1].Const()
			if !isConst || k < 1 || t.coef%k != 0 {
				// k·e ≥ 0 iff e ≥ 0
				if isConst && k > 1 {
					e = e.Mul(Const(k))
					return e, true
				}
				continue
			}
			q := Const(t.coef / k)
			x := a.args[0]
			low := Expr{}
			if (t.coef < 0) == (a.op == opCeilDiv) {
				low = Const(k - 1)
			}
			if a.op == opFloorDiv {
				x = x.Sub(low)
			} else {
				x = x.Add(low)
			}
			return r.Add(q.Mul(x)), true
		}
	}
	return e, false
}
func (d *Dims) LE(a, b Expr) Truth {
	x := b.Sub(a)
	if d.nonNegative(x) {
		return Yes
	}
	if d.nonNegative(x.Neg().Sub(Const(1))) {
		return No
	}
	return Unknown
}
func (d *Dims) LT(a, b Expr) Truth { return d.LE(a.Add(Const(1)), b) }
func (d *Dims) EQ(a, b Expr) Truth {
	x := a.Sub(b)
	if c, ok := x.Const(); ok {
		if c == 0 {
			return Yes
		}
		return No
	}
	if d.nonNegative(x) && d.nonNegative(x.Neg()) {
		return Yes
	}
	if d.nonNegative(x.Sub(Const(1))) || d.nonNegative(x.Neg().Sub(Const(1))) {
		return No
	}
	return Unknown
}

// Simplify uses the ranges.
func (d *Dims) Simplify(e Expr) Expr {
	if lo, hi := d.Bounds(e); lo == hi {
		return Const(lo)
	}
	sum := Expr{}
	for _, t := range e.terms() {
		p := Const(t.coef)
		for _, a := range t.factors {
			p = p.Mul(d.simplifyAtom(a))
		}
		sum = sum.Add(p)
	}
	return sum
}
func (d *Dims) simplifyAtom(a *atom) Expr {
	if a.op == opVar {
		return ofAtom(a)
	}
	args := make([]Expr, len(a.args))
	for i, x := range a.args {
		args[i] = d.Simplify(x)
	}
	switch a.op {
	case opMin, opMax:
		var keep []Expr
		for i, x := range args {
			dominated := false
			for j, y := range args {
				if i == j {
					continue
				}
				t := d.LE(y, x)
				if a.op == opMax {
					t = d.LE(x, y)
				}
				if t == Yes && !(j > i && d.EQ(x, y) == Yes) {
					dominated = true
				}
			}
			if !dominated {
				keep = append(keep, x)
			}
		}
		args = keep
	case opFloorDiv, opCeilDiv, opMod:
		if q, r, ok := args[0].split(args[1]); ok && d.LE(Const(1), args[1]) == Yes && d.LE(Const(0), r) == Yes && d.LT(r, args[1]) == Yes {
			switch {
			case a.op == opMod:
				return r
			case a.op == opFloorDiv:
				return q
			case r.Equal(Expr{}):
				return q
			}
		}
	}
	return build(a.op, args)
}

// Rel is a relation.
type Rel uint8

const (
	LE Rel = iota
	LT
	EQ
	NE
)

func (r Rel) String() string { return [...]string{"<=", "<", "==", "!="}[r] }

// Holds reports whether a r b.
func (r Rel) Holds(a, b int64) bool {
	return [...]bool{a <= b, a < b, a == b, a != b}[r]
}

// Cond is a relation between two integers.
type Cond struct {
	A   Expr
	Rel Rel
	B   Expr
}

func (c Cond) String() string { return c.A.String() + " " + c.Rel.String() + " " + c.B.String() }
func (c Cond) Eval(get func(string) (int64, bool)) (bool, error) {
	a, err := c.A.Eval(get)
	if err != nil {
		return false, err
	}
	b, err := c.B.Eval(get)
	return c.Rel.Holds(a, b), err
}
func (d *Dims) Prove(c Cond) Truth {
	switch c.Rel {
	case LE:
		return d.LE(c.A, c.B)
	case LT:
		return d.LT(c.A, c.B)
	case EQ:
		return d.EQ(c.A, c.B)
	}
	return [...]Truth{Unknown, No, Yes}[d.EQ(c.A, c.B)]
}
