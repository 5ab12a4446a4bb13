package loop

import (
	"fmt"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
)

// Unproved is an access that could be neither proved nor refuted: for one axis of one buffer, that 0 ≤ Index < Extent.
type Unproved struct {
	Buffer        string
	Axis          int
	Index, Extent sym.Expr
	Loops         []sym.Name // the enclosing loops' variables, outermost first

	of    any        // the Load, Store, Contract or other statement of the access
	goals []sym.Expr // each must be 0 or more
}

// String returns one line for a log.
func (u Unproved) String() string {
	return fmt.Sprintf("%%%s axis %d: 0 <= %s < %s (loops %v)", u.Buffer, u.Axis, u.Index, u.Extent, u.Loops)
}

// VerifyError is a kernel or module that is not well formed: a bug of Weir, or a fault in a text written by hand.
type VerifyError struct {
	Name   string // of the kernel or module
	Detail string
}

// Error returns one line.
func (e *VerifyError) Error() string { return "@" + e.Name + ": " + e.Detail }

// Verify checks a kernel: types, scopes, unique names, ranks, access modes, independence of the iterations of each,
// parallel and vector loops, and that every access lies within its buffer's shape for all dimensions in dims. dims
// holds the ranges of the kernel's dimensions; if it is nil, each is 0 or more. Ranges of loops and Checks, and
// comparisons of Index values in masks and branches, count as known. The error is a *VerifyError; unproved lists the
// accesses for which the prover found neither proof nor contradiction.
func Verify(k *Kernel, dims *sym.Dims) (unproved []Unproved, err error) {
	return VerifyGiven(k, dims, nil)
}

// VerifyGiven is Verify with conditions on the dimensions that are known to hold.
func VerifyGiven(k *Kernel, dims *sym.Dims, given []sym.Cond) (unproved []Unproved, err error) {
	v := newVerifier(k, dims)
	for _, c := range given {
		v.known.given(c)
	}
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*VerifyError)
			if !ok {
				panic(r)
			}
			unproved, err = nil, e
		}
	}()
	v.signature()
	v.body(k.Body)
	return v.unproved, nil
}

// declared is the declaration of a name.
type declared struct {
	kind  nameKind
	dt    dtype.DType
	shape []sym.Expr
	mode  Access
	let   Expr // the value of a Let
}

type nameKind uint8

const (
	dimName nameKind = iota
	loopName
	checkName
	letName
	varName
	bufferName
)

var nameKinds = [...]string{"a dimension", "a loop variable", "a checked value", "a let", "a var", "a buffer"}

type verifier struct {
	kernel   *Kernel
	known    *knowledge
	scope    map[sym.Name]*declared
	taken    map[sym.Name]bool // every name ever declared, in or out of scope
	order    []sym.Name        // the names in scope, in order of declaration
	loops    []*For
	unproved []Unproved
}

// newVerifier returns a verifier that knows the ranges in dims.
func newVerifier(k *Kernel, dims *sym.Dims) *verifier {
	if dims == nil {
		dims = sym.NewDims()
		for _, name := range k.Dims {
			dims.Set(name, sym.Range{Min: 0, Max: sym.NoMax})
		}
	}
	return &verifier{kernel: k, known: newKnowledge(dims), scope: map[sym.Name]*declared{}, taken: map[sym.Name]bool{}}
}

// fail ends the verification with an error.
func (v *verifier) fail(format string, args ...any) {
	panic(&VerifyError{v.kernel.Name, fmt.Sprintf(format, args...)})
}

// spelled returns a name as errors print it.
func spelled(name sym.Name) string {
	if name.Dimension() || name.Bound() {
		return name.String()
	}
	return name.Text()
}

// percent returns the scope's name of a buffer or a scalar.
func percent(name string) sym.Name { return sym.Hidden(name) }

// declare adds a name to the scope. It fails if the name is taken or of the wrong kind.
func (v *verifier) declare(name sym.Name, d *declared) {
	if name.Text() == "" && !name.Dimension() {
		v.fail("%s without a name", nameKinds[d.kind])
	}
	switch {
	case d.kind == dimName && !name.Dimension():
		v.fail("dimension %s has a name of the wrong kind", name)
	case (d.kind == loopName || d.kind == checkName) && !name.Bound():
		v.fail("%s %s has a name of the wrong kind", nameKinds[d.kind], name)
	}
	if v.taken[name] {
		v.fail("%s is declared twice", spelled(name))
	}
	v.taken[name] = true
	v.scope[name] = d
	v.order = append(v.order, name)
}

// leave removes all but the first count names from the scope.
func (v *verifier) leave(count int) {
	for _, name := range v.order[count:] {
		delete(v.scope, name)
	}
	v.order = v.order[:count]
}

// lookup returns the declaration of a name. It fails if the name is not in scope or of none of these kinds.
func (v *verifier) lookup(name sym.Name, kinds ...nameKind) *declared {
	d := v.scope[name]
	switch {
	case d == nil && v.taken[name]:
		v.fail("%s is used outside its scope", spelled(name))
	case d == nil:
		v.fail("%s is not declared", spelled(name))
	case !slices.Contains(kinds, d.kind):
		v.fail("%s is %s, want %s", spelled(name), nameKinds[d.kind], nameKinds[kinds[0]])
	}
	return d
}

// signature declares the kernel's dimensions and parameters.
func (v *verifier) signature() {
	for _, name := range v.kernel.Dims {
		if _, ok := v.known.dims.Get(name); !ok {
			v.fail("dimension %s has no range", name)
		}
		v.declare(name, &declared{kind: dimName})
	}
	for _, p := range v.kernel.Params {
		v.buffer(p.Name, p.DType, p.Shape, declared{mode: p.Access})
		if p.Strides != nil {
			if len(p.Strides) != len(p.Shape) {
				v.fail("%%%s has %d strides for %d axes", p.Name, len(p.Strides), len(p.Shape))
			}
			v.integers(p.Strides, dimName)
		}
	}
	v.integers(v.kernel.Meaning.integers(), dimName)
}

// buffer declares a parameter or a local.
func (v *verifier) buffer(name string, dt dtype.DType, shape []sym.Expr, d declared) {
	if !Scalar(dt) {
		v.fail("%%%s: a kernel has no values of type %s", name, dt)
	}
	if d.mode > Work {
		v.fail("%%%s: access %d does not exist", name, d.mode)
	}
	v.integers(shape, dimName)
	d.kind, d.dt, d.shape = bufferName, dt, shape
	v.declare(percent(name), &d)
}

// integers checks that the names in symbolic integers are in scope and of the given kinds (none given: any integer).
func (v *verifier) integers(list []sym.Expr, kinds ...nameKind) {
	if kinds == nil {
		kinds = []nameKind{loopName, dimName, checkName}
	}
	for _, e := range list {
		for _, name := range e.Vars() {
			v.lookup(name, kinds...)
		}
	}
}

// body checks a list of statements in a scope of its own.
func (v *verifier) body(body []Stmt) {
	outer, mark := len(v.order), v.known.mark()
	for _, s := range body {
		v.statement(s)
	}
	v.known.reset(mark)
	v.leave(outer)
}

// statement checks a statement and the statements inside it.
func (v *verifier) statement(s Stmt) {
	switch s := s.(type) {
	case *For:
		v.loop(s)
	case *Let:
		dt := v.value(s.X)
		v.declare(percent(s.Name), &declared{kind: letName, dt: dt, let: s.X})
	case *Var:
		dt := v.value(s.X)
		v.declare(percent(s.Name), &declared{kind: varName, dt: dt})
	case *Set:
		v.assign(s.Name, s.X)
	case *Reduce:
		v.assign(s.Name, s.X)
		if dt := s.X.DType(); !s.Op.Accepts(dt) || s.Op.Test() {
			v.fail("%%%s: %s does not reduce values of type %s", s.Name, s.Op, dt)
		}
	case *Check:
		v.check(s)
	case *Store:
		v.store(s)
	case *When:
		if dt := v.value(s.Cond); dt != dtype.Bool {
			v.fail("a when of type %s, want bool", dt)
		}
		v.assuming(s.Cond, true, func() { v.body(s.Then) })
		v.assuming(s.Cond, false, func() { v.body(s.Else) })
	case *Local:
		if s.Space > Shared || s.Space == Shared && !v.inBlock() {
			v.fail("%%%s is shared outside a block", s.Name)
		}
		v.buffer(s.Name, s.DType, s.Shape, declared{mode: Update})
	case *Contract:
		v.contract(s)
	case nil:
		v.fail("a statement is missing")
	default:
		v.fail("a statement of type %T is not known", s)
	}
}

// inBlock reports whether an enclosing loop is a Block loop.
func (v *verifier) inBlock() bool {
	return slices.ContainsFunc(v.loops, func(l *For) bool { return l.Kind == Block })
}

// loop checks a loop and its body.
func (v *verifier) loop(s *For) {
	if s.Kind > Thread {
		v.fail("loop %s: kind %d does not exist", s.Var, s.Kind)
	}
	v.integers([]sym.Expr{s.Extent})
	outer := len(v.order)
	v.loops = append(v.loops, s)
	v.declare(s.Var, &declared{kind: loopName})
	mark := v.known.mark()
	v.known.loop(s.Var, s.Extent)
	if s.Kind != Serial {
		v.independent(s)
	}
	v.body(s.Body)
	v.known.reset(mark)
	v.loops = v.loops[:len(v.loops)-1]
	v.leave(outer)
}

// assign checks an assignment to a scalar.
func (v *verifier) assign(name string, x Expr) {
	dt := v.value(x)
	if d := v.lookup(percent(name), varName); d.dt != dt {
		v.fail("%%%s is %s and is given %s", name, d.dt, dt)
	}
}

// check checks a Check, and adds its range to the knowledge.
func (v *verifier) check(s *Check) {
	if dt := v.value(s.X); !dt.IsInt() {
		v.fail("check %s of type %s, want an integer", s.Name, dt)
	}
	v.integers([]sym.Expr{s.Min, s.Max})
	v.declare(s.Name, &declared{kind: checkName})
	v.known.between(s.Name, s.Min, s.Max)
}

// store checks a Store.
func (v *verifier) store(s *Store) {
	dt := v.value(s.X)
	d := v.lookup(percent(s.To), bufferName)
	if d.mode == Read {
		v.fail("%%%s is read only and is stored to", s.To)
	}
	if d.dt != dt {
		v.fail("%%%s is %s and %s is stored to it", s.To, d.dt, dt)
	}
	v.mask(s.Mask)
	v.assuming(s.Mask, true, func() { v.access(s, s.To, d, s.Index) })
}

// mask checks a mask, which may be nil.
func (v *verifier) mask(e Expr) {
	if e == nil {
		return
	}
	if dt := v.value(e); dt != dtype.Bool {
		v.fail("a mask of type %s, want bool", dt)
	}
}

// assuming runs check while a condition counts as truth.
func (v *verifier) assuming(cond Expr, truth bool, check func()) {
	mark := v.known.mark()
	if cond != nil {
		v.known.condition(cond, truth, func(name string) Expr {
			if d := v.scope[percent(name)]; d != nil {
				return d.let
			}
			return nil
		})
	}
	check()
	v.known.reset(mark)
}

// access checks one access, of an element.
func (v *verifier) access(of any, name string, d *declared, index []sym.Expr) {
	if len(index) != len(d.shape) {
		v.fail("%%%s has %d axes and is indexed with %d", name, len(d.shape), len(index))
	}
	v.integers(index)
	for axis, at := range index {
		v.inside(of, name, axis, at, at, d.shape[axis])
	}
}

// inside proves 0 ≤ low and high < extent; it fails if that is refuted, and records it if it is unproved.
func (v *verifier) inside(of any, name string, axis int, low, high, extent sym.Expr) {
	below, above := v.known.atLeastZero(low), sym.Yes
	var goals []sym.Expr
	if below != sym.Yes {
		goals = append(goals, low)
	}
	for _, part := range extent.MinArgs() {
		verdict := v.below(high, part)
		if verdict != sym.Yes {
			goals = append(goals, part.Sub(high).Sub(sym.Const(1)))
		}
		if verdict != sym.Yes && above != sym.No {
			above = verdict
		}
	}
	switch {
	case below == sym.No:
		v.fail("%%%s axis %d: index %s is below 0", name, axis, low)
	case above == sym.No:
		v.fail("%%%s axis %d: index %s is not below %s", name, axis, high, extent)
	case below != sym.Yes || above != sym.Yes:
		u := Unproved{Buffer: name, Axis: axis, Index: low, Extent: extent, of: of, goals: goals}
		if below == sym.Yes {
			u.Index = high
		}
		for _, l := range v.loops {
			u.Loops = append(u.Loops, l.Var)
		}
		v.unproved = append(v.unproved, u)
	}
}

// below reports whether e < limit. A min of two is replaced by their mean, an upper bound.
func (v *verifier) below(e, limit sym.Expr) sym.Truth {
	one := sym.Const(1)
	verdict := v.known.atLeastZero(limit.Sub(e).Sub(one))
	if args := e.MinArgs(); verdict == sym.Unknown && len(args) == 2 {
		if v.known.atLeastZero(limit.Add(limit).Sub(one).Sub(args[0]).Sub(args[1])) == sym.Yes {
			return sym.Yes
		}
	}
	return verdict
}

// contract checks a Contract.
func (v *verifier) contract(s *Contract) {
	v.integers([]sym.Expr{s.M, s.N, s.K})
	c := v.tile(s, &s.C, s.M, s.N)
	v.separate(s)
	a, b := v.tile(s, &s.A, s.M, s.K), v.tile(s, &s.B, s.K, s.N)
	if c.mode == Read {
		v.fail("%%%s is read only and is contracted into", s.C.Buffer)
	}
	if c.dt.Bits() < 32 || c.dt.IsComplex() {
		v.fail("%%%s: a contraction does not sum in %s", s.C.Buffer, c.dt)
	}
	for i, d := range []*declared{a, b} {
		if other := []*declared{b, a}[i]; c.dt == dtype.F32 && d.dt.IsInt() && d.dt.Bits() == 8 && other.dt.IsFloat() {
			continue // f32 represents bytes exactly
		}
		if d.dt.IsFloat() != c.dt.IsFloat() || d.dt.IsInt() != c.dt.IsInt() || d.dt.Bits() > c.dt.Bits() {
			v.fail("a contraction of %s and %s does not sum in %s", a.dt, b.dt, c.dt)
		}
	}
}

// separate checks that the elements of a contraction's C are distinct, since code sums them concurrently. They are if
// rows differ in an axis that is the same for all columns, and columns differ in another axis, or the reverse; or if a
// row begins beyond all columns of the previous one.
func (v *verifier) separate(s *Contract) {
	mark := v.known.mark()
	defer v.known.reset(mark)
	v.known.positive(s.M)
	v.known.positive(s.N)
	one := sym.Const(1)
	yes := func(x sym.Expr) bool {
		if n, ok := x.Const(); ok {
			return n >= 0
		}
		return v.known.atLeastZero(x) == sym.Yes
	}
	nonzero := func(x sym.Expr) bool { return yes(x.Sub(one)) || yes(x.Neg().Sub(one)) }
	still := func(x sym.Expr) bool { return x.Equal(sym.Const(0)) }
	some := func(holds func(row, col sym.Expr) bool) bool {
		for axis := range min(len(s.C.Row), len(s.C.Col)) {
			if holds(s.C.Row[axis], s.C.Col[axis]) {
				return true
			}
		}
		return false
	}
	rows := some(func(row, _ sym.Expr) bool { return nonzero(row) }) || yes(one.Sub(s.M))
	cols := some(func(_, col sym.Expr) bool { return nonzero(col) }) || yes(one.Sub(s.N))
	alone := func(row, col sym.Expr) bool { return still(col) && nonzero(row) || still(row) && nonzero(col) }
	beyond := func(row, col sym.Expr) bool {
		return nonzero(col) && yes(row.Sub(col.Mul(s.N))) && yes(col) || nonzero(row) && yes(col.Sub(row.Mul(s.M))) &&
			yes(row)
	}
	if rows && cols && (some(alone) || yes(one.Sub(s.M)) || yes(one.Sub(s.N)) || some(beyond)) {
		return
	}
	v.fail("the elements of %%%s that a contraction sums in are not known to differ: rows %v, columns %v", s.C.Buffer,
		s.C.Row, s.C.Col)
}

// tile checks a tile of a Contract and returns its buffer's declaration.
func (v *verifier) tile(of *Contract, t *Tile, rows, cols sym.Expr) *declared {
	d := v.lookup(percent(t.Buffer), bufferName)
	if len(t.Origin) != len(d.shape) || len(t.Row) != len(d.shape) || len(t.Col) != len(d.shape) {
		v.fail("%%%s has %d axes and is tiled with %d, %d, %d", t.Buffer, len(d.shape), len(t.Origin), len(t.Row), len(t.Col))
	}
	v.integers(t.Origin)
	v.integers(t.Row)
	v.integers(t.Col)
	mark := v.known.mark()
	v.known.positive(rows)
	v.known.positive(cols)
	one := sym.Const(1)
	for axis, at := range t.Origin {
		low, high := at, at
		for _, step := range []struct{ by, count sym.Expr }{{t.Row[axis], rows}, {t.Col[axis], cols}} {
			end := step.by.Mul(step.count.Sub(one))
			switch {
			case v.known.atLeastZero(step.by) == sym.Yes:
				high = high.Add(end)
			case v.known.atLeastZero(step.by.Neg()) == sym.Yes:
				low = low.Add(end)
			default:
				low, high = low.Add(end.Min(sym.Const(0))), high.Add(end.Max(sym.Const(0)))
			}
		}
		v.inside(of, t.Buffer, axis, low, high, d.shape[axis])
	}
	v.known.reset(mark)
	return d
}
