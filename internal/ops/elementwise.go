package ops

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
)

// Elementwise reports whether an operator is a function of single elements of its operands, with broadcasting: what moves elements may then be done before it as well
// as after it.
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

// light are the elementwise operators of few instructions.
var light = func() map[string]bool {
	all := map[string]bool{"cast": true, "where": true, "relu": true, "leaky_relu": true, "hard_sigmoid": true, "hard_swish": true}
	for _, f := range []loop.UnaryOp{loop.Neg, loop.Abs, loop.Sign, loop.BitNot, loop.Not, loop.Floor, loop.Ceil, loop.Round, loop.Trunc, loop.Sqrt, loop.Reciprocal} {
		all[f.String()] = true
	}
	for _, f := range []loop.BinaryOp{loop.Add, loop.Sub, loop.Mul, loop.Div, loop.Max, loop.Min, loop.Eq, loop.Ne, loop.Lt, loop.Le, loop.Gt, loop.Ge, loop.And, loop.Or} {
		all[f.String()] = true
	}
	return all
}()

// Dear reports whether an elementwise operator takes many instructions for an element, as functions such as exp do.
func Dear(n *ir.Node) bool { return Elementwise(n) && !light[n.Op.Name()] }

// elementwiseRows: an element depends on those at its own index.
var elementwiseRows = rowRule{axes: func(n *ir.Node, _ int, in []int, aligned func(*ir.Value, int) int) bool {
	for i, v := range n.Inputs {
		if v != nil {
			in[i] = aligned(v, len(n.Outputs[0].Type.Shape))
		}
	}
	return true
}}
