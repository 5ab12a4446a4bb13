package ops

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// RowRange is the rows From ≤ i < To of an axis.
type RowRange struct{ From, To int64 }

// Piece describes equal pieces of a value along an axis: piece p consists of Rows rows from First[p] on. Pieces may
// share rows.
type Piece struct {
	First []int64
	Rows  int64
}

// rowRule describes how an operator with one result is computed in pieces of an axis.
type rowRule struct {
	// axes sets, for each operand, the axis whose rows the result's rows are computed from; −1 if all of the operand is
	// needed. It reports whether the node can be computed in pieces. aligned returns the axis of a broadcast operand
	// that matches the result's axis, or −1.
	axes func(n *ir.Node, axis int, in []int, aligned func(v *ir.Value, rank int) int) bool
	// seen returns the rows of operand i that rows of the result read, of which some may lie outside the operand; nil:
	// the same rows.
	seen func(n *ir.Node, axis, i int, rows RowRange) RowRange
	// loose reports whether a piece of operand i may have more rows than are read, and lack those outside; nil: it may
	// not.
	loose func(n *ir.Node, axis, i int) bool
	// granule returns the number of which the first row of each piece is a multiple, and the number of rows of each
	// piece but the last; nil: 1.
	granule func(n *ir.Node, axis int) int64
	// cut changes the attributes and inputs of the node into those of a piece; nil: they stay the same.
	cut func(b *ir.Builder, n *ir.Node, attrs ir.Attrs, inputs []*ir.Value, axis int, c RowCut)
	// tables: constants that are read in pieces are tables over the rows, not weights.
	tables bool
}

// RowCut describes a node that is computed in pieces of an axis: the pieces of its result and of its operands. Index is
// the number of the piece.
type RowCut struct {
	Index sym.Expr
	Out   Piece
	In    []Piece
}

// offset returns, as a formula of Index, the first row of operand i's piece less stride times the first row of the
// result's piece. It fails if the formula would be long.
func (c RowCut) offset(b *ir.Builder, i int, stride int64) sym.Expr {
	values := make([]int64, len(c.Out.First))
	for p, first := range c.Out.First {
		values[p] = c.In[i].First[p] - stride*first
	}
	e, ok := Steps(values, c.Index)
	if !ok {
		b.Failf("the pieces begin at too irregular rows")
	}
	return e
}

// mostSteps bounds the number of indices at which the difference of consecutive numbers may change, for Steps.
const mostSteps = 4

// Steps returns a formula of index for the numbers of a list. It is short if the differences of consecutive numbers are
// equal except at few indices; ok is false if it would be long.
func Steps(values []int64, index sym.Expr) (e sym.Expr, ok bool) {
	last := len(values) - 1
	if last < 1 {
		return sym.Const(values[0]), true
	}
	begin, length := 0, 0 // the longest run of equal differences
	for i := 0; i < last; {
		end := i + 1
		for end < last && values[end+1]-values[end] == values[i+1]-values[i] {
			end++
		}
		if end-i > length {
			begin, length = i, end-i
		}
		i = end
	}
	slope := values[begin+1] - values[begin]
	straight := func(i int) int64 { return values[begin] + slope*int64(i-begin) }
	e = index.Mul(sym.Const(slope)).Add(sym.Const(straight(0)))
	// Held at the first number and at the last.
	low, high := min(values[0], values[last]), max(values[0], values[last])
	if !slices.ContainsFunc(values, func(v int64) bool { return v < low || v > high }) {
		held := true
		for i, v := range values {
			held = held && min(max(straight(i), low), high) == v
		}
		if held {
			if min(straight(0), straight(last)) < low {
				e = e.Max(sym.Const(low))
			}
			if max(straight(0), straight(last)) > high {
				e = e.Min(sym.Const(high))
			}
			return e, true
		}
	}
	steps := 0
	bend := func(by int64, over sym.Expr) {
		if by != 0 {
			steps++
			e = e.Add(over.Max(sym.Const(0)).Mul(sym.Const(by)))
		}
	}
	for i, before := begin+length, slope; i < last; i++ {
		next := values[i+1] - values[i]
		bend(next-before, index.Sub(sym.Const(int64(i))))
		before = next
	}
	for i, after := begin, slope; i > 0; i-- {
		next := values[i] - values[i-1]
		bend(after-next, sym.Const(int64(i)).Sub(index))
		after = next
	}
	return e, steps <= mostSteps
}

// Rows returns, for each operand i, the axis in[i] for which RowsSeen returns the rows that rows of the result along
// axis read; −1 if all of the operand is read. ok is false if the node cannot be computed in pieces of the axis, or if
// that is not known: pieces of elements that share a byte may begin within one.
func Rows(n *ir.Node, axis int) (in []int, ok bool) {
	if len(n.Outputs) != 1 || n.Outputs[0].Type.DType.IsSubByte() {
		return nil, false
	}
	out := n.Outputs[0].Type.Shape
	in = make([]int, len(n.Inputs))
	for i := range in {
		in[i] = -1
	}
	// aligned returns the axis of a broadcast operand that matches the result's axis, or −1.
	aligned := func(v *ir.Value, rank int) int {
		at := axis - (rank - len(v.Type.Shape))
		if at < 0 || !v.Type.Shape[at].Equal(out[axis]) {
			return -1
		}
		return at
	}
	axes := Of(n).rows.axes
	return in, axes != nil && axes(n, axis, in, aligned)
}

// RowsSeen returns the rows of operand i that rows of the result read. Some may lie outside the operand.
func RowsSeen(n *ir.Node, axis, i int, rows RowRange) RowRange {
	if seen := Of(n).rows.seen; seen != nil {
		return seen(n, axis, i, rows)
	}
	return rows
}

// RowsLoose reports whether a piece of operand i may have more rows than RowsSeen returns, and lack those outside the
// operand. Otherwise it has exactly these rows.
func RowsLoose(n *ir.Node, axis, i int) bool {
	loose := Of(n).rows.loose
	return loose != nil && loose(n, axis, i)
}

// RowGranule returns the number of which each piece's first row must be a multiple.
func RowGranule(n *ir.Node, axis int) int64 {
	if granule := Of(n).rows.granule; granule != nil {
		return granule(n, axis)
	}
	return 1
}

// RowTables reports whether the node's constants that are read in pieces are tables over the rows.
func RowTables(n *ir.Node) bool { return Of(n).rows.tables }

// CutRows changes attrs, a copy of a node's attributes, and inputs, which are pieces already, so that the node computes
// one piece of its result along an axis.
func CutRows(b *ir.Builder, n *ir.Node, attrs ir.Attrs, inputs []*ir.Value, axis int, c RowCut) {
	if cut := Of(n).rows.cut; cut != nil {
		cut(b, n, attrs, inputs, axis, c)
	}
}

// setExpr changes one element of a list attribute, on a copy of the list.
func setExpr(attrs ir.Attrs, key string, at int, e sym.Expr) {
	list := slices.Clone(attrs.Exprs(key))
	list[at] = e
	attrs[key] = list
}

// firstAxes is rowRule.axes of operators whose rows are those of the same axis of the first operand.
func firstAxes(_ *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
	in[0] = axis
	return true
}

// shapeCut is rowRule.cut of operators whose result has the shape of an attribute, along its last axes.
func shapeCut(_ *ir.Builder, n *ir.Node, attrs ir.Attrs, _ []*ir.Value, axis int, c RowCut) {
	if at := axis - len(n.Outputs[0].Type.Shape) + len(attrs.Exprs("shape")); at >= 0 {
		setExpr(attrs, "shape", at, sym.Const(c.Out.Rows))
	}
}
