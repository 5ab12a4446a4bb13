package ops

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// windowRows is of convolutions and poolings.
var windowRows = rowRule{axes: windowAxes, seen: windowSeen, loose: windowLoose, cut: windowCut}

// windowAt is a node's window and which of its axes an axis of the result is; ok is false if it is none of them, or
// the window does not begin at a number.
func windowAt(n *ir.Node, axis int) (w Window, at int, begin int64, ok bool) {
	if at = axis - 2; Last(n) {
		at = axis - 1
	}
	w, err := windowOf(n, len(n.Outputs[0].Type.Shape)-2)
	if err != nil || at < 0 || at >= len(w.Kernel) {
		return w, at, 0, false
	}
	begin, ok = w.Begin[at].Const()
	return w, at, begin, ok
}

// windowAxes is of convolutions and poolings: images, and rows that their windows move along. Where a mean counts
// positions of the padding, windows that hang over its end would count fewer in a piece.
func windowAxes(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
	in[0] = axis
	if axis == 0 {
		return true
	}
	_, _, _, ok := windowAt(n, axis)
	return ok && !(n.Attrs.Bool("ceil") && n.Attrs.Bool("padded"))
}

func windowSeen(n *ir.Node, axis, _ int, rows RowRange) RowRange {
	w, at, begin, ok := windowAt(n, axis)
	if axis == 0 || !ok {
		return rows
	}
	return RowRange{rows.From*w.Strides[at] - begin, (rows.To-1)*w.Strides[at] - begin + w.span(at)}
}

func windowLoose(n *ir.Node, axis, _ int) bool {
	w, at, _, ok := windowAt(n, axis)
	return axis != 0 && ok && (!w.unpadded(at) || n.Attrs.Bool("ceil"))
}

// windowCut: the window of a piece begins where that of the whole does, counted from the piece's rows. What it sees
// outside them lies outside the operand, and counts as padding there too.
func windowCut(b *ir.Builder, n *ir.Node, attrs ir.Attrs, _ []*ir.Value, axis int, c RowCut) {
	if axis == 0 {
		return
	}
	w, at, _, _ := windowAt(n, axis)
	begin := w.Begin[at].Add(c.offset(b, 0, w.Strides[at]))
	setExpr(attrs, "begin", at, begin)
	setExpr(attrs, "end", at, sym.Const((c.Out.Rows-1)*w.Strides[at]+w.span(at)-c.In[0].Rows).Sub(begin))
	if n.Attrs.Bool("ceil") {
		attrs["ceil"] = false // there are as many positions as rows
	}
}
