package loop

import (
	"math"

	"github.com/weirml/weir/internal/dtype"
)

// A quotient by a constant that is rounded to an integer and kept within the range of 8 bits, as in Quantize, has few
// results: there are at most 255 numbers at which it steps from one result to the next. A product with the reciprocal,
// in two summands, steps at the same numbers for nearly all constants, which is checked for each constant, and takes
// two multiplications, while a division takes as long as twenty.

// Quantised is an expression convert(max(low, min(high, round(x / scale) + zero))) over constants, in f32.
type Quantised struct {
	X               Expr
	Scale           float32
	Zero, Low, High float32
	First, Rest     float32 // the reciprocal's two summands; Rest is 0 if Scale is a power of two
}

// QuantisedOf reads a conversion as such an expression; ok is false for others, and if the product is not known to give
// the same results.
func QuantisedOf(c *Cast) (q Quantised, ok bool) {
	if !c.Type.IsInt() || c.Type.Bits() > 32 || c.Type.Bits() < 8 {
		return q, false
	}
	rest, ok := q.bounds(c)
	if !ok {
		return q, false
	}
	if zero, inner, plus := ConstantAnd(rest, Add); plus {
		q.Zero, rest = zero, inner
	}
	if !isInteger(q.Zero) || q.Zero < q.Low || q.Zero > q.High {
		return q, false
	}
	round, is := rest.(*Unary)
	if !is || round.Op != Round {
		return q, false
	}
	quotient, is := round.X.(*Binary)
	if !is || quotient.Op != Div {
		return q, false
	}
	scale, is := floatConstant(quotient.Y)
	if !is {
		return q, false
	}
	q.X, q.Scale = quotient.X, scale
	return q, q.reciprocal()
}

// bounds sets the least and the greatest result, and returns the expression that they limit. ok is false unless the two
// are integers of the conversion's type, with a range of at most 8 bits.
func (q *Quantised) bounds(c *Cast) (rest Expr, ok bool) {
	if q.Low, rest, ok = ConstantAnd(c.X, Max); !ok {
		return nil, false
	}
	if q.High, rest, ok = ConstantAnd(rest, Min); !ok {
		return nil, false
	}
	fits := q.Low >= -128 && q.Low <= 0 && q.High >= 1 && q.High <= 255 && q.High-q.Low <= 255
	has := float64(q.Low) >= float64(c.Type.MinInt()) && float64(q.High) <= float64(c.Type.MaxInt())
	return rest, fits && has && isInteger(q.Low) && isInteger(q.High)
}

// isInteger reports whether a number is an integer other than −0.
func isInteger(v float32) bool {
	return float64(v) == math.Trunc(float64(v)) && !(v == 0 && math.Signbit(float64(v)))
}

// floatConstant returns the value of a constant of f32; false for other expressions.
func floatConstant(x Expr) (float32, bool) {
	c, ok := x.(*Const)
	if !ok || c.Type != dtype.F32 {
		return 0, false
	}
	return math.Float32frombits(uint32(c.Bits)), true
}

// ConstantAnd splits an operation with a constant of f32 as one operand into the constant and the other operand.
func ConstantAnd(x Expr, op BinaryOp) (c float32, rest Expr, ok bool) {
	b, is := x.(*Binary)
	if !is || b.Op != op {
		return 0, nil, false
	}
	if c, ok = floatConstant(b.X); ok {
		return c, b.Y, true
	}
	c, ok = floatConstant(b.Y)
	return c, b.X, ok
}

// reciprocal finds the reciprocal's parts: neither is negative, so that an infinity stays one. It reports whether a
// product with them is rounded to the same integer as the quotient, of all numbers: both never fall as x grows, so the
// numbers near each step decide.
func (q *Quantised) reciprocal() bool {
	s := float64(q.Scale)
	if !(s >= 1e-20 && s <= 1e20) {
		return false
	}
	q.First = float32(1 / s)
	if fraction, _ := math.Frexp(s); fraction == 0.5 {
		return true
	}
	if float64(q.First)*s > 1 { // exact: a product of two numbers of 24 bits
		q.First = math.Nextafter32(q.First, 0)
	}
	q.Rest = float32((1 - float64(q.First)*s) / s)
	for step := q.Low - q.Zero; step < q.High-q.Zero; step++ {
		at := float32((float64(step) + 0.5) * s)
		for range 3 {
			at = math.Nextafter32(at, float32(math.Inf(-1)))
		}
		for range 7 {
			if math.RoundToEven(float64(at/q.Scale)) != math.RoundToEven(float64(q.product(at))) {
				return false
			}
			at = math.Nextafter32(at, float32(math.Inf(1)))
		}
	}
	return true
}

// product returns what the code computes in the place of x / scale: x·rest is rounded, and then the sum of it and
// x·first.
func (q *Quantised) product(x float32) float32 {
	if q.Rest == 0 {
		return x * q.First
	}
	a, b := float64(x)*float64(q.First), float64(x*q.Rest)
	sum := a + b
	// The error of the sum of doubles matters only if the sum looks like a tie between two floats. Rounded to odd, it
	// does not.
	part := sum - a
	lost := (a - (sum - part)) + (b - part)
	if bits := math.Float64bits(sum); lost != 0 && bits&1 == 0 {
		sum = math.Nextafter(sum, math.Copysign(math.Inf(1), lost))
	}
	return float32(sum)
}
