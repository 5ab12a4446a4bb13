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
func known(d *sym.Dims, v *ir.Value, f loop.UnaryOp, x []sym.Expr) {
	if x == nil || f != loop.Neg && f != loop.Not {
		return
	}
	known := make([]sym.Expr, len(x))
	for i, e := range x {
		ok := true
		if f == loop.Neg {
			e, ok = wrapped(d, v.Type.DType, e.Neg())
		} else {
			e = one.Sub(e)
		}
		if !ok {
			return
		}
		known[i] = e
	}
	v.Known = known
}

// knownBinary holds the integer functions that have a symbolic counterpart.
var knownBinary = map[loop.BinaryOp]func(d *sym.Dims, x, y sym.Expr) (sym.Expr, bool){
	loop.Add: func(_ *sym.Dims, x, y sym.Expr) (sym.Expr, bool) { return x.Add(y), true },
	loop.Sub: func(_ *sym.Dims, x, y sym.Expr) (sym.Expr, bool) { return x.Sub(y), true },
	loop.Mul: func(_ *sym.Dims, x, y sym.Expr) (sym.Expr, bool) { return x.Mul(y), true },
	loop.Min: func(_ *sym.Dims, x, y sym.Expr) (sym.Expr, bool) { return x.Min(y), true },
	loop.Max: func(_ *sym.Dims, x, y sym.Expr) (sym.Expr, bool) { return x.Max(y), true },
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
		return quotient.Mul(y.Min(one)), d.LE(sym.Const(0), y) == sym.Yes
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

// known2 applies an integer function to two operands whose elements are known.
func known2(c *ir.Inference, v *ir.Value, f loop.BinaryOp, a, b *ir.Value) {
	apply, ok := knownBinary[f]
	if !ok || (f == loop.And || f == loop.Or) && a.Type.DType != dtype.Bool {
		return
	}
	if f == loop.And && (allAre(a.Known, 0) || allAre(b.Known, 0)) || f == loop.Or &&
		(allAre(a.Known, 1) || allAre(b.Known, 1)) {
		// One operand decides the result.
		if f == loop.Or {
			knownAs(v, one)
		} else {
			knownAs(v, sym.Const(0))
		}
		return
	}
	if a.Known == nil || b.Known == nil {
		return
	}
	shape, okShape := constants(v.Type.Shape)
	sa, okA := constants(a.Type.Shape)
	sb, okB := constants(b.Type.Shape)
	if !okShape || !okA || !okB {
		return
	}
	var out []sym.Expr
	tensor.Each(shape, func(at []int64) {
		e, fine := apply(c.Dims(), a.Known[broadcastFlat(at, sa)], b.Known[broadcastFlat(at, sb)])
		e, fits := wrapped(c.Dims(), v.Type.DType, e)
		ok = ok && fine && fits
		out = append(out, e)
	})
	if ok && len(out) <= ir.MaxKnown && (!f.Test() || fewChoices(out)) {
		if out == nil {
			out = []sym.Expr{}
		}
		v.Known = out
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

// wrapped returns an integer as an element of type dt; ok is false if this is not certain. Dimensions are sizes, which
// are taken to fit tensors of 32 bits.
func wrapped(d *sym.Dims, dt dtype.DType, e sym.Expr) (sym.Expr, bool) {
	if v, ok := e.Const(); ok {
		v = loop.ToInt(dt, loop.FromInt(dt, v))
		return sym.Const(v), dt != dtype.U64 || v >= 0
	}
	if dt == dtype.I64 || dt == dtype.I32 {
		return e, true
	}
	return e, dt != dtype.U64 && d.LE(sym.Const(dt.MinInt()), e) == sym.Yes &&
		d.LE(e, sym.Const(int64(dt.MaxInt()))) == sym.Yes
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
