package pass

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// mostGranule is the largest granule: the number of rows of a piece is a multiple of the granule, for operators that
// compute several rows together.
const mostGranule = 8

// mostMore is the largest ratio of the operations that pieces add to the segment's operations.
const mostMore = 1.0

// lay finds the rows of each piece of every value, for at most pieces pieces of the last node's result. It returns
// false if there is no such division.
func (s *segment) lay(pieces int64) bool {
	extent := s.extent(s.nodes[len(s.nodes)-1].Outputs[0])
	least := (extent + pieces - 1) / pieces
	for granule := int64(1); granule <= mostGranule; granule *= 2 {
		rows := (least + granule - 1) / granule * granule
		if granule > 1 && least%(granule/2) == 0 && least%granule == 0 {
			continue // the same rows as with the granule before
		}
		if s.pieces = (extent + rows - 1) / rows; s.pieces < 2 {
			return false
		}
		if s.layRows(rows) {
			return true
		}
	}
	return false
}

// rowsFit reports whether a piece of a node's result may have that many rows.
func (s *segment) rowsFit(n *ir.Node, axis int, rows int64) bool {
	in := make([][]sym.Expr, len(n.Inputs))
	for i, v := range n.Inputs {
		if v != nil {
			in[i] = v.Type.Shape
		}
	}
	return s.costs.PieceFits(n.Op.Name(), n.Attrs, in, n.Outputs[0].Type.Shape, axis, rows)
}

// layRows finds the rows of each piece of every value, from the results back to the operands, if a piece of the last
// node's result has so many rows: a piece has all rows that its readers see.
func (s *segment) layRows(rows int64) bool {
	s.have = map[*ir.Value]ops.Piece{}
	s.work, s.more = 0, 0
	base := s.nodes[len(s.nodes)-1].Outputs[0]
	all := s.extent(base)
	needed := map[*ir.Value][]ops.RowRange{}
	need := func(v *ir.Value, extent int64, p int, seen ops.RowRange) {
		// Rows outside the value are not needed; a piece has at least one row.
		seen.From = min(max(seen.From, 0), extent-1)
		seen.To = min(max(seen.To, seen.From+1), extent)
		list := needed[v]
		if list == nil {
			list = make([]ops.RowRange, s.pieces)
			for i := range list {
				list[i] = ops.RowRange{From: extent, To: 0}
			}
			needed[v] = list
		}
		list[p] = ops.RowRange{From: min(list[p].From, seen.From), To: max(list[p].To, seen.To)}
	}
	for _, n := range slices.Backward(s.nodes) {
		v := n.Outputs[0]
		axis, extent := s.axes[v], s.extent(v)
		if needed[v] == nil { // no node of the segment reads it
			for p := range s.pieces {
				at := ops.RowRange{From: p * rows * extent / all, To: ((p+1)*rows*extent + all - 1) / all}
				need(v, extent, int(p), at)
			}
		} else if s.leaves(v) {
			covered(needed[v], extent)
		}
		granule := ops.RowGranule(n, axis)
		piece, ok := evened(needed[v], extent, granule, 0)
		for more := granule; ok && more <= mostGranule && !s.rowsFit(n, axis, piece.Rows); more += granule {
			piece, ok = evened(needed[v], extent, granule, more)
		}
		if !ok || !s.rowsFit(n, axis, piece.Rows) {
			return false
		}
		s.have[v] = piece
		work := operations(n)
		s.work += work
		s.more += max(0, work*(float64(s.pieces*piece.Rows)/float64(extent)-1))
		s.operands(n, func(i int, x *ir.Value) {
			if x.Const != nil {
				return // a table
			}
			for p, first := range piece.First {
				need(x, s.extent(x), p, ops.RowsSeen(n, axis, i, ops.RowRange{From: first, To: first + piece.Rows}))
			}
		})
	}
	for v, ranges := range needed {
		if _, laid := s.have[v]; !laid {
			piece, ok := evened(ranges, s.extent(v), 1, 0)
			if !ok {
				return false
			}
			s.have[v] = piece
		}
	}
	return s.more <= mostMore*s.work
}

// covered adds to the pieces the rows that none of them has, since all rows are needed.
func covered(ranges []ops.RowRange, extent int64) {
	ranges[0].From = 0
	for p := range ranges[1:] {
		ranges[p].To = max(ranges[p].To, ranges[p+1].From)
	}
	last := &ranges[len(ranges)-1]
	last.To = extent
}

// evened makes pieces of equal size, more rows larger than needed, that begin and end at multiples of a granule or with
// the last row. ok is false if their first rows follow no short formula.
func evened(ranges []ops.RowRange, extent, granule, more int64) (piece ops.Piece, ok bool) {
	for _, s := range ranges {
		from, to := s.From/granule*granule, min((s.To+granule-1)/granule*granule, extent)
		piece.First = append(piece.First, from)
		piece.Rows = max(piece.Rows, to-from)
	}
	// The last piece ends with the last row, and begins at a multiple too.
	piece.Rows = min(piece.Rows+more, extent)
	piece.Rows = extent - (extent-piece.Rows)/granule*granule
	for p, first := range piece.First {
		piece.First[p] = min(first, extent-piece.Rows)
	}
	_, ok = ops.Steps(piece.First, sym.Dim("p"))
	return piece, ok
}

// operations estimates the arithmetic of a node; extents that are not numbers count as 1.
func operations(n *ir.Node) float64 {
	return operationsAt(n, func(e sym.Expr) float64 {
		v, ok := e.Const()
		if !ok {
			v = 1
		}
		return float64(v)
	})
}

// operationsAt estimates the arithmetic of a node; number gives the value of an extent.
func operationsAt(n *ir.Node, number func(e sym.Expr) float64) float64 {
	size := func(extents ...sym.Expr) float64 {
		product := 1.0
		for _, e := range extents {
			product *= number(e)
		}
		return product
	}
	if cost := ops.Of(n).Cost; cost != nil {
		return cost(n, size)
	}
	return size(n.Outputs[0].Type.Shape...)
}
