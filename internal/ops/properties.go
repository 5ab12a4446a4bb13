package ops

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
)

// Recompute is a set of places at which a result is computed again rather than kept.
type Recompute uint8

const (
	// Late is a reader far from the first ones: in between, the result would only take memory.
	Late Recompute = 1 << iota
	// InPieces is a loop over pieces of a batch, each of which needs a piece of the result.
	InPieces
	// Backward is the second half of a training step, which would otherwise read what the first half saves.
	Backward
)

// Has reports whether a set holds a place.
func (r Recompute) Has(place Recompute) bool { return r&place != 0 }

// Merging says how an operator is computed for two parts of an axis that it sums up over.
type Merging struct {
	// By is the operator that makes the result for both parts of the results for each; "" if there is none.
	By string
	// Part is the operator that each part is computed with; "": the operator itself. If it is another, the merged
	// result is divided by the number of elements that a result is made of.
	Part string
	// Integers: integers of at least 32 bits are merged too, and not only floats.
	Integers bool
}

// Start is the number that merging begins with, the neutral element of By.
func (m Merging) Start() float64 {
	op, _ := ir.Lookup(m.By)
	return *op.(*Def).Neutral
}

// The functions below are values of Def.NotNegative.

// neverNegative is of operators whose results are never negative.
func neverNegative(*ir.Node, func(*ir.Value) bool) bool { return true }

// firstNotNegative is of operators whose result is not negative if the first input is not.
func firstNotNegative(n *ir.Node, is func(*ir.Value) bool) bool { return is(n.Inputs[0]) }

// someNotNegative is of operators that need one input that is not negative.
func someNotNegative(n *ir.Node, is func(*ir.Value) bool) bool {
	return slices.ContainsFunc(n.Inputs, is)
}

// allNotNegative is of operators that need all inputs not to be negative.
func allNotNegative(n *ir.Node, is func(*ir.Value) bool) bool {
	return !slices.ContainsFunc(n.Inputs, func(v *ir.Value) bool { return !is(v) })
}

// productNotNegative is allNotNegative, or of a square.
func productNotNegative(n *ir.Node, is func(*ir.Value) bool) bool {
	return n.Inputs[0] == n.Inputs[1] || allNotNegative(n, is)
}
