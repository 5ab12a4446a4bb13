package array

import (
	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/ops"
)

// unary applies a function of one element; if it is a function of floats, integers become f32 first.
func (s *Scope) unary(f loop.UnaryOp, x *Array, floats bool) *Array {
	if y := s.again(f.String(), nil, x); y != nil {
		return y
	}
	return s.op(f.String(), nil, func(b *ir.Builder, v []*ir.Value) *ir.Value {
		if floats {
			return ops.Unary(b, f, asFloat(b, v[0]))
		}
		return ops.Unary(b, f, v[0])
	}, x)
}

// binary applies a function of two elements to arrays of their common type (see Promote), broadcast.
func (s *Scope) binary(f loop.BinaryOp, x, y *Array) *Array {
	if z := s.again(f.String(), nil, x, y); z != nil {
		return z
	}
	return s.pairs(f.String(), x, y, func(c calc, p, q *ir.Value) *ir.Value { return c.g(f, p, q) })
}

// pairs applies a function of two elements, converted to their common type.
func (s *Scope) pairs(name string, x, y *Array, f func(c calc, p, q *ir.Value) *ir.Value) *Array {
	if z := s.again(name, nil, x, y); z != nil {
		return z
	}
	return s.op(name, nil, func(b *ir.Builder, v []*ir.Value) *ir.Value {
		p, q := common(b, v[0], v[1])
		return f(calc{b}, p, q)
	}, x, y)
}

// floatPairs is pairs of floats: integers become f32 first.
func (s *Scope) floatPairs(name string, x, y *Array, f func(c calc, p, q *ir.Value) *ir.Value) *Array {
	return s.pairs(name, x, y, func(c calc, p, q *ir.Value) *ir.Value { return f(c, asFloat(c.b, p), asFloat(c.b, q)) })
}

// common converts two values to their common type.
func common(b *ir.Builder, x, y *ir.Value) (*ir.Value, *ir.Value) {
	dt, err := Promote(x.Type.DType, y.Type.DType)
	if err != nil {
		b.Fail(err)
	}
	return ops.Cast(b, x, dt), ops.Cast(b, y, dt)
}

// Promote returns the common type of arrays of two types: the smallest that holds both, as in the array API. The common
// type of integers and a float is the float. u64 and signed integers have none, nor do strings.
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

// Div is x / y; integers become f32 first.
func (s *Scope) Div(x, y *Array) *Array {
	return s.floatPairs("div", x, y, func(c calc, p, q *ir.Value) *ir.Value { return c.div(p, q) })
}

// Neg is −x.
func (s *Scope) Neg(x *Array) *Array { return s.unary(loop.Neg, x, false) }

// Abs is the magnitude of x.
func (s *Scope) Abs(x *Array) *Array {
	return s.op("abs", nil, func(b *ir.Builder, v []*ir.Value) *ir.Value {
		if v[0].Type.DType.IsUnsigned() {
			return same(b, v[0])
		}
		return ops.Unary(b, ops.Abs, v[0])
	}, x)
}

// Sign is −1, 0 or 1; the sign of NaN is NaN.
func (s *Scope) Sign(x *Array) *Array { return s.unary(loop.Sign, x, false) }

// Maximum is the greater of x and y; NaN if one of them is NaN.
func (s *Scope) Maximum(x, y *Array) *Array { return s.binary(loop.Max, x, y) }

// Minimum is the smaller of x and y; NaN if one of them is NaN.
func (s *Scope) Minimum(x, y *Array) *Array { return s.binary(loop.Min, x, y) }

// Clip limits x to at least low and at most high; either may be nil. The result has x's type.
func (s *Scope) Clip(x, low, high *Array) *Array {
	in, limits := []*Array{x}, 0
	for i, a := range []*Array{low, high} {
		if a != nil {
			in, limits = append(in, a), limits|1<<i
		}
	}
	return s.op("clip", []int{limits}, func(b *ir.Builder, v []*ir.Value) *ir.Value {
		c, y, next := calc{b}, v[0], 1
		for i, f := range []loop.BinaryOp{loop.Max, loop.Min} {
			if limits&(1<<i) != 0 {
				y = c.g(f, y, ops.Cast(b, v[next], y.Type.DType))
				next++
			}
		}
		if limits == 0 {
			return same(b, y)
		}
		return y
	}, in...)
}

// Where is x where cond is true and y elsewhere, broadcast; cond has bools, and the result has the common type of x and
// y.
func (s *Scope) Where(cond, x, y *Array) *Array {
	if !s.ready("where", []*Array{cond, x, y}) {
		return s.none(1)[0]
	}
	list := s.typed([]*Array{x, y})
	return s.op("where", nil, func(b *ir.Builder, v []*ir.Value) *ir.Value {
		p, q := common(b, v[1], v[2])
		return ops.Where(b, asBool(b, v[0]), p, q)
	}, cond, list[0], list[1])
}

// Cast converts the elements to another type. Floats are truncated to integers.
func (s *Scope) Cast(x *Array, dt weir.DType) *Array {
	return s.op("cast", []int{int(dt)}, func(b *ir.Builder, v []*ir.Value) *ir.Value { return ops.Cast(b, v[0], dt) }, x)
}
