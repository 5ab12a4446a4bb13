package onnx

import (
	"slices"

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
	place := c.graph.place()
	if truth, ok := decided(cond); ok {
		return c.graph.branch(branchOf(c, int(min(truth, 1))), c.Builder, place)
	}
	if d, ok := c.graph.attempt.forks[place]; ok {
		c.takes(cond, d)
		return c.graph.branch(branchOf(c, d.only), c.Builder, place)
	}
	sides := c.graph.sides(place)
	for i, s := range sides {
		if err := s.do(func() error { s.block.Results = c.graph.branch(branchOf(c, i), s.build, place); return nil }); err != nil {
			c.Fail(err)
		}
	}
	results := [2][]*ir.Value{sides[0].block.Results, sides[1].block.Results}
	if len(results[0]) != len(results[1]) {
		c.Fault("branches with %d and %d results", len(results[1]), len(results[0]))
	}
	for i, v := range results[0] {
		if !c.graph.alike(v, results[1][i]) && c.graph.formOf(v).of.DType == c.graph.formOf(results[1][i]).of.DType {
			c.graph.attempt.forks[place] = fork{only: -1}
			c.again()
		}
	}
	return c.join(cond, sides, results)
}

// iterate converts Loop.
func iterate(c *call) []*ir.Value {
	limit := c.trips()
	trip, cond := scalarOf(c, c.Optional(0)), scalarOf(c, c.Optional(1))
	var carried []*ir.Value
	for i := 2; i < len(c.In); i++ {
		carried = append(carried, c.Input(i))
	}
	body, in := ops.LoopBody(c.Builder, c.Source, limit, carried, c.graph.attempt.varies[c.graph.place()]...)
	body.Results = c.graph.body(c.Graph("body"), in, body.Params)
	if len(body.Results) < 1+len(carried) {
		c.Fault("the body has %d outputs for %d carried values", len(body.Results), len(carried))
	}
	body.Results[0] = scalarIn(in, body.Results[0])
	if more := ops.LoopVaries(c.Inference, body, carried); more != nil {
		known := c.graph.attempt.varies
		known[c.graph.place()] = append(known[c.graph.place()], more...)
		c.again()
	}
	ops.LimitLoop(c.Inference, body, limit, carried)
	return ops.Loop(c.Builder, body, trip, cond, carried...)
}

// trips is a limit of the number of a loop's iterations. A count that the caller gives is a dimension; one below 0 stands for none.
func (c *call) trips() sym.Expr {
	trip := c.Optional(0)
	if trip == nil {
		return sym.Const(ops.LoopLimit)
	}
	most := int64(ops.LoopLimit)
	if slices.Contains(c.Module.Main.Body.Params, trip) {
		most = sym.NoMax
	}
	known, err := c.Elements(trip, -ops.LoopLimit, most)
	if err != nil {
		c.Fail(err)
	}
	if len(known) != 1 {
		c.Fault("the trip count is %s, it must be one number", trip.Type)
	}
	return known[0]
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
