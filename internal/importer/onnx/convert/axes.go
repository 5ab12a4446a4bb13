package convert

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// Natural are extents of which the prover cannot see that they are not negative, as extents that it can; and each stays
// a whole when they are multiplied.
func Natural(extents []sym.Expr) []sym.Expr {
	out := make([]sym.Expr, len(extents))
	for i, e := range extents {
		out[i] = e.Max(sym.Const(0))
	}
	return out
}

// Argument is the graph's input whose elements, as many as are known, a value has in order: itself, or what it is
// another form of. nil if there is none.
func (c *Call) Argument(v *ir.Value) *ir.Value {
	for v.Node != nil && (v.Node.Op.Name() == "reshape" || v.Node.Op.Name() == "cast") && v.Type.DType.IsInt() {
		v = v.Node.Inputs[0]
	}
	if _, known := Count(v.Type.Shape).Const(); known && v.Type.DType.IsInt() && slices.Contains(c.Module.Main.Body.Params,
		v) {
		return v
	}
	return nil
}

// SymbolsOf is the elements of an integer value as symbolic integers within [lo, hi]: known ones, dimensions that the
// caller's argument gives, or such that the run binds.
func (c *Call) SymbolsOf(v *ir.Value, lo int64, hi sym.Expr) []sym.Expr {
	from, argument := v, c.Argument(v)
	if v.Known == nil && argument != nil {
		from = argument
	}
	out, err := c.ElementsWithin(from, c.String(), lo, hi)
	if err != nil {
		if e := diag.As(err, diag.ErrUnsupported); e != nil {
			c.Fail(e.AtNode(c.Source, c.Node.OpType))
		}
		c.Fail(err)
	}
	v.Known = out
	if argument != nil {
		// It may have a wider range, from another use or because the bound is no number.
		for _, e := range out {
			if lo > math.MinInt64 {
				c.Condition(sym.Cond{A: sym.Const(lo), B: e}, "an element of "+argument.Name+" is in range")
			}
			if !sym.IsUnlimited(hi) {
				c.Condition(sym.Cond{A: e, B: hi}, "an element of "+argument.Name+" is in range")
			}
		}
	}
	return out
}

// AsDims makes formulas that are not plain dimensions of their own, which the run binds: what is computed with them is
// as simple as if they were the model's. None is below lo. One that the run knows when it begins is its own limit, so
// that sizes stay exact.
func (c *Call) AsDims(lo int64, list ...sym.Expr) []sym.Expr {
	out := slices.Clone(list)
	var intricate []sym.Expr
	var at []int
	for i, e := range list {
		if e = c.Dims().Simplify(e); plain(e) && !c.ofData(e) {
			out[i] = e
			continue
		}
		intricate, at = append(intricate, e), append(at, i)
	}
	if intricate == nil {
		return out
	}
	v := c.Integers(intricate...)
	v.Known, v.Bound = make([]sym.Expr, len(intricate)), true
	for k, e := range intricate {
		limit := e
		low, high := c.Dims().Bounds(e)
		if c.ofData(e) {
			limit = sym.Const(high)
		}
		v.Known[k] = c.Fresh(c.Source+".extent", "an extent that "+c.String()+" computes", max(lo, low), limit)
		out[at[k]] = v.Known[k]
	}
	return out
}

// mostPlain is the most factors of a formula that stays as it is: of sums, quotients and remainders of a dimension or
// two.
const mostPlain = 8

// plain reports whether a formula is a number, or short and without minima and maxima, so that what is computed with it
// stays simple.
func plain(e sym.Expr) bool {
	left := mostPlain
	var short func(e sym.Expr) bool
	short = func(e sym.Expr) bool {
		_, terms := e.Terms()
		for _, t := range terms {
			for _, f := range t.Factors {
				switch left--; f.Kind {
				case sym.Variable, sym.FloorQuotient, sym.CeilQuotient, sym.Remainder:
				default:
					return false
				}
				if left < 0 || slices.ContainsFunc(f.Args, func(x sym.Expr) bool { return !short(x) }) {
					return false
				}
			}
		}
		return true
	}
	return short(e)
}

// ofData reports whether data decide a dimension of a formula.
func (c *Call) ofData(e sym.Expr) bool {
	return slices.ContainsFunc(e.Vars(), func(name sym.Name) bool { _, data := c.Module.Limits[name]; return data })
}

// within states that a symbolic integer lies between two numbers.
func (c *Call) within(e sym.Expr, lo, hi int64, why string) {
	c.Condition(sym.Cond{A: sym.Const(lo), B: e}, why)
	c.Condition(sym.Cond{A: e, B: sym.Const(hi)}, why)
}

// Axes are the elements of input i, each an axis of a tensor of the given rank that may count from the end, no two the
// same: numbers, or symbolic integers.
func (c *Call) Axes(i, rank int) []sym.Expr {
	v := c.Input(i)
	if len(v.Type.Shape) > 1 {
		c.Fault("the axes are %s, they must be a vector", v.Type)
	}
	if IsKnown(v) {
		given := c.Numbers(i)
		c.Marked(given, rank)
		out := make([]sym.Expr, len(given))
		for k, a := range given {
			out[k] = sym.Const(c.Axis(a, rank))
		}
		return out
	}
	if size, ok := Count(v.Type.Shape).Const(); !ok {
		c.Refuse("%s, whose number is known only when the model runs, decides the rank of a result", v.Name)
	} else if size > int64(rank) {
		c.Fault("%d axes of a tensor of rank %d", size, rank)
	}
	list := append([]sym.Expr{}, c.Symbols(i, -int64(rank), int64(rank)-1)...)
	for k, a := range list {
		c.within(a, -int64(rank), int64(rank)-1, "an axis is one of the tensor's")
		list[k] = c.FromEnd(a, sym.Const(int64(rank)))
		for _, other := range list[:k] {
			c.Condition(sym.Cond{A: list[k], Rel: sym.NE, B: other}, "no axis is named twice")
		}
	}
	return list
}

// Is is 1 if a symbolic integer has a value, else 0.
func Is(a sym.Expr, value int) sym.Expr {
	above := a.Sub(sym.Const(int64(value)))
	return sym.Const(1).Sub(above).Min(sym.Const(1).Add(above)).Max(sym.Const(0))
}
