package ops

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// rowRules are the operators that Rows knows beyond elementwise ones and reductions.
var rowRules map[string]rowRule

func init() {
	window := rowRule{axes: windowAxes, seen: windowSeen, loose: windowLoose, cut: windowCut}
	table := rowRule{axes: tableAxes, seen: tableSeen, loose: func(_ *ir.Node, _, i int) bool { return i == 0 }, cut: tableCut, tables: true}
	shape := func(key string) func(*ir.Builder, *ir.Node, ir.Attrs, []*ir.Value, int, RowCut) {
		return func(_ *ir.Builder, _ *ir.Node, attrs ir.Attrs, _ []*ir.Value, axis int, c RowCut) {
			setExpr(attrs, key, axis, sym.Const(c.Out.Rows))
		}
	}
	along := func(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
		along := n.Attrs.Int("axis", -1)
		if along < 0 {
			along += int64(len(n.Outputs[0].Type.Shape))
		}
		in[0] = axis
		return len(n.Inputs) == 1 && int64(axis) != along
	}
	rowRules = map[string]rowRule{
		"matmul":    {axes: matmulRowAxes},
		"attention": {axes: attentionAxes},
		"normalize": {axes: func(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
			axes, err := axesOf(n, n.Attrs.Ints("axes"), len(n.Inputs[0].Type.Shape))
			in[0] = axis
			return err == nil && len(n.Inputs) == 1 && !slices.Contains(axes, axis)
		}},
		"softmax": {axes: along}, "log_softmax": {axes: along},
		"transpose": {axes: func(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
			perm := n.Attrs.Ints("perm")
			if axis >= len(perm) {
				return false
			}
			in[0] = int(perm[axis])
			return true
		}},
		"reshape": {axes: reshapeAxes, seen: reshapeSeen, granule: reshapeGranule, cut: shape("shape")},
		"expand": {axes: func(n *ir.Node, _ int, in []int, aligned func(*ir.Value, int) int) bool {
			in[0] = aligned(n.Inputs[0], len(n.Outputs[0].Type.Shape))
			return true
		}, cut: shape("shape")},
		"repeat": {axes: firstAxes, seen: repeatSeen, granule: func(n *ir.Node, axis int) int64 { return n.Attrs.Ints("times")[axis] }},
		"concat": {axes: func(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
			for i := range in {
				in[i] = axis
			}
			return int64(axis) != n.Attrs.Int("axis", -1) && n.Attrs.Int("axis", -1) >= 0
		}},
		"slice":       {axes: sliceAxes, seen: sliceSeen, cut: sliceCut},
		"pad":         {axes: padAxes, seen: padSeen, loose: func(n *ir.Node, axis, _ int) bool { return pads(n, axis) }, cut: padCut},
		"convolution": window, "max_pool": window, "average_pool": window, "lp_pool": window,
		"winograd": {axes: winogradAxes, seen: winogradSeen, loose: func(_ *ir.Node, axis, _ int) bool { return axis == 1 }, granule: winogradGranule, fits: winogradFits, cut: winogradCut},
		"convolution_transpose": {axes: func(_ *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
			in[0] = axis
			return axis == 0
		}},
		"resample": table, "gather": table,
	}
}

// setExpr changes one element of an attribute, in a list of its own.
func setExpr(attrs ir.Attrs, key string, at int, e sym.Expr) {
	list := slices.Clone(attrs.Exprs(key))
	list[at] = e
	attrs[key] = list
}

func firstAxes(_ *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
	in[0] = axis
	return true
}

func matmulRowAxes(n *ir.Node, axis int, in []int, aligned func(*ir.Value, int) int) bool {
	a, b, rank := n.Inputs[0], n.Inputs[1], len(n.Outputs[0].Type.Shape)
	if len(a.Type.Shape) < 2 || len(b.Type.Shape) < 2 {
		return false
	}
	switch axis {
	case rank - 1:
		return false // it would cut up weights
	case rank - 2:
		in[0] = len(a.Type.Shape) - 2
		if n.Attrs.Bool("transpose_a") {
			in[0]++
		}
	default:
		in[0], in[1] = aligned(a, rank), aligned(b, rank)
	}
	return true
}

func attentionAxes(n *ir.Node, axis int, in []int, aligned func(*ir.Value, int) int) bool {
	if input(n, 4) != nil || axis == 1 || axis == 3 || axis == 2 && n.Attrs.Bool("causal") {
		return false
	}
	in[0] = axis
	if axis == 0 {
		in[1], in[2] = 0, 0
	}
	if mask := input(n, 3); mask != nil {
		in[3] = aligned(mask, 4)
	}
	for i := 6; i < len(n.Inputs) && axis == 0; i++ {
		if n.Inputs[i] != nil {
			in[i] = 0
		}
	}
	return true
}

// reshapeAxes: rows lie at the same places under both shapes where as much stands before the axis, and a row of one is some whole rows of the other.
func reshapeAxes(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
	out, from := n.Outputs[0].Type.Shape, n.Inputs[0].Type.Shape
	before := sym.Product(out[:axis]...)
	for at := range from {
		if !sym.Product(from[:at]...).Equal(before) || isOne(from[at]) || isOne(out[axis]) {
			continue
		}
		_, more := out[axis].Multiple(from[at])
		if _, fewer := from[at].Multiple(out[axis]); more || fewer {
			in[0] = at
			return true
		}
	}
	return false
}

// reshapeRatio is how many rows of the result a row of the operand is, and the other way round: one of the two is 1.
func reshapeRatio(n *ir.Node, axis int) (up, down int64) {
	in := []int{-1}
	if !reshapeAxes(n, axis, in, nil) {
		return 1, 1
	}
	to, from := n.Outputs[0].Type.Shape[axis], n.Inputs[0].Type.Shape[in[0]]
	if k, more := to.Multiple(from); more {
		return k, 1
	}
	k, _ := from.Multiple(to)
	return 1, k
}

func reshapeSeen(n *ir.Node, axis, _ int, rows Span) Span {
	up, down := reshapeRatio(n, axis)
	return Span{rows.From / up * down, (rows.To + up - 1) / up * down}
}

func reshapeGranule(n *ir.Node, axis int) int64 {
	up, _ := reshapeRatio(n, axis)
	return up
}

func repeatSeen(n *ir.Node, axis, _ int, rows Span) Span {
	times := n.Attrs.Ints("times")[axis]
	return Span{rows.From / times, (rows.To + times - 1) / times}
}

func sliceAxes(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
	in[0] = axis
	_, number := n.Attrs.Exprs("begin")[axis].Const()
	return number && n.Attrs.Ints("step")[axis] == 1
}

func sliceSeen(n *ir.Node, axis, _ int, rows Span) Span {
	begin, _ := n.Attrs.Exprs("begin")[axis].Const()
	return Span{rows.From + begin, rows.To + begin}
}

func sliceCut(_ *ir.Builder, _ *ir.Node, attrs ir.Attrs, _ []*ir.Value, axis int, c RowCut) {
	setExpr(attrs, "begin", axis, sym.Const(0))
	setExpr(attrs, "extent", axis, sym.Const(c.Out.Rows))
}

// pads reports whether a node adds rows along an axis, or takes some away.
func pads(n *ir.Node, axis int) bool {
	return !isZero(n.Attrs.Exprs("begin")[axis]) || !isZero(n.Attrs.Exprs("end")[axis])
}

func padAxes(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
	in[0] = axis
	_, number := n.Attrs.Exprs("begin")[axis].Const()
	return !pads(n, axis) || number && n.Attrs.String("mode", "constant") == "constant"
}

func padSeen(n *ir.Node, axis, _ int, rows Span) Span {
	begin, _ := n.Attrs.Exprs("begin")[axis].Const()
	return Span{rows.From - begin, rows.To - begin}
}

func padCut(b *ir.Builder, n *ir.Node, attrs ir.Attrs, _ []*ir.Value, axis int, c RowCut) {
	if !pads(n, axis) {
		return
	}
	begin := n.Attrs.Exprs("begin")[axis].Add(c.offset(b, 0, 1))
	setExpr(attrs, "begin", axis, begin)
	setExpr(attrs, "end", axis, sym.Const(c.Out.Rows-c.In[0].Rows).Sub(begin))
}

// windowAt is a node's window and which of its axes an axis of the result is; ok is false where it is none of them, or the window does not begin at a number.
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

// windowAxes is of convolutions and poolings: images, and rows that their windows move along. Where a mean counts positions of the padding, windows that hang over its end would count
// fewer in a piece.
func windowAxes(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
	in[0] = axis
	if axis == 0 {
		return true
	}
	_, _, _, ok := windowAt(n, axis)
	return ok && !(n.Attrs.Bool("ceil") && n.Attrs.Bool("padded"))
}

func windowSeen(n *ir.Node, axis, _ int, rows Span) Span {
	w, at, begin, ok := windowAt(n, axis)
	if axis == 0 || !ok {
		return rows
	}
	return Span{rows.From*w.Strides[at] - begin, (rows.To-1)*w.Strides[at] - begin + w.span(at)}
}

func windowLoose(n *ir.Node, axis, _ int) bool {
	w, at, _, ok := windowAt(n, axis)
	return axis != 0 && ok && (!w.unpadded(at) || n.Attrs.Bool("ceil"))
}

// windowCut: the window of a piece begins where that of the whole does, counted from the piece's rows. What it sees outside them lies outside the operand, and counts as padding there too.
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

func winogradAxes(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
	in[0] = axis
	begin, out := n.Attrs.Exprs("begin"), n.Outputs[0].Type.Shape
	_, number := begin[0].Const()
	if axis == 0 || len(begin) == 3 {
		return axis == 0 || axis == 1 && number // planes are computed each by itself
	}
	// In pieces of a ragged height, other results would count in the choice of how a tile is computed.
	height, known := out[1].Const()
	return axis == 1 && number && known && height%n.Attrs.Int("tile", 1) == 0
}

// winogradSpan is how many elements the kernel has along an axis, of images or of planes, and how many results along it
// are computed together.
func winogradSpan(n *ir.Node) (kernel, together int64) {
	if kernel, _ = winogradKernel(n).Const(); len(n.Inputs[0].Type.Shape) == 5 {
		return kernel, 1
	}
	return 3, n.Attrs.Int("tile", 0)
}

// winogradSeen: a tile is computed of all that the whole's tile sees, so that its rows come out the same to the bit.
func winogradSeen(n *ir.Node, axis, _ int, rows Span) Span {
	if axis == 0 {
		return rows
	}
	begin, _ := n.Attrs.Exprs("begin")[0].Const()
	kernel, tile := winogradSpan(n)
	from := rows.From / tile * tile
	return Span{from - begin, from + (rows.To-from+tile-1)/tile*tile + kernel - 1 - begin}
}

func winogradGranule(n *ir.Node, axis int) int64 {
	if axis == 0 {
		return 1
	}
	_, tile := winogradSpan(n)
	return tile
}

// winogradFits: a piece's blocks take no more scratch than the whole's.
func winogradFits(n *ir.Node, axis int, rows int64) bool {
	x, out, begin := n.Inputs[0].Type.Shape, n.Outputs[0].Type.Shape, n.Attrs.Exprs("begin")
	if _, ok := constants(out[1 : len(out)-1]); axis != 1 || !ok { // blocks of images of unknown sizes do not depend on the rows
		return true
	}
	kernel, _ := winogradKernel(n).Const()
	i, tile := WinogradImageOf(x, out, begin, kernel, nil), n.Attrs.Int("tile", 0)
	whole, _ := winogradBlockOf(i, tile)
	if len(out) == 5 {
		i.Planes = rows
	} else {
		i.Height = rows
	}
	piece, ok := winogradBlockOf(i, tile)
	return ok && piece.rows*piece.columns <= whole.rows*whole.columns && piece.planes <= whole.planes
}

func winogradCut(b *ir.Builder, n *ir.Node, attrs ir.Attrs, _ []*ir.Value, axis int, c RowCut) {
	if axis == 0 {
		return
	}
	kernel, _ := winogradSpan(n)
	begin := n.Attrs.Exprs("begin")[0].Add(c.offset(b, 0, 1))
	setExpr(attrs, "begin", 0, begin)
	setExpr(attrs, "end", 0, sym.Const(c.Out.Rows+kernel-1-c.In[0].Rows).Sub(begin))
}

// tableAxis is the axis along which a node's second operand says which rows of the first there are.
func tableAxis(n *ir.Node) int {
	axis, err := axisOf(n, n.Attrs.Int("axis", 0), len(n.Inputs[0].Type.Shape))
	if err != nil {
		return -1
	}
	return axis
}

// tableAxes is of operators that find rows by a table: along the others, rows are the operand's own. The table must be known.
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

// looks reports whether an axis of a gather's result is one of its table of rows, which are numbers that only the run knows.
func looks(n *ir.Node, axis int) bool {
	along, table := tableAxis(n), n.Inputs[1]
	return along >= 0 && table.Const == nil && axis >= along && axis < along+len(table.Type.Shape)
}

func tableSeen(n *ir.Node, axis, i int, rows Span) Span {
	if i > 0 || axis != tableAxis(n) {
		return rows
	}
	table := n.Inputs[1].Const
	if table.Len() == 0 {
		return Span{}
	}
	taps := table.Len() / table.Shape()[0]
	seen := Span{table.Int(rows.From * taps), 0}
	for at := rows.From * taps; at < rows.To*taps; at++ {
		row := table.Int(at)
		seen = Span{min(seen.From, row), max(seen.To, row+1)}
	}
	return seen
}

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
