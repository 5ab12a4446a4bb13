package blocks

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/sym"
)

// Some devices have no integers of 64 bits. A kernel for them computes its sizes and offsets in 32 bits. If the ranges
// of the dimensions do not prove that these fit, it is a condition of the program that they do, which a run checks at
// entry. A kernel is refused, so that the host runs it, if an integer has no bound over dimensions, or is too large for
// dimensions of a common size.

// fits reports whether an integer times a number of bytes, and what is computed on the way to it, fit 32 bits with
// their signs. On a device without integers of 64 bits they always do, since the kernel's conditions say so.
func (w *Writer) fits(e sym.Expr, bytes int64) bool {
	if _, size := w.ranges.Of(e); size <= mostNarrow/max(bytes, 1) {
		return true
	}
	if w.int64s() {
		return false
	}
	most, ok := w.magnitude(e)
	if !ok {
		Refuse("%s may not fit the device's integers of 32 bits", e)
	}
	most = most.Mul(sym.Const(max(bytes, 1)))
	if !slices.ContainsFunc(w.narrow, most.Equal) {
		w.narrow = append(w.narrow, most)
	}
	return true
}

// magnitude returns a bound, over dimensions only, of the magnitude of an integer and of what is computed on the way to
// it. ok is false if it finds none.
func (w *Writer) magnitude(e sym.Expr) (most sym.Expr, ok bool) {
	constant, terms := e.Terms()
	if constant == math.MinInt64 {
		return e, false
	}
	most = sym.Const(max(constant, -constant))
	for _, t := range terms {
		if t.Coef == math.MinInt64 {
			return e, false
		}
		product := sym.Const(max(t.Coef, -t.Coef))
		for _, f := range t.Factors {
			x, ok := w.magnitudeOf(f)
			if !ok {
				return e, false
			}
			product = product.Mul(x)
		}
		most = most.Add(product)
	}
	return most, true
}

// magnitudeOf is magnitude for a factor.
func (w *Writer) magnitudeOf(f sym.Factor) (sym.Expr, bool) {
	if f.Kind == sym.Variable {
		low, _ := w.ranges.Of(sym.Var(f.Name))
		most, ok := w.extremeName(f.Name, true)
		return most.Max(sym.Const(0)), ok && low.Min >= 0
	}
	args := make([]sym.Expr, len(f.Args))
	for i, arg := range f.Args {
		x, ok := w.magnitude(arg)
		if !ok {
			return x, false
		}
		args[i] = x
	}
	most := args[0]
	for _, x := range args[1:] {
		switch f.Kind {
		case sym.FactorProduct:
			most = most.Mul(x)
		case sym.FactorSum:
			most = most.Add(x)
		default: // a quotient is not larger than the dividend, and a remainder not larger than the divisor
			most = most.Max(x)
		}
	}
	return most, true
}

// conditions returns the conditions that the kernel's integers fit 32 bits: those that no other implies. It refuses a
// kernel whose integers do not fit for dimensions of a common size.
func (w *Writer) conditions() (list []sym.Cond) {
	common := w.commonDims()
	for i, most := range w.narrow {
		n, err := most.Eval(func(name sym.Name) (int64, bool) {
			at := slices.Index(w.kernel.Dims, name)
			return common[max(at, 0)], at >= 0
		})
		if err != nil || n > mostNarrow {
			Refuse("%s may not fit the device's integers of 32 bits", most)
		}
		if !slices.ContainsFunc(w.narrow[i+1:], func(x sym.Expr) bool { return w.dims.LE(most, x) == sym.Yes }) &&
			!slices.ContainsFunc(list, func(c sym.Cond) bool { return w.dims.LE(most, c.A) == sym.Yes }) {
			list = append(list, sym.Cond{A: most, Rel: sym.LE, B: sym.Const(mostNarrow)})
		}
	}
	return list
}
