package ops

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// known applies an integer function to elements that are known, so that shape arithmetic stays known.
func known(c *ir.Inference, v *ir.Value, f loop.UnaryOp, x *ir.Value) {
	elements, certain := c.Knows(x)
	if elements == nil || !x.Type.DType.IsInt() && x.Type.DType != dtype.Bool || v.Type.DType.IsFloat() {
		return
	}
	known := make([]sym.Expr, len(elements))
	for i, e := range elements {
		number, fixed := e.Const()
		switch {
		case fixed && f.Accepts(x.Type.DType):
			known[i] = element(v.Type.DType, loop.EvalUnary(f, x.Type.DType, loop.FromInt(x.Type.DType, number)))
		case f == loop.Neg:
			known[i] = e.Neg()
		case f == loop.Not && x.Type.DType == dtype.Bool:
			known[i] = one.Sub(e)
		default:
			return
		}
	}
	c.Learn(v, known, certain)
}

// element returns the element of type dt with the given bits.
func element(dt dtype.DType, bits uint64) sym.Expr { return sym.Const(loop.ToInt(dt, bits)) }

// knownBinary holds the integer functions that have a symbolic counterpart.
var knownBinary = map[loop.BinaryOp]func(d *sym.Dims, x, y sym.Expr) (sym.Expr, bool){
	loop.Add: func(_ *sym.Dims, x, y sym.Expr) (sym.Expr, bool) { return x.Add(y), true },
	loop.Sub: func(_ *sym.Dims, x, y sym.Expr) (sym.Expr, bool) { return x.Sub(y), true },
	loop.Mul: func(_ *sym.Dims, x, y sym.Expr) (sym.Expr, bool) { return x.Mul(y), true },
	loop.Min: func(d *sym.Dims, x, y sym.Expr) (sym.Expr, bool) {
		if low, _, ok := ranked(d, x, y); ok {
			return low, true
		}
		return x.Min(y), true
	},
	loop.Max: func(d *sym.Dims, x, y sym.Expr) (sym.Expr, bool) {
		if _, high, ok := ranked(d, x, y); ok {
			return high, true
		}
		return x.Max(y), true
	},
	loop.Div: byDivisor(func(d *sym.Dims, x, y sym.Expr) sym.Expr {
		if d.LE(sym.Const(0), x) == sym.Yes {
			return x.FloorDiv(y)
		}
		// Round toward zero for positive and negative x.
		over, under := x.Max(sym.Const(0)), x.Neg().Max(sym.Const(0))
		return d.Simplify(over.FloorDiv(y).Sub(under.FloorDiv(y)))
	}),
	loop.FloorMod: byDivisor(func(_ *sym.Dims, x, y sym.Expr) sym.Expr { return x.Mod(y) }),
	loop.Eq:       truth((*sym.Dims).EQ, func(x, y sym.Expr) sym.Expr { return one.Sub(x.Sub(y).Max(y.Sub(x)).Min(one)) }),
	loop.Lt:       truth((*sym.Dims).LT, below),
	loop.Le:       truth((*sym.Dims).LE, func(x, y sym.Expr) sym.Expr { return one.Sub(below(y, x)) }),
	loop.Gt: truth(func(d *sym.Dims, x, y sym.Expr) sym.Truth {
		return d.LT(y, x)
	}, func(x, y sym.Expr) sym.Expr { return below(y, x) }),
	loop.Ge: truth(func(d *sym.Dims, x, y sym.Expr) sym.Truth {
		return d.LE(y, x)
	}, func(x, y sym.Expr) sym.Expr { return one.Sub(below(x, y)) }),
	loop.And: func(_ *sym.Dims, x, y sym.Expr) (sym.Expr, bool) { return x.Mul(y), true }, // of bools
	loop.Or:  func(_ *sym.Dims, x, y sym.Expr) (sym.Expr, bool) { return x.Max(y), true },
}

// byDivisor returns a division by an integer that is never negative. Division by 0 yields 0, as Div and FloorMod do.
func byDivisor(divide func(d *sym.Dims, x, y sym.Expr) sym.Expr) func(d *sym.Dims, x, y sym.Expr) (sym.Expr, bool) {
	return func(d *sym.Dims, x, y sym.Expr) (sym.Expr, bool) {
		if d.LE(one, y) == sym.Yes {
			return divide(d, x, y), true
		}
		quotient := divide(d, x, y.Max(one))
		if x.Equal(y) {
			quotient = divide(d, one, one)
		}
		return d.Simplify(quotient.Mul(y.Min(one))), d.LE(sym.Const(0), y) == sym.Yes
	}
}

// below returns 1 if x < y and 0 otherwise.
func below(x, y sym.Expr) sym.Expr { return y.Sub(x).Max(sym.Const(0)).Min(one) }

// truth returns a comparison: a constant if prove decides it for every value, else the integer of decide, 1 if the
// comparison is true and 0 if not.
func truth(prove func(d *sym.Dims, x, y sym.Expr) sym.Truth, decide func(x, y sym.Expr) sym.Expr) func(d *sym.Dims, x,
	y sym.Expr) (sym.Expr, bool) {
	return func(d *sym.Dims, x, y sym.Expr) (sym.Expr, bool) {
		switch prove(d, x, y) {
		case sym.Yes:
			return one, true
		case sym.No:
			return sym.Const(0), true
		}
		return decide(x, y), true
	}
}

// ranked returns the lesser and the greater of x and y, if one of them is a number; ok is false if they are not known.
func ranked(d *sym.Dims, x, y sym.Expr) (low, high sym.Expr, ok bool) {
	_, a := x.Const()
	_, b := y.Const()
	switch {
	case !a && !b:
	case d.LE(x, y) == sym.Yes:
		return x, y, true
	case d.LE(y, x) == sym.Yes:
		return y, x, true
	}
	return x, y, false
}

// combine applies an integer function to two elements of type dt; out is the type of the result. Numbers wrap as in a
// run. ok is false if the result is not known.
func combine(c *ir.Inference, f loop.BinaryOp, dt, out dtype.DType, x, y sym.Expr) (e sym.Expr, ok bool) {
	x, y = settledExtent(c.Dims(), x), settledExtent(c.Dims(), y)
	a, fixedA := x.Const()
	b, fixedB := y.Const()
	if fixedA && fixedB {
		if !f.Accepts(dt) {
			return sym.Expr{}, false
		}
		return element(out, loop.EvalBinary(f, dt, loop.FromInt(dt, a), loop.FromInt(dt, b))), true
	}
	apply, ok := knownBinary[f]
	if !ok || (f == loop.And || f == loop.Or) && dt != dtype.Bool {
		return sym.Expr{}, false
	}
	return apply(c.Dims(), x, y)
}

// known2 applies an integer function to two operands whose elements are known.
func known2(c *ir.Inference, v *ir.Value, f loop.BinaryOp, a, b *ir.Value) {
	dt := a.Type.DType
	if !dt.IsInt() && dt != dtype.Bool {
		return
	}
	knownA, certainA := c.Knows(a)
	knownB, certainB := c.Knows(b)
	if dt == dtype.Bool && (f == loop.And || f == loop.Or) {
		decides := int64(0)
		if f == loop.Or {
			decides = 1
		}
		for _, x := range []*ir.Value{a, b} { // one operand may decide the result
			if allAre(x.Known, decides) {
				knownAs(v, sym.Const(decides))
				return
			}
		}
	}
	if knownA == nil || knownB == nil {
		return
	}
	shape, okShape := constants(v.Type.Shape)
	sa, okA := constants(a.Type.Shape)
	sb, okB := constants(b.Type.Shape)
	if count, err := tensor.Count(shape); !okShape || !okA || !okB || err != nil || count > ir.MaxKnown {
		return
	}
	out, ok := []sym.Expr{}, true
	tensor.Each(shape, func(at []int64) {
		if ok {
			var e sym.Expr
			e, ok = combine(c, f, dt, v.Type.DType, knownA[broadcastFlat(at, sa)], knownB[broadcastFlat(at, sb)])
			out = append(out, e)
		}
	})
	if ok && (!f.Test() || fewChoices(out)) {
		c.Learn(v, out, certainA && certainB)
	}
}

// mostChoices is the largest number of elements of a comparison that stay known if dimensions decide it: expressions
// that depend on the comparison grow.
const mostChoices = 16

// fewChoices reports whether the elements of a comparison are few, or all of them numbers.
func fewChoices(known []sym.Expr) bool {
	_, numbers := constants(known)
	return numbers || len(known) <= mostChoices
}

// allAre reports whether elements are known and all equal x.
func allAre(known []sym.Expr, x int64) bool {
	values, ok := constants(known)
	return ok && len(values) > 0 && !slices.ContainsFunc(values, func(v int64) bool { return v != x })
}

// knownAs sets every element of a small value to e.
func knownAs(v *ir.Value, e sym.Expr) {
	if n, ok := product(v.Type.Shape).Const(); ok && n <= ir.MaxKnown {
		v.Known = slices.Repeat([]sym.Expr{e}, int(n))
	}
}

// constants returns the sizes of a shape; ok is false if an extent is not a number.
func constants(shape []sym.Expr) ([]int64, bool) {
	out := make([]int64, len(shape))
	for i, e := range shape {
		v, ok := e.Const()
		if !ok {
			return nil, false
		}
		out[i] = v
	}
	return out, true
}

// bitsOf returns an element as loop constants hold it: its bits, zero-extended.
func bitsOf(t *tensor.Tensor, i int64) uint64 { return loop.LoadBits(t.DType(), t.Bytes(), i) }

// setBits stores an element given as by bitsOf.
func setBits(t *tensor.Tensor, i int64, bits uint64) { loop.StoreBits(t.DType(), t.Bytes(), i, bits) }
