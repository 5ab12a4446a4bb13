package loop

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
)

// value checks an expression and returns its type.
func (v *verifier) value(e Expr) dtype.DType {
	switch e := e.(type) {
	case *Const:
		if !Scalar(e.Type) || e.Type.Bits() < 64 && e.Bits>>e.Type.Bits() != 0 || e.Type == dtype.Bool && e.Bits > 1 {
			v.fail("a constant of type %s with bits %#x", e.Type, e.Bits)
		}
	case *Ref:
		if d := v.lookup(percent(e.Name), letName, varName); d.dt != e.Type {
			v.fail("%%%s is %s and is used as %s", e.Name, d.dt, e.Type)
		}
	case *Index:
		v.integers([]sym.Expr{e.X})
	case *Load:
		v.load(e)
	case *Unary:
		if dt := v.value(e.X); !e.Op.Accepts(dt) {
			v.fail("%s of a value of type %s", e.Op, dt)
		}
	case *Binary:
		x, y := v.value(e.X), v.value(e.Y)
		if x != y {
			v.fail("%s of %s and %s", e.Op, x, y)
		}
		if !e.Op.Accepts(x) {
			v.fail("%s of values of type %s", e.Op, x)
		}
	case *Select:
		cond, x, y := v.value(e.Cond), v.value(e.X), v.value(e.Y)
		if cond != dtype.Bool || x != y {
			v.fail("a select by %s of %s and %s", cond, x, y)
		}
	case *Cast:
		if from := v.value(e.X); !Scalar(e.Type) || from.IsComplex() != e.Type.IsComplex() {
			v.fail("a cast from %s to %s", from, e.Type)
		}
	case nil:
		v.fail("an expression is missing")
	default:
		v.fail("an expression of type %T is not known", e)
	}
	return e.DType()
}

// load checks a Load.
func (v *verifier) load(e *Load) {
	d := v.lookup(percent(e.From), bufferName)
	if d.dt != e.Type {
		v.fail("%%%s is %s and is loaded as %s", e.From, d.dt, e.Type)
	}
	if (e.Mask == nil) != (e.Else == nil) {
		v.fail("a load of %%%s has only one of a mask and a value for a mask that does not hold", e.From)
	}
	if e.Mask != nil {
		v.mask(e.Mask)
		if dt := v.value(e.Else); dt != e.Type {
			v.fail("a load of %%%s is %s if its mask holds and %s if not", e.From, e.Type, dt)
		}
	}
	v.assuming(e.Mask, true, func() { v.access(e, e.From, d, e.Index) })
}

// associative are the functions that may combine the lanes of a vector loop.
var associative = []BinaryOp{Add, Mul, Min, Max, And, Or, Xor}

// independent checks visible conditions for the independence of a loop's iterations: scalars of outer scopes are not
// set (a vector loop may reduce into them); buffers of outer scopes are stored to at indices that depend on the
// variable, and a buffer that is stored to is read only at such indices. In a vector loop, branches and inner extents
// must not depend on the lane. A loop with at most one iteration, or one that is never reached, is independent.
func (v *verifier) independent(s *For) {
	if _, most := v.known.dims.Bounds(s.Extent); most <= 1 {
		return
	}
	c := independence{verifier: v, loop: s, varies: map[sym.Name]bool{s.Var: true}, inside: map[string]bool{},
		stored: map[string]bool{}, reduced: map[string]bool{}}
	Walk(s.Body, c.declarations)
	c.spread()
	Walk(s.Body, c.statement)
}

type independence struct {
	*verifier
	loop    *For
	varies  map[sym.Name]bool // names whose values depend on the loop variable
	inside  map[string]bool   // names of scalars and buffers that the body declares
	stored  map[string]bool
	reduced map[string]bool
}

// declarations records what a statement declares, reduces or stores to.
func (c *independence) declarations(s Stmt) bool {
	switch s := s.(type) {
	case *Let:
		c.inside[s.Name] = true
	case *Var:
		c.inside[s.Name] = true
	case *Local:
		c.inside[s.Name] = true
	case *Reduce:
		c.reduced[s.Name] = true
	case *Store:
		c.stored[s.To] = true
	case *Contract:
		c.stored[s.C.Buffer] = true
	}
	return true
}

// spreadPasses bounds the time for any text: a pass settles all but chains of assignments against the printed order.
const spreadPasses = 64

// spread finds the names that vary, to a fixed point, since a Var may be set after it is used.
func (c *independence) spread() {
	passes := 0
	for before := -1; before != len(c.varies); {
		before = len(c.varies)
		if passes++; passes > spreadPasses {
			c.fail("the values in loop %s depend on one another through too many assignments", c.loop.Var)
		}
		Walk(c.loop.Body, func(s Stmt) bool {
			name := sym.Name{}
			switch s := s.(type) {
			case *Let:
				name = percent(s.Name)
			case *Var:
				name = percent(s.Name)
			case *Set:
				name = percent(s.Name)
			case *Reduce:
				name = percent(s.Name)
			case *Check:
				name = s.Name
			case *For:
				if c.integerVaries(s.Extent) {
					c.varies[s.Var] = true
				}
				return true
			}
			if name.None() || c.varies[name] {
				return true
			}
			values, n := values(s)
			if slices.ContainsFunc(values[:n], c.valueVaries) {
				c.varies[name] = true
			}
			return true
		})
	}
}

// integerVaries reports whether a symbolic integer depends on the loop variable.
func (c *independence) integerVaries(e sym.Expr) bool {
	return slices.ContainsFunc(e.Vars(), func(name sym.Name) bool { return c.varies[name] })
}

// valueVaries reports whether an expression depends on the loop variable.
func (c *independence) valueVaries(e Expr) bool {
	switch e := e.(type) {
	case *Ref:
		if c.varies[percent(e.Name)] {
			return true
		}
	case *Index:
		if c.integerVaries(e.X) {
			return true
		}
	case *Load:
		if c.inside[e.From] || c.stored[e.From] || slices.ContainsFunc(e.Index, c.integerVaries) {
			return true
		}
	}
	inside, n := operands(e)
	return slices.ContainsFunc(inside[:n], c.valueVaries)
}

// statement checks a statement of the loop's body.
func (c *independence) statement(s Stmt) bool {
	vector := c.loop.Kind == Vector
	switch s := s.(type) {
	case *Set:
		if !c.inside[s.Name] {
			c.fail("%%%s is set in loop %s, whose iterations are independent", s.Name, c.loop.Var)
		}
	case *Reduce:
		if !c.inside[s.Name] && !(vector && slices.Contains(associative, s.Op)) {
			c.fail("%%%s is reduced in loop %s, whose iterations are independent", s.Name, c.loop.Var)
		}
	case *For:
		if _, most := c.known.dims.Bounds(s.Extent); most <= 0 {
			return false // its body never runs
		}
		if vector && c.integerVaries(s.Extent) {
			c.fail("the extent of loop %s depends on the lane of vector loop %s", s.Var, c.loop.Var)
		}
	case *When:
		if vector && c.valueVaries(s.Cond) {
			c.fail("a when inside vector loop %s depends on its lane", c.loop.Var)
		}
	case *Store:
		c.access(s.To, s.Index, s.Mask, true)
	case *Contract:
		c.access(s.C.Buffer, s.C.Origin, nil, true)
		c.access(s.A.Buffer, s.A.Origin, nil, false)
		c.access(s.B.Buffer, s.B.Origin, nil, false)
	}
	values, n := values(s)
	for _, e := range values[:n] {
		WalkExpr(e, c.read)
	}
	return true
}

// read checks an expression that reads a scalar or a buffer.
func (c *independence) read(e Expr) {
	switch e := e.(type) {
	case *Ref:
		if c.reduced[e.Name] && !c.inside[e.Name] {
			c.fail("%%%s is reduced by the lanes of vector loop %s and read inside it", e.Name, c.loop.Var)
		}
	case *Load:
		c.access(e.From, e.Index, e.Mask, false)
	}
}

// access checks one access to a buffer of an outer scope that the loop writes.
func (c *independence) access(name string, index []sym.Expr, mask Expr, writing bool) {
	if c.inside[name] || !c.stored[name] {
		return
	}
	depends := slices.ContainsFunc(index, func(e sym.Expr) bool { return slices.Contains(e.Vars(), c.loop.Var) })
	if depends || mask != nil && c.valueVaries(mask) {
		return
	}
	if c.known.atLeastZero(sym.Const(1).Sub(c.loop.Extent)) == sym.Yes {
		return
	}
	what := "read"
	if writing {
		what = "written"
	}
	c.fail("%%%s is %s at %v in every iteration of loop %s, whose iterations are independent", name, what, index,
		c.loop.Var)
}
