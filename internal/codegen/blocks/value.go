package blocks

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// Value is the result of an expression, of the type Held(DType) unless it is narrow.
type Value struct {
	ID
	DType  dtype.DType
	Narrow bool // an i64 that is proved to fit 32 bits with its sign, and has the type of those
	held   bool // the ID is a variable that holds the value
}

// Full returns a value in the type Held(x.DType).
func (w *Writer) Full(x Value) ID {
	if x.Narrow {
		if !w.int64s() {
			Refuse("%s, which the device does not have", x.DType)
		}
		return w.Resize(x.ID, true)
	}
	return x.ID
}

// expr computes an expression.
func (w *Writer) expr(e loop.Expr) Value {
	if c := folded(e); c != nil {
		return w.Const(c)
	}
	switch e := e.(type) {
	case *loop.Ref:
		x, ok := w.bound[e.Name]
		if !ok {
			w.Bug("%s is not declared", e.Name)
		}
		if x.held {
			return Value{ID: w.Get(x.ID, w.Held(x.DType)), DType: x.DType}
		}
		return x
	case *loop.Index:
		x := w.Integer(e.X)
		return Value{ID: x.ID, DType: dtype.I64, Narrow: !x.Wide}
	case *loop.Load:
		return Value{ID: w.loadExpr(e), DType: e.Type}
	case *loop.Unary:
		return w.Unary(e.Op, w.expr(e.X))
	case *loop.Binary:
		if holds, known := w.decided(e); known {
			return Value{ID: w.Bool(holds), DType: dtype.Bool}
		}
		return w.Binary(e.Op, w.expr(e.X), w.expr(e.Y))
	case *loop.Select:
		cond, x, y := w.expr(e.Cond), w.expr(e.X), w.expr(e.Y)
		if x.Narrow && y.Narrow {
			return Value{ID: w.Choose(w.IntegerType(false), cond.ID, x.ID, y.ID), DType: x.DType, Narrow: true}
		}
		return Value{ID: w.Choose(w.Held(x.DType), cond.ID, w.Full(x), w.Full(y)), DType: x.DType}
	case *loop.Cast:
		if q, ok := loop.QuantisedOf(e); ok {
			return Value{ID: w.Quantise(q, w.expr(q.X).ID), DType: e.Type}
		}
		x := w.expr(e.X)
		if e.Type == x.DType {
			return x
		}
		if e.Type == dtype.I64 && x.DType == dtype.Bool {
			return Value{ID: w.Cast(dtype.I32, x, true), DType: e.Type, Narrow: true}
		}
		return Value{ID: w.Cast(e.Type, x, !e.Wrap), DType: e.Type}
	}
	w.Bug("an expression of type %T", e)
	return Value{}
}

// folded returns the value of an expression of constants; nil for other expressions.
func folded(e loop.Expr) *loop.Const {
	switch e := e.(type) {
	case *loop.Const:
		return e
	case *loop.Unary:
		if x := folded(e.X); x != nil && loop.Scalar(x.Type) {
			return &loop.Const{Type: e.DType(), Bits: loop.EvalUnary(e.Op, x.Type, x.Bits)}
		}
	case *loop.Binary:
		x := folded(e.X)
		if x == nil || !loop.Scalar(x.Type) {
			return nil
		}
		if y := folded(e.Y); y != nil {
			return &loop.Const{Type: e.DType(), Bits: loop.EvalBinary(e.Op, x.Type, x.Bits, y.Bits)}
		}
	case *loop.Cast:
		if x := folded(e.X); x != nil && loop.Scalar(x.Type) && loop.Scalar(e.Type) {
			return &loop.Const{Type: e.Type, Bits: loop.EvalCast(e.Type, x.Type, e.Wrap, x.Bits)}
		}
	}
	return nil
}

// loadExpr reads an element if its mask holds, and else returns the other value. If the buffer is never empty, it reads
// the first element if the mask does not hold, which costs less than a branch.
func (w *Writer) loadExpr(e *loop.Load) ID {
	m := w.memory(e.From)
	offset := w.offsetOf(m, e.Index)
	if e.Mask == nil {
		return w.Load(m, offset)
	}
	mask, typ := w.expr(e.Mask), w.Held(e.Type)
	if mask.ID == w.Bool(true) {
		return w.Load(m, offset)
	}
	other := w.Zero(e.Type)
	if e.Else != nil {
		other = w.Full(w.expr(e.Else))
	}
	if mask.ID == w.Bool(false) {
		return other
	}
	if !w.someElements(m) || m.DType.Bits() < 8 {
		result := w.Variable(typ)
		w.Set(result, other)
		w.When(mask.ID, func() { w.Set(result, w.Load(m, offset)) }, nil)
		return w.Get(result, typ)
	}
	return w.Choose(typ, mask.ID, w.LoadIf(m, offset, mask.ID), other)
}

// someElements reports whether a buffer has an element for every binding of the dimensions.
func (w *Writer) someElements(m *Memory) bool {
	for _, extent := range m.Shape {
		if r, _ := w.ranges.Of(extent); r.Min < 1 {
			return false
		}
	}
	return true
}

// decided returns the result of a comparison of Index values, which is common in masks, if it is the same for every
// binding.
func (w *Writer) decided(e *loop.Binary) (holds, known bool) {
	x, first := e.X.(*loop.Index)
	y, second := e.Y.(*loop.Index)
	if !first || !second {
		return false, false
	}
	r, _ := w.ranges.Of(x.X.Sub(y.X))
	switch e.Op {
	case loop.Lt:
		return r.Max < 0, r.Max < 0 || r.Min >= 0
	case loop.Le:
		return r.Max <= 0, r.Max <= 0 || r.Min > 0
	case loop.Gt:
		return r.Min > 0, r.Min > 0 || r.Max <= 0
	case loop.Ge:
		return r.Min >= 0, r.Min >= 0 || r.Max < 0
	}
	return false, false
}
