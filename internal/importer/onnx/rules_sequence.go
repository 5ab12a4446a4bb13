package onnx

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// Sequences live while a model is converted, not when it runs: what goes into one, and where, must be known.

func init() {
	add(map[string]rule{
		"SplitToSequence": splitToSequence, "SequenceConstruct": sequenceConstruct, "SequenceEmpty": sequenceConstruct, "SequenceAt": sequenceAt,
		"SequenceLength": sequenceLength, "SequenceInsert": sequenceInsert, "SequenceErase": sequenceErase, "ConcatFromSequence": concatFromSequence,
	})
}

// maxSequence is the most tensors that a sequence may have.
const maxSequence = 1 << 14

// sequence is the value that stands for a sequence.
func (c *call) sequence(elements []*ir.Value) []*ir.Value {
	if len(elements) > maxSequence {
		c.Refuse("a sequence of %d tensors", len(elements))
	}
	return one(c.graph.stand(&composite{form: form{kind: Sequence}, list: elements, listed: true}))
}

// elements are the tensors of the i-th input, a sequence.
func (c *call) elements(i int) []*ir.Value {
	if i >= len(c.In) || c.In[i] == nil {
		c.Fault("input %d is missing", i)
	}
	seq := c.graph.composites[c.In[i]]
	if seq == nil || seq.kind != Sequence {
		c.Fault("input %d must be a sequence", i)
	}
	return seq.list
}

// place is the position in a sequence of the given length that an input names, which may count from the end.
func (c *call) place(i, length int) int {
	at := c.Numbers(i)
	if len(at) != 1 || at[0] < -int64(length) || at[0] >= int64(length) {
		c.Fault("position %v of a sequence of %d", at, length)
	}
	if at[0] < 0 {
		at[0] += int64(length)
	}
	return int(at[0])
}

func sequenceConstruct(c *call) []*ir.Value {
	for i := range c.In {
		c.Input(i)
	}
	return c.sequence(slices.Clone(c.In))
}

func sequenceAt(c *call) []*ir.Value {
	list := c.elements(0)
	return one(list[c.place(1, len(list))])
}

func sequenceLength(c *call) []*ir.Value { return one(c.number(int64(len(c.elements(0))))) }

func sequenceInsert(c *call) []*ir.Value {
	list := c.elements(0)
	at := len(list)
	if c.Optional(2) != nil {
		at = c.place(2, len(list)+1)
		if c.Numbers(2)[0] < 0 {
			at-- // −1 is the last one's place, not the one behind it
		}
	}
	return c.sequence(slices.Insert(slices.Clone(list), at, c.Input(1)))
}

func sequenceErase(c *call) []*ir.Value {
	list := c.elements(0)
	at := len(list) - 1
	if c.Optional(1) != nil {
		at = c.place(1, len(list))
	}
	if at < 0 {
		c.Fault("nothing to take out of an empty sequence")
	}
	return c.sequence(slices.Delete(slices.Clone(list), at, at+1))
}

func concatFromSequence(c *call) []*ir.Value {
	list := c.elements(0)
	if len(list) == 0 {
		c.Fault("an empty sequence")
	}
	stack := c.Int("new_axis", 0) != 0
	rank := len(list[0].Type.Shape)
	if stack {
		rank++
	}
	axis := c.Axis(c.Int("axis", 0), rank)
	if stack {
		list = slices.Clone(list)
		for i, v := range list {
			if len(v.Type.Shape) != rank-1 {
				c.Fault("tensors of ranks %d and %d", rank-1, len(v.Type.Shape))
			}
			list[i] = ops.Reshape(c.Builder, v, slices.Insert(slices.Clone(v.Type.Shape), int(axis), sym.Const(1))...)
		}
	}
	return one(ops.Concat(c.Builder, axis, list...))
}

// splitToSequence cuts an axis whose extent is a number: into single slices, into pieces of one size (the last may be smaller), or into
// pieces of given sizes.
func splitToSequence(c *call) []*ir.Value {
	x := c.Input(0)
	axis := c.Axis(c.Int("axis", 0), len(x.Type.Shape))
	extent, ok := x.Type.Shape[axis].Const()
	if !ok {
		c.Refuse("axis %d, of extent %s, decides how many tensors the sequence has", axis, x.Type.Shape[axis])
	}
	size, drop := int64(1), false
	var sizes []sym.Expr
	if v := c.Optional(1); v == nil {
		drop = c.Int("keepdims", 1) == 0
	} else if given := c.Numbers(1); len(v.Type.Shape) > 0 {
		sizes = ir.Constants(given)
		extent = 0
		c.require(sym.Cond{A: sym.Sum(sizes...), Rel: sym.EQ, B: x.Type.Shape[axis]}, "the pieces of a split are the whole")
	} else if size = given[0]; size < 1 {
		c.Fault("pieces of %d", size)
	}
	if extent/size > maxSequence {
		c.Refuse("a sequence of %d tensors", extent/size)
	}
	for ; extent > 0; extent -= size {
		sizes = append(sizes, sym.Const(min(size, extent)))
	}
	pieces := ops.Split(c.Builder, x, int(axis), sizes)
	if drop {
		shape := slices.Delete(slices.Clone(x.Type.Shape), int(axis), int(axis)+1)
		for i, p := range pieces {
			pieces[i] = ops.Reshape(c.Builder, p, shape...)
		}
	}
	return c.sequence(pieces)
}
