package torch

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// comparisons has the functions of numbers with bool results, by the names of their nodes. Most are read only by
// assertions, whose conditions the shapes already imply; a comparison is built when an operator reads it.
var comparisons = map[string]ops.BinaryFunction{
	"_operator.eq": ops.Eq, "_operator.ne": ops.Ne, "_operator.lt": ops.Lt, "_operator.le": ops.Le, "_operator.gt": ops.Gt,
	"_operator.ge": ops.Ge, "_operator.and_": ops.And, "_operator.or_": ops.Or,
}

// comparison is a bool value that is built when it is first read.
type comparison struct {
	call     *call
	function ops.BinaryFunction
	value    *ir.Value // nil before it is built
	building bool
	depth    int // of the comparisons nested in it
}

// mostCompared is the largest nesting depth of comparisons.
const mostCompared = 200

// compare records a node that compares numbers.
func (g *graph) compare(c *call, f ops.BinaryFunction) error {
	for _, out := range c.node.Outputs {
		var as namedNumber
		if out.kind != "as_sym_bool" {
			return diag.Unsupportedf("a result of the kind %s", out.kind)
		}
		if err := out.into(&as); err != nil {
			return err
		}
		made := &comparison{call: c, function: f}
		for _, a := range c.args {
			if inner := g.comparedBy(a); inner != nil {
				made.depth = max(made.depth, inner.depth+1)
			}
		}
		if made.depth > mostCompared {
			return diag.Unsupportedf("%d comparisons within one another", made.depth)
		}
		g.compared[as.Name] = made
	}
	return nil
}

// comparedBy returns the comparison that an argument names; nil if it names none.
func (g *graph) comparedBy(a *argument) *comparison {
	var as namedNumber
	if a == nil || a.kind != "as_sym_bool" || a.into(&as) != nil {
		return nil
	}
	return g.compared[as.Name]
}

// truth returns a condition, a tensor of one element or a bool, as a bool scalar.
func (c *call) truth(a *argument) *ir.Value {
	switch a.kind {
	case "as_tensor":
		return c.scalarTruth(c.find(a))
	case "as_bool":
		var v bool
		if err := a.into(&v); err != nil {
			c.Fail(err)
		}
		return c.truthOf(v)
	case "as_sym_bool":
		var as struct {
			Name string `json:"as_name"`
			Bool *bool  `json:"as_bool"`
		}
		if err := a.into(&as); err != nil {
			c.Fail(err)
		}
		if as.Bool != nil {
			return c.truthOf(*as.Bool)
		}
		if v := c.numbers[as.Name]; v != nil {
			return c.scalarTruth(v)
		}
		if made := c.compared[as.Name]; made != nil {
			return made.build()
		}
		c.Fail(diag.Inputf("nothing computes the truth value %s before it is read", as.Name))
	}
	c.Fail(diag.Unsupportedf("a condition as %s", a.kind))
	return nil
}

// truthOf returns a constant bool.
func (c *call) truthOf(yes bool) *ir.Value {
	number := 0.0
	if yes {
		number = 1
	}
	return ops.Cast(c.Builder, ops.Scalar(c.Builder, dtype.I64, number), dtype.Bool)
}

// scalarTruth returns a tensor of one element as a bool scalar.
func (c *call) scalarTruth(v *ir.Value) *ir.Value {
	if n, ok := product(v.Type.Shape).Const(); !ok || n != 1 || v.Type.DType != dtype.Bool {
		c.Fail(diag.Inputf("a condition is %s; it is one truth value", v.Type))
	}
	if len(v.Type.Shape) > 0 {
		v = ops.Reshape(c.Builder, v)
	}
	return v
}

// build returns the value, and builds it on the first call.
func (m *comparison) build() *ir.Value {
	if m.value != nil {
		return m.value
	}
	c := m.call
	if m.building {
		c.Fail(diag.Inputf("a comparison of itself"))
	}
	m.building = true
	if m.function == ops.And || m.function == ops.Or {
		a, b := c.args["a"], c.args["b"]
		if a == nil || b == nil {
			c.Fail(diag.Inputf("an operand of a comparison is missing"))
		}
		m.value = c.binary(m.function, c.truth(a), c.truth(b))
		return m.value
	}
	pair := c.promote(false, c.operand("a"), c.operand("b"))
	m.value = c.binary(m.function, pair[0], pair[1])
	return m.value
}
