package convert

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// ScalarOf reshapes a value of one element to rank 0; nil stays nil.
func ScalarOf(c *Call, v *ir.Value) *ir.Value {
	if v == nil {
		return nil
	}
	return ScalarIn(c.Builder, v)
}

// ScalarIn reshapes a value of one element to rank 0, in a block.
func ScalarIn(b *ir.Builder, v *ir.Value) *ir.Value {
	if len(v.Type.Shape) == 0 {
		return v
	}
	return ops.Reshape(b, v)
}

// Flat reshapes a value to one axis.
func (c *Call) Flat(x *ir.Value) *ir.Value { return ops.Reshape(c.Builder, x, Count(x.Type.Shape)) }

// Scalar returns a constant of one element.
func (c *Call) Scalar(dt dtype.DType, x float64) *ir.Value { return ops.Scalar(c.Builder, dt, x) }

// IsKnown reports whether all elements of a value are numbers.
func IsKnown(v *ir.Value) bool {
	return v.Known != nil && !slices.ContainsFunc(v.Known, func(e sym.Expr) bool { _, ok := e.Const(); return !ok })
}

// AllAxes returns the axes of a tensor of the given rank.
func AllAxes(rank int) []int64 {
	axes := make([]int64, rank)
	for i := range axes {
		axes[i] = int64(i)
	}
	return axes
}

// ExtentLimit is the largest extent that a run may bind to a size in an input.
const ExtentLimit = 1 << 20

// Unlimited is the upper bound of an extent that a model computes at run time, if nothing else bounds it.
const Unlimited = sym.NoMax

// Integers returns a vector of i64 with symbolic elements.
func (c *Call) Integers(elements ...sym.Expr) *ir.Value {
	return ops.Integers(c.Builder, ir.Type{DType: dtype.I64, Shape: []sym.Expr{sym.Const(int64(len(elements)))}}, elements)
}

// Number returns an i64 scalar.
func (c *Call) Number(x int64) *ir.Value { return c.Builder.Constant("c", tensor.Scalar(x)) }

// Wide returns an integer input as i64.
func (c *Call) Wide(i int) *ir.Value { return ops.Cast(c.Builder, c.Input(i), dtype.I64) }

// Length returns the constant extent of a vector input.
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

// Decided returns the elements of a vector that the run computes, as dimensions in [0, most].
func (c *Call) Decided(v *ir.Value, most sym.Expr) []sym.Expr {
	return c.SymbolsOf(v, 0, most)
}

// Condition adds a condition of the node, as ir.Inference.Require does for an operator, if the rule expands the node.
func (c *Call) Condition(cond sym.Cond, why string) {
	c.Scope.require(c.Source, c.Node.OpType, cond, why)
}

// Count returns the number of elements of a shape.
func Count(shape []sym.Expr) sym.Expr { return sym.Product(shape...) }

// Marked returns for each axis of rank whether it is one of axes.
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

// Narrow converts numbers to f32.
func Narrow(xs []float64) []float32 {
	out := make([]float32, len(xs))
	for i, x := range xs {
		out[i] = float32(x)
	}
	return out
}

// StringTensor returns a tensor of strings.
func (c *Call) StringTensor(shape []int64, elements ...string) *tensor.Tensor {
	t, err := tensor.OverStrings(shape, elements)
	if err != nil {
		c.Fail(err)
	}
	return t
}

// Integer returns a symbolic integer as an i64 scalar.
func (c *Call) Integer(e sym.Expr) *ir.Value {
	return ops.Integers(c.Builder, ir.Type{DType: dtype.I64}, []sym.Expr{e})
}

// Positive returns 1 for an integer of at least 1, else 0.
func Positive(e sym.Expr) sym.Expr { return e.Max(sym.Const(0)).Min(sym.Const(1)) }

// FromEnd resolves a position, which counts from the end if it is negative.
func (c *Call) FromEnd(at, extent sym.Expr) sym.Expr {
	switch {
	case c.Dims().LE(sym.Const(0), at) == sym.Yes:
		return at
	case c.Dims().LT(at, sym.Const(0)) == sym.Yes:
		return at.Add(extent)
	}
	return at.Add(extent.Mul(Positive(at.Neg())))
}
