package convert

import (
	"errors"
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// If converts If. If the condition is known, it converts only the branch taken.
func If(c *Call) []*ir.Value {
	cond := c.Input(0)
	path := c.Scope.nodePath()
	if truth, ok := knownCondition(cond); ok {
		return c.Scope.branch(branchOf(c, int(min(truth, 1))), c.Builder, path)
	}
	if d, ok := c.Scope.Attempt.forks[path]; ok {
		c.takes(cond, d, [2]string{"its else branch", "its then branch"})
		return c.Scope.branch(branchOf(c, d.only), c.Builder, path)
	}
	sides := c.Scope.sides(cond, path)
	for i, s := range sides {
		if err := s.do(func() error {
			s.block.Results = c.Scope.branch(branchOf(c, i), s.Build, path)
			return nil
		}); err != nil {
			if errors.As(err, new(ir.Never)) {
				err = c.Scope.impossible(path, i, err)
			}
			c.Fail(err)
		}
	}
	results := [2][]*ir.Value{sides[0].block.Results, sides[1].block.Results}
	if len(results[0]) != len(results[1]) {
		c.Fault("branches with %d and %d results", len(results[1]), len(results[0]))
	}
	for i, v := range results[0] {
		if !c.Scope.alike(v, results[1][i]) && c.Scope.FormOf(v).Of.DType == c.Scope.FormOf(results[1][i]).Of.DType {
			c.Scope.Attempt.forks[path] = fork{only: -1}
			c.again()
		}
	}
	return c.join(cond, sides, results)
}

// Loop converts Loop.
func Loop(c *Call) []*ir.Value {
	limit := c.trips()
	trip, cond := ScalarOf(c, c.Optional(0)), ScalarOf(c, c.Optional(1))
	if len(c.In) > 2 && slices.Contains(c.In[2:], nil) {
		c.Fault("a carried value is missing")
	}
	proto := c.Graph("body")
	carried, stacked := c.Loop(limit, trip, cond, c.In[min(2, len(c.In)):],
		func(g *Scope, iteration, condition *ir.Value, carried []*ir.Value) []*ir.Value {
			return g.Values(proto, g.Build, append([]*ir.Value{iteration, condition}, carried...))
		})
	return append(carried, stacked...)
}

// Loop makes a loop whose body yields a condition, the carried values, and slices to be stacked. Carried values need
// not be tensors: each has a form that fits its first value and those that the body yields.
func (c *Call) Loop(limit sym.Expr, trip, cond *ir.Value, begin []*ir.Value,
	build func(g *Scope, iteration, condition *ir.Value, carried []*ir.Value) []*ir.Value) (carried, stacked []*ir.Value) {
	known, path := c.Scope.Attempt, c.Scope.nodePath()
	forms := known.forms[path]
	for i := len(forms); i < len(begin); i++ {
		forms = append(forms, c.Scope.lasting(c.Scope.FormOf(begin[i])))
	}
	components := c.Scope.flat(begin, forms)
	body, in := ops.LoopBody(c.Builder, c.Source, limit, components, known.varies[path]...)
	inside := c.Scope.within(in)
	results := build(inside, body.Params[0], body.Params[1], inside.assemble(forms, body.Params[2:]))
	if len(results) < 1+len(begin) {
		c.Fault("the body has %d outputs for %d carried values", len(results), len(begin))
	}
	wider := make([]Form, len(forms))
	changed := false
	for i, f := range forms {
		wider[i] = c.Scope.common(f, c.Scope.lasting(c.Scope.FormOf(results[1+i])))
		changed = changed || !f.simple() && !f.same(wider[i])
	}
	if changed {
		known.forms[path] = wider
		delete(known.varies, path)
		c.again()
	}
	body.Results = append([]*ir.Value{ScalarIn(in, results[0])}, inside.flat(results[1:1+len(begin)], forms)...)
	for i, v := range results[1+len(begin):] {
		if f := c.Scope.FormOf(v); !f.simple() {
			c.Refuse("scan output %d is %s", i, f)
		}
		body.Results = append(body.Results, v)
	}
	if more := ops.LoopVaries(c.Inference, body, components); more != nil {
		known.varies[path] = append(known.varies[path], more...)
		c.again()
	}
	ops.LimitLoop(c.Inference, body, limit, components)
	out := c.Scope.assemble(forms, ops.Loop(c.Builder, body, trip, cond, components...))
	return out[:len(begin)], out[len(begin):]
}

// trips returns the limit of a loop's iterations. A count that is an argument of the caller is a dimension; a negative
// one means no limit.
func (c *Call) trips() sym.Expr {
	trip := c.Optional(0)
	if trip == nil {
		return sym.Const(ops.LoopLimit)
	}
	most := int64(ops.LoopLimit)
	if slices.Contains(c.Module.Main.Body.Params, trip) {
		most = sym.NoMax
	}
	known, err := c.Elements(trip, c.String(), -ops.LoopLimit, most)
	if err != nil {
		c.Fail(err)
	}
	if len(known) != 1 {
		c.Fault("the trip count is %s, it must be one number", trip.Type)
	}
	return known[0]
}
