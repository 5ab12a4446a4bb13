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

// call is a node that is being written.
type call struct {
	*writer
	n *ir.Node
}

// rule writes a node.
type rule func(c *call)

var rules = map[string]rule{}

func rulesOf(list ...map[string]rule) {
	for _, m := range list {
		maps.Copy(rules, m)
	}
}

// in is the name of an input, "" if it is absent.
func (c *call) in(i int) string {
	if i >= len(c.n.Inputs) {
		return ""
	}
	return c.of(c.n.Inputs[i])
}

// inputs are the names of all inputs.
func (c *call) inputs() []string {
	out := make([]string, len(c.n.Inputs))
	for i := range out {
		out[i] = c.in(i)
	}
	return out
}

// dtype is the element type of the first input.
func (c *call) dtype() dtype.DType { return c.n.Inputs[0].Type.DType }

// shape is the shape of the first input.
func (c *call) shape() []sym.Expr { return c.n.Inputs[0].Type.Shape }

// final adds the node that computes the first result.
func (c *call) final(op string, in []string, attrs ...*wire.AttributeProto) {
	c.node(op, in, []string{c.result(c.n.Outputs[0])}, attrs...)
}

// refuse ends the work: the node's settings cannot be said in ONNX.
func (c *call) refuse(format string, args ...any) {
	fail(diag.Unsupportedf(format, args...).AtNode(c.n.Source, c.n.Op.Name()))
}

// direct writes a node by an operator of the same inputs.
func direct(op string, attrs ...*wire.AttributeProto) rule {
	return func(c *call) { c.final(op, c.inputs(), attrs...) }
}

// like is a number of the first input's type.
func (c *call) like(x float64) string { return c.number(c.dtype(), x) }

func intAttr(name string, x int64) *wire.AttributeProto { return wire.IntAttribute(name, x) }

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// indices is an input that ONNX wants as i32 or i64.
func (c *call) indices(i int) string {
	if dt := c.n.Inputs[i].Type.DType; dt != dtype.I32 && dt != dtype.I64 {
		return c.cast(c.in(i), dtype.I64)
	}
	return c.in(i)
}

func (w *writer) cast(x string, dt dtype.DType) string {
	return w.add("Cast", []string{x}, intAttr("to", int64(elementType(dt))))
}

// permuted is a value with its axes in another order.
func (w *writer) permuted(x string, perm []int64) string {
	if slices.IsSorted(perm) {
		return x
	}
	return w.add("Transpose", []string{x}, wire.IntsAttribute("perm", perm...))
}

// swapped is the order of axes that exchanges the last two.
func swapped(rank int) []int64 {
	perm := make([]int64, rank)
	for i := range perm {
		perm[i] = int64(i)
	}
	perm[rank-1], perm[rank-2] = perm[rank-2], perm[rank-1]
	return perm
}

// expr is an attribute that is an expression.
func (c *call) expr(name string) sym.Expr {
	e, _ := c.n.Attrs[name].(sym.Expr)
	return e
}
