package array

import (
	"math"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// builder builds an operation with one result in ir.
type builder func(b *ir.Builder, v []*ir.Value) *ir.Value

// setBuilder is builder for an operation with settings.
type setBuilder func(b *ir.Builder, v []*ir.Value, sizes []sym.Expr, numbers []number) *ir.Value

// ready reports whether the operands can be used; otherwise the scope has an error.
func (s *Scope) ready(name string, in []*Array) bool {
	if s.stopped() {
		return false
	}
	for _, a := range in {
		if a.dead(s, name) {
			return false
		}
	}
	return true
}

// refuse keeps an operation's error, and returns a result without elements.
func (s *Scope) refuse(name string, err error) *Array {
	s.failAt(name, err)
	return s.none(1)[0]
}

// op applies an operation with one result. Operands must not be nil; numbers among them take a type.
func (s *Scope) op(name string, ints []int, build builder, in ...*Array) *Array {
	if y := s.again(name, ints, in...); y != nil {
		return y
	}
	if !s.ready(name, in) {
		return s.none(1)[0]
	}
	return s.one(operation{name: name, ints: ints, build: func(b *ir.Builder, v []*ir.Value) []*ir.Value {
		return []*ir.Value{build(b, v)}
	}}, s.typed(in)...)
}

// set is op for an operation with settings.
func (s *Scope) set(o operation, build setBuilder, in ...*Array) *Array {
	var room [12]int
	if y := s.again(o.name, append(append(append(room[:0], o.ints...), o.sizes...), bits(o.numbers...)...),
		in...); y != nil {
		return y
	}
	if !s.ready(o.name, in) {
		return s.none(1)[0]
	}
	o.with = func(b *ir.Builder, v []*ir.Value, sizes []sym.Expr, numbers []number) []*ir.Value {
		return []*ir.Value{build(b, v, sizes, numbers)}
	}
	return s.one(o, s.typed(in)...)
}

// planSet is set for an operation that depends on its operands: prepare is called after they are checked.
func (s *Scope) planSet(name string, in []*Array, prepare func() (operation, setBuilder, error)) *Array {
	if !s.ready(name, in) {
		return s.none(1)[0]
	}
	o, build, err := prepare()
	if err != nil {
		return s.refuse(name, err)
	}
	o.name = name
	return s.set(o, build, in...)
}

// plan is op for an operation that depends on its operands: prepare is called after they are checked, and returns the
// numbers that determine the code.
func (s *Scope) plan(name string, in []*Array, prepare func() ([]int, builder, error)) *Array {
	if !s.ready(name, in) {
		return s.none(1)[0]
	}
	ints, build, err := prepare()
	if err != nil {
		return s.refuse(name, err)
	}
	return s.op(name, ints, build, in...)
}

// planAt is plan for an operation that only moves x's elements: outside a trace, now performs it.
func (s *Scope) planAt(name string, x *Array, now func() *Array, prepare func() ([]int, builder, error)) *Array {
	if !s.ready(name, []*Array{x}) {
		return s.none(1)[0]
	}
	ints, build, err := prepare()
	switch {
	case err != nil:
		return s.refuse(name, err)
	case s.movable(x):
		return now()
	}
	return s.op(name, ints, build, x)
}

// typed returns the operands with numbers replaced by arrays of the others' common type, which the operation closes.
func (s *Scope) typed(in []*Array) []*Array {
	weak := 0
	for _, a := range in {
		if a != nil && a.weak {
			weak++
		}
	}
	if weak == 0 {
		return in
	}
	like := weir.InvalidDType
	for _, a := range in {
		if a == nil || a.weak || a.dtype == weir.Bool {
			continue
		}
		if dt, err := Promote(like, a.dtype); err == nil && like != weir.InvalidDType {
			like = dt
		} else {
			like = a.dtype
		}
	}
	out := make([]*Array, len(in))
	for i, a := range in {
		if out[i] = a; a != nil && a.weak {
			out[i] = s.passing(numberType(like, a.number), a.number)
		}
	}
	return out
}

// numberType returns the type that a number takes next to elements of a type.
func numberType(like weir.DType, x float64) weir.DType {
	if like == weir.InvalidDType || !like.IsFloat() && (x != math.Trunc(x) || math.IsInf(x, 0)) {
		return weir.F32
	}
	return like
}

// bits returns floats as integers of an operation's key.
func bits(list ...float64) []int {
	var out []int
	for _, x := range list {
		w := wordsOf(x)
		out = append(out, w[:]...)
	}
	return out
}

// flag returns a bool as an integer of an operation's key.
func flag(x bool) int {
	if x {
		return 1
	}
	return 0
}

// asFloat converts integers and bools to f32.
func asFloat(b *ir.Builder, v *ir.Value) *ir.Value {
	if v.Type.DType.IsFloat() {
		return v
	}
	return ops.Cast(b, v, weir.F32)
}

// asBool compares elements with 0.
func asBool(b *ir.Builder, v *ir.Value) *ir.Value {
	if v.Type.DType == weir.Bool {
		return v
	}
	return ops.Binary(b, ops.Ne, v, ops.Scalar(b, v.Type.DType, 0))
}

// asNumber converts bools to u8.
func asNumber(b *ir.Builder, v *ir.Value) *ir.Value {
	if v.Type.DType == weir.Bool {
		return ops.Cast(b, v, weir.U8)
	}
	return v
}

// totalType returns the type of a sum of elements: the widest integer type of the same sign, as in the array API.
func totalType(dt weir.DType) weir.DType {
	switch {
	case dt == weir.Bool || dt.IsSigned():
		return weir.I64
	case dt.IsUnsigned():
		return weir.U64
	}
	return dt
}

// numeral returns a constant of rank 0 of v's type.
func numeral(b *ir.Builder, v *ir.Value, x float64) *ir.Value {
	return ops.Scalar(b, v.Type.DType, x)
}

// calc builds arithmetic on values of one type.
type calc struct{ b *ir.Builder }

func (c calc) add(x, y *ir.Value) *ir.Value { return ops.Binary(c.b, ops.Add, x, y) }
func (c calc) sub(x, y *ir.Value) *ir.Value { return ops.Binary(c.b, ops.Sub, x, y) }
func (c calc) mul(x, y *ir.Value) *ir.Value { return ops.Binary(c.b, ops.Mul, x, y) }
func (c calc) div(x, y *ir.Value) *ir.Value { return ops.Binary(c.b, ops.Div, x, y) }
func (c calc) f(f ops.UnaryFunction, x *ir.Value) *ir.Value {
	return ops.Unary(c.b, f, x)
}
func (c calc) g(f ops.BinaryFunction, x, y *ir.Value) *ir.Value {
	return ops.Binary(c.b, f, x, y)
}
func (c calc) where(cond, x, y *ir.Value) *ir.Value { return ops.Where(c.b, cond, x, y) }

// extentsProduct returns the number of elements of a shape.
func extentsProduct(shape []sym.Expr) sym.Expr { return sym.Product(shape...) }

// isFixed reports whether no extent is named.
func isFixed(shape []int) bool {
	for _, e := range shape {
		if e < 0 {
			return false
		}
	}
	return true
}

// wrongType returns the error of an operand whose type an operation does not accept.
func wrongType(a *Array, want string) error {
	return diag.Inputf("%v, and %s are needed", a, want).WithFix("Cast it")
}

// narrow reports whether elements are computed in f32 and then rounded.
func narrow(dt dtype.DType) bool { return dt.IsFloat() && dt.Bits() < 32 }
