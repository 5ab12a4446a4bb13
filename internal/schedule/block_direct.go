package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// A sum of products, for machines with blocks of threads that cache reads: an element that another thread has read is
// read as fast as shared memory. Each thread has its own tile of rows and columns. In each step it reads, or computes,
// the elements of its rows and columns, and sums all their products in registers:
//
//	each r, c { sums[r, c] = 0 }
//	serial k … {
//	  each r { a[r] = A }
//	  each c { b[c] = B }
//	  contract sums += a × b
//	}
//	each r, c { …; store … }
//
// The product may have a single row or a single column.

// directOwn are the candidates for the number of rows of a thread, and for its number of columns.
var directOwn = []int64{1, 2, 4, 8, 16}

// directThreads are the candidates for the number of threads of a block along rows, and along columns.
var directThreads = []int64{1, 2, 4, 8, 16, 32, 64}

const (
	mostDirectThreads = 64 // threads of a block
	directRead        = 20 // cost of an element that a thread reads, in multiplications
	directBlocks      = 16 // number of blocks that keep such a machine busy
	// directCompiled is the time in which a driver compiles the code of one sum, in multiplications, divided among a
	// hundred runs or so.
	directCompiled = 40_000
)

// blockDirect rewrites a kernel of a sum of products for blocks of threads without shared memory; nil for other
// kernels, or if the machine is faster with shared memory.
func (s *scheduler) blockDirect(k *loop.Kernel) *loop.Kernel {
	if !s.machine.Has(target.CachedReads) {
		return nil
	}
	p := matchProduct(k)
	if p == nil || len(p.rows)+len(p.columns) == 0 {
		return nil
	}
	return s.cheapest(k, s.directTiles(), func(t productTile) float64 { return s.directCost(p, t) },
		func(t productTile) []loop.Stmt {
			w := s.newProductWriter(k, p, t)
			return w.blocks(w.direct)
		})
}

// directTiles returns the possible tiles of a block.
func (s *scheduler) directTiles() (list []productTile) {
	for _, ownRows := range directOwn {
		for _, ownColumns := range directOwn {
			for _, rows := range directThreads {
				for _, columns := range directThreads {
					if threads := rows * columns; threads <= min(mostDirectThreads, s.machine.Limits.Invocations) {
						list = append(list, productTile{rows * ownRows, columns * ownColumns, 1, ownRows, ownColumns, 0})
					}
				}
			}
		}
	}
	return list
}

// directCost estimates the time of a product with a tile, in multiplications. The threads of a subgroup run together,
// and few blocks leave a part of the machine idle.
func (s *scheduler) directCost(p *product, t productTile) float64 {
	rows, columns := ceil(s.sizeOf(p.rows), t.rows), ceil(s.sizeOf(p.columns), t.columns)
	blocks := rows * columns * s.sizeOf(p.batch)
	together := max(s.machine.Limits.Subgroup, 1)
	subgroups := float64((t.threads() + together - 1) / together)
	step := float64(t.ownRows*t.ownColumns) + directRead*float64(t.ownRows+t.ownColumns)
	return max(blocks, directBlocks)*subgroups*step*s.sizeOf(p.steps) + directCompiled*float64(t.ownRows*t.ownColumns)
}

// direct returns the statements of one block.
func (w *productWriter) direct() []loop.Stmt {
	t := w.tile
	threads := sym.Const(t.threads())
	local := func(hint string, shape ...int64) *loop.Local {
		l := &loop.Local{Name: w.names.name(hint), DType: w.sum, Shape: []sym.Expr{threads}}
		for _, n := range shape {
			l.Shape = append(l.Shape, sym.Const(n))
		}
		return l
	}
	sums, a, b := local("sums", t.ownRows, t.ownColumns), local("a", t.ownRows), local("b", t.ownColumns)
	steps := w.each(loop.Thread, "t", threads, func(thread sym.Expr) []loop.Stmt {
		row, column, rowStep, columnStep := w.firstOwn(thread)
		body := []loop.Stmt{
			w.own(a, w.a, w.rowsOf, w.row.Add(row), rowStep, thread, t.rows),
			w.own(b, w.b, w.columnsOf, w.column.Add(column), columnStep, thread, t.columns),
			contractOwn(sums, a, b, thread),
		}
		for _, f := range slices.Backward(w.product.steps) {
			body = []loop.Stmt{&loop.For{Kind: loop.Serial, Var: f.Var, Extent: f.Extent, Body: body}}
		}
		return body
	})
	return []loop.Stmt{sums, a, b, w.begin(sums), steps, w.end(sums, w.finish)}
}

// own returns the loop in which a thread computes its own elements of one operand for one step, into a local. The first
// element is at index begin, the next ones step further each; by is the size of the block's tile.
func (w *productWriter) own(to *loop.Local, e loop.Expr, across flat, begin, step, thread sym.Expr,
	by int64) loop.Stmt {
	return w.each(loop.Each, "i", to.Shape[1], func(i sym.Expr) []loop.Stmt {
		values := map[sym.Name]sym.Expr{}
		across.at(inRange(begin.Add(i.Mul(step)), across.size, w.scheduler, by), values)
		body, x := w.computed(e, values)
		return append(body, &loop.Store{To: to.Name, Index: []sym.Expr{thread, i}, X: x})
	})
}
