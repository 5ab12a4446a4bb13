package array

import (
	"math"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/ops"
)

// unary applies a function of one element; integers become f32 first if it is one of floats.
func (s *Scope) unary(f loop.UnaryOp, x *Array, floats bool) *Array {
	x, _ = s.settle(x, nil)
	return s.one(operation{name: f.String(), build: func(b *ir.Builder, in []*ir.Value) []*ir.Value {
		v := in[0]
		if floats && !v.Type.DType.IsFloat() {
			v = ops.Cast(b, v, weir.F32)
		}
		return []*ir.Value{ops.Unary(b, f, v)}
	}}, x)
}

// binary applies a function of two elements to arrays of their common type (see Promote), broadcast.
func (s *Scope) binary(f loop.BinaryOp, x, y *Array) *Array {
	x, y = s.settle(x, y)
	return s.one(operation{name: f.String(), build: func(b *ir.Builder, in []*ir.Value) []*ir.Value {
		p, q := common(b, in[0], in[1])
		return []*ir.Value{ops.Binary(b, f, p, q)}
	}}, x, y)
}

// common converts two values to their common type.
func common(b *ir.Builder, x, y *ir.Value) (*ir.Value, *ir.Value) {
	dt, err := Promote(x.Type.DType, y.Type.DType)
	if err != nil {
		b.Fail(err)
	}
	return ops.Cast(b, x, dt), ops.Cast(b, y, dt)
}

// settle gives numbers among operands a type: that of the other operand.
func (s *Scope) settle(x, y *Array) (*Array, *Array) {
	if s.failed() {
		return x, y
	}
	like := weir.F32
	for _, a := range []*Array{x, y} {
		if a != nil && !a.weak {
			like = a.dtype
		}
	}
	give := func(a *Array) *Array {
		if a == nil || !a.weak {
			return a
		}
		dt := like
		if !dt.IsFloat() && (a.number != math.Trunc(a.number) || math.IsInf(a.number, 0)) || dt == weir.Bool {
			dt = weir.F32
		}
		return s.passing(dt, a.number)
	}
	return give(x), give(y)
}

// Promote is the type in which arrays of two types are combined: the smallest that holds both, as the array API has it.
// Integers and a float are combined as the float. There is none for u64 and signed integers, nor for texts.
func Promote(x, y weir.DType) (weir.DType, error) {
	if x == y {
		return x, nil
	}
	if x == weir.Bool {
		return y, nil
	}
	if y == weir.Bool {
		return x, nil
	}
	fail := diag.Inputf("%v and %v have no common type", x, y).WithFix("Cast one of them")
	number := func(dt weir.DType) bool { return dt.IsFloat() || dt.IsInt() }
	switch {
	case !number(x) || !number(y):
		return weir.InvalidDType, fail
	case x.IsFloat() && y.IsFloat():
		if x.Bits() == y.Bits() {
			return weir.F32, nil // f16 and bf16
		}
		if x.Bits() > y.Bits() {
			return x, nil
		}
		return y, nil
	case x.IsFloat():
		return x, nil
	case y.IsFloat():
		return y, nil
	}
	if x.IsSigned() == y.IsSigned() {
		if x.Bits() > y.Bits() {
			return x, nil
		}
		return y, nil
	}
	if !x.IsSigned() {
		x, y = y, x
	}
	if x.Bits() > y.Bits() {
		return x, nil
	}
	if dt, ok := map[int]weir.DType{8: weir.I16, 16: weir.I32, 32: weir.I64}[y.Bits()]; ok {
		return dt, nil
	}
	return weir.InvalidDType, fail
}

// Add is x + y.
func (s *Scope) Add(x, y *Array) *Array { return s.binary(loop.Add, x, y) }

// Sub is x − y.
func (s *Scope) Sub(x, y *Array) *Array { return s.binary(loop.Sub, x, y) }

// Mul is x · y.
func (s *Scope) Mul(x, y *Array) *Array { return s.binary(loop.Mul, x, y) }

// Div is x / y; of integers, in f32.
func (s *Scope) Div(x, y *Array) *Array {
	x, y = s.settle(x, y)
	return s.one(operation{name: "div", build: func(b *ir.Builder, in []*ir.Value) []*ir.Value {
		p, q := common(b, in[0], in[1])
		if !p.Type.DType.IsFloat() {
			p, q = ops.Cast(b, p, weir.F32), ops.Cast(b, q, weir.F32)
		}
		return []*ir.Value{ops.Binary(b, loop.Div, p, q)}
	}}, x, y)
}

// Neg is −x.
func (s *Scope) Neg(x *Array) *Array { return s.unary(loop.Neg, x, false) }

// Exp is e to the power of x.
func (s *Scope) Exp(x *Array) *Array { return s.unary(loop.Exp, x, true) }

// Log is the natural logarithm of x.
func (s *Scope) Log(x *Array) *Array { return s.unary(loop.Log, x, true) }

// Tanh is the hyperbolic tangent of x.
func (s *Scope) Tanh(x *Array) *Array { return s.unary(loop.Tanh, x, true) }

// Relu is the greater of x and 0.
func (s *Scope) Relu(x *Array) *Array { return s.Maximum(x, s.Number(0)) }

// Maximum is the greater of x and y; NaN if one of them is.
func (s *Scope) Maximum(x, y *Array) *Array { return s.binary(loop.Max, x, y) }

// Minimum is the smaller of x and y; NaN if one of them is.
func (s *Scope) Minimum(x, y *Array) *Array { return s.binary(loop.Min, x, y) }

// Cast converts the elements to another type.
func (s *Scope) Cast(x *Array, dt weir.DType) *Array {
	x, _ = s.settle(x, nil)
	return s.one(operation{name: "cast", ints: []int{int(dt)}, build: func(b *ir.Builder, in []*ir.Value) []*ir.Value {
		return []*ir.Value{ops.Cast(b, in[0], dt)}
	}}, x)
}
