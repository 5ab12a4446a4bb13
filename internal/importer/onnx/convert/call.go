// Package convert turns graphs of ONNX into ir, node by node. It knows no operators except If and Loop: the rules of a
// RuleSet convert the others, and see each node as a Call.
package convert

import (
	"fmt"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Call is one node under conversion.
type Call struct {
	*ir.Builder
	Scope      *Scope
	Node       *wire.NodeProto
	Version    int64 // of the operator set that the model imports for the node's domain
	In         []*ir.Value
	Outputs    int // the number of outputs that the node names, without trailing unnamed ones
	Attributes map[string]*wire.AttributeProto
	copied     *ir.Value // the copy of a condition that is an argument, see truth
}

// Refuse ends the conversion with ErrUnsupported, for a feature that is not supported.
func (c *Call) Refuse(format string, args ...any) {
	c.Fail(diag.Unsupportedf(format, args...).AtNode(c.Source, c.Node.OpType))
}

// Fault ends the conversion with ErrInput, for an invalid node.
func (c *Call) Fault(format string, args ...any) {
	c.Fail(diag.Inputf(format, args...).AtNode(c.Source, c.Node.OpType))
}

// Input returns the i-th input, which must be present.
func (c *Call) Input(i int) *ir.Value {
	if v := c.Optional(i); v != nil {
		return v
	}
	c.Fault("input %d is missing", i)
	return nil
}

// Optional returns the i-th input; nil if it is absent.
func (c *Call) Optional(i int) *ir.Value {
	if i >= len(c.In) {
		return nil
	}
	c.needsTensor(i)
	return c.In[i]
}

// Has reports whether the node has an attribute.
func (c *Call) Has(name string) bool { return c.Attributes[name] != nil }

// Attribute returns an attribute, which must be of the given kind; nil if it is absent.
func (c *Call) Attribute(name string, kind wire.AttributeType) *wire.AttributeProto {
	a := c.Attributes[name]
	if a != nil && a.Kind() != kind {
		c.Fault("attribute %s is a %s, it must be a %s", name, a.Kind(), kind)
	}
	return a
}

// Int returns an integer attribute; otherwise if it is absent.
func (c *Call) Int(name string, otherwise int64) int64 {
	if a := c.Attribute(name, wire.AttributeInt); a != nil {
		return a.I
	}
	return otherwise
}

// Float returns a float attribute; otherwise if it is absent.
func (c *Call) Float(name string, otherwise float64) float64 {
	if a := c.Attribute(name, wire.AttributeFloat); a != nil {
		return float64(a.F)
	}
	return otherwise
}

// StringAttribute returns a string attribute; otherwise if it is absent.
func (c *Call) StringAttribute(name, otherwise string) string {
	if a := c.Attribute(name, wire.AttributeString); a != nil {
		return string(a.S)
	}
	return otherwise
}

// Ints returns an attribute that is a list of integers; nil if it is absent.
func (c *Call) Ints(name string) []int64 {
	if a := c.Attribute(name, wire.AttributeInts); a != nil {
		if a.Ints == nil {
			return []int64{}
		}
		return slices.Clone(a.Ints)
	}
	return nil
}

// Floats returns an attribute that is a list of floats; nil if it is absent.
func (c *Call) Floats(name string) []float64 {
	a := c.Attribute(name, wire.AttributeFloats)
	if a == nil {
		return nil
	}
	out := make([]float64, len(a.Floats))
	for i, x := range a.Floats {
		out[i] = float64(x)
	}
	return out
}

// Strings returns an attribute that is a list of strings; nil if it is absent.
func (c *Call) Strings(name string) []string {
	a := c.Attribute(name, wire.AttributeStrings)
	if a == nil {
		return nil
	}
	out := make([]string, len(a.Strings))
	for i, x := range a.Strings {
		out[i] = string(x)
	}
	return out
}

// Tensor returns a tensor attribute; nil if it is absent.
func (c *Call) Tensor(name string) *tensor.Tensor {
	a := c.Attribute(name, wire.AttributeTensor)
	if a == nil || a.T == nil {
		return nil
	}
	t, err := c.Scope.Source.Read(a.T)
	if err != nil {
		c.Fail(err)
	}
	return t
}

// Graph returns a graph attribute, which must be present.
func (c *Call) Graph(name string) *wire.GraphProto {
	a := c.Attribute(name, wire.AttributeGraph)
	if a == nil || a.G == nil {
		c.Fault("attribute %s, a graph, is missing", name)
	}
	return a.G
}

// Type returns an attribute that is an element type; Invalid if it is absent.
func (c *Call) Type(name string) dtype.DType {
	n := c.Int(name, 0)
	if n == 0 {
		return dtype.Invalid
	}
	dt, ok := wire.DataType(n).DType()
	if !ok {
		c.Fail(wire.DataType(n).NoType("attribute "+name).AtNode(c.Source, c.Node.OpType))
	}
	return dt
}

// Known returns the elements of an input as symbolic integers for a shape; nil if they are not known.
func (c *Call) Known(i int) []sym.Expr { return c.KnownOf(c.Input(i)) }

// KnownOf is Known for a value.
func (c *Call) KnownOf(v *ir.Value) []sym.Expr {
	return c.Settle(v, func(cond sym.Cond, why string) error {
		return c.RequireOf(c.Source, c.Node.OpType, 0, cond, why)
	})
}

// Symbols returns the elements of an integer input as symbolic integers: known ones, or dimensions that the run binds
// within [lo, hi].
func (c *Call) Symbols(i int, lo, hi int64) []sym.Expr {
	return c.SymbolsOf(c.Input(i), lo, sym.Const(hi))
}

// Numbers returns the elements of an integer input, which must be known at compile time.
func (c *Call) Numbers(i int) []int64 {
	v := c.Input(i)
	out := make([]int64, len(v.Known))
	for k, e := range v.Known {
		n, ok := e.Const()
		if !ok {
			c.Refuse("the elements of %s decide the result's form and are known only when the model runs", v.Name)
		}
		out[k] = n
	}
	if v.Known == nil {
		c.Refuse("the elements of %s decide the result's form and are known only when the model runs", v.Name)
	}
	return out
}

// Constant returns the value of an input, which must be a constant.
func (c *Call) Constant(i int) *tensor.Tensor {
	v := c.Input(i)
	if v.Const == nil {
		c.Refuse("%s must be a constant", v.Name)
	}
	return v.Const
}

// IntsOrInput returns a list of integers from an attribute of older versions or an input of newer ones; nil if both
// are absent.
func (c *Call) IntsOrInput(name string, i int) []int64 {
	if c.Has(name) {
		return c.Ints(name)
	}
	if c.Optional(i) == nil {
		return nil
	}
	return c.Numbers(i)
}

// Axis resolves an axis that may count from the end of rank axes.
func (c *Call) Axis(axis int64, rank int) int64 {
	if axis < -int64(rank) || axis >= int64(rank) {
		c.Fault("axis %d is outside a tensor of rank %d", axis, rank)
	}
	if axis < 0 {
		axis += int64(rank)
	}
	return axis
}

// One returns the outputs of a rule with one output.
func One(v *ir.Value) []*ir.Value { return []*ir.Value{v} }

// String returns the node's name and operator, for errors and names.
func (c *Call) String() string { return fmt.Sprintf("%s (%s)", c.Source, c.Node.OpType) }
