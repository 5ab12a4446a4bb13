package amd64

import (
	"math"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// A quotient by a constant that is rounded to an integer and kept within 0 and at most 255, as Quantize does it, has
// few results: up to 255 numbers at which it steps from one to the next. A product with the reciprocal, in two parts,
// steps at the same numbers for nearly all constants, which is checked for each, and takes two multiplications where a
// division takes as long as twenty.

// quantised is an expression convert(max(0, min(high, round(x / scale) + zero))) over constants, in f32.
type quantised struct {
	x           loop.Expr
	scale       float32
	zero, high  float32
	first, rest float32 // the reciprocal's parts; rest is 0 where scale is a power of two
}

// quantisedOf reads a conversion as such an expression; ok is false of others, and where the product is not known to be
// the same.
func quantisedOf(c *loop.Cast) (q quantised, ok bool) {
	if !c.Type.IsInt() || c.Type.Bits() > 32 || packs(c.Type) || c.Type.Bits() == 8 && c.Type.IsSigned() {
		return q, false
	}
	low, rest, ok := constantAnd(c.X, loop.Max)
	if !ok || low != 0 || math.Signbit(float64(low)) {
		return q, false
	}
	if q.high, rest, ok = constantAnd(rest, loop.Min); !ok || !(q.high >= 1 && q.high <= 255) {
		return q, false
	}
	if zero, inner, plus := constantAnd(rest, loop.Add); plus {
		q.zero, rest = zero, inner
	}
	if !(q.zero >= 0 && q.zero <= q.high) || q.zero != float32(math.Trunc(float64(q.zero))) || q.high != float32(math.Trunc(float64(q.high))) {
		return q, false
	}
	round, is := rest.(*loop.Unary)
	if !is || round.Op != loop.Round {
		return q, false
	}
	quotient, is := round.X.(*loop.Binary)
	if !is || quotient.Op != loop.Div {
		return q, false
	}
	scale, is := number(quotient.Y)
	if !is {
		return q, false
	}
	q.x, q.scale = quotient.X, scale
	return q, q.reciprocal()
}

// number is a constant of f32.
func number(x loop.Expr) (float32, bool) {
	c, ok := x.(*loop.Const)
	if !ok || c.Type != dtype.F32 {
		return 0, false
	}
	return math.Float32frombits(uint32(c.Bits)), true
}

// constantAnd takes an operation apart one of whose operands is a constant of f32.
func constantAnd(x loop.Expr, op loop.BinaryOp) (c float32, rest loop.Expr, ok bool) {
	b, is := x.(*loop.Binary)
	if !is || b.Op != op {
		return 0, nil, false
	}
	if c, ok = number(b.X); ok {
		return c, b.Y, true
	}
	c, ok = number(b.Y)
	return c, b.X, ok
}

// reciprocal finds the reciprocal's parts: neither is negative, so that an infinity stays one. It reports whether a
// product with them is rounded to the same integer as the quotient, of all numbers: both never fall as x grows, so the
// numbers near each step decide.
func (q *quantised) reciprocal() bool {
	s := float64(q.scale)
	if !(s >= 1e-20 && s <= 1e20) {
		return false
	}
	q.first = float32(1 / s)
	if fraction, _ := math.Frexp(s); fraction == 0.5 {
		return true
	}
	if float64(q.first)*s > 1 { // exact: two numbers of 24 bits
		q.first = math.Nextafter32(q.first, 0)
	}
	q.rest = float32((1 - float64(q.first)*s) / s)
	for step := -q.zero; step < q.high-q.zero; step++ {
		at := float32((float64(step) + 0.5) * s)
		for range 3 {
			at = math.Nextafter32(at, float32(math.Inf(-1)))
		}
		for range 7 {
			if math.RoundToEven(float64(at/q.scale)) != math.RoundToEven(float64(q.product(at))) {
				return false
			}
			at = math.Nextafter32(at, float32(math.Inf(1)))
		}
	}
	return true
}

// product is what the code computes in the place of x / scale: x·rest is rounded, and then the sum of it and x·first.
func (q *quantised) product(x float32) float32 {
	if q.rest == 0 {
		return x * q.first
	}
	a, b := float64(x)*float64(q.first), float64(x*q.rest)
	sum := a + b
	// What the sum of doubles lost decides between two floats only where it would look like a tie: rounded to odd, it
	// does not.
	part := sum - a
	lost := (a - (sum - part)) + (b - part)
	if bits := math.Float64bits(sum); lost != 0 && bits&1 == 0 {
		sum = math.Nextafter(sum, math.Copysign(math.Inf(1), lost))
	}
	return float32(sum)
}

// quantise emits such an expression, if a conversion is one.
func (e *emitter) quantise(c *loop.Cast) (value, bool) {
	q, ok := quantisedOf(c)
	if !ok {
		return value{}, false
	}
	x := e.value(q.x)
	var r asm.Reg
	if q.rest == 0 {
		r = e.mul(x.lo, e.float(q.first))
	} else {
		r = e.fma(x.lo, e.float(q.first), e.mul(x.lo, e.float(q.rest)))
	}
	// NaN becomes the machine's second operand: the least, which is 0 at the end.
	r = e.toInt(e.min(e.max(r, e.float(-q.zero)), e.float(q.high-q.zero)))
	if q.zero != 0 {
		r = e.addInt(r, e.integer32(int32(q.zero)))
	}
	return value{dtype: c.Type, lo: r, uniform: x.uniform}, true
}
