package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// Attention without stored scores, for machines that run blocks of threads: sums of values, weighted by a softmax of
// products, that are rescaled when a larger product appears (Milakov and Gimelshein, 2018; in tiles: Dao et al.,
// FlashAttention, 2022):
//
//	each i … {
//	  local o; each e { o[e] = 0 }; var top = -inf; var total = 0
//	  for j {
//	    var s = 0; for d { s += A × B }; let score = …s…
//	    let greatest = max(top, score); let least = …greatest…
//	    let shrink = f(top - least); let weight = f(score - least)
//	    total = total × shrink + weight; top = greatest
//	    each e { o[e] = o[e] × shrink + weight × V }
//	  }
//	  …; each e { …; store …o[e]… }
//	}
//
// A block has a tile of rows. For one tile of keys at a time, its threads sum the products of their own rows and keys
// in registers, and store the scores in shared memory; one thread for each row computes weights from them; then the
// threads sum the weighted values of their own rows and elements. Scores are stored nowhere else.

// blockOnline rewrites a kernel of this form for blocks of threads; nil for other kernels, or if no tile fits.
func (s *scheduler) blockOnline(k *loop.Kernel) *loop.Kernel {
	o := matchOnline(k)
	if o == nil {
		return nil
	}
	tiles := slices.DeleteFunc(s.onlineTiles(), func(t productTile) bool { return o.ownElements(t) > mostOwnElements })
	return s.cheapest(k, tiles, func(t productTile) float64 { return s.onlineCost(o, t) },
		func(t productTile) []loop.Stmt {
			return newOnlineWriter(s.newProductWriter(k, o.product, t), o).block()
		})
}

// onlineTiles returns the possible tiles of rows and keys of a block.
func (s *scheduler) onlineTiles() (list []productTile) {
	for _, ownRows := range []int64{1, 2, 4, 8} {
		for _, ownColumns := range []int64{1, 2, 4, 8} {
			for _, rows := range []int64{1, 2, 4, 8, 16, 32} {
				for _, columns := range []int64{1, 2, 4, 8, 16, 32} {
					if threads := rows * columns; threads <= min(rowThreads, s.machine.Limits.Invocations) {
						list = append(list, productTile{rows * ownRows, columns * ownColumns, 1, ownRows, ownColumns, 0})
					}
				}
			}
		}
	}
	return list
}

// mostOwnElements is the largest number of elements of a value that a thread has: more do not fit its registers.
const mostOwnElements = 16

// weighing is the cost of one weight, in multiplications.
const weighing = 60

// ownElements returns the number of elements of a value that a thread has.
func (o *online) ownElements(t productTile) int64 {
	threads := t.columns / t.ownColumns
	return (o.size + threads - 1) / threads
}

// onlineCost estimates the time of a kernel with a tile, in multiplications.
func (s *scheduler) onlineCost(o *online, t productTile) float64 {
	read := 4.0
	if s.machine.Has(target.CachedReads) {
		read = directRead
	}
	together := max(s.machine.Limits.Subgroup, 1)
	subgroups := func(threads int64) float64 { return float64((threads + together - 1) / together) }
	own := func(rows, columns int64) float64 { return float64(rows*columns) + read*float64(rows+columns) }
	elements := o.ownElements(t)
	step := subgroups(t.threads())*(s.sizeOf(o.steps)*own(t.ownRows, t.ownColumns)+float64(t.columns)*own(t.ownRows,
		elements)) +
		subgroups(t.rows)*weighing*float64(t.columns) + 3*barrierCost
	blocks := ceil(s.sizeOf(o.rows), t.rows) * s.sizeOf(o.batch)
	busy := float64(directBlocks)
	if read != directRead {
		busy = busyThreads / float64(t.threads())
	}
	return max(blocks, busy)*ceil(s.sizeOf(o.columns), t.columns)*step +
		directCompiled*float64(t.ownRows*(t.ownColumns+elements))
}

// onlineWriter writes an attention kernel.
type onlineWriter struct {
	*productWriter
	of                    *online
	products, sums        *loop.Local // of each thread: products of its rows and keys, sums of its rows and elements
	a, b, weights, v      *loop.Local
	tops, totals, shrinks *loop.Local // one for each row
	scores                *loop.Local // one for each key and row: shared
	elementThreads        sym.Expr    // threads of a row
}

// newOnlineWriter returns a writer, and declares the locals of a block.
func newOnlineWriter(p *productWriter, o *online) *onlineWriter {
	t := p.tile
	w := &onlineWriter{productWriter: p, of: o, elementThreads: sym.Const(t.columns / t.ownColumns)}
	local := func(hint string, space loop.Space, shape ...int64) *loop.Local {
		l := &loop.Local{Name: p.names.name(hint), DType: dtype.F32, Space: space}
		for _, n := range shape {
			l.Shape = append(l.Shape, sym.Const(n))
		}
		return l
	}
	own := func(hint string, shape ...int64) *loop.Local {
		return local(hint, loop.Own, append([]int64{t.threads()}, shape...)...)
	}
	elements := o.ownElements(t)
	w.products, w.sums = own("products", t.ownRows, t.ownColumns), own("sums", t.ownRows, elements)
	w.a, w.b, w.weights, w.v = own("a", t.ownRows), own("b", t.ownColumns), own("w", t.ownRows), own("v", elements)
	w.tops, w.totals, w.shrinks = local("tops", loop.Shared, t.rows), local("totals", loop.Shared, t.rows),
		local("shrinks", loop.Shared, t.rows)
	w.scores = local("scores", loop.Shared, t.columns, t.rows)
	return w
}

// block returns the loops over blocks and their body.
func (w *onlineWriter) block() []loop.Stmt {
	t := w.tile
	tiles := w.each(loop.Block, "bm", w.rowsOf.size.CeilDiv(sym.Const(t.rows)), func(bm sym.Expr) []loop.Stmt {
		w.row = bm.Mul(sym.Const(t.rows))
		body := []loop.Stmt{w.products, w.sums, w.a, w.b, w.weights, w.v, w.tops, w.totals, w.shrinks, w.scores}
		body = append(body, w.begin(w.sums))
		body = append(body, w.each(loop.Thread, "r", sym.Const(t.rows), func(r sym.Expr) []loop.Stmt {
			return []loop.Stmt{store(w.tops, lowest, r), store(w.totals, zeroOf(dtype.F32), r)}
		}))
		body = append(body, w.each(loop.Serial, "u", w.keysSeen().CeilDiv(sym.Const(t.columns)), w.keyTile))
		return append(body, w.eachOwn(w.sums, w.result))
	})
	return inBlocks(w.batch, []loop.Stmt{tiles})
}

// keysSeen returns the number of keys that the rows of a block visit: that of the block's last row, if it can be
// computed.
func (w *onlineWriter) keysSeen() sym.Expr {
	if w.of.seen.Equal(sym.Expr{}) || len(w.rowsOf.loops) != 1 {
		return w.columnsOf.size
	}
	last := map[sym.Name]sym.Expr{w.rowsOf.loops[0].Var: w.row.Add(sym.Const(w.tile.rows)).Min(w.rowsOf.size).Sub(one)}
	return w.of.seenBy(last).Max(zero)
}

// seenBy returns the number of keys that a row visits.
func (o *online) seenBy(row map[sym.Name]sym.Expr) sym.Expr {
	return o.seen.Subst(func(name sym.Name) (sym.Expr, bool) { v, ok := row[name]; return v, ok })
}

// keyTile returns the statements of a block for one tile of keys.
func (w *onlineWriter) keyTile(u sym.Expr) []loop.Stmt {
	t := w.tile
	w.column = u.Mul(sym.Const(t.columns))
	products := w.each(loop.Thread, "t", w.sums.Shape[0], func(thread sym.Expr) []loop.Stmt {
		row, column, rowStep, columnStep := w.firstOwn(thread)
		body := []loop.Stmt{
			w.own(w.a, w.product.a, w.rowsOf, w.row.Add(row), rowStep, thread, t.rows),
			w.own(w.b, w.product.b, w.columnsOf, w.column.Add(column), columnStep, thread, t.columns),
			contractOwn(w.products, w.a, w.b, thread),
		}
		steps := w.product.steps[0]
		return []loop.Stmt{&loop.For{Kind: loop.Serial, Var: steps.Var, Extent: steps.Extent, Body: body}}
	})
	return []loop.Stmt{
		w.begin(w.products),
		products, w.eachOwn(w.products, w.scored), w.each(loop.Thread, "r", sym.Const(t.rows), w.weighed),
		w.eachOwn(w.sums, func(thread, r, e sym.Expr) []loop.Stmt {
			row, _, rowStep, _ := w.firstOwn(thread)
			shrunk := loop.Apply2(loop.Mul, load(w.sums, thread, r, e), load(w.shrinks, row.Add(r.Mul(rowStep))))
			return []loop.Stmt{store(w.sums, shrunk, thread, r, e)}
		}),
		w.each(loop.Thread, "t", w.sums.Shape[0], func(thread sym.Expr) []loop.Stmt {
			return []loop.Stmt{w.each(loop.Serial, "k", sym.Const(t.columns), func(key sym.Expr) []loop.Stmt {
				return w.added(thread, key)
			})}
		}),
	}
}

// scored computes a score from a product; the score of a key that does not exist, or that the row does not visit, is
// −∞.
func (w *onlineWriter) scored(thread, r, c sym.Expr) []loop.Stmt {
	row, column, rowStep, columnStep := w.firstOwn(thread)
	row, column = row.Add(r.Mul(rowStep)), column.Add(c.Mul(columnStep))
	values, key := map[sym.Name]sym.Expr{}, w.column.Add(column)
	w.rowsOf.at(inRange(w.row.Add(row), w.rowsOf.size, w.scheduler, w.tile.rows), values)
	w.columnsOf.at(inRange(key, w.columnsOf.size, w.scheduler, w.tile.columns), values)
	sum := loop.Expr(load(w.products, thread, r, c))
	if zero, is := w.product.begin.X.(*loop.Const); !is || zero.Bits != 0 {
		sum = loop.Apply2(loop.Add, w.product.begin.X, sum)
	}
	names := w.names.anew(append([]loop.Stmt{&loop.Let{Name: w.product.begin.Name}}, w.of.scores...))
	body := append([]loop.Stmt{&loop.Let{Name: names.to(w.product.begin.Name), X: sum}}, names.body(w.of.scores)...)
	x := loop.Expr(&loop.Ref{Name: names.to(w.of.score), Type: dtype.F32})
	switch {
	case !w.of.seen.Equal(sym.Expr{}):
		x = &loop.Select{Cond: below(key, w.of.seenBy(values)), X: x, Y: lowest}
	case !w.equal(w.columnsOf.size.Mod(sym.Const(w.tile.columns)), zero):
		x = &loop.Select{Cond: below(key, w.columnsOf.size), X: x, Y: lowest}
	}
	return append(loop.Substitute(body, values), store(w.scores, x, column, row))
}

// weighed computes weights from a row's scores.
func (w *onlineWriter) weighed(r sym.Expr) []loop.Stmt {
	name := map[string]string{}
	for _, n := range []string{w.of.top, w.of.greatest, w.of.least.Name, w.of.shrink.Name, w.of.score, w.of.weight.Name,
		w.of.total} {
		name[n] = w.names.name(n)
	}
	ref := func(n string) *loop.Ref { return &loop.Ref{Name: name[n], Type: dtype.F32} }
	keys := sym.Const(w.tile.columns)
	return []loop.Stmt{
		&loop.Let{Name: name[w.of.top], X: load(w.tops, r)},
		&loop.Var{Name: name[w.of.greatest], X: ref(w.of.top)},
		w.each(loop.Serial, "k", keys, func(key sym.Expr) []loop.Stmt {
			return []loop.Stmt{&loop.Reduce{Name: name[w.of.greatest], Op: loop.Max, X: load(w.scores, key, r)}}
		}),
		&loop.Let{Name: name[w.of.least.Name], X: renamed(w.of.least.X, name)},
		&loop.Let{Name: name[w.of.shrink.Name], X: renamed(w.of.shrink.X, name)},
		store(w.shrinks, ref(w.of.shrink.Name), r),
		&loop.Var{Name: name[w.of.total], X: loop.Apply2(loop.Mul, load(w.totals, r), ref(w.of.shrink.Name))},
		w.each(loop.Serial, "k", keys, func(key sym.Expr) []loop.Stmt {
			return []loop.Stmt{
				&loop.Let{Name: name[w.of.score], X: load(w.scores, key, r)},
				&loop.Let{Name: name[w.of.weight.Name], X: renamed(w.of.weight.X, name)},
				store(w.scores, ref(w.of.weight.Name), key, r),
				&loop.Reduce{Name: name[w.of.total], Op: loop.Add, X: ref(w.of.weight.Name)},
			}
		}),
		store(w.tops, ref(w.of.greatest), r),
		store(w.totals, ref(w.of.total), r),
	}
}

// added adds the values of one key to a thread's sums. The elements of a key that does not exist are 0, and so is its
// weight.
func (w *onlineWriter) added(thread, key sym.Expr) []loop.Stmt {
	row, column, rowStep, _ := w.firstOwn(thread)
	weights := w.each(loop.Each, "i", w.weights.Shape[1], func(i sym.Expr) []loop.Stmt {
		return []loop.Stmt{store(w.weights, load(w.scores, key, row.Add(i.Mul(rowStep))), thread, i)}
	})
	at, elements := w.column.Add(key), &productWriter{scheduler: w.scheduler, product: w.of.values, names: w.names}
	v := w.each(loop.Each, "i", w.v.Shape[1], func(i sym.Expr) []loop.Stmt {
		values := map[sym.Name]sym.Expr{w.of.elements.Var: w.element(column, i).Min(sym.Const(w.of.size - 1))}
		if w.allExist() {
			values[w.of.elements.Var] = w.element(column, i)
		}
		w.columnsOf.at(inRange(at, w.columnsOf.size, w.scheduler, w.tile.columns), values)
		body, x := elements.computed(w.of.values.b, values)
		if !w.equal(w.columnsOf.size.Mod(sym.Const(w.tile.columns)), zero) {
			x = &loop.Select{Cond: below(at, w.columnsOf.size), X: x, Y: zeroOf(dtype.F32)}
		}
		return append(body, store(w.v, x, thread, i))
	})
	return []loop.Stmt{weights, v, contractOwn(w.sums, w.weights, w.v, thread)}
}

// element returns the index in a value of a thread's i-th own element: neighbouring threads have neighbouring elements.
func (w *onlineWriter) element(column, i sym.Expr) sym.Expr {
	return column.Add(i.Mul(w.elementThreads))
}

// allExist reports whether every element that a thread has exists: the threads divide a value without remainder.
func (w *onlineWriter) allExist() bool {
	return w.of.ownElements(w.tile)*(w.tile.columns/w.tile.ownColumns) == w.of.size
}

// result computes from a sum the values that the kernel stores. Sums beyond the last row or element repeat those of the
// last, and are not stored.
func (w *onlineWriter) result(thread, r, e sym.Expr) []loop.Stmt {
	row, column, rowStep, _ := w.firstOwn(thread)
	row = row.Add(r.Mul(rowStep))
	last := len(w.of.ended) - 1
	f := w.of.ended[last].(*loop.For)
	at, element := w.row.Add(row), w.element(column, e)
	values := map[sym.Name]sym.Expr{f.Var: element}
	var inside loop.Expr
	if !w.allExist() {
		values[f.Var] = element.Min(sym.Const(w.of.size - 1))
		inside = below(element, sym.Const(w.of.size))
	}
	if !w.equal(w.rowsOf.size.Mod(sym.Const(w.tile.rows)), zero) {
		within := below(at, w.rowsOf.size)
		if inside != nil {
			within = loop.Apply2(loop.And, within, inside)
		}
		inside = within
	}
	w.rowsOf.at(inRange(at, w.rowsOf.size, w.scheduler, w.tile.rows), values)
	body := loop.Substitute(append(slices.Clone(w.of.ended[:last]), f.Body...), values)
	held, total := load(w.sums, thread, r, e), load(w.totals, row)
	return (&loop.Rewrite{
		Expr: func(x loop.Expr) loop.Expr {
			switch x := x.(type) {
			case *loop.Load:
				if x.From == w.of.sums {
					return held
				}
			case *loop.Ref:
				if x.Name == w.of.total {
					return total
				}
			}
			return x
		},
		Stmt: func(s loop.Stmt) []loop.Stmt {
			if _, stores := s.(*loop.Store); stores && inside != nil {
				return []loop.Stmt{&loop.When{Cond: inside, Then: []loop.Stmt{s}}}
			}
			return []loop.Stmt{s}
		},
	}).Body(body)
}
