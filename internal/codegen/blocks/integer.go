package blocks

import (
	"math"

	"github.com/weirml/weir/internal/sym"
)

// This file computes symbolic integers: in 32 bits if they, and all intermediate results, are proved to fit them.

// Integer is an integer of 32 bits if it is proved to fit them with its sign, or else of 64.
type Integer struct {
	ID
	Wide bool
}

// mostNarrow is the largest magnitude of an integer of 32 bits.
const mostNarrow = math.MaxInt32

// typeOf returns the type of an integer.
func (w *Writer) typeOf(x Integer) ID { return w.IntegerType(x.Wide) }

// Constant returns a constant, in 32 bits if it fits; it refuses others if the machine has no integers of 64 bits.
func (w *Writer) Constant(v int64) Integer {
	if v == int64(int32(v)) {
		return Integer{w.Number(v, false), false}
	}
	if !w.int64s() {
		Refuse("the number %d does not fit the device's integers of 32 bits", v)
	}
	return Integer{w.Number(v, true), true}
}

// same returns two integers in the wider type of both.
func (w *Writer) same(x, y Integer) (Integer, Integer) {
	if x.Wide != y.Wide {
		return w.Widened(x), w.Widened(y)
	}
	return x, y
}

// Widened returns an integer in 64 bits if the machine has such integers, or else unchanged.
func (w *Writer) Widened(x Integer) Integer {
	if x.Wide || !w.int64s() {
		return x
	}
	return Integer{w.Resize(x.ID, true), true}
}

// Sized returns an integer in 64 bits if wide, or else in 32.
func (w *Writer) Sized(x Integer, wide bool) Integer {
	if wide {
		return w.Widened(x)
	}
	if x.Wide {
		return Integer{w.Resize(x.ID, false), false}
	}
	return x
}

// arithmetic writes an instruction for two integers of the same width.
func (w *Writer) arithmetic(op Operation, x, y Integer) Integer {
	x, y = w.same(x, y)
	return Integer{w.Arithmetic(op, x.Wide, x.ID, y.ID), x.Wide}
}

func (w *Writer) sum(x, y Integer) Integer     { return w.arithmetic(Add, x, y) }
func (w *Writer) Product(x, y Integer) Integer { return w.arithmetic(Multiply, x, y) }

// quotient and remainder divide x ≥ 0 by y > 0.
func (w *Writer) quotient(x, y Integer) Integer  { return w.arithmetic(Quotient, x, y) }
func (w *Writer) remainder(x, y Integer) Integer { return w.arithmetic(Remainder, x, y) }

// compare returns a bool for two integers.
func (w *Writer) compare(op Operation, x, y Integer) ID {
	x, y = w.same(x, y)
	return w.Compare(op, x.ID, y.ID)
}

func (w *Writer) below(x, y Integer) ID { return w.compare(Less, x, y) }

// Integer computes a symbolic integer.
func (w *Writer) Integer(e sym.Expr) Integer {
	e = w.divisors.Safe(e)
	return w.polynomial(e, !w.fits(e, 1))
}

// polynomial computes a symbolic integer in 64 bits if wide, or else in 32.
func (w *Writer) polynomial(e sym.Expr, wide bool) Integer {
	constant, terms := e.Terms()
	var total Integer
	have := false
	add := func(x Integer) {
		if have {
			total = w.sum(total, x)
		} else {
			total, have = x, true
		}
	}
	for _, t := range terms {
		add(w.term(t, wide))
	}
	if constant != 0 || !have {
		add(w.Sized(w.Constant(constant), wide))
	}
	return total
}

// term computes one term of a polynomial.
func (w *Writer) term(t sym.Term, wide bool) Integer {
	var x Integer
	for i, f := range t.Factors {
		y := w.factor(f, wide)
		if i == 0 {
			x = y
		} else {
			x = w.Product(x, y)
		}
	}
	switch {
	case len(t.Factors) == 0:
		return w.Sized(w.Constant(t.Coef), wide)
	case t.Coef == 1:
		return x
	}
	return w.Product(x, w.Sized(w.Constant(t.Coef), wide))
}

// factor computes one factor of a term.
func (w *Writer) factor(f sym.Factor, wide bool) Integer {
	switch f.Kind {
	case sym.Variable:
		x, ok := w.names[f.Name]
		if !ok {
			w.Bug("%s is not bound", f.Name)
		}
		return w.Sized(x, wide)
	case sym.FloorQuotient, sym.CeilQuotient, sym.Remainder:
		return w.divided(f, wide)
	case sym.Least, sym.Greatest:
		op := Less
		if f.Kind == sym.Greatest {
			op = Greater
		}
		x := w.polynomial(f.Args[0], wide)
		for _, arg := range f.Args[1:] {
			y := w.polynomial(arg, wide)
			x = Integer{w.Choose(w.typeOf(x), w.compare(op, x, y), x.ID, y.ID), x.Wide}
		}
		return x
	case sym.FactorProduct:
		x := w.polynomial(f.Args[0], wide)
		for _, arg := range f.Args[1:] {
			x = w.Product(x, w.polynomial(arg, wide))
		}
		return x
	case sym.FactorSum:
		x := w.polynomial(f.Args[0], wide)
		for _, arg := range f.Args[1:] {
			x = w.sum(x, w.polynomial(arg, wide))
		}
		return x
	}
	w.Bug("an integer that outgrew its limits")
	return Integer{}
}

// divided computes a quotient, rounded down or up, or a remainder, by a number above 0.
func (w *Writer) divided(f sym.Factor, wide bool) Integer {
	x, y := w.polynomial(f.Args[0], wide), w.polynomial(f.Args[1], wide)
	low, _ := w.ranges.Of(f.Args[0])
	if low.Min >= 0 {
		switch f.Kind {
		case sym.FloorQuotient:
			return w.quotient(x, y)
		case sym.Remainder:
			return w.remainder(x, y)
		}
		// Rounded up: x/y, plus one if there is a remainder. (x + y − 1 might not fit.)
		q := w.quotient(x, y)
		left := w.compare(Unequal, w.Product(q, y), x)
		return w.sum(q, w.one(left, wide))
	}
	q := w.arithmetic(Divide, x, y) // toward zero
	back := w.Product(q, y)
	switch f.Kind {
	case sym.CeilQuotient:
		return w.sum(q, w.one(w.compare(Less, back, x), wide))
	case sym.FloorQuotient:
		return w.arithmetic(Subtract, q, w.one(w.compare(Greater, back, x), wide))
	}
	r := w.arithmetic(Subtract, x, back)
	negative := w.compare(Less, r, w.Sized(w.Constant(0), wide))
	return Integer{w.Choose(w.typeOf(r), negative, w.sum(r, y).ID, r.ID), r.Wide}
}

// one returns 1 if a condition holds, and else 0.
func (w *Writer) one(condition ID, wide bool) Integer {
	one, zero := w.Sized(w.Constant(1), wide), w.Sized(w.Constant(0), wide)
	return Integer{w.Choose(w.typeOf(one), condition, one.ID, zero.ID), wide}
}

// Scaled computes a symbolic integer times a number of bytes.
func (w *Writer) Scaled(e sym.Expr, bytes int64) Integer {
	e = w.divisors.Safe(e)
	if !w.fits(e, bytes) {
		x := w.Widened(w.Integer(e))
		return w.Product(x, w.Widened(w.Constant(bytes)))
	}
	x := w.Integer(e)
	if bytes == 1 {
		return x
	}
	return w.Product(x, w.Constant(bytes))
}
