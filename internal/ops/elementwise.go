package ops

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
)

// Elementwise reports whether an operator is a function of single elements of its operands, with broadcasting. Elements
// may then be moved before it as well as after it.
func Elementwise(n *ir.Node) bool { return Of(n).Elementwise }

// ElementwiseNames are the operators of which Elementwise holds, in order.
func ElementwiseNames() (names []string) {
	for _, op := range ir.Ops() {
		if op.(*Def).Elementwise {
			names = append(names, op.Name())
		}
	}
	slices.Sort(names)
	return names
}

// Dear reports whether an elementwise operator takes many instructions for an element, as functions such as exp do.
func Dear(n *ir.Node) bool { return Elementwise(n) && !Of(n).Light }

// elementwiseRows: an element depends on those at its own index.
var elementwiseRows = rowRule{axes: func(n *ir.Node, _ int, in []int, aligned func(*ir.Value, int) int) bool {
	for i, v := range n.Inputs {
		if v != nil {
			in[i] = aligned(v, len(n.Outputs[0].Type.Shape))
		}
	}
	return true
}}
