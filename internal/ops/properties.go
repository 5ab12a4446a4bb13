package ops

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
)

// Recompute is a set of situations in which a result is computed again rather than kept.
type Recompute uint8

const (
	// Late is a reader far after the first readers: until then, the result would only occupy memory.
	Late Recompute = 1 << iota
	// InPieces is a loop over pieces of a batch, each of which needs a piece of the result.
	InPieces
	// Backward is the second half of a training step, which would otherwise read a value that the first half saves.
	Backward
)

// Has reports whether the set contains a situation.
func (r Recompute) Has(situation Recompute) bool { return r&situation != 0 }

// Merging says how an operator that reduces an axis is computed for two pieces of the axis in turn.
type Merging struct {
	// By is the operator that combines the results of two pieces; "" if the results cannot be combined.
	By string
	// Piece is the operator that computes each piece; "": the operator itself. If it is another one, the combined
	// result is divided by the number of elements that are reduced to one.
	Piece string
	// Integers: results that are integers of at least 32 bits are combined too, not only floats.
	Integers bool
	// Axes lists the ways to divide the inputs into two parts. A way has the axis of each input, or −1 for an input that
	// both parts read in full.
	Axes func(n *ir.Node) [][]int
}

// Start returns the value that combining begins with, the neutral element of By.
func (m Merging) Start() float64 {
	op, _ := ir.Lookup(m.By)
	return *op.(*Def).Neutral
}

// The functions below are values of Def.NotNegative.

// neverNegative holds for operators whose results are never negative.
func neverNegative(*ir.Node, func(*ir.Value) bool) bool { return true }

// firstNotNegative holds if the first input is not negative.
func firstNotNegative(n *ir.Node, is func(*ir.Value) bool) bool { return is(n.Inputs[0]) }

// someNotNegative holds if some input is not negative.
func someNotNegative(n *ir.Node, is func(*ir.Value) bool) bool {
	return slices.ContainsFunc(n.Inputs, is)
}

// allNotNegative holds if no input is negative.
func allNotNegative(n *ir.Node, is func(*ir.Value) bool) bool {
	return !slices.ContainsFunc(n.Inputs, func(v *ir.Value) bool { return !is(v) })
}

// productNotNegative holds for the product of a value with itself, and of two values that are not negative.
func productNotNegative(n *ir.Node, is func(*ir.Value) bool) bool {
	return n.Inputs[0] == n.Inputs[1] || allNotNegative(n, is)
}
