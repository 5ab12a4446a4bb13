package array

import (
	"math"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/ops"
)

// The functions of this file are functions of floats, unless they say otherwise: integers and bools become f32 first.

// Exp is eˣ.
func (s *Scope) Exp(x *Array) *Array { return s.unary(loop.Exp, x, true) }

// Expm1 is eˣ − 1, precise for small x.
func (s *Scope) Expm1(x *Array) *Array { return s.unary(loop.Expm1, x, true) }

// Log is the natural logarithm of x.
func (s *Scope) Log(x *Array) *Array { return s.unary(loop.Log, x, true) }

// Log1p is the natural logarithm of 1 + x, precise for small x.
func (s *Scope) Log1p(x *Array) *Array { return s.unary(loop.Log1p, x, true) }

// Log2 is the logarithm of x to the base 2.
func (s *Scope) Log2(x *Array) *Array { return s.logarithm("log2", x, math.Ln2) }

// Log10 is the logarithm of x to the base 10.
func (s *Scope) Log10(x *Array) *Array { return s.logarithm("log10", x, math.Ln10) }

// logarithm divides the natural logarithm by that of a base.
func (s *Scope) logarithm(name string, x *Array, base float64) *Array {
	return s.float(name, x, func(c calc, v *ir.Value) *ir.Value {
		return c.div(c.f(ops.Log, v), numeral(c.b, v, base))
	})
}

// float applies a function of floats; integers and bools become f32 first.
func (s *Scope) float(name string, x *Array, f func(c calc, v *ir.Value) *ir.Value) *Array {
	return s.op(name, nil, func(b *ir.Builder, v []*ir.Value) *ir.Value { return f(calc{b}, asFloat(b, v[0])) }, x)
}

// widely is float computed in f32 or a wider type, and rounded once.
func (s *Scope) widely(name string, x *Array, f func(c calc, v *ir.Value) *ir.Value) *Array {
	return s.float(name, x, func(c calc, v *ir.Value) *ir.Value {
		return inWide(c.b, v, func(v *ir.Value) *ir.Value { return f(c, v) })
	})
}

// inWide computes f in f32 if the elements have a narrower type.
func inWide(b *ir.Builder, v *ir.Value, f func(v *ir.Value) *ir.Value) *ir.Value {
	if !narrow(v.Type.DType) {
		return f(v)
	}
	return ops.Cast(b, f(ops.Cast(b, v, dtype.F32)), v.Type.DType)
}

// Sqrt is the square root of x.
func (s *Scope) Sqrt(x *Array) *Array { return s.unary(loop.Sqrt, x, true) }

// Rsqrt is 1 over the square root of x.
func (s *Scope) Rsqrt(x *Array) *Array {
	return s.widely("rsqrt", x, func(c calc, v *ir.Value) *ir.Value { return c.f(ops.Reciprocal, c.f(ops.Sqrt, v)) })
}

// Square is x · x, in x's type.
func (s *Scope) Square(x *Array) *Array { return s.Mul(x, x) }

// Reciprocal is 1 / x.
func (s *Scope) Reciprocal(x *Array) *Array { return s.unary(loop.Reciprocal, x, true) }

// Sin is the sine of x.
func (s *Scope) Sin(x *Array) *Array { return s.unary(loop.Sin, x, true) }

// Cos is the cosine of x.
func (s *Scope) Cos(x *Array) *Array { return s.unary(loop.Cos, x, true) }

// Tan is the tangent of x.
func (s *Scope) Tan(x *Array) *Array { return s.unary(loop.Tan, x, true) }

// Asin is the angle from −π/2 to π/2 whose sine is x.
func (s *Scope) Asin(x *Array) *Array { return s.unary(loop.Asin, x, true) }

// Acos is the angle from 0 to π whose cosine is x.
func (s *Scope) Acos(x *Array) *Array { return s.unary(loop.Acos, x, true) }

// Atan is the angle from −π/2 to π/2 whose tangent is x.
func (s *Scope) Atan(x *Array) *Array { return s.unary(loop.Atan, x, true) }

// Atan2 is the angle from −π to π of the point (x, y).
func (s *Scope) Atan2(y, x *Array) *Array {
	return s.floatPairs("atan2", y, x, func(c calc, p, q *ir.Value) *ir.Value { return c.g(ops.Atan2, p, q) })
}

// Sinh is the hyperbolic sine of x.
func (s *Scope) Sinh(x *Array) *Array { return s.unary(loop.Sinh, x, true) }

// Cosh is the hyperbolic cosine of x.
func (s *Scope) Cosh(x *Array) *Array { return s.unary(loop.Cosh, x, true) }

// Tanh is the hyperbolic tangent of x.
func (s *Scope) Tanh(x *Array) *Array { return s.unary(loop.Tanh, x, true) }

// Asinh is the number whose hyperbolic sine is x.
func (s *Scope) Asinh(x *Array) *Array { return s.unary(loop.Asinh, x, true) }

// Acosh is the number whose hyperbolic cosine is x.
func (s *Scope) Acosh(x *Array) *Array { return s.unary(loop.Acosh, x, true) }

// Atanh is the number whose hyperbolic tangent is x.
func (s *Scope) Atanh(x *Array) *Array { return s.unary(loop.Atanh, x, true) }

// Erf is the error function of x.
func (s *Scope) Erf(x *Array) *Array { return s.unary(loop.Erf, x, true) }

// Hypot is √(x² + y²) without overflow.
func (s *Scope) Hypot(x, y *Array) *Array {
	return s.floatPairs("hypot", x, y, func(c calc, p, q *ir.Value) *ir.Value {
		signed := []*ir.Value{p, q}
		p, q = c.f(ops.Abs, p), c.f(ops.Abs, q)
		large, small := c.g(ops.Max, p, q), c.g(ops.Min, p, q)
		zero, infinite := numeral(c.b, p, 0), numeral(c.b, p, math.Inf(1))
		ratio := c.div(small, large)
		root := c.mul(large, c.f(ops.Sqrt, c.add(numeral(c.b, p, 1), c.mul(ratio, ratio))))
		root = c.where(c.g(ops.Eq, large, zero), zero, root)
		either := c.g(ops.Or, c.f(ops.IsInf, p), c.f(ops.IsInf, q))
		root = c.where(either, infinite, root)
		return c.derivedPair(root, signed[0], signed[1], func(c calc, this, _ *ir.Value) *ir.Value {
			zero, one := numeral(c.b, root, 0), numeral(c.b, root, 1)
			origin := c.g(ops.Eq, root, zero)
			return c.where(origin, zero, c.div(this, c.where(origin, one, root)))
		})
	})
}

// derivedPair returns z, an elementwise function of x and y, with explicit derivatives: slope builds the derivative by
// its first argument; it is called with x first and with y first. The formula of z has kinks that z does not have, for
// example if x equals y.
func (c calc) derivedPair(z, x, y *ir.Value, slope func(c calc, this, other *ir.Value) *ir.Value) *ir.Value {
	x, y = ops.Expand(c.b, x, z.Type.Shape...), ops.Expand(c.b, y, z.Type.Shape...)
	return ops.Custom(c.b, []*ir.Value{z}, []*ir.Value{x, y}, func(b *ir.Builder, up []*ir.Value) []*ir.Value {
		c := calc{b}
		return []*ir.Value{c.mul(up[0], slope(c, x, y)), c.mul(up[0], slope(c, y, x))}
	})[0]
}

// LogAddExp is log(exp(x) + exp(y)) without overflow.
func (s *Scope) LogAddExp(x, y *Array) *Array {
	return s.floatPairs("logaddexp", x, y, func(c calc, p, q *ir.Value) *ir.Value {
		large := c.g(ops.Max, p, q)
		apart := c.f(ops.Abs, c.sub(p, q))
		sum := c.add(large, c.f(ops.Log1p, c.f(ops.Exp, c.f(ops.Neg, apart))))
		sum = c.where(c.g(ops.Eq, p, q), c.add(p, numeral(c.b, p, math.Ln2)), sum)
		return c.derivedPair(sum, p, q, func(c calc, this, other *ir.Value) *ir.Value {
			return c.f(loop.Sigmoid, c.sub(this, other))
		})
	})
}

// Pow is x to the power of y, in their common type. An integer to a negative power is 0, unless it is 1 or −1.
func (s *Scope) Pow(x, y *Array) *Array { return s.binary(loop.Pow, x, y) }

// Remainder is the remainder of x / y, with y's sign.
func (s *Scope) Remainder(x, y *Array) *Array {
	return s.pairs("remainder", x, y, func(c calc, p, q *ir.Value) *ir.Value { return c.g(ops.FloorMod, p, q) })
}

// FloorDivide is the greatest integer not above x / y, in their common type; integers divided by 0 give 0.
func (s *Scope) FloorDivide(x, y *Array) *Array {
	return s.pairs("floor_divide", x, y, func(c calc, p, q *ir.Value) *ir.Value {
		zero := numeral(c.b, p, 0)
		opposite := func(x *ir.Value) *ir.Value { return c.g(ops.Ne, c.g(ops.Lt, x, zero), c.g(ops.Lt, q, zero)) }
		if !p.Type.DType.IsFloat() {
			rest := c.g(ops.Rem, p, q)
			below := c.g(ops.And, c.g(ops.Ne, rest, zero), opposite(rest))
			floor := c.sub(c.div(p, q), ops.Cast(c.b, below, p.Type.DType))
			return c.where(c.g(ops.Eq, q, zero), zero, floor)
		}
		floor := c.f(ops.Round, c.div(c.sub(p, c.g(ops.FloorMod, p, q)), q))
		// The quotient by an infinity is −1 or 0; by zero it is the division's.
		far := c.g(ops.And, c.f(ops.IsInf, q), c.g(ops.Lt, c.f(ops.Abs, p), numeral(c.b, p, math.Inf(1))))
		below := c.g(ops.And, c.g(ops.Ne, p, zero), opposite(p))
		floor = c.where(far, c.where(below, numeral(c.b, p, -1), zero), floor)
		quotient := c.div(p, q)
		floor = c.where(c.g(ops.Eq, floor, zero), c.mul(zero, quotient), floor) // 0 has the quotient's sign
		return c.where(c.g(ops.Eq, q, zero), quotient, floor)
	})
}

// rounded applies a function of floats that leaves integers unchanged.
func (s *Scope) rounded(f loop.UnaryOp, x *Array) *Array {
	return s.op(f.String(), nil, func(b *ir.Builder, v []*ir.Value) *ir.Value {
		if v[0].Type.DType.IsInt() {
			return same(b, v[0])
		}
		return ops.Unary(b, f, v[0])
	}, x)
}

// Floor is the greatest integer not above x, in x's type.
func (s *Scope) Floor(x *Array) *Array { return s.rounded(loop.Floor, x) }

// Ceil is the least integer not below x, in x's type.
func (s *Scope) Ceil(x *Array) *Array { return s.rounded(loop.Ceil, x) }

// Round is the nearest integer, in x's type; of two, the even one.
func (s *Scope) Round(x *Array) *Array { return s.rounded(loop.Round, x) }

// Trunc is x without its fractional part, in x's type.
func (s *Scope) Trunc(x *Array) *Array { return s.rounded(loop.Trunc, x) }

// bitsType maps a float type to the signed integers of the same width.
var bitsType = map[weir.DType]weir.DType{weir.F16: weir.I16, weir.BF16: weir.I16, weir.F32: weir.I32,
	weir.F64: weir.I64}

// CopySign is x's magnitude with y's sign; zeros and NaN have signs too.
func (s *Scope) CopySign(x, y *Array) *Array {
	return s.floatPairs("copysign", x, y, func(c calc, p, q *ir.Value) *ir.Value {
		magnitude := c.f(ops.Abs, p)
		return c.where(negative(c, q), c.f(ops.Neg, magnitude), magnitude)
	})
}

// SignBit tells whether a float has a minus sign; zeros and NaN have signs too.
func (s *Scope) SignBit(x *Array) *Array {
	return s.float("signbit", x, negative)
}

// negative tells whether floats have a minus sign.
func negative(c calc, v *ir.Value) *ir.Value {
	w := ops.BitCast(c.b, v, bitsType[v.Type.DType])
	return c.g(ops.Lt, w, numeral(c.b, w, 0))
}

// NextAfter is the next float after x in the direction of y.
func (s *Scope) NextAfter(x, y *Array) *Array {
	return s.floatPairs("nextafter", x, y, func(c calc, p, q *ir.Value) *ir.Value {
		dt := p.Type.DType
		w := ops.BitCast(c.b, p, bitsType[dt])
		zero, one := numeral(c.b, w, 0), numeral(c.b, w, 1)
		away := c.g(ops.Eq, c.g(ops.Lt, p, q), c.g(ops.Le, zero, w)) // the magnitude grows
		next := ops.BitCast(c.b, c.where(away, c.add(w, one), c.sub(w, one)), dt)
		least := ops.BitCast(c.b, ops.Expand(c.b, one, p.Type.Shape...), dt)
		least = c.where(negative(c, q), c.f(ops.Neg, least), least)
		isZero := c.g(ops.Eq, c.g(ops.And, w, maxInt(c.b, w)), zero)
		next = c.where(isZero, least, next)
		next = c.where(c.g(ops.Eq, p, q), q, next)
		unordered := c.g(ops.Or, c.f(ops.IsNaN, p), c.f(ops.IsNaN, q))
		return c.where(unordered, c.add(p, q), next)
	})
}

// maxInt returns the greatest integer of v's type.
func maxInt(b *ir.Builder, v *ir.Value) *ir.Value {
	one := numeral(b, v, 1)
	return ops.Unary(b, ops.BitNot, ops.Binary(b, ops.Shl, one, numeral(b, v, float64(v.Type.DType.Bits()-1))))
}
