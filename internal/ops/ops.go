// Package ops holds the operators, one file each: shape rule, meaning, expansion, lowerings and samples.
//
// A file defines its operator with define, in its own init; constructors build nodes of it. An operator is computed in
// the first of these ways that its definition offers: as a view of its input; by the first lowering whose condition
// holds; by its expansion into other operators; by a function of package hostop. No file here names a machine or a file
// format.
package ops

import (
	"math/rand"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Def is one operator.
type Def struct {
	Op string // its name: lower case, words joined by _
	// Shape is the shape rule: it sets each output's type by n.Result(i, type), and Known where it can.
	Shape func(c *ir.Inference, n *ir.Node) error
	// Mean is the operator's meaning, plain and slow.
	Mean func(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error)
	// Expand builds the same results from other operators. It may decline by returning nil (before it builds anything).
	Expand func(b *ir.Builder, n *ir.Node) []*ir.Value
	// Grad builds the derivatives by the inputs, one each, from those by the results; nil stands for none. A derivative
	// may have a result's shape where the input was broadcast to it. An operator without Grad, or whose Grad returns no
	// list, is differentiated through its expansion.
	Grad func(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value
	// NoGrad says why an operator with results of floats has no derivative.
	NoGrad string
	// Taken lists the inputs that derivatives take as constants.
	Taken []int
	// Elementwise: each element of a result depends on the elements of the operands at the same index, after
	// broadcasting, and on nothing else.
	Elementwise bool
	// Light: an element of the result takes a few instructions, or only has to be moved.
	Light bool
	// Linear: the time is proportional to the number of elements of the operands and results. Elementwise operators
	// are linear without saying so.
	Linear bool
	// Commutative: the two operands may be exchanged, and the result stays the same to the bit.
	Commutative bool
	// Neutral is the second operand that leaves the first as it is; nil if there is none, or nobody asks for it.
	Neutral *float64
	// Alias: the result is the first input under another shape, and lies in its memory.
	Alias bool
	// Holds: the result's memory holds the operands. Each is computed in its place there.
	Holds bool
	// Rearranges: the result has each element of the only input once, in an order that attributes decide.
	Rearranges bool
	// Picks: each element of the result is an element of the first input: moved, or the greatest or least of some.
	// On integers that stand for numbers in the same order, the operator picks the same elements.
	Picks bool
	// Selects: the result is made of a part of the first input, as rows of a table are.
	Selects bool
	// Scatter: the result is the first input, except for elements that the second input names: the third input
	// replaces them or is combined with them.
	Scatter bool
	// Recompute lists the places at which computing the result again is better than keeping it. Elementwise operators
	// are computed again everywhere.
	Recompute Recompute
	// Merge says how the operator is computed for two parts of an axis in turn.
	Merge Merging
	// NotNegative reports whether no element of a result of floats is less than 0; is answers the same for an input.
	// NaN may be among the elements. nil: some may be less.
	NotNegative func(n *ir.Node, is func(v *ir.Value) bool) bool
	// WholeVectors reports whether each vector along the result's last axis is a vector along the first input's last
	// axis, or is written as a whole. nil: that is not known.
	WholeVectors func(d *sym.Dims, n *ir.Node) bool
	// Defer makes the result of constants without reading them: its elements are moved when they are wanted. It returns
	// nil if it cannot. nil: no operator that only moves elements.
	Defer func(n *ir.Node, in []*tensor.Tensor) *tensor.Tensor
	// Products bounds the number of products in the sum that an element of the result is, for a constant second
	// input; nil: the result is not such a sum, or the bound is not known.
	Products func(n *ir.Node) int64
	// Cost estimates the number of operations of the first result; size is the product of extents. nil: one for each
	// element. Passes compare costs; Work is what is reported.
	Cost func(n *ir.Node, size func(extents ...sym.Expr) float64) float64
	// Last says how a node works on operands whose channels are last; nil if it does not. nil: the operator never does,
	// apart from elementwise ones, which always do.
	Last func(d *sym.Dims, n *ir.Node) *LastForm
	// WantsLast: the operator is so much faster with its channels last that any operand is transposed for it.
	WantsLast bool
	// Narrow says how a part of the only result is computed of parts of the inputs; want, which it may change, is the
	// part that is read. It returns false if it needs all of them. nil: a part takes the whole result.
	Narrow func(p Parts, n *ir.Node, want Part) (Reading, bool)
	// rows says how the result is computed in pieces of an axis: see rows.go. Without axes it is not.
	rows rowRule
	// View says how the first output lies inside an input, where it needs no computation. It may decline by returning nil.
	View func(n *ir.Node, d *sym.Dims) *View
	// Lowerings are loop nests, the best first.
	Lowerings []Lowering
	// Work is the arithmetic of the results, as the operator is defined. It is nil if lowerings do no more.
	Work func(n *ir.Node) sym.Expr
	// Host names a function of package hostop.
	Host string
	// Samples makes cases from which the package's tests check the definition.
	Samples func(r *rand.Rand) []Sample
}

// View places an output inside input Of: element (i, j, …) lies at Offset + i·Strides[0] + … of the input's elements.
// With Strides nil, the output is the input's elements in order from Offset on, all of them or a part, under another
// shape.
type View struct {
	Of      int
	Offset  sym.Expr
	Strides []sym.Expr
	Whole   bool // it is all that is viewed, in order, whether or not that can be proved of the shapes
}

// Lowering is one way to compute an operator by a loop nest.
type Lowering struct {
	// Apart has operands be parameters of their own also if they are one value, since Build gives them other shapes.
	Apart bool
	// Onto has the only result begin as a copy of the first input: k.Out[0] holds it and is an Update, k.In[0] is nil.
	// The copy is a step of its own, which moves nothing if the result lies where the input does.
	Onto bool
	// Blocks is of lowerings for machines that run blocks of threads, which take them before the others; machines without
	// take none.
	Blocks bool
	// Worker is of lowerings that keep much in a worker's scratch: machines with blocks of threads take the expansion
	// instead.
	Worker bool
	Name   string
	// When, where not nil, is the condition under which Build is right.
	When func(n *ir.Node, d *sym.Dims) bool
	// Build writes the kernel: k has a parameter for each present input and each output.
	Build func(k *Nest, n *ir.Node)
	// Error is the bound on its difference from Mean, as a relative tolerance; 0: results agree to the rounding of their
	// type.
	Error float64
}

// Nest is a kernel under construction, with the node's operands as its parameters.
type Nest struct {
	*loop.Builder
	In  []*loop.Memory // one per input of the node; nil if absent
	Out []*loop.Memory
	D   *sym.Dims
}

// Sample is a case that a definition must get right: a node's attributes and inputs. Rank-only attributes are shared by
// every binding of the dimensions; regions are built by Regions where the operator needs them.
type Sample struct {
	Attrs   ir.Attrs
	Inputs  []*tensor.Tensor // nil: absent
	Regions func(b *ir.Builder) []*ir.Block
	// Constant lists the inputs that are constants rather than parameters.
	Constant []int
}

// Name is the operator's name.
func (d *Def) Name() string { return d.Op }

// Infer applies the shape rule.
func (d *Def) Infer(c *ir.Inference, n *ir.Node) error { return d.Shape(c, n) }

// Eval applies the meaning.
func (d *Def) Eval(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return d.Mean(e, n, in)
}

// define registers an operator.
func define(d *Def) { ir.Register(d) }

// Of is a node's definition.
func Of(n *ir.Node) *Def { return n.Op.(*Def) }

// LoweringOf is the lowering of a node; nil if it has none.
func (d *Def) LoweringOf(n *ir.Node, dims *sym.Dims, blocks bool) *Lowering {
	for _, own := range []bool{true, false} {
		if own && !blocks {
			continue
		}
		for i := range d.Lowerings {
			if low := &d.Lowerings[i]; low.Blocks == own && !(low.Worker && blocks) && (low.When == nil || low.When(n, dims)) {
				return low
			}
		}
	}
	return nil
}
