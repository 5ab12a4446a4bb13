package ops

import (
	"maps"
	"slices"

	"github.com/weirml/weir/internal/loop"
)

// elementwise are the operators each of whose results' elements depends on the elements of its operands at the same index, after broadcasting, and on nothing else.
var elementwise = func() map[string]bool {
	all := map[string]bool{"cast": true, "where": true, "sigmoid": true}
	for _, row := range unaryTable {
		all[row.function.String()] = true
	}
	for _, row := range binaryTable {
		all[row.function.String()] = true
	}
	for _, row := range activationTable {
		all[row.name] = true
	}
	return all
}()

// Elementwise reports whether an operator is a function of single elements of its operands, with broadcasting: what moves elements may then be done before it as well
// as after it.
func Elementwise(op string) bool { return elementwise[op] }

// ElementwiseNames are the operators of which Elementwise holds, in order.
func ElementwiseNames() []string { return slices.Sorted(maps.Keys(elementwise)) }

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
func Dear(op string) bool { return elementwise[op] && !light[op] }
