package ir

import "github.com/weirml/weir/internal/sym"

// A layout says where a value's elements lie, never what they are: interpreters hold every value in row-major order.

// Physical is the extents of the physical axes for a value of the given shape, outermost first. A blocked axis is filled up to a whole block.
func (l *Layout) Physical(shape []sym.Expr) []sym.Expr {
	out := make([]sym.Expr, len(l.Axes))
	outer := map[int]int64{} // by logical axis: the step of the walk around
	for i, axis := range l.Axes {
		if step, inner := outer[axis]; inner {
			out[i] = sym.Const(step / l.Block[i])
		} else {
			out[i] = shape[axis].CeilDiv(sym.Const(l.Block[i]))
		}
		outer[axis] = l.Block[i]
	}
	return out
}

// Position is the physical indices of the element at the given logical ones.
func (l *Layout) Position(at []int64) []int64 {
	out := make([]int64, len(l.Axes))
	outer := map[int]int64{}
	for i, axis := range l.Axes {
		x := at[axis]
		if step, inner := outer[axis]; inner {
			x %= step
		}
		out[i] = x / l.Block[i]
		outer[axis] = l.Block[i]
	}
	return out
}
