package convert

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// ScalarOf is a value of one element under rank 0; nil stays nil.
func ScalarOf(c *Call, v *ir.Value) *ir.Value {
	if v == nil {
		return nil
	}
	return ScalarIn(c.Builder, v)
}

// ScalarIn is a value of one element under rank 0, in a block.
func ScalarIn(b *ir.Builder, v *ir.Value) *ir.Value {
	if len(v.Type.Shape) == 0 {
		return v
	}
	return ops.Reshape(b, v)
}

// Flat is a value's elements in one axis.
func (c *Call) Flat(x *ir.Value) *ir.Value { return ops.Reshape(c.Builder, x, Count(x.Type.Shape)) }

// Scalar is a constant of one element.
func (c *Call) Scalar(dt dtype.DType, x float64) *ir.Value { return ops.Scalar(c.Builder, dt, x) }

// IsKnown reports whether all elements of a value are numbers.
func IsKnown(v *ir.Value) bool {
	return v.Known != nil && !slices.ContainsFunc(v.Known, func(e sym.Expr) bool { _, ok := e.Const(); return !ok })
}

// AllAxes are the axes of a tensor of the given rank.
func AllAxes(rank int) []int64 {
	axes := make([]int64, rank)
	for i := range axes {
		axes[i] = int64(i)
	}
	return axes
}

// ExtentLimit is the largest count of what a model may repeat while it is converted.
const ExtentLimit = 1 << 20

// Unlimited is the upper end of an extent that a model computes while it runs, where nothing else bounds it.
const Unlimited = sym.NoMax

// Integers is a vector of i64 made of symbolic integers.
func (c *Call) Integers(elements ...sym.Expr) *ir.Value {
	return ops.Integers(c.Builder, ir.Type{DType: dtype.I64, Shape: []sym.Expr{sym.Const(int64(len(elements)))}}, elements)
}

// Number is an i64 scalar.
func (c *Call) Number(x int64) *ir.Value { return c.Builder.Constant("c", tensor.Scalar(x)) }

// Wide is an integer input as i64.
func (c *Call) Wide(i int) *ir.Value { return ops.Cast(c.Builder, c.Input(i), dtype.I64) }

// Length is the static extent of a vector input.
func (c *Call) Length(i int) int {
	v := c.Input(i)
	if len(v.Type.Shape) != 1 {
		c.Fault("%s has rank %d, it must be a vector", v.Name, len(v.Type.Shape))
	}
	n, ok := v.Type.Shape[0].Const()
	if !ok || n > tensor.MaxRank {
		c.Refuse("%s decides the rank of a result, and has %s elements", v.Name, v.Type.Shape[0])
	}
	return int(n)
}

// Decided is a vector that the run computes, as dimensions in [0, most].
func (c *Call) Decided(v *ir.Value, most sym.Expr) []sym.Expr {
	return c.SymbolsOf(v, 0, most)
}

// Condition states a condition of the node: what ir.Inference.Require does, for an operator that the rule takes apart.
func (c *Call) Condition(cond sym.Cond, why string) {
	c.Scope.require(c.Source, c.Node.OpType, cond, why)
}

// Count is the number of elements of a shape.
func Count(shape []sym.Expr) sym.Expr { return sym.Product(shape...) }

// Marked resolves axes against a rank: which of the axes are named.
func (c *Call) Marked(axes []int64, rank int) []bool {
	set := make([]bool, rank)
	for _, a := range axes {
		a = c.Axis(a, rank)
		if set[a] {
			c.Fault("axis %d is named twice", a)
		}
		set[a] = true
	}
	return set
}

// Narrow is numbers as f32.
func Narrow(xs []float64) []float32 {
	out := make([]float32, len(xs))
	for i, x := range xs {
		out[i] = float32(x)
	}
	return out
}

// StringTensor is a tensor of texts.
func (c *Call) StringTensor(shape []int64, elements ...string) *tensor.Tensor {
	t, err := tensor.OverStrings(shape, elements)
	if err != nil {
		c.Fail(err)
	}
	return t
}

// Integer is a symbolic integer as an i64 scalar.
func (c *Call) Integer(e sym.Expr) *ir.Value {
	return ops.Integers(c.Builder, ir.Type{DType: dtype.I64}, []sym.Expr{e})
}

// Positive is 1 for an integer of at least 1, else 0.
func Positive(e sym.Expr) sym.Expr { return e.Max(sym.Const(0)).Min(sym.Const(1)) }

// FromEnd resolves a position that counts from the end where it is negative.
func (c *Call) FromEnd(at, extent sym.Expr) sym.Expr {
	switch {
	case c.Dims().LE(sym.Const(0), at) == sym.Yes:
		return at
	case c.Dims().LT(at, sym.Const(0)) == sym.Yes:
		return at.Add(extent)
	}
	return at.Add(extent.Mul(Positive(at.Neg())))
}
