package recipes

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/winograd"
)

// far returns a buffer with 1 for each tile of each plane of the block that is computed directly, and 0 for others.
func (w *winogradPosition) far() *loop.Memory {
	tile := sym.Const(w.tile)
	_, most := w.seenPlanes()
	rows := w.rowSums(most)
	far := w.Local("far", dtype.F32, sym.Const(w.block.planes*w.block.rows), sym.Const(w.block.columns))
	w.deep(w.outputs, func(plane sym.Expr) {
		w.Nest(loop.Each, "f", []sym.Expr{w.rows, w.columns}, func(t []sym.Expr) {
			// Sum over the kernel's planes: the greatest position of each plane, and each result's window.
			var largest loop.Expr
			sums := make([]loop.Expr, w.tile*w.tile)
			for tap := range w.kernel {
				row := func(i, of int64) loop.Expr {
					at := plane.Add(sym.Const(tap)).Mul(sym.Const(w.block.rows*w.tile + 2)).Add(t[0].Mul(tile)).Add(sym.Const(i))
					return rows.Load(at, sym.Const(of), t[1])
				}
				var greatest []loop.Expr
				for i := range w.tile + 2 {
					greatest = append(greatest, row(i, w.tile))
				}
				largest = total(largest, winograd.Extreme(loop.Max, greatest))
				for i := range sums {
					p, q := int64(i)/w.tile, int64(i)%w.tile
					sums[i] = total(sums[i], plus(plus(row(p, q), row(p+1, q)), row(p+2, q)))
				}
			}
			first := [2]sym.Expr{w.firstRow.Add(t[0].Mul(tile)), w.firstColumn.Add(t[1].Mul(tile))}
			winograd.Existing(sums, w.tile, first, [2]sym.Expr{w.outSize[0], w.outSize[1]},
				[2]bool{w.block.ragged[0], w.block.ragged[1]})
			w.Store(far, []sym.Expr{plane.Mul(sym.Const(w.block.rows)).Add(t[0]), t[1]},
				winograd.IsFar(w.Builder, largest, winograd.Extreme(loop.Min, sums)))
		})
	})
	return far
}

// total returns the sum of two values, of which the first may be nil.
func total(sum, v loop.Expr) loop.Expr {
	if sum == nil {
		return v
	}
	return plus(sum, v)
}

// rowSums returns, for each row of each plane that a tile reads, the sums of three neighbours, then the greatest.
func (w *winogradPosition) rowSums(most sym.Expr) *loop.Memory {
	tile, height := sym.Const(w.tile), sym.Const(w.block.rows*w.tile+2)
	reach := w.reach(most)
	rows := w.Local("rows", dtype.F32, reach.Shape[0], sym.Const(w.tile+1), sym.Const(w.block.columns))
	planes, _ := w.seenPlanes()
	w.deep(planes, func(plane sym.Expr) {
		w.Nest(loop.Each, "h", []sym.Expr{w.rows.Mul(tile).Add(sym.Const(2)), w.columns}, func(at []sym.Expr) {
			row := plane.Mul(height).Add(at[0])
			seen := make([]loop.Expr, w.tile+2)
			for j := range seen {
				seen[j] = w.Let("n", reach.Load(row, sym.Const(int64(j)%w.tile), at[1].Add(sym.Const(int64(j)/w.tile))))
			}
			for j := range w.tile {
				w.Store(rows, []sym.Expr{row, sym.Const(j), at[1]}, plus(plus(seen[j], seen[j+1]), seen[j+2]))
			}
			w.Store(rows, []sym.Expr{row, tile, at[1]}, winograd.Extreme(loop.Max, seen))
		})
	})
	return rows
}

// reach returns Σ|x| of each position that the block reads. Columns that are a tile apart are adjacent, so that
// neighbouring tiles are lanes.
func (w *winogradPosition) reach(most sym.Expr) *loop.Memory {
	tile, height := sym.Const(w.tile), sym.Const(w.block.rows*w.tile+2)
	reach := w.Local("reach", dtype.F32, most.Mul(height), tile, sym.Const(w.block.columns+1))
	planes, _ := w.seenPlanes()
	w.deep(planes, func(plane sym.Expr) {
		at := w.source(plane)
		w.Nest(loop.Each, "n", []sym.Expr{w.rows.Mul(tile).Add(sym.Const(2)), w.columns.Add(one)}, func(n []sym.Expr) {
			row := w.top.Add(n[0])
			inRow := loop.Inside(row, sym.Const(0), w.size[0])
			if !w.flat() {
				inRow = loop.Apply2(loop.And, inRow, loop.Inside(at, sym.Const(0), w.depth))
			}
			w.reached(reach, inRow, w.of(at, row), plane.Mul(height).Add(n[0]), n[1])
		})
	})
	return reach
}

// reached stores Σ|x| of the positions of a tile's row, which lies at index at of the input if inRow holds.
func (w *winogradPosition) reached(reach *loop.Memory, inRow loop.Expr, at []sym.Expr, row, column sym.Expr) {
	tile, left := sym.Const(w.tile), w.left.Add(column.Mul(sym.Const(w.tile)))
	inColumns := loop.Inside(left, sym.Const(0), w.size[1].Sub(sym.Const(w.tile-1)))
	w.When(loop.Apply2(loop.And, inRow, inColumns), func() {
		// All positions of a tile's row are summed at once, so that sums across lanes overlap.
		sums := make([]*loop.Ref, w.tile)
		for j := range sums {
			sums[j] = w.Var("n", loop.Number(dtype.F32, 0))
		}
		w.Serial("c", w.channels, func(c sym.Expr) {
			for j, n := range sums {
				w.Reduce(n, loop.Add, loop.Apply(loop.Abs, w.x.Load(with(at, left.Add(sym.Const(int64(j))), c)...)))
			}
		})
		for j, n := range sums {
			w.Store(reach, []sym.Expr{row, sym.Const(int64(j)), column}, n)
		}
	}, func() {
		w.Each("j", tile, func(j sym.Expr) {
			n, z := w.Var("n", loop.Number(dtype.F32, 0)), left.Add(j)
			w.When(loop.Apply2(loop.And, inRow, loop.Inside(z, sym.Const(0), w.size[1])), func() {
				w.Serial("c", w.channels, func(c sym.Expr) {
					w.Reduce(n, loop.Add, loop.Apply(loop.Abs, w.x.Load(with(at, z, c)...)))
				})
			}, nil)
			w.Store(reach, []sym.Expr{row, j, column}, n)
		})
	})
}

// direct computes a tile of a plane as sums of products, for the filters from first on, and passes each result to
// store.
func (w *winogradPosition) direct(plane sym.Expr, t []sym.Expr, first sym.Expr,
	store func(p, q, c sym.Expr, v loop.Expr)) {
	tile, side := sym.Const(w.tile), sym.Const(w.tile+2)
	patch := w.Local("patch", dtype.F32, side.Mul(sym.Const(w.kernel)), side.Mul(w.channels))
	w.deep(sym.Const(w.kernel), func(tap sym.Expr) {
		at := w.source(plane.Add(tap))
		w.Nest(loop.Each, "p", []sym.Expr{side, side}, func(p []sym.Expr) {
			row, column := w.top.Add(t[0].Mul(tile)).Add(p[0]), w.left.Add(t[1].Mul(tile)).Add(p[1])
			copied := func(value func(c sym.Expr) loop.Expr) func() {
				return func() {
					w.Each("c", w.channels, func(c sym.Expr) {
						w.Store(patch, []sym.Expr{tap.Mul(side).Add(p[0]), p[1].Mul(w.channels).Add(c)}, value(c))
					})
				}
			}
			inside := loop.Apply2(loop.And, loop.Inside(row, sym.Const(0), w.size[0]),
				loop.Inside(column, sym.Const(0), w.size[1]))
			if !w.flat() {
				inside = loop.Apply2(loop.And, inside, loop.Inside(at, sym.Const(0), w.depth))
			}
			w.When(inside, copied(func(c sym.Expr) loop.Expr { return w.x.Load(w.of(at, row, column, c)...) }),
				copied(func(sym.Expr) loop.Expr { return loop.Number(dtype.F32, 0) }))
		})
	})
	w.Each("r", tile, func(r sym.Expr) {
		acc := w.begun(nil, w.x, tile, tile, first, w.chunk)
		w.Nest(loop.Serial, "k", []sym.Expr{sym.Const(w.kernel), sym.Const(3)}, func(k []sym.Expr) {
			w.Contract(tile, w.chunk, w.channels.Mul(sym.Const(3)), acc.Tile(zeros(2), unit(2, 0, one), unit(2, 1, one)),
				patch.Tile([]sym.Expr{k[0].Mul(side).Add(r).Add(k[1]), {}}, unit(2, 1, w.channels), unit(2, 1, one)),
				w.original.Tile([]sym.Expr{k[0].Mul(sym.Const(3)).Add(k[1]), {}, first}, unit(3, 1, one), unit(3, 2, one)))
		})
		w.Nest(loop.Each, "o", acc.Shape, func(at []sym.Expr) { store(r, at[0], at[1], acc.Load(at...)) })
	})
}

// with returns a new list with more elements appended.
func with(list []sym.Expr, more ...sym.Expr) []sym.Expr {
	return append(list[:len(list):len(list)], more...)
}
