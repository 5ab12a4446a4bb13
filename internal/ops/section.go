package ops

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// AxisSection is the section of an axis that is read: Extent elements from Begin on, in steps of Step, which is not 0.
// The zero AxisSection is the full axis.
type AxisSection struct {
	Begin, Extent sym.Expr
	Step          int64
}

// Full reports whether the section is the full axis.
func (a AxisSection) Full() bool { return a.Step == 0 }

// Equal reports whether two sections of an axis are written alike.
func (a AxisSection) Equal(b AxisSection) bool {
	return a.Step == b.Step && (a.Full() || a.Begin.Equal(b.Begin) && a.Extent.Equal(b.Extent))
}

// Section is the section of a value that is read: one section for each axis.
type Section []AxisSection

// Full reports whether the section is the entire value.
func (p Section) Full() bool {
	return !slices.ContainsFunc(p, func(a AxisSection) bool { return !a.Full() })
}

// Shape returns the section's shape, given the value's.
func (p Section) Shape(of []sym.Expr) []sym.Expr {
	shape := slices.Clone(of)
	for i, a := range p {
		if !a.Full() {
			shape[i] = a.Extent
		}
	}
	return shape
}

// Reading says how a node computes a section of its result.
type Reading struct {
	Made  Section   // the section that it computes, which may be larger than the one wanted
	In    []Section // by input: the section that is read; nil: the entire input
	Attrs ir.Attrs  // of the node that computes it; nil: the node's own
}

// NarrowContext has the facts about a function that the Narrow rules of its nodes use.
type NarrowContext struct {
	Dims *sym.Dims
	// Shared reports whether a value is a constant that other nodes read too: a section of it would be a second copy.
	Shared func(v *ir.Value) bool
}

// broadcastSection returns the section of a broadcast operand that a section of the result needs.
func broadcastSection(v *ir.Value, want Section) Section {
	if v == nil {
		return nil
	}
	in := make(Section, len(v.Type.Shape))
	for i, extent := range v.Type.Shape {
		if !isOne(extent) {
			in[i] = want[len(want)-len(in)+i]
		}
	}
	return in
}

// elementwiseNarrow is the Narrow rule of operators whose elements depend on the operands' elements at the same index.
func elementwiseNarrow(_ NarrowContext, n *ir.Node, want Section) (Reading, bool) {
	r := Reading{Made: want}
	for _, v := range n.Inputs {
		r.In = append(r.In, broadcastSection(v, want))
	}
	return r, true
}

// alongNarrow returns the Narrow rule of operators that combine elements along the axes of an attribute: these axes are
// read in full.
func alongNarrow(attr string) func(c NarrowContext, n *ir.Node, want Section) (Reading, bool) {
	return func(_ NarrowContext, n *ir.Node, want Section) (Reading, bool) {
		axes := n.Attrs.Ints(attr)
		if axes == nil {
			if _, listed := n.Attrs[attr]; !listed && attr == "axes" {
				return Reading{}, false
			}
			axes = []int64{n.Attrs.Int(attr, -1)}
		}
		for _, a := range axes {
			want[(int(a)+len(want))%len(want)] = AxisSection{}
		}
		return Reading{Made: want, In: []Section{want}}, true
	}
}
