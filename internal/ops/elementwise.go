package ops

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
)

// Elementwise reports whether an operator applies a function to single elements of its operands, with broadcasting.
// Operators that move elements may then be exchanged with it.
func Elementwise(n *ir.Node) bool { return Of(n).Elementwise }

// ElementwiseNames returns the names of the elementwise operators, sorted.
func ElementwiseNames() (names []string) {
	for _, op := range ir.Ops() {
		if op.(*Def).Elementwise {
			names = append(names, op.Name())
		}
	}
	slices.Sort(names)
	return names
}

// Dear reports whether an elementwise operator takes many instructions per element, as exp does.
func Dear(n *ir.Node) bool { return Elementwise(n) && !Of(n).Light }

// elementwiseRows is the rule that an element depends on the operands' elements at its own index.
var elementwiseRows = rowRule{axes: func(n *ir.Node, _ int, in []int, aligned func(*ir.Value, int) int) bool {
	for i, v := range n.Inputs {
		if v != nil {
			in[i] = aligned(v, len(n.Outputs[0].Type.Shape))
		}
	}
	return true
}}
