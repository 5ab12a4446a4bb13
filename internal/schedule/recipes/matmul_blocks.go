package recipes

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// layout describes the weights of matmul_blocks and matmul_blocks_bytes: Depth × Columns numbers of Bits bits. Block
// consecutive steps of the sum share a scale and a zero point in each column. Columns are stored in panels of Panel
// columns; the number of panels is even, or 1.
type layout struct{ Bits, Block, Depth, Columns, Zero, Panel int64 }

// layoutOf reads the layout of a kernel's weights.
func layoutOf(k *nest) layout {
	number := func(name string) int64 { return attribute[int64](k, name) }
	return layout{number("bits"), number("block"), number("depth"), number("columns"), number("zero"), number("panel")}
}

// known reports whether the numbers describe a layout, of which the words' shape is one.
func (w layout) known(words []sym.Expr) bool {
	return w.Bits > 0 && w.Bits <= 8 && w.Block > 0 && w.Depth > 0 && w.Columns > 0 && w.Panel > 0 && len(words) == 3
}

// PerWord returns the number of weights in a word.
func (w layout) PerWord() int64 { return 32 / w.Bits }

// Count returns the number of blocks of a column.
func (w layout) Count() int64 { return ceilDiv(w.Depth, w.Block) }

// wordsOfX returns the number of words, of four bytes each, of a row of x.
func (w layout) wordsOfX() int64 { return ceilDiv(w.Depth, w.PerWord()) * w.PerWord() / 4 }

// Panels returns the number of panels.
func (w layout) Panels() int64 {
	n := ceilDiv(w.Columns, w.Panel)
	if n > 1 {
		n += n % 2
	}
	return n
}

const (
	blocksFewRows  = 8       // the most rows for which weights are unpacked in registers, for each blocksRowsOnce of them
	blocksRowsOnce = 4       // rows that share weights unpacked in registers
	blocksChains   = 4       // independent sums, of one row or several: enough to hide the latency of an addition
	blocksElements = 1 << 20 // about the number of elements of x multiplied with an unpacked panel: they stay in the cache
	blocksLeast    = 256     // the fewest rows that are multiplied with an unpacked panel
)

// blocksNest writes the kernel of a MatMulBlocks.
type blocksNest struct {
	*nest
	layout
	x, words, scale, zero, out *loop.Memory
	rows                       sym.Expr
}

// blocksPanels is a recipe for products by weights of few bits: each iteration computes the columns of two panels.
// Weights are unpacked in registers for few rows, and once, panel by panel, for many rows.
func blocksPanels(k *nest) bool {
	if len(k.In) < 3 || len(k.Out) != 1 || !layoutOf(k).known(k.In[1].Shape) {
		return false
	}
	f := &blocksNest{nest: k, layout: layoutOf(k), x: k.In[0], words: k.In[1], scale: k.In[2], zero: k.optional(3),
		out: k.Out[0]}
	f.rows = sym.Product(f.x.Shape[:len(f.x.Shape)-1]...)
	k.Reshape(f.x, f.rows, sym.Const(f.Depth))
	k.Reshape(f.out, f.rows, sym.Const(f.Columns))
	wide := min(2, f.Panels())
	pairs := sym.Const(f.Panels() / wide)
	few := func(t sym.Expr, rows int64) {
		k.Each("u", sym.Const(wide), func(u sym.Expr) { f.few(t.Mul(sym.Const(wide)).Add(u), rows) })
	}
	most := max(blocksLeast, blocksElements/f.Depth)
	pieces := f.rows.CeilDiv(sym.Const(most))
	many := func(t, piece sym.Expr) { f.many(t.Mul(sym.Const(wide)), wide, piece.Mul(sym.Const(most)), most) }
	rows, fixed := f.rows.Const()
	switch {
	case fixed && rows <= blocksFewRows:
		k.Each("t", pairs, func(t sym.Expr) { few(t, min(max(rows, 1), blocksRowsOnce)) })
	case fixed:
		k.Each("part", pieces, func(piece sym.Expr) { k.Each("t", pairs, func(t sym.Expr) { many(t, piece) }) })
	default:
		upTo := func(rows int64) loop.Expr {
			return loop.Apply2(loop.Le, loop.At(f.rows), loop.At(sym.Const(rows)))
		}
		k.Each("t", pairs, func(t sym.Expr) {
			k.When(upTo(1), func() { few(t, 1) }, func() {
				k.When(upTo(blocksFewRows), func() { few(t, blocksRowsOnce) }, func() {
					k.Each("part", pieces, func(piece sym.Expr) { many(t, piece) })
				})
			})
		})
	}
	return true
}

// weight returns the i-th weight of a word, minus the zero point.
func (f *blocksNest) weight(word loop.Expr, i int64, zero loop.Expr) loop.Expr {
	bits := word
	if i > 0 {
		bits = loop.Apply2(loop.Shr, bits, loop.Integer(dtype.I32, f.Bits*i))
	}
	bits = loop.Apply2(loop.And, bits, loop.Integer(dtype.I32, 1<<f.Bits-1))
	y := loop.Convert(dtype.F32, bits)
	if zero == nil {
		return y
	}
	return minus(y, zero)
}

// zeroAt returns the zero point of a panel's block for a column; nil if it is 0.
func (f *blocksNest) zeroAt(t, block, c sym.Expr) loop.Expr {
	switch {
	case f.zero != nil:
		return f.Let("zero", loop.Convert(dtype.F32, loop.Convert(dtype.I32, f.zero.Load(t, block, c))))
	case f.Zero != 0:
		return loop.Number(dtype.F32, float64(f.Zero))
	}
	return nil
}

// eachBlock calls do for each block of a column: the full blocks in a loop of the given kind, then the last, shorter
// block.
func (f *blocksNest) eachBlock(kind loop.LoopKind, do func(block sym.Expr, steps int64)) {
	full := f.Depth / f.Block
	if full > 0 {
		f.For(kind, "b", sym.Const(full), func(b sym.Expr) { do(b, f.Block) })
	}
	if rest := f.Depth % f.Block; rest > 0 {
		do(sym.Const(full), rest)
	}
}

// eachWord calls do for each word of a block of the given steps: with its index in a column, its first step and its
// number of steps.
func (f *blocksNest) eachWord(kind loop.LoopKind, block sym.Expr, steps int64,
	do func(word, first sym.Expr, count int64)) {
	per, words := f.PerWord(), block.Mul(sym.Const(f.Block/f.PerWord()))
	if full := steps / per; full > 0 {
		f.For(kind, "g", sym.Const(full), func(g sym.Expr) { do(words.Add(g), words.Add(g).Mul(sym.Const(per)), per) })
	}
	if rest := steps % per; rest > 0 {
		last := words.Add(sym.Const(steps / per))
		do(last, last.Mul(sym.Const(per)), rest)
	}
}

// few computes a panel's columns for all rows, atOnce rows at a time, with the weights unpacked in registers.
func (f *blocksNest) few(t sym.Expr, atOnce int64) {
	chains := max(1, blocksChains/atOnce)
	rows, fixed := f.rows.Const()
	even := fixed && rows%atOnce == 0 || atOnce == 1
	f.Each("r", f.rows.CeilDiv(sym.Const(atOnce)), func(r sym.Expr) {
		row := func(i int64) sym.Expr {
			at := r.Mul(sym.Const(atOnce)).Add(sym.Const(i))
			if even {
				return at
			}
			return at.Min(f.rows.Sub(one)) // missing rows compute the last one again and are not stored
		}
		f.Each("c", sym.Const(f.Panel), func(c sym.Expr) {
			totals := make([]*loop.Ref, atOnce)
			for i := range totals {
				totals[i] = f.Var("total", loop.Number(dtype.F32, 0))
			}
			f.eachBlock(loop.Serial, func(block sym.Expr, steps int64) {
				zero := f.zeroAt(t, block, c)
				sums := make([][]*loop.Ref, atOnce)
				for i := range sums {
					for range chains {
						sums[i] = append(sums[i], f.Var("sum", loop.Number(dtype.F32, 0)))
					}
				}
				f.eachWord(loop.Serial, block, steps, func(index, first sym.Expr, count int64) {
					word := f.Let("word", f.words.Load(t, index, c))
					for j := range count {
						weight := f.Let("weight", f.weight(word, j, zero))
						for i := range atOnce {
							f.Reduce(sums[i][j%chains], loop.Add, times(f.x.Load(row(i), first.Add(sym.Const(j))), weight))
						}
					}
				})
				scale := f.Let("scale", loop.Convert(dtype.F32, f.scale.Load(t, block, c)))
				for i, total := range totals {
					var sum loop.Expr = sums[i][0]
					for _, other := range sums[i][1:] {
						sum = plus(sum, other)
					}
					f.Reduce(total, loop.Add, times(sum, scale))
				}
			})
			for i, total := range totals {
				at := r.Mul(sym.Const(atOnce)).Add(sym.Const(int64(i)))
				write := func() { f.store(at, t.Mul(sym.Const(f.Panel)).Add(c), total) }
				if even {
					write()
				} else {
					f.When(loop.Apply2(loop.Lt, loop.At(at), loop.At(f.rows)), write, nil)
				}
			}
		})
	})
}

// store stores a result if its column exists.
func (f *blocksNest) store(row, column sym.Expr, x loop.Expr) {
	var mask loop.Expr
	if f.Columns%f.Panel != 0 || f.Panels()*f.Panel != f.Columns {
		mask = loop.Apply2(loop.Lt, loop.At(column), loop.At(sym.Const(f.Columns)))
	}
	f.StoreIf(mask, f.out, []sym.Expr{row, column}, x)
}

// many unpacks wide panels, starting at t, and multiplies at most most rows, starting at first, by them.
func (f *blocksNest) many(t sym.Expr, wide int64, first sym.Expr, most int64) {
	depth, width, begin := sym.Const(f.Depth), sym.Const(wide*f.Panel), t.Mul(sym.Const(f.Panel))
	panel := f.Local("panel", dtype.F32, depth, width)
	f.Each("u", sym.Const(wide), func(u sym.Expr) {
		from := t.Add(u)
		f.eachBlock(loop.Each, func(block sym.Expr, steps int64) {
			f.eachWord(loop.Each, block, steps, func(index, step sym.Expr, count int64) {
				f.Each("c", sym.Const(f.Panel), func(c sym.Expr) {
					word := f.Let("word", f.words.Load(from, index, c))
					scale := f.Let("scale", loop.Convert(dtype.F32, f.scale.Load(from, block, c)))
					zero := f.zeroAt(from, block, c)
					for j := range count {
						f.Store(panel, []sym.Expr{step.Add(sym.Const(j)), u.Mul(sym.Const(f.Panel)).Add(c)},
							times(f.weight(word, j, zero), scale))
					}
				})
			})
		})
	})
	rows, columns := f.rows, width
	if n, fixed := rows.Const(); !fixed || n > most {
		rows = f.rows.Sub(first).Min(sym.Const(most))
	}
	if f.Columns%(wide*f.Panel) != 0 {
		columns = sym.Const(f.Columns).Sub(begin).Min(width)
	}
	acc := f.Local("acc", dtype.F32, f.rows.Min(sym.Const(most)), width)
	each := func(hint string, body func(at []sym.Expr)) {
		f.Nest(loop.Each, hint, []sym.Expr{rows, columns}, body)
	}
	each("z", func(at []sym.Expr) { f.Store(acc, at, loop.Number(dtype.F32, 0)) })
	f.Contract(rows, columns, depth, acc.Tile(zeros(2), unit(2, 0, one), unit(2, 1, one)),
		f.x.Tile([]sym.Expr{first, sym.Const(0)}, unit(2, 0, one), unit(2, 1, one)),
		panel.Tile(zeros(2), unit(2, 0, one), unit(2, 1, one)))
	each("o", func(at []sym.Expr) { f.Store(f.out, []sym.Expr{first.Add(at[0]), begin.Add(at[1])}, acc.Load(at...)) })
}
