package torch

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// full is a rule for a tensor of fill_value.
func full(c *call) []*ir.Value {
	own := dtype.F32
	if c.has("self") {
		own = c.tensor("self").Type.DType
	} else if a := c.args["fill_value"]; a != nil && (a.kind == "as_int" || a.kind == "as_sym_int") {
		own = dtype.I64
	} else if a != nil && a.kind == "as_bool" {
		own = dtype.Bool
	}
	return one(ops.Expand(c.Builder, c.number("fill_value", c.dtype("dtype", own)), c.syms("size")...))
}

// filled returns a rule for a tensor of the constant x in the shape size.
func filled(x float64) rule {
	return func(c *call) []*ir.Value {
		own := dtype.F32
		if c.has("self") {
			own = c.tensor("self").Type.DType
		}
		return one(ops.Expand(c.Builder, c.constantOf(c.dtype("dtype", own), x), c.syms("size")...))
	}
}

// constantOf returns a constant of any type.
func (c *call) constantOf(dt dtype.DType, x float64) *ir.Value {
	if dt.IsFloat() || dt.IsInt() {
		return ops.Scalar(c.Builder, dt, x)
	}
	return ops.Cast(c.Builder, ops.Scalar(c.Builder, dtype.F32, x), dt)
}

// scalarTensor is a rule for the number s as a scalar.
func scalarTensor(c *call) []*ir.Value {
	return one(c.number("s", c.dtype("dtype", dtype.F32)))
}

// fullLike is a rule for a tensor of fill_value in the shape of self.
func fullLike(c *call) []*ir.Value {
	x := c.tensor("self")
	return one(ops.Expand(c.Builder, c.number("fill_value", c.dtype("dtype", x.Type.DType)), x.Type.Shape...))
}

// fillWith is a rule for self with every element replaced by value.
func fillWith(c *call) []*ir.Value {
	x := c.tensor("self")
	return one(ops.Expand(c.Builder, c.scalarOf("value", x.Type.DType), x.Type.Shape...))
}

// zeroed is a rule for zeros in the type and shape of self.
func zeroed(c *call) []*ir.Value {
	x := c.tensor("self")
	return one(ops.Expand(c.Builder, c.constantOf(x.Type.DType, 0), x.Type.Shape...))
}

// filledLike returns a rule for a tensor of the constant v in the shape of self.
func filledLike(v float64) rule {
	return func(c *call) []*ir.Value {
		x := c.tensor("self")
		return one(ops.Expand(c.Builder, c.constantOf(c.dtype("dtype", x.Type.DType), v), x.Type.Shape...))
	}
}

// arange is a rule for start, start + step, … up to but not including end.
func arange(c *call) []*ir.Value {
	if a := c.args["end"]; a == nil || a.kind != "as_int" && a.kind != "as_sym_int" {
		c.Fail(diag.Unsupportedf("a range of floats"))
	}
	begin, end, step := c.symOr("start", sym.Const(0)), c.sym("end"), c.int("step", 1)
	if step == 0 {
		c.Fail(diag.Inputf("a step of 0"))
	}
	distance, by := end.Sub(begin), step
	if step < 0 {
		distance, by = begin.Sub(end), -step
	}
	count := c.Dims().Simplify(distance.Max(sym.Const(0)).CeilDiv(sym.Const(by)))
	first := ops.Integers(c.Builder, ir.Type{DType: dtype.I64}, []sym.Expr{begin})
	return one(ops.Cast(c.Builder, ops.Range(c.Builder, first, ops.Scalar(c.Builder, dtype.I64, float64(step)), count),
		c.dtype("dtype", dtype.I64)))
}
