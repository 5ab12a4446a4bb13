package array

import (
	"math"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/ops"
)

// Comparisons return bools. Operands are compared in their common type; NaN is not equal to, less or greater than
// anything.

// Equal tells whether x = y.
func (s *Scope) Equal(x, y *Array) *Array { return s.binary(loop.Eq, x, y) }

// NotEqual tells whether x ≠ y.
func (s *Scope) NotEqual(x, y *Array) *Array { return s.binary(loop.Ne, x, y) }

// Less tells whether x < y.
func (s *Scope) Less(x, y *Array) *Array { return s.ordered(loop.Lt, x, y) }

// LessEqual tells whether x ≤ y.
func (s *Scope) LessEqual(x, y *Array) *Array { return s.ordered(loop.Le, x, y) }

// Greater tells whether x > y.
func (s *Scope) Greater(x, y *Array) *Array { return s.ordered(loop.Gt, x, y) }

// GreaterEqual tells whether x ≥ y.
func (s *Scope) GreaterEqual(x, y *Array) *Array { return s.ordered(loop.Ge, x, y) }

// ordered applies a comparison by order; bools are compared as numbers.
func (s *Scope) ordered(f loop.BinaryOp, x, y *Array) *Array {
	return s.pairs(f.String(), x, y, func(c calc, p, q *ir.Value) *ir.Value {
		return c.g(f, asNumber(c.b, p), asNumber(c.b, q))
	})
}

// IsNaN tells whether x is NaN; integers never are.
func (s *Scope) IsNaN(x *Array) *Array { return s.tested("isnan", x, false, ops.IsNaN) }

// IsInf tells whether x is infinite; integers never are.
func (s *Scope) IsInf(x *Array) *Array { return s.tested("isinf", x, false, ops.IsInf) }

// tested applies a predicate of floats; its result for integers is a constant.
func (s *Scope) tested(name string, x *Array, ofInts bool, f ops.UnaryFunction) *Array {
	return s.op(name, nil, func(b *ir.Builder, v []*ir.Value) *ir.Value {
		if !v[0].Type.DType.IsFloat() {
			return ops.Expand(b, ops.Scalar(b, weir.Bool, float64(flag(ofInts))), v[0].Type.Shape...)
		}
		return ops.Unary(b, f, v[0])
	}, x)
}

// IsFinite tells whether x is neither infinite nor NaN; integers always are.
func (s *Scope) IsFinite(x *Array) *Array {
	return s.op("isfinite", nil, func(b *ir.Builder, v []*ir.Value) *ir.Value {
		if !v[0].Type.DType.IsFloat() {
			return ops.Expand(b, ops.Scalar(b, weir.Bool, 1), v[0].Type.Shape...)
		}
		return ops.Binary(b, ops.Lt, ops.Unary(b, ops.Abs, v[0]), numeral(b, v[0], math.Inf(1)))
	}, x)
}

// logical applies a function of bools; a number counts as true unless it is 0.
func (s *Scope) logical(name string, f loop.BinaryOp, x, y *Array) *Array {
	return s.op(name, nil, func(b *ir.Builder, v []*ir.Value) *ir.Value {
		return ops.Binary(b, f, asBool(b, v[0]), asBool(b, v[1]))
	}, x, y)
}

// LogicalAnd tells whether x and y are true; a number is true unless it is 0.
func (s *Scope) LogicalAnd(x, y *Array) *Array { return s.logical("logical_and", loop.And, x, y) }

// LogicalOr tells whether x or y is true; a number is true unless it is 0.
func (s *Scope) LogicalOr(x, y *Array) *Array { return s.logical("logical_or", loop.Or, x, y) }

// LogicalXor tells whether exactly one of x and y is true; a number is true unless it is 0.
func (s *Scope) LogicalXor(x, y *Array) *Array { return s.logical("logical_xor", loop.Xor, x, y) }

// LogicalNot tells whether x is false, or 0.
func (s *Scope) LogicalNot(x *Array) *Array {
	return s.op("logical_not", nil, func(b *ir.Builder, v []*ir.Value) *ir.Value {
		return ops.Unary(b, ops.Not, asBool(b, v[0]))
	}, x)
}

// The bitwise functions take integers and bools.

// BitwiseAnd is the bitwise and of x and y.
func (s *Scope) BitwiseAnd(x, y *Array) *Array { return s.binary(loop.And, x, y) }

// BitwiseOr is the bitwise or of x and y.
func (s *Scope) BitwiseOr(x, y *Array) *Array { return s.binary(loop.Or, x, y) }

// BitwiseXor is the bitwise exclusive or of x and y.
func (s *Scope) BitwiseXor(x, y *Array) *Array { return s.binary(loop.Xor, x, y) }

// BitwiseInvert inverts all bits of x.
func (s *Scope) BitwiseInvert(x *Array) *Array {
	return s.op("bitwise_invert", nil, func(b *ir.Builder, v []*ir.Value) *ir.Value {
		if v[0].Type.DType == weir.Bool {
			return ops.Unary(b, ops.Not, v[0])
		}
		return ops.Unary(b, ops.BitNot, v[0])
	}, x)
}

// ShiftLeft shifts the bits of integers x left by y positions; the result is 0 if all bits are shifted out.
func (s *Scope) ShiftLeft(x, y *Array) *Array { return s.binary(loop.Shl, x, y) }

// ShiftRight shifts the bits of integers x right by y positions; the sign stays.
func (s *Scope) ShiftRight(x, y *Array) *Array { return s.binary(loop.Shr, x, y) }
