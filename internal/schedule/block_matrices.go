package schedule

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// Tiles of sums of products that cooperative matrices compute: the operands' elements in shared memory are f16, bf16 or
// i8, as they are before the product widens them. The sums are in shared memory, and one Contract, outside Thread
// loops, adds the products of a tile of steps to them. The code generator keeps them in registers between tiles of
// steps. The device adds the products in an order of its own.

// matrixBlocks are the sizes of tiles, in matrices of sums.
var matrixBlocks = [][2]int64{{8, 4}, {4, 8}, {4, 4}, {4, 2}, {2, 4}, {2, 2}, {1, 1}}

const (
	matrixSteps   = 2       // matrices of steps in a tile
	matrixCost    = 1.0 / 8 // of a product that a matrix computes, in multiplications of a thread
	matrixSumCost = 8       // of a sum that is set to 0, loaded, stored and read in shared memory
	matrixLine    = 16      // bytes: lines of a matrix in shared memory begin at multiples of it
)

// matrixTiles returns the tiles that cooperative matrices compute; none if the machine has no matrices for the types of
// the operands, or if it is a processor, whose matrices are scalar code.
func (s *scheduler) matrixTiles(p *product) (tiles []productTile) {
	dt := p.tileType(p.a)
	sums := map[dtype.DType]dtype.DType{dtype.F16: dtype.F32, dtype.BF16: dtype.F32, dtype.I8: dtype.I32}[dt]
	if sums != p.sum || p.tileType(p.b) != dt || s.machine.Has(target.CachedReads) {
		return nil
	}
	list := s.machine.Matrices(dt)
	if len(list) == 0 {
		return nil
	}
	x := list[0]
	for _, b := range matrixBlocks {
		t := productTile{b[0] * x.Rows, b[1] * x.Columns, matrixSteps * x.Steps, 1, 1, 0}
		_, down, across, ok := s.machine.MatrixFor(dt, t.rows, t.columns, t.steps)
		if t.together = down * across * s.machine.Limits.Subgroup; ok {
			tiles = append(tiles, t)
		}
	}
	return tiles
}

// busy returns the approximate number of threads that a large machine runs at once: fewer if they multiply matrices,
// since each of its units for matrices is busy with the threads of a subgroup.
func (t productTile) busy() float64 {
	if t.together > 0 {
		return busyThreads / 2
	}
	return busyThreads
}

// hasMatrixPairs reports whether two pairs of tiles pay: the machine's shared memory holds two such blocks.
func (s *scheduler) hasMatrixPairs(p *product, t productTile) bool {
	tiles, fixed := asOneLoop(p.steps).size.CeilDiv(sym.Const(t.steps)).Const()
	dt := p.tileType(p.a)
	pair := t.steps * (t.rows + t.columns + 2*t.padding(dt)) * int64(dt.Bits()/8)
	sums := t.rows * t.columns * int64(p.sum.Bits()/8)
	return fixed && tiles >= leastPairs && 2*(sums+2*pair) <= s.machine.Limits.Shared
}

// padding returns the number of elements after each step of a tile of matrices in shared memory: neighbouring lines
// would otherwise begin in the same bank.
func (t productTile) padding(dt dtype.DType) int64 {
	if t.together == 0 {
		return 0
	}
	return matrixLine * 8 / int64(dt.Bits())
}

// multiplyTogether returns the contraction that adds to a block's sums their products for all steps of a tile.
func (w *productWriter) multiplyTogether(sums, a, b *loop.Local) loop.Stmt {
	rows, columns, steps := sym.Const(w.tile.rows), sym.Const(w.tile.columns), sym.Const(w.tile.steps)
	row, column := columns, one // between the sums of neighbouring rows, and of neighbouring columns: see firstOwn
	if w.storedRows {
		row, column = one, rows
	}
	return &loop.Contract{M: rows, N: columns, K: steps,
		C: loop.Tile{Buffer: sums.Name, Origin: []sym.Expr{zero, zero, zero}, Row: []sym.Expr{row, zero, zero},
			Col: []sym.Expr{column, zero, zero}},
		A: loop.Tile{Buffer: a.Name, Origin: []sym.Expr{zero, zero}, Row: []sym.Expr{zero, one}, Col: []sym.Expr{one, zero}},
		B: loop.Tile{Buffer: b.Name, Origin: []sym.Expr{zero, zero}, Row: []sym.Expr{one, zero}, Col: []sym.Expr{zero, one}}}
}
