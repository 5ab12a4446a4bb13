package onnx

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

func init() {
	add(map[string]rule{"If": branch, "Loop": iterate})
}

// branch converts If. A condition that is known takes its branch at once.
func branch(c *call) []*ir.Value {
	cond := c.Input(0)
	then, otherwise := c.Graph("then_branch"), c.Graph("else_branch")
	if cond.Known != nil && len(cond.Known) == 1 {
		if v, ok := cond.Known[0].Const(); ok {
			if v == 0 {
				then = otherwise
			}
			return c.graph.body(then, c.Builder, nil)
		}
	}
	var blocks [2]*ir.Block
	blocks[0], blocks[1] = &ir.Block{}, &ir.Block{}
	blocks[0].Results = c.graph.body(then, c.Builder.In(blocks[0]), nil)
	blocks[1].Results = c.graph.body(otherwise, c.Builder.In(blocks[1]), nil)
	return ops.If(c.Builder, cond, blocks[0], blocks[1])
}

// iterate converts Loop.
func iterate(c *call) []*ir.Value {
	proto := c.Graph("body")
	trip, cond := scalarOf(c, c.Optional(0)), scalarOf(c, c.Optional(1))
	var carried []*ir.Value
	for i := 2; i < len(c.In); i++ {
		carried = append(carried, c.Input(i))
	}
	limit := sym.Const(ops.LoopLimit)
	if trip != nil {
		known, err := c.Elements(trip, 0, ops.LoopLimit)
		if err != nil {
			c.Fail(err)
		}
		limit = known[0]
	}
	body, in := ops.LoopBody(c.Builder, c.Source, limit, carried)
	body.Results = c.graph.body(proto, in, body.Params)
	if len(body.Results) < 1+len(carried) {
		c.Fault("the body has %d outputs for %d carried values", len(body.Results), len(carried))
	}
	body.Results[0] = scalarIn(in, body.Results[0])
	return ops.Loop(c.Builder, body, trip, cond, carried...)
}

// scalarOf is a value of one element under rank 0; nil stays nil.
func scalarOf(c *call, v *ir.Value) *ir.Value {
	if v == nil {
		return nil
	}
	return scalarIn(c.Builder, v)
}

func scalarIn(b *ir.Builder, v *ir.Value) *ir.Value {
	if len(v.Type.Shape) == 0 {
		return v
	}
	return ops.Reshape(b, v)
}
