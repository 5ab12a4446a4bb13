package spirv

import "github.com/weirml/weir/internal/sym"

// This file computes symbolic integers: in 32 bits if they, and all intermediate results, are proved to fit them.

// typeOf returns the type of an integer.
func (w *writer) typeOf(x integer) id {
	if x.wide {
		return w.intType(64)
	}
	return w.intType(32)
}

// constant returns a constant, in 32 bits if it fits; it refuses others if the machine has no integers of 64 bits.
func (w *writer) constant(v int64) integer {
	if v == int64(int32(v)) {
		return integer{w.constant32(uint32(v)), false}
	}
	if !w.int64s() {
		refuse("the number %d does not fit the device's integers of 32 bits", v)
	}
	return integer{w.constant64(uint64(v)), true}
}

// same returns two integers in the wider type of both.
func (w *writer) same(x, y integer) (integer, integer) {
	if x.wide != y.wide {
		return w.widened(x), w.widened(y)
	}
	return x, y
}

// arithmetic writes an instruction for two integers of the same width.
func (w *writer) arithmetic(op opcode, x, y integer) integer {
	x, y = w.same(x, y)
	return integer{w.op(op, w.typeOf(x), x.id, y.id), x.wide}
}

func (w *writer) sum(x, y integer) integer     { return w.arithmetic(opIAdd, x, y) }
func (w *writer) product(x, y integer) integer { return w.arithmetic(opIMul, x, y) }

// quotient and remainder divide x ≥ 0 by y > 0.
func (w *writer) quotient(x, y integer) integer  { return w.arithmetic(opUDiv, x, y) }
func (w *writer) remainder(x, y integer) integer { return w.arithmetic(opUMod, x, y) }

// compare returns a bool for two integers.
func (w *writer) compare(op opcode, x, y integer) id {
	x, y = w.same(x, y)
	return w.op(op, w.boolType(), x.id, y.id)
}

func (w *writer) below(x, y integer) id { return w.compare(opSLessThan, x, y) }

// integer computes a symbolic integer.
func (w *writer) integer(e sym.Expr) integer {
	e = w.divisors.Safe(e)
	return w.polynomial(e, !w.fits(e, 1))
}

// polynomial computes a symbolic integer in 64 bits if wide, or else in 32.
func (w *writer) polynomial(e sym.Expr, wide bool) integer {
	constant, terms := e.Terms()
	var total integer
	have := false
	add := func(x integer) {
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
		add(w.sized(w.constant(constant), wide))
	}
	return total
}

// sized returns an integer in 64 bits if wide, or else in 32.
func (w *writer) sized(x integer, wide bool) integer {
	if wide {
		return w.widened(x)
	}
	if x.wide {
		return integer{w.op(opUConvert, w.intType(32), x.id), false}
	}
	return x
}

// term computes one term of a polynomial.
func (w *writer) term(t sym.Term, wide bool) integer {
	var x integer
	for i, f := range t.Factors {
		y := w.factor(f, wide)
		if i == 0 {
			x = y
		} else {
			x = w.product(x, y)
		}
	}
	switch {
	case len(t.Factors) == 0:
		return w.sized(w.constant(t.Coef), wide)
	case t.Coef == 1:
		return x
	}
	return w.product(x, w.sized(w.constant(t.Coef), wide))
}

// factor computes one factor of a term.
func (w *writer) factor(f sym.Factor, wide bool) integer {
	switch f.Kind {
	case sym.Variable:
		x, ok := w.names[f.Name]
		if !ok {
			w.bug("%s is not bound", f.Name)
		}
		return w.sized(x, wide)
	case sym.FloorQuotient, sym.CeilQuotient, sym.Remainder:
		return w.divided(f, wide)
	case sym.Least, sym.Greatest:
		op := opSLessThan
		if f.Kind == sym.Greatest {
			op = opSGreaterThan
		}
		x := w.polynomial(f.Args[0], wide)
		for _, arg := range f.Args[1:] {
			y := w.polynomial(arg, wide)
			x = integer{w.op(opSelect, w.typeOf(x), w.compare(op, x, y), x.id, y.id), x.wide}
		}
		return x
	case sym.FactorProduct:
		x := w.polynomial(f.Args[0], wide)
		for _, arg := range f.Args[1:] {
			x = w.product(x, w.polynomial(arg, wide))
		}
		return x
	case sym.FactorSum:
		x := w.polynomial(f.Args[0], wide)
		for _, arg := range f.Args[1:] {
			x = w.sum(x, w.polynomial(arg, wide))
		}
		return x
	}
	w.bug("an integer that outgrew its limits")
	return integer{}
}

// divided computes a quotient, rounded down or up, or a remainder, by a number above 0.
func (w *writer) divided(f sym.Factor, wide bool) integer {
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
		left := w.compare(opINotEqual, w.product(q, y), x)
		return w.sum(q, w.one(left, wide))
	}
	q := w.arithmetic(opSDiv, x, y) // toward zero
	back := w.product(q, y)
	switch f.Kind {
	case sym.CeilQuotient:
		return w.sum(q, w.one(w.compare(opSLessThan, back, x), wide))
	case sym.FloorQuotient:
		return w.arithmetic(opISub, q, w.one(w.compare(opSGreaterThan, back, x), wide))
	}
	r := w.arithmetic(opISub, x, back)
	negative := w.compare(opSLessThan, r, w.sized(w.constant(0), wide))
	return integer{w.op(opSelect, w.typeOf(r), negative, w.sum(r, y).id, r.id), r.wide}
}

// one returns 1 if a condition holds, and else 0.
func (w *writer) one(condition id, wide bool) integer {
	one, zero := w.sized(w.constant(1), wide), w.sized(w.constant(0), wide)
	return integer{w.op(opSelect, w.typeOf(one), condition, one.id, zero.id), wide}
}

// scaled computes a symbolic integer times a number of bytes.
func (w *writer) scaled(e sym.Expr, bytes int64) integer {
	e = w.divisors.Safe(e)
	if !w.fits(e, bytes) {
		x := w.widened(w.integer(e))
		return w.product(x, w.widened(w.constant(bytes)))
	}
	x := w.integer(e)
	if bytes == 1 {
		return x
	}
	return w.product(x, w.constant(bytes))
}
