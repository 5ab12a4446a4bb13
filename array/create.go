package array

import (
	"math"
	"runtime"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// From makes an array with a copy of data, of the given shape; without a shape it has one axis.
func From[T weir.Element](s *Scope, data []T, shape ...int) *Array {
	if s.stopped() {
		return s.none(1)[0]
	}
	if shape == nil {
		shape = []int{len(data)}
	}
	sizes := make([]int64, len(shape))
	for i, e := range shape {
		sizes[i] = int64(e)
	}
	from, err := tensor.FromSlice(data, sizes...)
	if err != nil {
		s.failAt("from", err)
		return s.none(1)[0]
	}
	return s.hold(from, shape)
}

// hold returns an array of the scope with a copy of a tensor's elements.
func (s *Scope) hold(from *tensor.Tensor, shape []int) *Array {
	if s.trace != nil {
		copied, err := tensor.Over(from.DType(), from.Shape(), append([]byte(nil), from.Bytes()...))
		if err != nil {
			s.failAt("from", err)
			return s.none(1)[0]
		}
		return s.trace.constant(s, copied)
	}
	a, err := s.empty(from.DType(), append([]int(nil), shape...), false)
	if err != nil {
		s.failAt("from", err)
		return s.none(1)[0]
	}
	copy(a.tensor.Bytes(), from.Bytes())
	return a
}

// Scalar makes an array of rank 0.
func Scalar[T weir.Element](s *Scope, v T) *Array { return From(s, []T{v}, []int{}...) }

// Number returns x as an operand that takes the element type of the other operands. It is f32 if they are integers and
// x is not an integer, or if there are none.
func (s *Scope) Number(x float64) *Array {
	var frames [1]uintptr
	at := among(frames[:runtime.Callers(2, frames[:])])
	a := &Array{weak: true, number: x, dtype: weir.F32, shape: []int{}, made: at, of: s.trace}
	a.owner.Store(s)
	return a
}

// Of makes an array that shares a tensor's storage. Closing the scope does not close the tensor, which must stay open
// until then.
func Of(s *Scope, t *weir.Tensor) *Array {
	switch {
	case s.stopped():
		return s.none(1)[0]
	case t == nil || t.Bytes() == nil && t.Len() > 0:
		s.failAt("of", diag.New(weir.ErrClosed, "the tensor is nil, closed, or was given away"))
		return s.none(1)[0]
	}
	a := &Array{dtype: t.DType(), shape: t.Shape(), tensor: t, lent: true, made: here()}
	if err := s.own(a); err != nil {
		s.failAt("of", err)
		return s.none(1)[0]
	}
	return a
}

// Zeros makes an array of zeros.
func (s *Scope) Zeros(dt weir.DType, shape ...int) *Array { return s.Full(0, dt, shape...) }

// Ones makes an array of ones.
func (s *Scope) Ones(dt weir.DType, shape ...int) *Array { return s.Full(1, dt, shape...) }

// Full makes an array whose elements are all x, rounded to the type.
func (s *Scope) Full(x float64, dt weir.DType, shape ...int) *Array {
	if s.stopped() {
		return s.none(1)[0]
	}
	exprs, err := s.extents(shape)
	if err == nil && s.trace == nil {
		_, err = countOf(shape)
	}
	if err == nil && s.trace == nil && (x == 0 && !math.Signbit(x) || !dt.IsSubByte()) {
		var a *Array
		if x == 0 && !math.Signbit(x) {
			a, err = s.empty(dt, append([]int(nil), shape...), true)
		} else {
			a, err = s.full(dt, x, shape)
		}
		if err == nil {
			return a
		}
	}
	if err != nil {
		s.failAt("full", err)
		return s.none(1)[0]
	}
	one := s.passing(dt, x)
	return s.one(operation{name: "full", ints: shape, build: func(b *ir.Builder, in []*ir.Value) []*ir.Value {
		return []*ir.Value{ops.Expand(b, in[0], exprs...)}
	}}, one)
}

// constant returns an array of rank 0 of a type.
func (s *Scope) constant(dt weir.DType, x float64) *Array {
	t, err := tensor.New(dt)
	if err == nil {
		set(t, x)
		return s.hold(t, []int{})
	}
	s.failAt("number", err)
	return s.none(1)[0]
}

// passing returns a constant that the operation which reads it closes.
func (s *Scope) passing(dt weir.DType, x float64) *Array {
	a := s.constant(dt, x)
	a.temp = true
	return a
}

// set writes a number as the element of a tensor of one element.
func set(t *tensor.Tensor, x float64) {
	store(t.DType(), t.Bytes(), x)
}

// store writes a number as the first element of a type.
func store(dt weir.DType, data []byte, x float64) {
	if dt.IsFloat() {
		dtype.StoreFloat(dt, data, 0, x)
	} else {
		dtype.StoreInt(dt, data, 0, int64(x))
	}
}

// scalar returns a constant of rank 0.
func scalar(b *ir.Builder, dt weir.DType, x float64) *ir.Value { return ops.Scalar(b, dt, x) }

// extents converts an operation's extents, numbers or codes of named extents, to expressions.
func (s *Scope) extents(shape []int) ([]sym.Expr, error) {
	out := make([]sym.Expr, len(shape))
	for i, e := range shape {
		switch {
		case e >= 0:
			out[i] = sym.Const(int64(e))
		case s.trace == nil:
			return nil, diag.Inputf("an extent of %d", e)
		default:
			expr, ok := s.trace.expr(e)
			if !ok {
				return nil, diag.Inputf("%d is no extent: a named extent cannot be computed with", e).
					WithFix("Reshape takes one −1, for what is left")
			}
			out[i] = expr
		}
	}
	return out, nil
}
