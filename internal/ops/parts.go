package ops

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// AxisPart is the part of an axis that is read: Extent elements from Begin on, in steps of Step, which is not 0. The
// zero AxisPart is the whole axis.
type AxisPart struct {
	Begin, Extent sym.Expr
	Step          int64
}

// Whole reports whether the part is the whole axis.
func (a AxisPart) Whole() bool { return a.Step == 0 }

// Equal reports whether two parts of an axis are the same as they are written.
func (a AxisPart) Equal(b AxisPart) bool {
	return a.Step == b.Step && (a.Whole() || a.Begin.Equal(b.Begin) && a.Extent.Equal(b.Extent))
}

// Part is the part of a value that is read: a part of each axis.
type Part []AxisPart

// Whole reports whether the part is all of the value.
func (p Part) Whole() bool {
	return !slices.ContainsFunc(p, func(a AxisPart) bool { return !a.Whole() })
}

// Shape returns the shape of the part of a value of the given shape.
func (p Part) Shape(of []sym.Expr) []sym.Expr {
	shape := slices.Clone(of)
	for i, a := range p {
		if !a.Whole() {
			shape[i] = a.Extent
		}
	}
	return shape
}

// Reading says how a node computes a part of its result.
type Reading struct {
	Made  Part     // what it computes, which may be more than was wanted
	In    []Part   // by input: the part that is read; nil: all of it
	Attrs ir.Attrs // of the node that computes it; nil: the node's own
}

// Parts is what a rule for parts may ask about the function it works in.
type Parts struct {
	Dims *sym.Dims
	// Shared reports whether a value is a constant that is read elsewhere too: a part of it would be a second copy.
	Shared func(v *ir.Value) bool
}

// broadcastPart returns the part of an operand, broadcast to a result, that a part of the result needs.
func broadcastPart(v *ir.Value, want Part) Part {
	if v == nil {
		return nil
	}
	in := make(Part, len(v.Type.Shape))
	for i, extent := range v.Type.Shape {
		if !isOne(extent) {
			in[i] = want[len(want)-len(in)+i]
		}
	}
	return in
}

// elementwiseParts: an element depends on those at its own index.
func elementwiseParts(_ Parts, n *ir.Node, want Part) (Reading, bool) {
	r := Reading{Made: want}
	for _, v := range n.Inputs {
		r.In = append(r.In, broadcastPart(v, want))
	}
	return r, true
}

// alongParts is of operators that combine the elements along the axes of an attribute, and keep the others apart.
func alongParts(attr string) func(p Parts, n *ir.Node, want Part) (Reading, bool) {
	return func(_ Parts, n *ir.Node, want Part) (Reading, bool) {
		axes := n.Attrs.Ints(attr)
		if axes == nil {
			if _, listed := n.Attrs[attr]; !listed && attr == "axes" {
				return Reading{}, false
			}
			axes = []int64{n.Attrs.Int(attr, -1)}
		}
		for _, a := range axes {
			want[(int(a)+len(want))%len(want)] = AxisPart{}
		}
		return Reading{Made: want, In: []Part{want}}, true
	}
}
