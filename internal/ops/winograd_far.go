package ops

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// This file keeps tiles in which Winograd's algorithm rounds too much from being computed by it.
//
// A result of a tile is a sum of all that the tile sees, in which what lies outside the result's window cancels. What
// the roundings leave of it goes by the largest element of the tile, not by the elements of the window: with the rows
// of the three matrices replaced by their absolute values (Higham, Accuracy and Stability of Numerical Algorithms,
// 2002, lemma 8.4; Barabasz, Anderson, Soodhalter and Gregg, Error Analysis and Improving the Accuracy of Winograd
// Convolution for Deep Neural Networks, 2020),
//
//	|error| ≤ growth² · (C + 20) · 2⁻²⁴ · largest · max|w|
//	growth = max over outputs p of Σᵢ |output|ₚᵢ · Σ|weights|ᵢ · Σ|input|ᵢ
//
// where largest is the greatest Σ|x| over the channels of one position that the tile sees. A tile is far if largest is
// more than Σ|x| of the window of any of its results, so that elsewhere largest can be replaced by that sum; or if it
// is so large or small that transforms overflow or lose bits; or if it is an infinity or NaN.

// The range of largest in which transforms neither overflow nor lose bits, and that of the greatest magnitude in each
// filter.
const (
	farAbove, farBelow       = 0x1p80, 0x1p-60
	filterAbove, filterBelow = 0x1p20, 0x1p-40
)

// WinogradBound is the error of a result, relative to Σ|x| · max|w| of its own window and filter, that tests hold for
// tiles of so many outputs each way. What is proved is WinogradProved: roundings would all have to point one way to
// reach it.
var WinogradBound = map[int64]float64{2: 1e-6, 4: 1e-5}

// WinogradGrowth is the factor of the proved bound: growth².
func WinogradGrowth(tile int64) float64 {
	m, worst := minimals[tile], 0.0
	total := func(row []float64) (sum float64) {
		for _, f := range row {
			sum += math.Abs(f)
		}
		return sum
	}
	for _, row := range m.output {
		sum := 0.0
		for i, f := range row {
			sum += math.Abs(f) * total(m.weights[i]) * total(m.input[i])
		}
		worst = max(worst, sum)
	}
	return worst * worst
}

// WinogradProved is the proved bound of an error, relative to Σ|x| · max|w|, for so many channels.
func WinogradProved(tile, channels int64) float64 {
	return WinogradGrowth(tile) * float64(channels+20) * 0x1p-24
}

// WinogradRange collects the greatest magnitude in each filter.
type WinogradRange []float32

// Add reads weights [3, 3, C, filters] of the filters from first on.
func (g WinogradRange) Add(w []float32, first, filters int64) {
	for greatest := g[first:][:filters]; len(w) > 0; w = w[filters:] {
		for o, v := range w[:filters] {
			if v = max(v, -v); !(v <= greatest[o]) {
				greatest[o] = v
			}
		}
	}
}

// Fits reports whether the weights can be transformed: in each filter the greatest magnitude is 0 or within bounds.
func (g WinogradRange) Fits() bool {
	return !slices.ContainsFunc(g, func(v float32) bool { return !(v == 0 || v >= filterBelow && v <= filterAbove) })
}

// winogradForm is what all blocks have in common, and winogradPlace is one block: its image, and the input's row and
// column that its first tile sees first.
type winogradForm struct {
	*Nest
	x, plain        *loop.Memory
	tile            int64
	block           winogradGrid
	channels, chunk sym.Expr
	height, breadth sym.Expr // of the output
}

type winogradPlace struct {
	*winogradForm
	rows, columns    sym.Expr // of tiles
	image, top, left sym.Expr
}

// far is a buffer of a truth for each tile of the block: whether it is computed directly.
func (w *winogradPlace) far(firstRow, firstColumn sym.Expr) *loop.Memory {
	tile := sym.Const(w.tile)
	// The sums of positions, in columns that lie a tile apart side by side, so that neighbouring tiles are lanes.
	reach := w.Local("reach", dtype.F32, sym.Const(w.block.rows*w.tile+2), tile, sym.Const(w.block.columns+1))
	rowsSeen := w.rows.Mul(tile).Add(sym.Const(2))
	w.Nest.Nest(loop.Each, "n", []sym.Expr{rowsSeen, w.columns.Add(one)}, func(at []sym.Expr) {
		row, column := w.top.Add(at[0]), w.left.Add(at[1].Mul(tile))
		inRow := loop.Inside(row, sym.Const(0), w.x.Shape[1])
		inColumns := loop.Inside(column, sym.Const(0), w.x.Shape[2].Sub(sym.Const(w.tile-1)))
		w.When(loop.Apply2(loop.And, inRow, inColumns), func() {
			// All positions of a tile's row at once, so that what is summed across lanes overlaps.
			sums := make([]*loop.Ref, w.tile)
			for j := range sums {
				sums[j] = w.Var("n", loop.Number(dtype.F32, 0))
			}
			w.Serial("c", w.channels, func(c sym.Expr) {
				for j, n := range sums {
					w.Reduce(n, loop.Add, loop.Apply(loop.Abs, w.x.Load(w.image, row, column.Add(sym.Const(int64(j))), c)))
				}
			})
			for j, n := range sums {
				w.Store(reach, []sym.Expr{at[0], sym.Const(int64(j)), at[1]}, n)
			}
		}, func() {
			w.Each("j", tile, func(j sym.Expr) {
				n, z := w.Var("n", loop.Number(dtype.F32, 0)), column.Add(j)
				w.When(loop.Apply2(loop.And, inRow, loop.Inside(z, sym.Const(0), w.x.Shape[2])), func() {
					w.Serial("c", w.channels, func(c sym.Expr) { w.Reduce(n, loop.Add, loop.Apply(loop.Abs, w.x.Load(w.image, row, z, c))) })
				}, nil)
				w.Store(reach, []sym.Expr{at[0], j, at[1]}, n)
			})
		})
	})
	// Of each row that a tile sees, the sums of three neighbours, and the greatest.
	rows := w.Local("rows", dtype.F32, reach.Shape[0], sym.Const(w.tile+1), sym.Const(w.block.columns))
	w.Nest.Nest(loop.Each, "h", []sym.Expr{rowsSeen, w.columns}, func(at []sym.Expr) {
		seen := make([]loop.Expr, w.tile+2)
		for j := range seen {
			seen[j] = w.Let("n", reach.Load(at[0], sym.Const(int64(j)%w.tile), at[1].Add(sym.Const(int64(j)/w.tile))))
		}
		for j := range w.tile {
			w.Store(rows, []sym.Expr{at[0], sym.Const(j), at[1]}, plus(plus(seen[j], seen[j+1]), seen[j+2]))
		}
		w.Store(rows, []sym.Expr{at[0], tile, at[1]}, extreme(loop.Max, seen))
	})
	far := w.Local("far", dtype.F32, sym.Const(w.block.rows), sym.Const(w.block.columns))
	w.Nest.Nest(loop.Each, "f", []sym.Expr{w.rows, w.columns}, func(t []sym.Expr) {
		row := func(i, of int64) loop.Expr { return rows.Load(t[0].Mul(tile).Add(sym.Const(i)), sym.Const(of), t[1]) }
		var greatest, sums []loop.Expr
		for i := range w.tile + 2 {
			greatest = append(greatest, row(i, w.tile))
		}
		largest := w.Let("n", extreme(loop.Max, greatest))
		for p := range w.tile {
			for q := range w.tile {
				sum := plus(plus(row(p, q), row(p+1, q)), row(p+2, q))
				// Where the last tiles reach beyond the image there are no results.
				if w.block.ragged[0] && p > 0 {
					exists := loop.Apply2(loop.Lt, loop.At(firstRow.Add(t[0].Mul(tile)).Add(sym.Const(p))), loop.At(w.height))
					sum = loop.Choose(exists, sum, loop.Highest(dtype.F32))
				}
				if w.block.ragged[1] && (q > 0 || !w.block.fixed) {
					exists := loop.Apply2(loop.Lt, loop.At(firstColumn.Add(t[1].Mul(tile)).Add(sym.Const(q))), loop.At(w.breadth))
					sum = loop.Choose(exists, sum, loop.Highest(dtype.F32))
				}
				sums = append(sums, sum)
			}
		}
		least := w.Let("n", extreme(loop.Min, sums))
		number := func(v float64) loop.Expr { return loop.Number(dtype.F32, v) }
		within := loop.Apply2(loop.And, loop.Apply2(loop.Le, largest, least), loop.Apply2(loop.Le, largest, number(farAbove)))
		sized := loop.Apply2(loop.Or, loop.Apply2(loop.Ge, largest, number(farBelow)), loop.Apply2(loop.Eq, largest, number(0)))
		w.Store(far, t, loop.Choose(loop.Apply2(loop.And, within, sized), number(0), number(1)))
	})
	return far
}

// extreme is the greatest or least of some values.
func extreme(op loop.BinaryOp, list []loop.Expr) loop.Expr {
	total := list[0]
	for _, v := range list[1:] {
		total = loop.Apply2(op, total, v)
	}
	return total
}

// direct computes a tile as sums of products, of the filters from first on.
func (w *winogradPlace) direct(t []sym.Expr, first sym.Expr, store func(p, q, c sym.Expr, v loop.Expr)) {
	tile, side := sym.Const(w.tile), sym.Const(w.tile+2)
	patch := w.Local("patch", dtype.F32, side, side.Mul(w.channels))
	w.Nest.Nest(loop.Each, "p", []sym.Expr{side, side}, func(p []sym.Expr) {
		row, column := w.top.Add(t[0].Mul(tile)).Add(p[0]), w.left.Add(t[1].Mul(tile)).Add(p[1])
		copied := func(value func(c sym.Expr) loop.Expr) func() {
			return func() {
				w.Each("c", w.channels, func(c sym.Expr) {
					w.Store(patch, []sym.Expr{p[0], p[1].Mul(w.channels).Add(c)}, value(c))
				})
			}
		}
		w.When(loop.Apply2(loop.And, loop.Inside(row, sym.Const(0), w.x.Shape[1]), loop.Inside(column, sym.Const(0), w.x.Shape[2])),
			copied(func(c sym.Expr) loop.Expr { return w.x.Load(w.image, row, column, c) }),
			copied(func(sym.Expr) loop.Expr { return loop.Number(dtype.F32, 0) }))
	})
	w.Each("r", tile, func(r sym.Expr) {
		acc := w.begun(nil, w.x, tile, tile, first, w.chunk)
		w.Serial("k", sym.Const(3), func(k sym.Expr) {
			w.Contract(tile, w.chunk, w.channels.Mul(sym.Const(3)), acc.Tile(zeros(2), unit(2, 0, one), unit(2, 1, one)),
				patch.Tile([]sym.Expr{r.Add(k), {}}, unit(2, 1, w.channels), unit(2, 1, one)),
				w.plain.Tile([]sym.Expr{k, {}, first}, unit(3, 1, one), unit(3, 2, one)))
		})
		w.Nest.Nest(loop.Each, "o", acc.Shape, func(at []sym.Expr) { store(r, at[0], at[1], acc.Load(at...)) })
	})
}
