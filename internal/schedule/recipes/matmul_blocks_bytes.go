package recipes

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// The number of rows computed together by two panels, which share the loads of x: as many as leave registers for their
// sums; and smaller numbers for the remaining rows.
const (
	blocksBytesRows = 6
	blocksBytesLeft = 2
)

// blocksBytesWords is the number of words that are computed without a branch between them.
const blocksBytesWords = 4

// blocksBytesNest writes the kernel of a MatMulBlocksBytes.
type blocksBytesNest struct {
	*nest
	layout
	x, xScale, less, words, scale, zero, out *loop.Memory
	rows                                     sym.Expr
}

// blocksBytesPanels is a recipe for products of bytes by weights of few bits: each iteration computes the columns of
// two panels for all rows.
func blocksBytesPanels(k *nest) bool {
	if len(k.In) < 5 || len(k.Out) != 1 || !layoutOf(k).known(k.In[3].Shape) {
		return false
	}
	f := &blocksBytesNest{nest: k, layout: layoutOf(k), x: k.In[0], xScale: k.In[1], less: k.In[2], words: k.In[3],
		scale: k.In[4], zero: k.optional(5), out: k.Out[0]}
	f.rows = sym.Product(f.x.Shape[:len(f.x.Shape)-1]...)
	k.Reshape(f.x, f.rows, sym.Const(f.wordsOfX()))
	k.Reshape(f.xScale, f.rows, sym.Const(f.Count()))
	k.Reshape(f.less, f.rows, sym.Const(f.Count()))
	k.Reshape(f.out, f.rows, sym.Const(f.Columns))
	wide := min(2, f.Panels())
	k.Each("t", sym.Const(f.Panels()/wide), func(t sym.Expr) {
		panels := make([]sym.Expr, wide)
		for u := range panels {
			panels[u] = t.Mul(sym.Const(wide)).Add(sym.Const(int64(u)))
		}
		groups := func(from, count sym.Expr, atOnce int64, all bool) {
			k.Each("r", count, func(r sym.Expr) { f.panels(panels, from.Add(r.Mul(sym.Const(atOnce))), atOnce, all) })
		}
		if rows, fixed := f.rows.Const(); fixed {
			count := max(1, (rows+blocksBytesRows-1)/blocksBytesRows)
			atOnce := max(1, (rows+count-1)/count)
			groups(sym.Const(0), sym.Const((rows+atOnce-1)/atOnce), atOnce, rows%atOnce == 0)
			return
		}
		k.When(loop.Apply2(loop.Le, loop.At(f.rows), loop.At(one)), func() { groups(sym.Const(0), f.rows, 1, true) }, func() {
			full := f.rows.FloorDiv(sym.Const(blocksBytesRows))
			groups(sym.Const(0), full, blocksBytesRows, true)
			done := full.Mul(sym.Const(blocksBytesRows))
			groups(done, f.rows.Sub(done).CeilDiv(sym.Const(blocksBytesLeft)), blocksBytesLeft, false)
		})
	})
	return true
}

// panels computes panels' columns for atOnce rows from first on; all reports whether all of these rows exist.
func (f *blocksBytesNest) panels(panels []sym.Expr, first sym.Expr, atOnce int64, all bool) {
	row := func(i int64) sym.Expr {
		at := first.Add(sym.Const(i))
		if all {
			return at
		}
		return at.Min(f.rows.Sub(one)) // missing rows compute the last one again and are not stored
	}
	f.Each("c", sym.Const(f.Panel), func(c sym.Expr) {
		tile := &bytesTile{blocksBytesNest: f, panels: panels, column: c, row: row,
			totals: f.variables(loop.Number(dtype.F32, 0), len(panels), atOnce)}
		full := f.Depth / f.Block
		f.Serial("b", sym.Const(full), func(b sym.Expr) { tile.block(b, f.Block) })
		if rest := f.Depth % f.Block; rest > 0 {
			tile.block(sym.Const(full), rest)
		}
		for i := range atOnce {
			at := first.Add(sym.Const(i))
			write := func() {
				for u, t := range panels {
					f.store(at, t, c, tile.totals[u][i])
				}
			}
			if all {
				write()
			} else {
				f.When(loop.Apply2(loop.Lt, loop.At(at), loop.At(f.rows)), write, nil)
			}
		}
	})
}

// variables declares variables of one value, for each row of each panel.
func (f *blocksBytesNest) variables(value loop.Expr, panels int, rows int64) [][]*loop.Ref {
	out := make([][]*loop.Ref, panels)
	for u := range out {
		for range rows {
			out[u] = append(out[u], f.Var("sum", value))
		}
	}
	return out
}

// bytesTile is the state computed together: a column of each panel, for some rows.
type bytesTile struct {
	*blocksBytesNest
	panels []sym.Expr
	column sym.Expr
	row    func(i int64) sym.Expr
	totals [][]*loop.Ref
	sums   [][]*loop.Ref // of a block
}

// block adds the products of a block's steps to the totals.
func (f *bytesTile) block(b sym.Expr, steps int64) {
	f.begin(b)
	begin, words := b.Mul(sym.Const(f.Block/f.PerWord())), (steps+f.PerWord()-1)/f.PerWord()
	if full := words / blocksBytesWords; full > 1 {
		f.Serial("g", sym.Const(full), func(g sym.Expr) {
			for i := range int64(blocksBytesWords) {
				f.word(begin.Add(g.Mul(sym.Const(blocksBytesWords))).Add(sym.Const(i)))
			}
		})
		begin, words = begin.Add(sym.Const(full*blocksBytesWords)), words%blocksBytesWords
	}
	for i := range words {
		f.word(begin.Add(sym.Const(i)))
	}
	f.end(b)
}

// begin declares the sums of a block. If all weights have one zero point, the sums start with its contribution.
func (f *bytesTile) begin(b sym.Expr) {
	if f.zero != nil || f.Zero == 0 {
		f.sums = f.variables(loop.Integer(dtype.I32, 0), len(f.panels), int64(len(f.totals[0])))
		return
	}
	f.sums = make([][]*loop.Ref, len(f.panels))
	for i := range f.totals[0] {
		less := f.Let("less", f.less.Load(f.row(int64(i)), b))
		for u := range f.sums {
			f.sums[u] = append(f.sums[u], f.Var("sum", less))
		}
	}
}

// word adds the products of the steps in a word of each column.
func (f *bytesTile) word(index sym.Expr) {
	words := make([]loop.Expr, len(f.panels))
	for u, t := range f.panels {
		words[u] = f.Let("word", f.words.Load(t, index, f.column))
	}
	pieces := f.PerWord() / 4
	for h := range pieces {
		bytes := make([]loop.Expr, len(words))
		for u, word := range words {
			bytes[u] = f.Let("bytes", f.bytes(word, h))
		}
		at := index.Mul(sym.Const(pieces)).Add(sym.Const(h))
		for i := range f.totals[0] {
			x := f.Let("x", f.x.Load(f.row(int64(i)), at))
			for u := range bytes {
				f.Reduce(f.sums[u][i], loop.Add, loop.Apply2(loop.Dot, bytes[u], x))
			}
		}
	}
}

// end adds the scaled sums to the totals.
func (f *bytesTile) end(b sym.Expr) {
	scale, zero := make([]loop.Expr, len(f.panels)), make([]loop.Expr, len(f.panels))
	for u, t := range f.panels {
		scale[u] = f.Let("scale", loop.Convert(dtype.F32, f.scale.Load(t, b, f.column)))
		if f.zero != nil {
			zero[u] = f.Let("zero", loop.Convert(dtype.F32, loop.Convert(dtype.I32, f.zero.Load(t, b, f.column))))
		}
	}
	for i := range f.totals[0] {
		row := f.row(int64(i))
		var less loop.Expr
		if f.zero != nil {
			less = f.Let("less", loop.Convert(dtype.F32, f.less.Load(row, b)))
		}
		by := f.Let("by", f.xScale.Load(row, b))
		for u := range f.panels {
			sum := f.Var("real", loop.Convert(dtype.F32, f.sums[u][i]))
			if less != nil {
				f.Reduce(sum, loop.Add, times(zero[u], less))
			}
			f.Reduce(f.totals[u][i], loop.Add, times(times(sum, by), scale[u]))
		}
	}
}

// bytes extracts four of a word's weights as bytes.
func (f *blocksBytesNest) bytes(word loop.Expr, piece int64) loop.Expr {
	if piece > 0 {
		word = loop.Apply2(loop.Shr, word, loop.Integer(dtype.I32, f.Bits*piece))
	}
	if f.Bits < 8 {
		word = loop.Apply2(loop.And, word, loop.Integer(dtype.I32, (1<<f.Bits-1)*0x01010101))
	}
	return word
}

// store stores a result if its column exists.
func (f *blocksBytesNest) store(row, t, c sym.Expr, x loop.Expr) {
	var mask loop.Expr
	column := t.Mul(sym.Const(f.Panel)).Add(c)
	if f.Panels()*f.Panel != f.Columns {
		mask = loop.Apply2(loop.Lt, loop.At(column), loop.At(sym.Const(f.Columns)))
	}
	f.StoreIf(mask, f.out, []sym.Expr{row, column}, x)
}
