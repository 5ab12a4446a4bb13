// Package sym is integers over named variables: extents, bounds, indices, byte sizes.
package sym

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sort"
	"strconv"
	"strings"
)

// Expr is an immutable symbolic integer in canonical form. The zero value is 0.
type Expr struct{ p *poly }

type poly struct {
	terms []term
	key   string
}
type term struct {
	coef    int64
	factors []*atom
	key     string
}
type op uint8

const (
	opVar op = iota
	opFloorDiv
	opCeilDiv
	opMod
	opMin
	opMax
	opMul
	opAdd
)

type atom struct {
	op   op
	name string
	args []Expr
	key  string
}

// Errors of evaluation.
var (
	ErrOverflow = errors.New("sym: overflow")
	ErrDivide   = errors.New("sym: division by zero")
)

// UnboundError is a variable without a value.
type UnboundError struct{ Name string }

func (e *UnboundError) Error() string { return "sym: " + e.Name + " has no value" }

func Const(n int64) Expr {
	if n == 0 {
		return Expr{}
	}
	return make1([]term{{coef: n}})
}
func Var(name string) Expr { return ofAtom(&atom{op: opVar, name: name, key: quote(name)}) }

func quote(name string) string {
	for i, r := range name {
		if !(r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || i > 0 && (r == '.' || r >= '0' && r <= '9')) {
			return strconv.Quote(name)
		}
	}
	if name == "" || name == "max" || name == "min" || name == "ceildiv" {
		return strconv.Quote(name)
	}
	return name
}
func ofAtom(a *atom) Expr { return make1([]term{{coef: 1, factors: []*atom{a}, key: a.key}}) }
func make1(ts []term) Expr {
	if len(ts) == 0 {
		return Expr{}
	}
	return Expr{&poly{terms: ts, key: polyString(ts)}}
}
func polyString(ts []term) string {
	var b strings.Builder
	for i, t := range ts {
		c := t.coef
		if i > 0 {
			if c < 0 {
				b.WriteString(" - ")
				if c != math.MinInt64 {
					c = -c
				}
			} else {
				b.WriteString(" + ")
			}
		}
		if len(t.factors) == 0 {
			b.WriteString(strconv.FormatInt(c, 10))
			continue
		}
		if c == -1 {
			b.WriteString("-")
		} else if c != 1 {
			b.WriteString(strconv.FormatInt(c, 10) + "*")
		}
		b.WriteString(t.key)
	}
	return b.String()
}
func (e Expr) terms() []term {
	if e.p == nil {
		return nil
	}
	return e.p.terms
}
func (e Expr) String() string {
	if e.p == nil {
		return "0"
	}
	return e.p.key
}
func (e Expr) Key() string       { return e.String() }
func (e Expr) Equal(o Expr) bool { return e.p == o.p || e.String() == o.String() }
func (e Expr) Const() (int64, bool) {
	if e.p == nil {
		return 0, true
	}
	if len(e.p.terms) == 1 && len(e.p.terms[0].factors) == 0 {
		return e.p.terms[0].coef, true
	}
	return 0, false
}
func (e Expr) atom() *atom {
	if e.p != nil && len(e.p.terms) == 1 && e.p.terms[0].coef == 1 && len(e.p.terms[0].factors) == 1 {
		return e.p.terms[0].factors[0]
	}
	return nil
}
func (e Expr) Name() (string, bool) {
	if a := e.atom(); a != nil && a.op == opVar {
		return a.name, true
	}
	return "", false
}
func (e Expr) Vars() []string {
	set := map[string]bool{}
	e.vars(set)
	var out []string
	for n := range set {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}
func (e Expr) vars(set map[string]bool) {
	for _, t := range e.terms() {
		for _, a := range t.factors {
			if a.op == opVar {
				set[a.name] = true
			}
			for _, x := range a.args {
				x.vars(set)
			}
		}
	}
}
func add64(a, b int64) (int64, bool) {
	s := a + b
	return s, (a >= 0) == (b >= 0) && (s >= 0) != (a >= 0)
}
func mul64(a, b int64) (int64, bool) {
	hi, lo := bits.Mul64(abs(a), abs(b))
	neg := (a < 0) != (b < 0)
	if hi != 0 || lo > 1<<63 || lo == 1<<63 && !neg {
		return 0, true
	}
	if neg {
		return -int64(lo), false
	}
	return int64(lo), false
}
func abs(a int64) uint64 {
	if a < 0 {
		return uint64(-a)
	}
	return uint64(a)
}
func less(a, b term) bool {
	if len(a.factors) != len(b.factors) {
		return len(a.factors) > len(b.factors)
	}
	return a.key < b.key
}
func collect(ts []term) (Expr, bool) {
	sort.SliceStable(ts, func(i, j int) bool { return less(ts[i], ts[j]) })
	out := ts[:0]
	for _, t := range ts {
		if n := len(out); n > 0 && out[n-1].key == t.key && len(out[n-1].factors) == len(t.factors) {
			c, over := add64(out[n-1].coef, t.coef)
			if over {
				return Expr{}, false
			}
			out[n-1].coef = c
			continue
		}
		if n := len(out); n > 0 && out[n-1].coef == 0 {
			out = out[:n-1]
		}
		out = append(out, t)
	}
	if n := len(out); n > 0 && out[n-1].coef == 0 {
		out = out[:n-1]
	}
	return make1(append([]term(nil), out...)), true
}
func opaque(o op, args ...Expr) Expr {
	parts := make([]string, len(args))
	for i, a := range args {
		parts[i] = a.String()
		if o <= opMod && o != opCeilDiv || o == opMul || o == opAdd {
			if len(a.terms()) > 1 || a.p != nil && (a.p.terms[0].coef != 1 || len(a.p.terms[0].factors) > 1) && len(a.p.terms[0].factors) > 0 || a.p != nil && a.p.terms[0].coef < 0 || a.atom() != nil && (a.atom().op == opFloorDiv || a.atom().op == opMod) {
				parts[i] = "(" + parts[i] + ")"
			}
		}
	}
	var key string
	switch o {
	case opFloorDiv:
		key = "(" + parts[0] + "//" + parts[1] + ")"
	case opMod:
		key = "(" + parts[0] + "%" + parts[1] + ")"
	case opMul:
		key = "(" + strings.Join(parts, "*") + ")"
	case opAdd:
		key = "(" + strings.Join(parts, "+") + ")"
	default:
		key = [...]string{opCeilDiv: "ceildiv", opMin: "min", opMax: "max"}[o] + "(" + strings.Join(parts, ", ") + ")"
	}
	return ofAtom(&atom{op: o, args: args, key: key})
}
func (e Expr) Add(o Expr) Expr {
	if x, ok := collect(append(append([]term{}, e.terms()...), o.terms()...)); ok {
		return x
	}
	return opaque(opAdd, e, o)
}
func (e Expr) Neg() Expr       { return e.Mul(Const(-1)) }
func (e Expr) Sub(o Expr) Expr { return e.Add(o.Neg()) }
func (e Expr) Mul(o Expr) Expr {
	a, b := e.terms(), o.terms()
	if len(a) > 0 && len(b) > 4096/len(a) {
		return opaque(opMul, e, o)
	}
	var ts []term
	for _, x := range a {
		for _, y := range b {
			c, over := mul64(x.coef, y.coef)
			if over {
				return opaque(opMul, e, o)
			}
			f := append(append([]*atom{}, x.factors...), y.factors...)
			sort.SliceStable(f, func(i, j int) bool { return f[i].key < f[j].key })
			keys := make([]string, len(f))
			for i := range f {
				keys[i] = f[i].key
			}
			ts = append(ts, term{c, f, strings.Join(keys, "*")})
		}
	}
	if x, ok := collect(ts); ok {
		return x
	}
	return opaque(opMul, e, o)
}
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

// split divides e into d·q + r, where every term of r is not divisible by d as written.
func (e Expr) split(d Expr) (q, r Expr, ok bool) {
	if len(d.terms()) != 1 {
		return
	}
	dt := d.terms()[0]
	var qs, rs []term
	for _, t := range e.terms() {
		rest := append([]*atom{}, t.factors...)
		fits := dt.coef != 0 && t.coef%dt.coef == 0 && !(t.coef == math.MinInt64 && dt.coef == -1)
		for _, f := range dt.factors {
			found := false
			for i, g := range rest {
				if g.key == f.key {
					rest = append(rest[:i], rest[i+1:]...)
					found = true
					break
				}
			}
			fits = fits && found
		}
		if !fits {
			rs = append(rs, t)
			continue
		}
		keys := make([]string, len(rest))
		for i := range rest {
			keys[i] = rest[i].key
		}
		qs = append(qs, term{t.coef / dt.coef, rest, strings.Join(keys, "*")})
	}
	q, ok1 := collect(qs)
	r, ok2 := collect(rs)
	return q, r, ok1 && ok2
}
func (e Expr) FloorDiv(o Expr) Expr {
	if d, ok := o.Const(); ok && d != 0 {
		if d == 1 {
			return e
		}
		if c, ok := e.Const(); ok && !(c == math.MinInt64 && d == -1) {
			return Const(floorDiv(c, d))
		}
		if q, r, ok := e.split(o); ok {
			if c, isConst := r.Const(); isConst && d > 0 {
				return q.Add(Const(floorDiv(c, d)))
			}
			if d > 0 && !q.Equal(Expr{}) {
				return q.Add(r.FloorDiv(o))
			}
		}
		if a := e.atom(); a != nil && a.op == opFloorDiv && d > 0 {
			if d2, ok := a.args[1].Const(); ok && d2 > 0 {
				if p, over := mul64(d, d2); !over {
					return a.args[0].FloorDiv(Const(p))
				}
			}
		}
	}
	return opaque(opFloorDiv, e, o)
}
func (e Expr) CeilDiv(o Expr) Expr {
	if d, ok := o.Const(); ok && d > 0 {
		if d == 1 {
			return e
		}
		if c, ok := e.Const(); ok {
			return Const(-floorDiv(-c, d))
		}
		if q, r, ok := e.split(o); ok {
			if c, isConst := r.Const(); isConst {
				return q.Add(Const(-floorDiv(-c, d)))
			}
			if !q.Equal(Expr{}) {
				return q.Add(r.CeilDiv(o))
			}
		}
	}
	return opaque(opCeilDiv, e, o)
}
func (e Expr) Mod(o Expr) Expr {
	if d, ok := o.Const(); ok && d > 0 {
		if d == 1 {
			return Expr{}
		}
		if c, ok := e.Const(); ok {
			return Const(c - floorDiv(c, d)*d)
		}
		if _, r, ok := e.split(o); ok {
			if c, isConst := r.Const(); isConst {
				return Const(c - floorDiv(c, d)*d)
			}
			if !r.Equal(e) {
				return r.Mod(o)
			}
		}
	}
	return opaque(opMod, e, o)
}
func (e Expr) Min(o Expr) Expr { return MinOf(e, o) }
func (e Expr) Max(o Expr) Expr { return MaxOf(e, o) }
func Sum(xs ...Expr) Expr {
	s := Expr{}
	for _, x := range xs {
		s = s.Add(x)
	}
	return s
}
func Product(xs ...Expr) Expr {
	s := Const(1)
	for _, x := range xs {
		s = s.Mul(x)
	}
	return s
}
func extreme(o op, xs []Expr, keep func(d int64) bool) Expr {
	var list []Expr
	var add func(x Expr)
	add = func(x Expr) {
		if a := x.atom(); a != nil && a.op == o {
			for _, y := range a.args {
				add(y)
			}
			return
		}
		for i, y := range list {
			if d, ok := x.Sub(y).Const(); ok {
				if keep(d) {
					list[i] = x
				}
				return
			}
		}
		list = append(list, x)
	}
	for _, x := range xs {
		add(x)
	}
	if len(list) == 1 {
		return list[0]
	}
	if len(list) == 0 {
		return Expr{}
	}
	sort.SliceStable(list, func(i, j int) bool { return list[i].String() < list[j].String() })
	return opaque(o, list...)
}
func MinOf(xs ...Expr) Expr { return extreme(opMin, xs, func(d int64) bool { return d < 0 }) }
func MaxOf(xs ...Expr) Expr { return extreme(opMax, xs, func(d int64) bool { return d > 0 }) }

func (e Expr) Eval(get func(string) (int64, bool)) (int64, error) {
	sum := int64(0)
	for _, t := range e.terms() {
		v := t.coef
		for _, a := range t.factors {
			x, err := a.eval(get)
			if err != nil {
				return 0, err
			}
			var over bool
			if v, over = mul64(v, x); over {
				return 0, ErrOverflow
			}
		}
		var over bool
		if sum, over = add64(sum, v); over {
			return 0, ErrOverflow
		}
	}
	return sum, nil
}
func (a *atom) eval(get func(string) (int64, bool)) (int64, error) {
	if a.op == opVar {
		v, ok := get(a.name)
		if !ok {
			return 0, &UnboundError{a.name}
		}
		return v, nil
	}
	v, err := a.args[0].Eval(get)
	if err != nil {
		return 0, err
	}
	for _, x := range a.args[1:] {
		w, err := x.Eval(get)
		if err != nil {
			return 0, err
		}
		if v, err = apply(a.op, v, w); err != nil {
			return 0, err
		}
	}
	return v, nil
}
func apply(o op, v, w int64) (int64, error) {
	switch o {
	case opMin:
		return min(v, w), nil
	case opMax:
		return max(v, w), nil
	case opMul:
		if r, over := mul64(v, w); !over {
			return r, nil
		}
		return 0, ErrOverflow
	case opAdd:
		if r, over := add64(v, w); !over {
			return r, nil
		}
		return 0, ErrOverflow
	}
	if w == 0 {
		return 0, ErrDivide
	}
	if v == math.MinInt64 && w == -1 {
		if o == opMod {
			return 0, nil
		}
		return 0, ErrOverflow
	}
	switch o {
	case opFloorDiv:
		return floorDiv(v, w), nil
	case opCeilDiv:
		q := v / w
		if v%w != 0 && (v < 0) == (w < 0) {
			q++
		}
		return q, nil
	}
	return v - floorDiv(v, w)*w, nil
}
func (e Expr) Subst(f func(string) (Expr, bool)) Expr {
	changed := false
	sum := Expr{}
	for _, t := range e.terms() {
		p := Const(t.coef)
		for _, a := range t.factors {
			x, did := a.subst(f)
			changed = changed || did
			p = p.Mul(x)
		}
		sum = sum.Add(p)
	}
	if !changed {
		return e
	}
	return sum
}
func (a *atom) subst(f func(string) (Expr, bool)) (Expr, bool) {
	if a.op == opVar {
		if x, ok := f(a.name); ok {
			return x, true
		}
		return ofAtom(a), false
	}
	args, changed := make([]Expr, len(a.args)), false
	for i, x := range a.args {
		args[i] = x.Subst(f)
		changed = changed || args[i].p != x.p
	}
	if !changed {
		return ofAtom(a), false
	}
	return build(a.op, args), true
}
func build(o op, args []Expr) Expr {
	switch o {
	case opFloorDiv:
		return args[0].FloorDiv(args[1])
	case opCeilDiv:
		return args[0].CeilDiv(args[1])
	case opMod:
		return args[0].Mod(args[1])
	case opMin:
		return MinOf(args...)
	case opMax:
		return MaxOf(args...)
	case opMul:
		return Product(args...)
	}
	return Sum(args...)
}
func (e Expr) Linear(name string) (coef, rest Expr, ok bool) {
	v := Var(name)
	q, r, _ := e.split(v)
	for _, x := range []Expr{q, r} {
		for _, n := range x.Vars() {
			if n == name {
				return Expr{}, Expr{}, false
			}
		}
	}
	return q, r, true
}

// Code is an expression compiled for repeated evaluation.
type Code struct {
	e     Expr
	names []string
	index map[string]int
}

func (e Expr) Compile(names []string) (*Code, error) {
	c := &Code{e: e, names: names, index: map[string]int{}}
	for i, n := range names {
		c.index[n] = i
	}
	for _, n := range e.Vars() {
		if _, ok := c.index[n]; !ok {
			return nil, &UnboundError{n}
		}
	}
	return c, nil
}
func (c *Code) Eval(vals []int64) (int64, error) {
	return c.e.Eval(func(n string) (int64, bool) { i, ok := c.index[n]; return vals[i], ok })
}

var _ = fmt.Sprint
