package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// A sum of products, for machines of blocks on which a thread reads an element that another has read before as fast as
// it reads shared memory. A thread has a tile of rows and columns of its own; in each step it reads, or computes, the
// elements of its rows and of its columns, and adds all of their products up in registers:
//
//	each r, c { sums[r, c] = 0 }
//	serial k … {
//	  each r { a[r] = A }
//	  each c { b[c] = B }
//	  contract sums += a × b
//	}
//	each r, c { …; store … }
//
// A product with one row, or with one column, is one as well.

// directOwn are how many rows, and how many columns, a thread may have.
var directOwn = []int64{1, 2, 4, 8, 16}

// directThreads are the threads of a block along rows, and along columns.
var directThreads = []int64{1, 2, 4, 8, 16, 32, 64}

const (
	mostDirectThreads = 64 // of a block
	directRead        = 20 // what a thread does for each element that it reads, in multiplications
	directBlocks      = 16 // that keep such a machine busy
	// directCompiled is what a driver takes to compile the code of one sum: the share of each of some hundred runs.
	directCompiled = 40_000
)

// blockDirect makes a kernel of a sum of products one for blocks of threads that share nothing; nil if it is none,
// or the machine does better with shared memory.
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

// directTiles are the tiles that a block may have.
func (s *scheduler) directTiles() (list []productTile) {
	for _, ownRows := range directOwn {
		for _, ownColumns := range directOwn {
			for _, rows := range directThreads {
				for _, columns := range directThreads {
					if threads := rows * columns; threads <= min(mostDirectThreads, s.machine.Limits.Invocations) {
						list = append(list, productTile{rows * ownRows, columns * ownColumns, 1, ownRows, ownColumns})
					}
				}
			}
		}
	}
	return list
}

// directCost is about how long a product takes with a tile, in multiplications. Threads go together by subgroups, and
// few blocks leave some of the machine idle.
func (s *scheduler) directCost(p *product, t productTile) float64 {
	rows, columns := ceil(s.sizeOf(p.rows), t.rows), ceil(s.sizeOf(p.columns), t.columns)
	blocks := rows * columns * s.sizeOf(p.batch)
	together := max(s.machine.Limits.Subgroup, 1)
	subgroups := float64((t.threads() + together - 1) / together)
	step := float64(t.ownRows*t.ownColumns) + directRead*float64(t.ownRows+t.ownColumns)
	return max(blocks, directBlocks)*subgroups*step*s.sizeOf(p.steps) + directCompiled*float64(t.ownRows*t.ownColumns)
}

// direct is what one block does.
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
		row, column, rowStep, columnStep := w.place(thread)
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

// own computes what a thread reads of one operand in a step.
func (w *productWriter) own(to *loop.Local, e loop.Expr, across flat, begin, step, thread sym.Expr,
	by int64) loop.Stmt {
	return w.each(loop.Each, "i", to.Shape[1], func(i sym.Expr) []loop.Stmt {
		values := map[sym.Name]sym.Expr{}
		across.at(inRange(begin.Add(i.Mul(step)), across.size, w.scheduler, by), values)
		body, x := w.computed(e, values)
		return append(body, &loop.Store{To: to.Name, Index: []sym.Expr{thread, i}, X: x})
	})
}
