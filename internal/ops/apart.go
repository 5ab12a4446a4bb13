package ops

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
)

// Apart returns the axes of a node's results along which each entry is computed from the same entry of the operands: of
// operand i along axis in[i], or, if that is −1, from all of the operand. It is −1 of a result that nobody reads. Apart
// returns nil if the entries depend on each other, or if nothing is declared. The extents along these axes are equal.
// Rows says the same of operators that are computed in pieces.
func Apart(n *ir.Node, in []int) []int {
	rule := Of(n).apart
	if rule == nil {
		return nil
	}
	return rule(n, in)
}

// RowsDeclared reports whether an operator declares how rows pass through it.
func RowsDeclared(n *ir.Node) bool { return Of(n).rows.axes != nil || Of(n).apart != nil }

// SameRows reports whether rows of a result read the same rows of the operands.
func SameRows(n *ir.Node) bool { return Of(n).rows.axes != nil && Of(n).rows.seen == nil }

// apartRule is Def.apart.
type apartRule func(n *ir.Node, in []int) []int

// every returns the axis for all results of a node.
func every(n *ir.Node, axis int) []int {
	return slices.Repeat([]int{axis}, len(n.Outputs))
}

// onlyFirst reports whether the first operand has entries, along the axis that is returned, and the others have none.
func onlyFirst(in []int) (axis int, ok bool) {
	return in[0], in[0] >= 0 && !slices.ContainsFunc(in[1:], func(axis int) bool { return axis >= 0 })
}

// apartBeside is the rule of operators that work along the attribute axis, on each vector separately, and keep the
// shape's rank; otherwise is the attribute's default.
func apartBeside(otherwise int64) apartRule {
	return func(n *ir.Node, in []int) []int {
		along, err := axisOf(n, n.Attrs.Int("axis", otherwise), len(n.Inputs[0].Type.Shape))
		axis, ok := onlyFirst(in)
		if err != nil || !ok || axis == along {
			return nil
		}
		return every(n, axis)
	}
}

// apartBefore is the rule of operators that work on each section of the last axes separately and keep the axes before
// them.
func apartBefore(last int) apartRule {
	return func(n *ir.Node, in []int) []int {
		axis, ok := onlyFirst(in)
		if !ok || axis >= len(n.Inputs[0].Type.Shape)-last {
			return nil
		}
		return every(n, axis)
	}
}

// apartFourier: the last result is a workspace.
func apartFourier(n *ir.Node, in []int) []int {
	to := apartBeside(0)(n, in)
	if to != nil {
		to[len(to)-1] = -1
	}
	return to
}

// apartConcat: the operands are joined along another axis.
func apartConcat(n *ir.Node, in []int) []int {
	along, err := axisOf(n, n.Attrs.Int("axis", 0), len(n.Inputs[0].Type.Shape))
	if err != nil || in[0] < 0 || in[0] == along || slices.ContainsFunc(in, func(axis int) bool { return axis != in[0] }) {
		return nil
	}
	return []int{in[0]}
}

// apartReduced is the rule of argmax.
func apartReduced(n *ir.Node, in []int) []int {
	rank := len(n.Inputs[0].Type.Shape)
	axes, err := axesOf(n, n.Attrs.Ints("axes"), rank)
	axis, ok := onlyFirst(in)
	if err != nil || !ok || slices.Contains(axes, axis) || n.Attrs["outer"] != nil {
		return nil
	}
	to := axis
	for _, gone := range axes {
		if gone < axis && !n.Attrs.Bool("keep") {
			to--
		}
	}
	return every(n, to)
}

// apartGather: rows of the indices select from all of the table, or the same indices from each row of the table.
func apartGather(n *ir.Node, in []int) []int {
	along, err := axisOf(n, n.Attrs.Int("axis", 0), len(n.Inputs[0].Type.Shape))
	rank := len(n.Inputs[1].Type.Shape)
	switch {
	case err != nil || in[0] >= 0 && in[1] >= 0 || in[0] == along:
		return nil
	case in[1] >= 0:
		return []int{along + in[1]}
	case in[0] < along:
		return []int{in[0]}
	}
	return []int{in[0] + rank - 1}
}

// apartGatherElements: an index selects from its own row, or, along the axis of the indices, from all of the table.
func apartGatherElements(n *ir.Node, in []int) []int {
	along, err := axisOf(n, n.Attrs.Int("axis", 0), len(n.Inputs[0].Type.Shape))
	if err != nil || in[0] != in[1] && !(in[0] < 0 && in[1] == along) || in[0] == along {
		return nil
	}
	return []int{in[1]}
}

// apartGatherND: the batch axes, or the indices' rows of a common table.
func apartGatherND(n *ir.Node, in []int) []int {
	batch := n.Attrs.Int("batch", 0)
	switch {
	case in[0] == in[1] && in[0] >= 0 && int64(in[0]) < batch:
		return []int{in[0]}
	case in[0] < 0 && in[1] >= 0 && batch == 0 && in[1] < len(n.Inputs[1].Type.Shape)-1:
		return []int{in[1]}
	}
	return nil
}

// apartScatterElements: an update replaces an element of its own row.
func apartScatterElements(n *ir.Node, in []int) []int {
	along, err := axisOf(n, n.Attrs.Int("axis", 0), len(n.Inputs[0].Type.Shape))
	if err != nil || in[0] < 0 || in[0] != in[1] || in[0] != in[2] || in[0] == along {
		return nil
	}
	return []int{in[0]}
}

// apartQuantize: scales and zero points are equal for all rows.
func apartQuantize(n *ir.Node, in []int) []int {
	axis, ok := onlyFirst(in)
	along, err := axisOf(n, n.Attrs.Int("axis", 1), max(len(n.Inputs[0].Type.Shape), 1))
	if !ok || err != nil || axis == along && len(n.Inputs[1].Type.Shape) > 0 {
		return nil
	}
	return []int{axis}
}

// apartRotate: cosines and sines are equal for all rows, or each row has its own.
func apartRotate(n *ir.Node, in []int) []int {
	rank := len(n.Inputs[0].Type.Shape)
	if in[0] < 0 || in[0] >= rank-1 {
		return nil
	}
	for i := 1; i < 3; i++ {
		if in[i] >= 0 && in[i] != in[0]-(rank-len(n.Inputs[i].Type.Shape)) {
			return nil
		}
	}
	return []int{in[0]}
}

// apartDiagonal: an axis beside those of the diagonal.
func apartDiagonal(n *ir.Node, in []int) []int {
	first, second := int(n.Attrs.Int("first", 0)), int(n.Attrs.Int("second", 1))
	switch {
	case in[0] < 0 || in[0] == first || in[0] == second:
		return nil
	case in[0] > second:
		return []int{in[0] - 1}
	}
	return []int{in[0]}
}

// apartFirst is the rule of operators on images, which compute each image separately: along the first axis of each
// operand that has rows, and of the first operand at least; common operands may follow.
func apartFirst(n *ir.Node, in []int) []int {
	if axis, ok := onlyFirst(in); !ok || axis != 0 {
		return nil
	}
	return every(n, 0)
}

// apartGrids: each image is sampled at its own positions.
func apartGrids(n *ir.Node, in []int) []int {
	if in[0] != 0 || in[1] != 0 {
		return nil
	}
	return every(n, 0)
}

// apartRecurrent: each sequence has its own input, length and state.
func apartRecurrent(n *ir.Node, in []int) []int {
	for i, axis := range in {
		want := -1
		switch i {
		case recurrentProjected, recurrentState, recurrentMemory:
			want = 1
		case recurrentLengths:
			want = 0
		}
		if n.Inputs[i] != nil && axis != want {
			return nil
		}
	}
	to := every(n, 1)
	to[0] = 2
	return to
}
