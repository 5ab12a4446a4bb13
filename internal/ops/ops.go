// Package ops defines the operators, one file each: shape rule, reference computation, expansion, lowerings, gradient
// and samples.
//
// The init function of a file registers its operators with define; a constructor such as Add builds a node of one. An
// operator is computed in the first of these ways that its definition offers: as a view of its input; by the first
// lowering whose condition holds; by its expansion into other operators; by a function of package hostop. No file here
// names a machine or a file format.
package ops

import (
	"maps"
	"math/rand"
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Def is the definition of one operator.
type Def struct {
	Op string // its name: lower case, words joined by _
	// Shape is the shape rule: it sets each output's type by n.Result(i, type), and Known where it can.
	Shape func(c *ir.Inference, n *ir.Node) error
	// Broadcasts: the operands are broadcast together, except for their last Own axes. Builders stretch operands whose
	// extents a run decides to be 1 or equal to the others'.
	Broadcasts bool
	Own        int
	// Mean is the reference: it computes the results element by element, and is slow.
	Mean func(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error)
	// Expand builds the same results from other operators. It may decline by returning nil (before it builds anything).
	Expand func(b *ir.Builder, n *ir.Node) []*ir.Value
	// Grad builds the derivatives by the inputs, one for each input, from those by the results; nil stands for a
	// derivative of 0. A derivative may have the result's shape if the input was broadcast to it. An operator without
	// Grad, or whose Grad returns no list, is differentiated through its expansion.
	Grad func(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value
	// NoGrad says why an operator with results of floats has no derivative.
	NoGrad string
	// Taken lists the inputs that derivatives treat as constants.
	Taken []int
	// Elementwise: each element of a result depends on the elements of the operands at the same index, after
	// broadcasting, and on nothing else.
	Elementwise bool
	// Light: an element of the result takes a few instructions, or is only moved.
	Light bool
	// Linear: the time is proportional to the number of elements of the operands and results. Elementwise operators are
	// linear without this flag.
	Linear bool
	// Commutative: exchanging the two operands leaves the result equal to the bit.
	Commutative bool
	// Neutral is the second operand that leaves the first unchanged; nil if there is none, or if no pass needs it.
	Neutral *float64
	// Alias: the result is the first input under another shape, in the input's memory.
	Alias bool
	// Holds: the result's memory contains the operands; each is computed directly into its piece of that memory.
	Holds bool
	// OwnMemory: the results have memory of their own, and are copied into the memory of a result that holds them.
	OwnMemory bool
	// Chooses: one of the two regions runs, as the only input says, and gives the results.
	Chooses bool
	// Rearranges: the result has each element of the only input once, in an order that attributes decide.
	Rearranges bool
	// Picks: each element of the result is an element of the first input: moved, or the greatest or least of several.
	// If numbers are replaced by integers in the same order, the operator picks the same elements.
	Picks bool
	// Selects: the result consists of a subset of the first input's elements, such as some rows of a table.
	Selects bool
	// Scatter: the result is the first input, except for elements that the second input names: the third input
	// replaces them or is combined with them.
	Scatter bool
	// Recompute says when the result should be computed again rather than kept. Elementwise operators are always
	// computed again.
	Recompute Recompute
	// Merge says how the results for two pieces of an axis are combined into the result for the entire axis.
	Merge Merging
	// NotNegative reports whether no element of a result of floats is less than 0; is(v) answers the same question
	// about an input v. Elements may be NaN. nil: some element may be less than 0.
	NotNegative func(n *ir.Node, is func(v *ir.Value) bool) bool
	// KeepsVectors reports whether each vector along the result's last axis is a vector along the first input's last
	// axis, or is written by the node entirely. nil: not known.
	KeepsVectors func(d *sym.Dims, n *ir.Node) bool
	// Defer returns the result of constant inputs as a tensor whose elements are moved only when they are read; nil if
	// it cannot. Only operators that move elements without computing have it.
	Defer func(n *ir.Node, in []*tensor.Tensor) *tensor.Tensor
	// Products returns a bound on the number of products that are added up for an element of the result, if the second
	// input is constant; nil: the result is not such a sum, or no bound is known.
	Products func(n *ir.Node) int64
	// Cost estimates the number of operations of the first result; size returns the product of extents. nil: one
	// operation for each element. Passes compare costs; reports show Work.
	Cost func(n *ir.Node, size func(extents ...sym.Expr) float64) float64
	// Last returns how a node works on operands whose channels are the last axis; nil if it cannot. nil: no node of the
	// operator can, except elementwise ones, which always can.
	Last func(d *sym.Dims, n *ir.Node) *LastForm
	// WantsLast: the operator is so much faster with its channels last that transposing any operand pays.
	WantsLast bool
	// Narrow returns how a section of the only result is computed from sections of the inputs; want, which Narrow may
	// change, is the section that is read. It returns false if all of the inputs are needed. nil: a section takes as
	// much as the entire result.
	Narrow func(c NarrowContext, n *ir.Node, want Section) (Reading, bool)
	// Cut returns which section of the first input the section want of the only result is; Reading.In holds it. It returns
	// false if the section cannot be written. nil: the result is not a section of the first input. An operator with Cut
	// has no Narrow.
	Cut func(c NarrowContext, n *ir.Node, want Section) (Reading, bool)
	// rows says how the result is computed in pieces of an axis: see rows.go. Without rows.axes it is not.
	rows rowRule
	// apart says which entries of the results depend on the same entries of the operands: see apart.go. nil: as rows
	// says.
	apart apartRule
	// View returns the location of the first output inside an input; nil if the output must be computed.
	View func(n *ir.Node, d *sym.Dims) *View
	// Lowerings are loop nests, the best first.
	Lowerings []Lowering
	// Work returns the number of arithmetic operations of the results by the operator's definition. nil: as many as the
	// lowering executes.
	Work func(n *ir.Node) sym.Expr
	// Host is the name of a function of package hostop.
	Host string
	// Samples makes cases with which the package's tests check the definition.
	Samples func(r *rand.Rand) []Sample
}

// View locates an output inside input Of: element (i, j, …) is element Offset + i·Strides[0] + j·Strides[1] + … of the
// input. If Strides is nil, the output consists of consecutive elements of the input from Offset on, under another
// shape.
type View struct {
	Of      int
	Offset  sym.Expr
	Strides []sym.Expr
	Full    bool // the output is the entire input, in order, even if the shapes do not prove it
}

// Lowering is one way to compute an operator by a loop nest.
type Lowering struct {
	// Separate gives each operand its own parameter, even if two operands are one value: Build gives them other shapes.
	Separate bool
	// Onto: the only result begins as a copy of the first input. k.Out[0] holds the copy and is an Update; k.In[0] is
	// nil. The copy is a step of its own, which moves nothing if the result lies in the input's memory.
	Onto bool
	// Blocks: the lowering is for machines that run blocks of threads, which prefer it to the others; other machines
	// ignore it.
	Blocks bool
	// Meant: the kernel states the node's operator and attributes, so that a scheduler can compute it in another way.
	Meant bool
	// Worker: the lowering keeps much in a worker's scratch; machines with blocks of threads use the expansion instead.
	Worker bool
	Name   string
	// When is the condition under which Build is right; nil: always.
	When func(n *ir.Node, d *sym.Dims) bool
	// Build writes the kernel. k has a parameter for each present input and each output.
	Build func(k *Nest, n *ir.Node)
	// Error bounds the difference from the reference, as a relative tolerance; 0: results agree to the rounding of
	// their type.
	Error float64
}

// Nest is a kernel under construction, with the node's operands as its parameters.
type Nest struct {
	*loop.Builder
	In  []*loop.Memory // one per input of the node; nil if absent
	Out []*loop.Memory
	D   *sym.Dims
}

// Sample is a case for testing a definition: a node's attributes and inputs. Regions builds the node's regions if the
// operator has some.
type Sample struct {
	Attrs   ir.Attrs
	Inputs  []*tensor.Tensor // nil: absent
	Regions func(b *ir.Builder) []*ir.Block
	// Constant lists the inputs that are constants rather than parameters.
	Constant []int
}

// Name returns the operator's name.
func (d *Def) Name() string { return d.Op }

// Align stretches operands whose extents a run decides to be 1 or equal to the others'.
func (d *Def) Align(b *ir.Builder, inputs []*ir.Value) []*ir.Value {
	if !d.Broadcasts || len(inputs) < 2 || slices.Contains(inputs, nil) {
		return inputs
	}
	return stretched(b, inputs, d.Own)
}

// Infer applies the shape rule to n.
func (d *Def) Infer(c *ir.Inference, n *ir.Node) error { return d.Shape(c, n) }

// Eval computes the results by the reference.
func (d *Def) Eval(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return d.Mean(e, n, in)
}

// define registers an operator with package ir.
func define(d *Def) { ir.Register(d) }

// Of returns a node's definition.
func Of(n *ir.Node) *Def { return n.Op.(*Def) }

// Lower writes the kernel of a node, whose parameters k has, by a lowering.
func (l *Lowering) Lower(k *Nest, n *ir.Node) {
	if l.Build(k, n); l.Meant {
		k.Kernel.Meaning = &loop.Meaning{Op: n.Op.Name(), Attrs: n.Attrs}
		if operands := k.operands(); operands != nil {
			k.Kernel.Meaning.Attrs = maps.Clone(n.Attrs)
			k.Kernel.Meaning.Attrs[loop.MeantOperands] = operands
		}
	}
}

// operands returns the number of each operand's parameter, −1 if it is absent; nil if all operands are there and have
// parameters of their own.
func (k *Nest) operands() []int64 {
	var list []int64
	simple := true
	for i, m := range k.In {
		at := int64(-1)
		if m != nil {
			at = int64(slices.IndexFunc(k.Kernel.Params, func(p *loop.Param) bool { return p.Name == m.Name }))
		}
		list, simple = append(list, at), simple && at == int64(i)
	}
	if simple {
		return nil
	}
	return list
}

// LoweringOf returns the lowering that computes n, on a machine with blocks of threads or without; nil if n has none.
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
