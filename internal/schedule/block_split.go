package schedule

import (
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Sums of products whose tiles are few, for machines that run blocks of threads: a block for each tile would leave most
// of the machine idle. The steps of each sum are split among blocks; what they come to lies in the launch's scratch,
// and a second part of the kernel adds it up:
//
//	local partial [splits, rows, columns]
//	block split { …; partial[split, i, j] = … }
//	each i, j { s = begin; serial split { s += partial[split, i, j] }; …; store }

const (
	mostSplits = 32
	splitTiles = 8 // of steps that a block adds up, at the least
)

// splitsOf is among how many blocks the steps of a tile's sums are split: 1 if there are tiles enough, or a dimension
// decides how many.
func (s *scheduler) splitsOf(p *product, t productTile) int64 {
	for _, f := range p.loops {
		if _, fixed := f.Extent.Const(); !fixed {
			return 1
		}
	}
	blocks := s.sizeOf(p.batch) * ceil(s.sizeOf(p.rows), t.rows) * ceil(s.sizeOf(p.columns), t.columns)
	wanted := busyThreads / (blocks * float64(t.threads()))
	return int64(max(1, min(wanted, ceil(s.sizeOf(p.steps), t.steps)/splitTiles, mostSplits)))
}

// splitWriter writes one.
type splitWriter struct {
	*productWriter
	splits  int64
	partial *loop.Local
	at      []sym.Expr // of the partial sums of a block: all indices but rows and columns
}

// kernel is both parts.
func (w *splitWriter) kernel() []loop.Stmt {
	w.partial = &loop.Local{Name: w.names.name("partial"), DType: w.sum}
	for _, f := range w.batch {
		w.partial.Shape = append(w.partial.Shape, f.Extent)
		w.at = append(w.at, sym.Var(f.Var))
	}
	w.partial.Shape = append(append(w.partial.Shape, sym.Const(w.splits)), w.across(w.rowsOf.size, w.columnsOf.size)...)
	first := w.each(loop.Block, "split", sym.Const(w.splits), func(split sym.Expr) []loop.Stmt {
		w.at = append(w.at, split)
		return w.tiles(func() []loop.Stmt { return w.part(split) })
	})
	return []loop.Stmt{w.partial, inBlocks(w.batch, []loop.Stmt{first})[0], w.second()}
}

// across is a row and a column in the order in which they lie: neighbours in what is stored are neighbours.
func (w *splitWriter) across(row, column sym.Expr) []sym.Expr {
	if w.storedRows {
		return []sym.Expr{column, row}
	}
	return []sym.Expr{row, column}
}

// part is what one block does.
func (w *splitWriter) part(split sym.Expr) []loop.Stmt {
	tiles := w.stepsOf.size.CeilDiv(sym.Const(w.tile.steps))
	size := tiles.CeilDiv(sym.Const(w.splits))
	begin := split.Mul(size)
	count := size.Min(tiles.Sub(begin)).Max(zero)
	return w.added(begin, count, func(sums *loop.Local, thread, r, c sym.Expr) []loop.Stmt {
		row, column, rowStep, columnStep := w.place(thread)
		m, n := w.row.Add(row).Add(r.Mul(rowStep)), w.column.Add(column).Add(c.Mul(columnStep))
		store := loop.Stmt(&loop.Store{To: w.partial.Name, Index: append(w.at[:len(w.at):len(w.at)], w.across(m, n)...),
			X: load(sums, thread, r, c)})
		if inside := w.inside(m, n); inside != nil {
			store = &loop.When{Cond: inside, Then: []loop.Stmt{store}}
		}
		return []loop.Stmt{store}
	})
}

// second adds the partial sums up, and does with them what the kernel does with its sums.
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
