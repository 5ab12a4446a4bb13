package onnx

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// Axes that only the run knows. Each has one of finitely many values, so that what it decides is a formula, or a choice.

// anyAxis builds once for each axis that input i, one integer that may count from the end, can name, and has the run choose: one If within another. The axis is
// checked where it becomes known, before anything is computed with it.
func (c *call) anyAxis(i, rank int, build func(b *ir.Builder, axis int64) []*ir.Value) []*ir.Value {
	v := c.Input(i)
	if size, ok := count(v.Type.Shape).Const(); !ok || size != 1 {
		c.Fault("the axis is %s, it must be one integer", v.Type)
	}
	if isKnown(v) {
		return build(c.Builder, c.Axis(c.Numbers(i)[0], rank))
	}
	if rank == 0 {
		c.Fault("an axis of a scalar")
	}
	c.within(c.Symbols(i, -int64(rank), int64(rank)-1)[0], -int64(rank), int64(rank)-1, "an axis is one of the tensor's")
	b := c.Builder
	at := ops.Binary(b, ops.FloorMod, ops.Cast(b, scalarIn(b, v), dtype.I64), c.number(int64(rank)))
	// All are computed at once, so that every run computes the same.
	is := make([]*ir.Value, rank-1)
	for axis := range is {
		is[axis] = ops.Binary(b, ops.Eq, at, c.number(int64(axis)))
	}
	return choose(b, is, build)
}

// choose is build for the first axis that is, or else for the one behind the last.
func choose(b *ir.Builder, is []*ir.Value, build func(b *ir.Builder, axis int64) []*ir.Value) []*ir.Value {
	var from func(b *ir.Builder, axis int) []*ir.Value
	from = func(b *ir.Builder, axis int) []*ir.Value {
		if axis == len(is) {
			return build(b, int64(axis))
		}
		then, otherwise := &ir.Block{}, &ir.Block{}
		then.Results = build(b.In(then), int64(axis))
		otherwise.Results = from(b.In(otherwise), axis+1)
		return ops.If(b, is[axis], then, otherwise)
	}
	return from(b, 0)
}

// within states that a symbolic integer lies between two numbers.
func (c *call) within(e sym.Expr, lo, hi int64, why string) {
	c.require(sym.Cond{A: sym.Const(lo), B: e}, why)
	c.require(sym.Cond{A: e, B: sym.Const(hi)}, why)
}
