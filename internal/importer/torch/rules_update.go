package torch

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// init adds the rules of this file.
func init() {
	add(map[string]rule{
		"aten.addcmul.default": combined(ops.Mul), "aten.addcdiv.default": combined(ops.Div),
		"aten.lerp.Scalar": lerp, "aten.lerp.Tensor": lerp,
		"aten.index_fill.int_Scalar": indexFill, "aten.index_fill.int_Tensor": indexFill,
		"aten.index_copy.default": indexInto(false), "aten.index_add.default": indexInto(true),
		"prims.copy_strided.default":      func(c *call) []*ir.Value { return one(c.tensor("a")) },
		"aten.diagonal_scatter.default":   scatteredView("aten.diagonal.default"),
		"aten.as_strided_scatter.default": scatteredView("aten.as_strided.default"),
	})
}

// combined returns a rule for self + value · f(tensor1, tensor2).
func combined(f ops.BinaryFunction) rule {
	return func(c *call) []*ir.Value {
		v := c.promote(f == ops.Div, c.operand("self"), c.operand("tensor1"), c.operand("tensor2"))
		term := c.binary(f, v[1], v[2])
		if c.has("value") && !c.isOne("value") {
			term = c.binary(ops.Mul, term, c.number("value", term.Type.DType))
		}
		return one(c.binary(ops.Add, v[0], term))
	}
}

// lerp is a rule for self + weight · (end − self).
func lerp(c *call) []*ir.Value {
	v := c.promote(true, c.operand("self"), c.operand("end"), c.operand("weight"))
	return one(c.binary(ops.Add, v[0], c.binary(ops.Mul, v[2], c.binary(ops.Sub, v[1], v[0]))))
}

// indexedAlong returns self with at least one axis, the axis dim, and the indices along it as [n, 1], counted from 0.
func (c *call) indexedAlong() (x *ir.Value, axis int, indices *ir.Value) {
	self, at := c.tensor("self"), c.withAxis(c.tensor("index"))
	axis = c.axis("dim", 0, len(self.Type.Shape))
	if x = c.withAxis(self); len(at.Type.Shape) != 1 {
		c.Fail(diag.Inputf("indices %s along an axis", at.Type))
	}
	at = ops.Cast(c.Builder, at, dtype.I64)
	extent := ops.Integers(c.Builder, ir.Type{DType: dtype.I64}, []sym.Expr{x.Type.Shape[axis]})
	at = ops.Where(c.Builder, c.binary(ops.Lt, at, c.like(at, 0)), c.binary(ops.Add, at, extent), at)
	return x, axis, ops.Reshape(c.Builder, at, at.Type.Shape[0], unit)
}

// alongAxis stores rows at indices along an axis of x, or adds them.
func (c *call) alongAxis(x *ir.Value, axis int, indices, rows *ir.Value, add bool) *ir.Value {
	turned := c.moveAxes(x, axis, 0, 1)
	turned = c.scatteredSlices(turned, indices, c.moveAxes(rows, axis, 0, 1), add)
	return c.moveAxes(turned, 0, axis, 1)
}

// indexFill is a rule that fills the slices at indices along an axis with value.
func indexFill(c *call) []*ir.Value {
	x, axis, indices := c.indexedAlong()
	shape := append([]sym.Expr{}, x.Type.Shape...)
	shape[axis] = indices.Type.Shape[0]
	rows := ops.Expand(c.Builder, c.scalarOf("value", x.Type.DType), shape...)
	y := c.alongAxis(x, axis, indices, rows, false)
	return one(ops.Reshape(c.Builder, y, c.tensor("self").Type.Shape...))
}

// indexInto returns a rule that stores slices of source at indices along an axis, or adds them.
func indexInto(add bool) rule {
	return func(c *call) []*ir.Value {
		x, axis, indices := c.indexedAlong()
		rows := ops.Cast(c.Builder, c.withAxis(c.tensor("source")), x.Type.DType)
		if c.has("alpha") && !c.isOne("alpha") {
			rows = times(c, rows, c.number("alpha", rows.Type.DType))
		}
		shape := append([]sym.Expr{}, x.Type.Shape...)
		shape[axis] = indices.Type.Shape[0]
		y := c.alongAxis(x, axis, indices, ops.Expand(c.Builder, rows, shape...), add)
		return one(ops.Reshape(c.Builder, y, c.tensor("self").Type.Shape...))
	}
}

// scatteredView returns a rule that stores src in a view of self; name is the view's operator.
func scatteredView(name string) rule {
	return func(c *call) []*ir.Value {
		x := c.tensor("self")
		as := *c
		as.name = name
		view := as.again(x, 0)
		src := ops.Expand(c.Builder, ops.Cast(c.Builder, c.tensor("src"), x.Type.DType), view.Type.Shape...)
		return one(as.putBack(x, src, 0))
	}
}
