package ops

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// tableRows is the rule of operators that look up elements in a table over the rows of their result.
var tableRows = rowRule{axes: tableAxes, seen: tableSeen, loose: func(_ *ir.Node, _, i int) bool {
	return i == 0
}, cut: tableCut, tables: true}

// tableAxis returns the axis whose rows the node's second operand selects from the first; −1 if the attribute is wrong.
func tableAxis(n *ir.Node) int {
	axis, err := axisOf(n, n.Attrs.Int("axis", 0), len(n.Inputs[0].Type.Shape))
	if err != nil {
		return -1
	}
	return axis
}

// tableAxes allows pieces of each other axis, whose rows are the operand's own, and of the axis itself if the table is
// a known constant without negative indices.
func tableAxes(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
	in[0] = axis
	along, table := tableAxis(n), n.Inputs[1]
	if n.Op.Name() == "gather" && looks(n, axis) {
		in[0], in[1] = -1, axis-along
		return true
	}
	switch {
	case along < 0 || n.Op.Name() == "gather" && len(table.Type.Shape) != 1:
		return false
	case axis != along:
		return true
	case table.Const == nil || table.Const.Pending():
		return false
	}
	for i := range in[1:] {
		in[1+i] = 0
	}
	for i := range table.Const.Len() {
		if table.Const.Int(i) < 0 {
			return false
		}
	}
	return true
}

// looks reports whether an axis of a gather's result is an axis of its indices, which are known only in a run.
func looks(n *ir.Node, axis int) bool {
	along, table := tableAxis(n), n.Inputs[1]
	return along >= 0 && table.Const == nil && axis >= along && axis < along+len(table.Type.Shape)
}

// tableSeen returns the range between the least and the greatest index in the table for the rows.
func tableSeen(n *ir.Node, axis, i int, rows RowRange) RowRange {
	if i > 0 || axis != tableAxis(n) {
		return rows
	}
	table := n.Inputs[1].Const
	if table.Len() == 0 {
		return RowRange{}
	}
	taps := table.Len() / table.Shape()[0]
	seen := RowRange{table.Int(rows.From * taps), 0}
	for at := rows.From * taps; at < rows.To*taps; at++ {
		row := table.Int(at)
		seen = RowRange{min(seen.From, row), max(seen.To, row+1)}
	}
	return seen
}

// tableCut subtracts a piece's first row from the indices of its table.
func tableCut(b *ir.Builder, n *ir.Node, _ ir.Attrs, inputs []*ir.Value, axis int, c RowCut) {
	if axis != tableAxis(n) || n.Op.Name() == "gather" && looks(n, axis) {
		return
	}
	first, ok := Steps(c.In[0].First, c.Index)
	if !ok {
		b.Failf("the pieces begin at too irregular rows")
	}
	if !isZero(first) {
		dt := inputs[1].Type.DType
		inputs[1] = Binary(b, loop.Sub, inputs[1], Integers(b, ir.Type{DType: dt}, []sym.Expr{first}))
	}
}
