package ops

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// RowRange is the rows of an axis from From up to, but not including, To.
type RowRange struct{ From, To int64 }

// Piece is the rows of an axis that one of several equal pieces of a value has: Rows of them, of piece number p from
// First[p] on. Pieces may share rows.
type Piece struct {
	First []int64
	Rows  int64
}

// rowRule says how an operator is computed in pieces of an axis of its one result.
type rowRule struct {
	// axes sets, by operand, the axis of whose rows the result's rows are made; it is −1 for those of which all is needed.
	// It reports whether that is so.
	axes func(n *ir.Node, axis int, in []int, aligned func(v *ir.Value, rank int) int) bool
	// seen is the rows of operand i that rows of the result are made of, some of which may lie outside of it; nil: the
	// same rows.
	seen func(n *ir.Node, axis, i int, rows RowRange) RowRange
	// loose reports whether a piece of operand i may have more rows than are seen, and lack those that lie outside; nil:
	// it may not.
	loose func(n *ir.Node, axis, i int) bool
	// granule is what the first row of each piece is a multiple of, and the number of rows where no piece ends with the
	// last; nil: 1.
	granule func(n *ir.Node, axis int) int64
	// fits reports whether a piece may have so many rows; nil: any.
	fits func(n *ir.Node, axis int, rows int64) bool
	// cut makes a piece's attributes and inputs of the whole's; nil: they are the same.
	cut func(b *ir.Builder, n *ir.Node, attrs ir.Attrs, inputs []*ir.Value, axis int, c RowCut)
	// tables: constants that come in pieces are tables over the rows, not weights.
	tables bool
}

// RowCut is how a node is computed in pieces of an axis: what its result and those of its operands have that come in
// pieces. Index is the number of the piece.
type RowCut struct {
	Index sym.Expr
	Out   Piece
	In    []Piece
}

// offset is, in each piece, how much later than the result's first row, times a stride, operand i's is.
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

// mostSteps is the most places at which the difference of one number and the next may change, for Steps.
const mostSteps = 4

// Steps is a list as a formula of the index into it, as short as can be: most are multiples of the index but for the
// first few and the last. ok is false if it would be long.
func Steps(values []int64, index sym.Expr) (e sym.Expr, ok bool) {
	last := len(values) - 1
	if last < 1 {
		return sym.Const(values[0]), true
	}
	begin, length := 0, 0 // of the longest run of equal differences
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

// Rows says of which rows of its operands the rows of a node's one result are made: of those of axis in[i] of operand i
// that RowsSeen tells, and of all of the operand where in[i] is −1. If it is so a node may be computed in pieces of
// that axis; ok is false if it is not, or not known.
func Rows(n *ir.Node, axis int) (in []int, ok bool) {
	if len(n.Outputs) != 1 {
		return nil, false
	}
	out := n.Outputs[0].Type.Shape
	in = make([]int, len(n.Inputs))
	for i := range in {
		in[i] = -1
	}
	// aligned is the axis of a broadcast operand that the result's axis walks along.
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

// RowsSeen is the rows of operand i that rows of the result are made of. Some may lie outside the operand.
func RowsSeen(n *ir.Node, axis, i int, rows RowRange) RowRange {
	if seen := Of(n).rows.seen; seen != nil {
		return seen(n, axis, i, rows)
	}
	return rows
}

// RowsLoose reports whether a piece of operand i may have more rows than RowsSeen, and lack those of them that lie
// outside the operand. Otherwise it has just those.
func RowsLoose(n *ir.Node, axis, i int) bool {
	loose := Of(n).rows.loose
	return loose != nil && loose(n, axis, i)
}

// RowGranule is what the number of each piece's first row must be a multiple of.
func RowGranule(n *ir.Node, axis int) int64 {
	if granule := Of(n).rows.granule; granule != nil {
		return granule(n, axis)
	}
	return 1
}

// RowsFit reports whether a piece of the result may have so many rows.
func RowsFit(n *ir.Node, axis int, rows int64) bool {
	fits := Of(n).rows.fits
	return fits == nil || fits(n, axis, rows)
}

// RowTables reports whether a node's constants that come in pieces are tables over the rows.
func RowTables(n *ir.Node) bool { return Of(n).rows.tables }

// CutRows has a copy of a node's attributes, and its inputs, which are pieces already, say what one piece of the result
// along an axis asks for.
func CutRows(b *ir.Builder, n *ir.Node, attrs ir.Attrs, inputs []*ir.Value, axis int, c RowCut) {
	if cut := Of(n).rows.cut; cut != nil {
		cut(b, n, attrs, inputs, axis, c)
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

// shapeCut is of operators whose result's shape is an attribute.
func shapeCut(_ *ir.Builder, _ *ir.Node, attrs ir.Attrs, _ []*ir.Value, axis int, c RowCut) {
	setExpr(attrs, "shape", axis, sym.Const(c.Out.Rows))
}
