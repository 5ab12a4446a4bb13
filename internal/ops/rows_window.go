package ops

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// windowRows is the rule of convolutions and pooling.
var windowRows = rowRule{axes: windowAxes, seen: windowSeen, loose: windowLoose, cut: windowCut}

// windowAt returns a node's window, the index of a result's axis among the window's axes, and the padding before that
// axis. ok is false if the axis is not among them or the padding is not a number.
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

// windowAxes allows pieces of images and of axes that the window moves along. With ceil and padded, a window that
// extends beyond the end would count fewer positions in a piece.
func windowAxes(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
	in[0] = axis
	if axis == 0 {
		return true
	}
	_, _, _, ok := windowAt(n, axis)
	return ok && !(n.Attrs.Bool("ceil") && n.Attrs.Bool("padded"))
}

// windowSeen returns the rows under the windows of the result's rows, padding included.
func windowSeen(n *ir.Node, axis, _ int, rows RowRange) RowRange {
	w, at, begin, ok := windowAt(n, axis)
	if axis == 0 || !ok {
		return rows
	}
	return RowRange{rows.From*w.Strides[at] - begin, (rows.To-1)*w.Strides[at] - begin + w.Extent(at)}
}

// windowLoose allows pieces to lack padding along an axis that is padded, or whose last window may extend beyond the
// end.
func windowLoose(n *ir.Node, axis, _ int) bool {
	w, at, _, ok := windowAt(n, axis)
	return axis != 0 && ok && (!w.Unpadded(at) || n.Attrs.Bool("ceil"))
}

// windowCut sets the padding of a piece so that its window begins at the same row of the operand. Rows that the window
// sees outside the piece lie outside the operand, and count as padding in the piece too.
func windowCut(b *ir.Builder, n *ir.Node, attrs ir.Attrs, _ []*ir.Value, axis int, c RowCut) {
	if axis == 0 {
		return
	}
	w, at, _, _ := windowAt(n, axis)
	begin := w.Begin[at].Add(c.offset(b, 0, w.Strides[at]))
	setExpr(attrs, "begin", at, begin)
	setExpr(attrs, "end", at, sym.Const((c.Out.Rows-1)*w.Strides[at]+w.Extent(at)-c.In[0].Rows).Sub(begin))
	if n.Attrs.Bool("ceil") { // as much padding on every axis as there are positions
		attrs["ceil"] = false
		sizes, positions := planar(n, n.Inputs[0].Type.Shape)[2:], planar(n, n.Outputs[0].Type.Shape)[2:]
		for i := range sizes {
			if i != at {
				reach := positions[i].Sub(one).Mul(sym.Const(w.Strides[i])).Add(sym.Const(w.Extent(i)))
				setExpr(attrs, "end", i, b.Dims().Simplify(reach.Sub(sizes[i]).Sub(w.Begin[i])))
			}
		}
	}
}
