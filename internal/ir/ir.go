// Package ir is the language of what a model computes: tensors in static single assignment form, with symbolic shapes.
//
// A Module holds functions; a function is a Block of Nodes in an order in which every value is produced before it is
// used. A node applies an Op, found in the registry by name, so this package's parser, verifier and interpreter know
// no operator. A node may carry regions (the bodies of If, Loop and Scan), which see the values of the blocks around
// them. Shapes are symbolic integers over named dimensions; small integer tensors whose elements are known
// symbolically (the results of Shape arithmetic) carry them as Value.Known.
package ir

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Module is a set of functions over one set of named dimensions. Main is where a run begins.
type Module struct {
	Name     string
	Dims     *sym.Dims             // every dimension with its range: the inputs' dimensions and the data dimensions
	Limits   map[sym.Name]sym.Expr // upper bounds of the data dimensions, over the inputs' dimensions
	Choices  []sym.Choice          // data dimensions whose values are decided together
	Origins  map[sym.Name]string   // in words, which operator gives a dimension that Fresh made its value
	Requires []Require             // conditions that a run must meet, besides the ranges
	Proved   []Require             // conditions that were needed and hold for every value
	Main     *Func                 // also in Funcs
	Funcs    []*Func               // in the order they were added
	Meta     map[string]string     // the model's own metadata
	// Operators are the model's operators by their nodes' Source, as builders were told them. The text leaves them out.
	Operators diag.Operators

	// Check, if not nil, is called from time to time while the module is built and rewritten; its error ends the work.
	Check func() error
}

// Ask calls Check if it is set. An exhausted proof budget is no error: conditions that are not proved from then on are
// checked by runs, or cost speed or memory.
func (m *Module) Ask() error {
	if m.Check == nil {
		return nil
	}
	return m.Check()
}

// Decided returns what is known of the data dimensions.
func (m *Module) Decided() sym.Decided { return sym.Decided{Limits: m.Limits, Choices: m.Choices} }

// Func is a function. Its body's Params are its inputs, its body's Results its outputs. States are inputs that a run
// updates in place, for the next run; functions other than main have none.
type Func struct {
	Name   string
	Body   *Block
	States []State
}

// State pairs an input with the index of the result that replaces it: the run reads the old value and leaves the new
// one in the same memory.
type State struct {
	In  *Value
	Out int
}

// Block is a sequence of nodes. Consts belong to the block; an inner block sees the values of outer ones.
type Block struct {
	Params  []*Value
	Consts  []*Value
	Nodes   []*Node
	Results []*Value
	// Statements are the text's statements about memory between the nodes, in order. A module that is compiled has
	// none; see CheckMemory.
	Statements []Statement
}

// Type is a value's element type and shape.
type Type struct {
	DType dtype.DType
	Shape []sym.Expr
}

// Value is one tensor: a block's parameter, a constant, or a node's result.
type Value struct {
	Name  string // the model's name for it, unique in its function; the printer adds the %
	Type  Type
	Const *tensor.Tensor // not nil: a constant
	Known []sym.Expr     // row-major elements of a small integer (or bool: 0, 1) tensor, if they are known
	Bound bool           // Known are fresh dimensions: their values are read from the tensor when it has been computed
	Node  *Node          // the producer; nil for parameters and constants
	Index int            // which of the producer's outputs
	Carve *Carve         // its location, if the text gives one; nil if the compiler chooses
}

// Node applies an operator. An absent optional input is nil. Source is the model's own name for the node.
type Node struct {
	Op      Op
	Inputs  []*Value
	Outputs []*Value
	Attrs   Attrs
	Regions []*Block
	Source  string
	Line    int // of the text that it was read from; 0: none
}

// Attrs are a node's attributes by name. A value is one of: int64, float64, bool, string, dtype.DType, *tensor.Tensor,
// sym.Expr, []int64, []float64, []string, []sym.Expr. Attributes that depend on dimensions are sym.Expr or []sym.Expr.
type Attrs map[string]any

// Require is a condition on dimensions that a run must meet. From says in words where it comes from; Tensor names the
// tensor that it is about, if there is one.
type Require struct {
	Cond   sym.Cond
	From   string
	Tensor string
}

// Op is an operator's definition, as far as this package needs it.
type Op interface {
	Name() string
	// Infer sets the outputs' Type, and Known where it can, from the inputs and attributes; it appends to n.Outputs
	// if that is empty. It returns a *diag.Error for an invalid node.
	Infer(c *Inference, n *Node) error
	// Eval computes the operator, as a simple and slow reference. in has nil for an absent optional input.
	Eval(e *Evaluation, n *Node, in []*tensor.Tensor) ([]*tensor.Tensor, error)
}

// Aligner is an Op that replaces operands before a builder makes its node; it leaves operands that do not fit, which
// Infer refuses.
type Aligner interface {
	Align(b *Builder, inputs []*Value) []*Value
}

// Int returns an integer attribute, or otherwise if it is absent.
func (a Attrs) Int(name string, otherwise int64) int64 {
	if v, ok := a[name].(int64); ok {
		return v
	}
	return otherwise
}

// Ints returns a list of integers; nil if it is absent.
func (a Attrs) Ints(name string) []int64 { v, _ := a[name].([]int64); return v }

// Float returns a number, or otherwise if it is absent.
func (a Attrs) Float(name string, otherwise float64) float64 {
	if v, ok := a[name].(float64); ok {
		return v
	}
	return otherwise
}

// Bool returns a truth value; false if it is absent.
func (a Attrs) Bool(name string) bool { v, _ := a[name].(bool); return v }

// String returns a string attribute, or otherwise if it is absent.
func (a Attrs) String(name, otherwise string) string {
	if v, ok := a[name].(string); ok {
		return v
	}
	return otherwise
}

// DType returns an element type; dtype.Invalid if it is absent.
func (a Attrs) DType(name string) dtype.DType { v, _ := a[name].(dtype.DType); return v }

// Exprs returns a list of symbolic integers; nil if it is absent.
func (a Attrs) Exprs(name string) []sym.Expr { v, _ := a[name].([]sym.Expr); return v }

// walk calls f with every value that the block defines, without inner blocks.
func (b *Block) walk(f func(v *Value)) {
	for _, list := range [][]*Value{b.Params, b.Consts} {
		for _, v := range list {
			f(v)
		}
	}
	for _, n := range b.Nodes {
		for _, v := range n.Outputs {
			f(v)
		}
	}
}

// walkAll is walk over the block and every block inside it.
func (b *Block) walkAll(f func(v *Value)) {
	b.walk(f)
	for _, n := range b.Nodes {
		for _, r := range n.Regions {
			r.walkAll(f)
		}
	}
}
