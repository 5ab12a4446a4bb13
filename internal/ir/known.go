package ir

import (
	"math"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
)

// Elements of integer tensors are known as expressions, which are integers of any size, while the tensors' elements
// wrap. Value.Known has the elements only if none of them, nor any on the way to them, can leave its type. Elements
// that do so only for unusually large dimensions are kept beside the values: a shape may depend on them, if the module
// requires that they fit.

// largestUsual is the largest usual value of a dimension without an upper end, by the width of the type in which its
// arithmetic is done: elements that leave the type for smaller values are forgotten. Narrower types are for data.
var largestUsual = map[dtype.DType]int64{dtype.I64: 1 << 20, dtype.I32: 1 << 10, dtype.U32: 1 << 10,
	dtype.Bool: 1 << 20}

// halfExtent is half of the largest dimension for which what is known of i64 is certain. Products of two dimensions of
// 2^31 fit 64 bits, while Measure counts to 2^61: doubling each dimension multiplies such a product by four.
const halfExtent = 1 << 30

// Knows returns the elements of an integer value or a bool; nil if they are not known. If certain is false, they are
// its elements in the runs in which no arithmetic on the way to them wraps; see Settle.
func (c *Inference) Knows(v *Value) (elements []sym.Expr, certain bool) {
	if v.Known != nil {
		return v.Known, true
	}
	return c.meant[v], false
}

// Keep records the elements that a shape rule moved or chose from elements that are certain or not.
func (c *Inference) Keep(v *Value, elements []sym.Expr, certain bool) {
	switch {
	case elements == nil:
	case certain:
		v.Known = elements
	default:
		if c.meant == nil {
			c.meant = map[*Value][]sym.Expr{}
		}
		c.meant[v] = elements
	}
}

// Learn is Keep for elements that arithmetic computed: elements that may leave the value's type are forgotten, or not
// certain. Numbers must have been wrapped to the type.
func (c *Inference) Learn(v *Value, elements []sym.Expr, certain bool) {
	for _, e := range elements {
		if c.fits(v.Type.DType, e, certainly(v.Type.DType)) {
			continue
		}
		usual, ok := largestUsual[v.Type.DType]
		if !ok || !c.fits(v.Type.DType, e, usual) {
			return
		}
		certain = false
	}
	c.Keep(v, elements, certain)
}

// certainly returns the largest dimension for which elements of a type must fit to be certain.
func certainly(dt dtype.DType) int64 {
	if dt == dtype.I64 || dt == dtype.Bool {
		return halfExtent
	}
	return sym.NoMax
}

// fits reports whether an element fits a type, and code computes it exactly, for dimensions of at most most.
func (c *Inference) fits(dt dtype.DType, e sym.Expr, most int64) bool {
	if v, number := e.Const(); number {
		return dt == dtype.Bool && (v == 0 || v == 1) || dt == dtype.I64 || dt == dtype.U64 && v >= 0 ||
			dt.IsInt() && v >= dt.MinInt() && (v < 0 || uint64(v) <= dt.MaxInt())
	}
	if dt == dtype.U64 {
		return false
	}
	m := sym.NewMeasure()
	for _, name := range e.Vars() {
		r, ok := c.Dims().Get(name)
		if !ok {
			continue
		}
		if r.Min >= 0 {
			r.Max = max(r.Min, min(r.Max, most))
		}
		m.Set(name, r)
	}
	value, size := m.Of(e)
	if size == math.MaxInt64 || value.Min == math.MinInt64 || value.Max == math.MaxInt64 {
		return false
	}
	return dt == dtype.Bool || value.Min >= dt.MinInt() && (value.Max < 0 || uint64(value.Max) <= dt.MaxInt())
}

// Settle returns the elements of v for a shape; nil if they are not known. If they are not certain, it first passes to
// require the conditions that the elements on the way to them fit their types; it returns nil if a condition cannot
// hold. A shape whose computation leaves 64 bits cannot be evaluated, and needs no condition.
func (c *Inference) Settle(v *Value, require func(cond sym.Cond, why string) error) []sym.Expr {
	if v.Known != nil || c.meant[v] == nil {
		return v.Known
	}
	for _, cond := range c.within(v, map[*Value]bool{}) {
		if c.Dims().Prove(cond) == sym.No || require(cond, "an integer of a shape fits its type") != nil {
			return nil
		}
	}
	return c.meant[v]
}

// within returns the conditions that the uncertain elements of v and of the values before it fit their types.
func (c *Inference) within(v *Value, seen map[*Value]bool) (list []sym.Cond) {
	if seen[v] || c.meant[v] == nil {
		return nil
	}
	seen[v] = true
	if v.Node != nil {
		for _, x := range v.Node.Inputs {
			if x != nil {
				list = append(list, c.within(x, seen)...)
			}
		}
	}
	dt := v.Type.DType
	for _, e := range c.meant[v] {
		if dt != dtype.I64 && dt != dtype.Bool && !c.fits(dt, e, certainly(dt)) {
			list = append(list, sym.Cond{A: sym.Const(dt.MinInt()), B: e},
				sym.Cond{A: e, B: sym.Const(int64(dt.MaxInt()))})
		}
	}
	return list
}
