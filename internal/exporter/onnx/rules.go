package onnx

import (
	"maps"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// call is a node that is written, and the writer.
type call struct {
	*writer
	n *ir.Node
}

// rule writes the nodes of ONNX that compute c.n.
type rule func(c *call)

// rules has the rule of each operator that is not expanded; the init functions fill it.
var rules = map[string]rule{}

// rulesOf adds rules.
func rulesOf(list ...map[string]rule) {
	for _, m := range list {
		maps.Copy(rules, m)
	}
}

// in returns the name of the i-th input, "" if it is absent.
func (c *call) in(i int) string {
	if i >= len(c.n.Inputs) {
		return ""
	}
	return c.of(c.n.Inputs[i])
}

// inputs returns the names of all inputs.
func (c *call) inputs() []string {
	out := make([]string, len(c.n.Inputs))
	for i := range out {
		out[i] = c.in(i)
	}
	return out
}

// dtype returns the element type of the first input.
func (c *call) dtype() dtype.DType { return c.n.Inputs[0].Type.DType }

// shape returns the shape of the first input.
func (c *call) shape() []sym.Expr { return c.n.Inputs[0].Type.Shape }

// final adds the node whose output is c.n's first result.
func (c *call) final(op string, in []string, attrs ...*wire.AttributeProto) {
	c.node(op, in, []string{c.result(c.n.Outputs[0])}, attrs...)
}

// refuse ends the writing: ONNX cannot express the node's settings.
func (c *call) refuse(format string, args ...any) {
	fail(diag.Unsupportedf(format, args...).AtNode(c.n.Source, c.n.Op.Name()))
}

// direct returns a rule that writes one node, of the operator op, with the same inputs.
func direct(op string, attrs ...*wire.AttributeProto) rule {
	return func(c *call) { c.final(op, c.inputs(), attrs...) }
}

// like returns a scalar constant of the first input's type.
func (c *call) like(x float64) string { return c.number(c.dtype(), x) }

func intAttr(name string, x int64) *wire.AttributeProto { return wire.IntAttribute(name, x) }

// flag returns 1 for true and 0 for false, as ONNX's attributes have booleans.
func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// indices returns the i-th input, which ONNX requires to be i32 or i64, and casts other types to i64.
func (c *call) indices(i int) string {
	if dt := c.n.Inputs[i].Type.DType; dt != dtype.I32 && dt != dtype.I64 {
		return c.cast(c.in(i), dtype.I64)
	}
	return c.in(i)
}

func (w *writer) cast(x string, dt dtype.DType) string {
	return w.add("Cast", []string{x}, intAttr("to", int64(elementType(dt))))
}

// permuted transposes x; it returns x if perm leaves the order as it is.
func (w *writer) permuted(x string, perm []int64) string {
	if slices.IsSorted(perm) {
		return x
	}
	return w.add("Transpose", []string{x}, wire.IntsAttribute("perm", perm...))
}

// swapped returns the permutation of axes that exchanges the last two.
func swapped(rank int) []int64 {
	perm := make([]int64, rank)
	for i := range perm {
		perm[i] = int64(i)
	}
	perm[rank-1], perm[rank-2] = perm[rank-2], perm[rank-1]
	return perm
}

// expr returns an attribute that is an expression.
func (c *call) expr(name string) sym.Expr {
	e, _ := c.n.Attrs[name].(sym.Expr)
	return e
}
