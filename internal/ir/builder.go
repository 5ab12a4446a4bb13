package ir

import (
	"fmt"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Builder appends nodes to a block and infers each as it is added. Its methods panic with the error of the first
// invalid node; a deferred Catch turns that into a returned error.
type Builder struct {
	*Inference
	Block    *Block
	Source   string // given to the nodes it makes
	Operator string // the model's operator that they are made for, which errors name
	// Instead builds a replacement for a node that Op is about to make, and returns its output; if it returns nil, the
	// node is made. It applies to inner blocks too. If Instead is nil, nothing is replaced.
	Instead func(b *Builder, op string, attrs Attrs, inputs []*Value) *Value
	// Stretches: if a run decides which operand of a broadcast has an extent of 1, that operand repeats. Without it, such
	// extents must be equal. It applies to inner blocks too.
	Stretches bool
}

// NewBuilder returns a builder that appends to block.
func NewBuilder(c *Inference, block *Block) *Builder {
	return &Builder{Inference: c, Block: block}
}

// In returns a builder for an inner block, such as a region's body, with the same source.
func (b *Builder) In(block *Block) *Builder {
	inner := *b
	inner.Block = block
	return &inner
}

type buildError struct{ err error }

// Fail stops building with an error.
func (b *Builder) Fail(err error) { panic(buildError{err}) }

// Failf stops building with an input error at the builder's source.
func (b *Builder) Failf(format string, args ...any) {
	b.Fail(diag.Inputf(format, args...).AtNode(b.Source, b.Operator))
}

// Catch turns a builder's panic into *err. Use: defer ir.Catch(&err).
func Catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case buildError:
		*err = r.err
	default:
		panic(r)
	}
}

// Name returns hint, or hint with a number if a value of the module has that name already.
func (b *Builder) Name(hint string) string {
	if hint == "" {
		hint = "t"
	}
	count, taken := b.names[hint]
	b.names[hint] = count + 1
	if !taken {
		return hint
	}
	for {
		name := fmt.Sprintf("%s.%d", hint, count)
		if _, taken := b.names[name]; !taken {
			b.names[name], b.names[hint] = 1, count+1 // the next search begins here
			return name
		}
		count++
	}
}

// TakeName exchanges the names of v and of the value that v replaces, so that names stay unique whichever of the two a
// pass keeps. Passes rename values in no other way.
func (v *Value) TakeName(from *Value) { v.Name, from.Name = from.Name, v.Name }

// Param appends a parameter to the block.
func (b *Builder) Param(name string, t Type) *Value {
	v := &Value{Name: b.Name(name), Type: t}
	b.Block.Params = append(b.Block.Params, v)
	return v
}

// Constant adds a constant; the elements of a small integer one are known.
func (b *Builder) Constant(name string, t *tensor.Tensor) *Value {
	v := &Value{Name: b.Name(name), Type: Type{DType: t.DType(), Shape: Constants(t.Shape())}, Const: t}
	v.know()
	b.Block.Consts = append(b.Block.Consts, v)
	return v
}

// Node appends a node and returns it with its outputs inferred.
func (b *Builder) Node(op string, attrs Attrs, inputs ...*Value) *Node {
	return b.NodeWith(op, attrs, nil, inputs...)
}

// NodeWith is Node for an operator with regions.
func (b *Builder) NodeWith(op string, attrs Attrs, regions []*Block, inputs ...*Value) *Node {
	def, ok := Lookup(op)
	if !ok {
		b.Fail(diag.Unsupportedf("no operator %q", op).AtNode(b.Source, op))
	}
	if attrs == nil {
		attrs = Attrs{}
	}
	if err := b.Module.Ask(); err != nil {
		b.Fail(err)
	}
	b.Dims().Grant(1)
	if a, ok := def.(Aligner); ok && b.Stretches {
		inputs = a.Align(b, inputs)
	}
	n := &Node{Op: def, Inputs: inputs, Attrs: attrs, Regions: regions, Source: b.Source}
	b.Module.Operators = b.Module.Operators.Add(b.Source, b.Operator)
	if err := def.Infer(b.Inference, n); err != nil {
		b.Fail(err)
	}
	for i, out := range n.Outputs {
		out.Node, out.Index = n, i
		if out.Name == "" {
			hint := b.Source
			if hint == "" {
				hint = op
			}
			out.Name = b.Name(hint)
		}
	}
	b.Block.Nodes = append(b.Block.Nodes, n)
	return n
}

// Op appends a node with one output and returns that.
func (b *Builder) Op(op string, attrs Attrs, inputs ...*Value) *Value {
	if b.Instead != nil {
		direct := *b
		direct.Instead = nil
		if v := b.Instead(&direct, op, attrs, inputs); v != nil {
			return v
		}
	}
	return b.Node(op, attrs, inputs...).Outputs[0]
}

// Result sets the type of output i and returns the output; Infer calls it once for each output.
func (n *Node) Result(i int, t Type) *Value {
	for len(n.Outputs) <= i {
		n.Outputs = append(n.Outputs, &Value{})
	}
	n.Outputs[i].Type = t
	return n.Outputs[i]
}

// Constants returns sizes as symbolic integers.
func Constants(shape []int64) []sym.Expr {
	out := make([]sym.Expr, len(shape))
	for i, s := range shape {
		out[i] = sym.Const(s)
	}
	return out
}
