package schedule

import (
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Sums of products with few tiles, for machines that run blocks of threads: with one block for each tile, most of the
// machine would be idle. The steps of each sum are split among blocks, which store partial sums in the launch's
// scratch; the second half of the kernel adds them:
//
//	local partial [splits, rows, columns]
//	block split { …; partial[split, i, j] = … }
//	each i, j { s = begin; serial split { s += partial[split, i, j] }; …; store }

const (
	mostSplits = 32
	splitTiles = 8 // the least number of tiles of steps for a block
)

// splitsOf returns the number of blocks among which the steps of a tile's sums are split: 1 if there are enough tiles,
// or if some extent is dynamic.
func (s *scheduler) splitsOf(p *product, t productTile) int64 {
	for _, f := range p.loops {
		if _, fixed := f.Extent.Const(); !fixed {
			return 1
		}
	}
	blocks := s.sizeOf(p.batch) * ceil(s.sizeOf(p.rows), t.rows) * ceil(s.sizeOf(p.columns), t.columns)
	wanted := t.busy() / (blocks * float64(t.threads()))
	return int64(max(1, min(wanted, ceil(s.sizeOf(p.steps), t.steps)/splitTiles, mostSplits)))
}

// splitWriter writes a kernel of a product whose steps are split among blocks.
type splitWriter struct {
	*productWriter
	splits  int64
	partial *loop.Local
	at      []sym.Expr // the indices of a block's partial sums, without row and column
}

// kernel returns the kernel's body: the local of the partial sums, the blocks that compute them, and the loops that add
// them.
func (w *splitWriter) kernel() []loop.Stmt {
	w.partial = &loop.Local{Name: w.names.name("partial"), DType: w.sum}
	for _, f := range w.batch {
		w.partial.Shape = append(w.partial.Shape, f.Extent)
		w.at = append(w.at, sym.Var(f.Var))
	}
	w.partial.Shape = append(append(w.partial.Shape, sym.Const(w.splits)), w.across(w.rowsOf.size, w.columnsOf.size)...)
	first := w.each(loop.Block, "split", sym.Const(w.splits), func(split sym.Expr) []loop.Stmt {
		w.at = append(w.at, split)
		return w.tiles(func() []loop.Stmt { return w.first(split) })
	})
	return []loop.Stmt{w.partial, inBlocks(w.batch, []loop.Stmt{first})[0], w.second()}
}

// across returns a row and a column in the order of the partial sums' axes: the one whose neighbours the kernel stores
// contiguously comes last.
func (w *splitWriter) across(row, column sym.Expr) []sym.Expr {
	if w.storedRows {
		return []sym.Expr{column, row}
	}
	return []sym.Expr{row, column}
}

// first returns the statements of the block that computes the partial sums of a split.
func (w *splitWriter) first(split sym.Expr) []loop.Stmt {
	tiles := w.stepsOf.size.CeilDiv(sym.Const(w.tile.steps))
	size := tiles.CeilDiv(sym.Const(w.splits))
	begin := split.Mul(size)
	count := size.Min(tiles.Sub(begin)).Max(zero)
	return w.added(begin, count, func(sums *loop.Local, thread, r, c sym.Expr) []loop.Stmt {
		row, column, rowStep, columnStep := w.firstOwn(thread)
		m, n := w.row.Add(row).Add(r.Mul(rowStep)), w.column.Add(column).Add(c.Mul(columnStep))
		store := loop.Stmt(&loop.Store{To: w.partial.Name, Index: append(w.at[:len(w.at):len(w.at)], w.across(m, n)...),
			X: load(sums, thread, r, c)})
		if inside := w.inside(m, n); inside != nil {
			store = &loop.When{Cond: inside, Then: []loop.Stmt{store}}
		}
		return []loop.Stmt{store}
	})
}

// second returns the loops that add the partial sums, and compute from the sums the values that the kernel stores.
func (w *splitWriter) second() loop.Stmt {
	values := map[sym.Name]sym.Expr{}
	var loops []*loop.For
	for _, f := range w.loops {
		name := w.names.bound(f.Var.Text())
		values[f.Var] = sym.Var(name)
		loops = append(loops, &loop.For{Kind: loop.Each, Var: name, Extent: f.Extent})
	}
	flat := func(loops []*loop.For) (at sym.Expr) {
		for _, f := range loops {
			at = at.Mul(f.Extent).Add(sym.Var(f.Var))
		}
		return at
	}
	sum := w.product.begin
	add := w.each(loop.Serial, "s", sym.Const(w.splits), func(split sym.Expr) []loop.Stmt {
		index := append(append(w.at[:len(w.batch):len(w.batch)], split),
			w.across(flat(w.product.rows), flat(w.product.columns))...)
		return []loop.Stmt{&loop.Reduce{Name: sum.Name, Op: loop.Add, X: load(w.partial, index...)}}
	})
	body := append(append(append([]loop.Stmt{}, w.before...), add), w.after...)
	body = loop.Substitute(body, values)
	for i := len(loops) - 1; i >= 0; i-- {
		loops[i].Body = body
		body = []loop.Stmt{loops[i]}
	}
	return loops[0]
}
