package ops

import (
	"maps"
	"slices"
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
