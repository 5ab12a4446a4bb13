package convert

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// Natural replaces extents that the prover cannot show to be at least 0 by equal extents that it can. Each of them is a
// single factor of a product.
func Natural(extents []sym.Expr) []sym.Expr {
	out := make([]sym.Expr, len(extents))
	for i, e := range extents {
		out[i] = e.Max(sym.Const(0))
	}
	return out
}

// Argument returns the graph's integer input of known shape that has the elements of v, in order: v itself, or the
// value that v reshapes or widens; nil if v is computed otherwise.
func (c *Call) Argument(v *ir.Value) *ir.Value {
	for v.Node != nil && (v.Node.Op.Name() == "reshape" || v.Node.Op.Name() == "cast" && widens(v.Node)) {
		v = v.Node.Inputs[0]
	}
	if _, known := Count(v.Type.Shape).Const(); known && v.Type.DType.IsInt() && slices.Contains(c.Module.Main.Body.Params,
		v) {
		return v
	}
	return nil
}

// widens reports whether a cast keeps every integer.
func widens(n *ir.Node) bool {
	from, to := n.Inputs[0].Type.DType, n.Attrs.DType("to")
	return from.IsInt() && to.IsInt() && to.MinInt() <= from.MinInt() && to.MaxInt() >= from.MaxInt()
}

// SymbolsOf returns the elements of an integer value as symbolic integers within [lo, hi]: known ones, dimensions that
// the caller's argument gives, or dimensions that the run binds.
func (c *Call) SymbolsOf(v *ir.Value, lo int64, hi sym.Expr) []sym.Expr {
	argument := c.Argument(v)
	out := c.KnownOf(v)
	if out == nil {
		from := v
		if argument != nil {
			from = argument
		}
		var err error
		if out, err = c.ElementsWithin(from, c.String(), lo, hi); err != nil {
			if e := diag.As(err, diag.ErrUnsupported); e != nil {
				c.Fail(e.AtNode(c.Source, c.Node.OpType))
			}
			c.Fail(err)
		}
		v.Known = out
	}
	if argument != nil {
		// The argument may have a wider range, from another use or because the bound is not a number.
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

// AsDims replaces formulas that are not simple by new dimensions that the run binds, so that expressions of them stay
// as short as those of the model's dimensions. Each is at least lo, and at most the formula itself if the run knows it
// at the start, so that sizes stay tight.
func (c *Call) AsDims(lo int64, list ...sym.Expr) []sym.Expr {
	out := slices.Clone(list)
	var intricate []sym.Expr
	var at []int
	for i, e := range list {
		if e = c.Dims().Simplify(e); isSimple(e) && !c.ofData(e) {
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

// longestFormula is the largest number of factors of a formula that AsDims keeps: sums, quotients and remainders of a
// dimension or two.
const longestFormula = 8

// isSimple reports whether a formula is a number, or short and without minima and maxima.
func isSimple(e sym.Expr) bool {
	left := longestFormula
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

// ofData reports whether a formula has a dimension that data decide.
func (c *Call) ofData(e sym.Expr) bool {
	return slices.ContainsFunc(e.Vars(), func(name sym.Name) bool { _, data := c.Module.Limits[name]; return data })
}

// within requires a symbolic integer to lie in [lo, hi].
func (c *Call) within(e sym.Expr, lo, hi int64, why string) {
	c.Condition(sym.Cond{A: sym.Const(lo), B: e}, why)
	c.Condition(sym.Cond{A: e, B: sym.Const(hi)}, why)
}

// Axes returns the elements of input i: distinct axes of a tensor of the given rank, as numbers or symbolic integers.
// They may count from the end.
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

// Is returns 1 if a symbolic integer has the value, else 0.
func Is(a sym.Expr, value int) sym.Expr {
	above := a.Sub(sym.Const(int64(value)))
	return sym.Const(1).Sub(above).Min(sym.Const(1).Add(above)).Max(sym.Const(0))
}
