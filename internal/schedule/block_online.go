package schedule

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// Attention without stored scores, for machines that run blocks of threads: sums of values, weighed by a softmax of products, that
// are scaled down where a greater product comes along (Milakov and Gimelshein, 2018; in tiles: Dao et al., FlashAttention, 2022):
//
//	each i … {
//	  local o; each e { o[e] = 0 }; var top = -inf; var total = 0
//	  for j {
//	    var s = 0; for d { s += A × B }; let score = …s…
//	    let greatest = max(top, score); let least = …greatest…; let shrink = f(top - least); let weight = f(score - least)
//	    total = total × shrink + weight; top = greatest
//	    each e { o[e] = o[e] × shrink + weight × V }
//	  }
//	  …; each e { …; store …o[e]… }
//	}
//
// A block has a tile of rows. For a tile of keys at a time its threads add the products of their own rows and keys up in
// registers, and store the scores in shared memory; a thread for each row makes weights of them; then the threads add
// the weighed values of their own rows and elements up. Scores are nowhere else.

// lowest is what no score is less than.
var lowest = loop.Number(dtype.F32, math.Inf(-1))

// online is such a kernel's parts.
type online struct {
	*product // of rows and keys
	keys     *loop.For
	seen     sym.Expr // of the keys, so many go into a row, if that depends on it
	sums     string   // the local
	size     int64    // of it
	scores   []loop.Stmt
	score    string
	top      string
	total    string
	greatest string
	least    *loop.Let
	shrink   *loop.Let
	weight   *loop.Let
	values   *product // of weights, and the values, with what has names in them
	elements *loop.For
	ended    []loop.Stmt // what follows the keys
}

// matchOnline takes a kernel apart; nil where it is none of this form.
func matchOnline(k *loop.Kernel) *online {
	o := &online{product: &product{}}
	var body []loop.Stmt
	o.loops, body = outerLoops(k.Body)
	at := slices.IndexFunc(body, func(s loop.Stmt) bool { f, is := s.(*loop.For); return is && f.Kind == loop.Serial })
	if len(o.loops) == 0 || at < 0 {
		return nil
	}
	o.keys = body[at].(*loop.For)
	if o.ended = body[at+1:]; !o.matchBegin(body[:at]) || !o.matchKeys(o.keys.Body) || !o.matchEnd() || !o.matchSeen() {
		return nil
	}
	o.loops = append(slices.Clone(o.loops), o.keys)
	if o.sort(); len(o.rows) == 0 || len(o.columns) != 1 || o.columns[0] != o.keys {
		return nil
	}
	mentioned := o.values.mentioned(o.values.b)
	if slices.ContainsFunc(o.rows, func(f *loop.For) bool { return mentioned[f.Var] }) {
		return nil
	}
	return o
}

// matchSeen finds how many keys there are for all rows together, if each row has as many as those before it, or more.
func (o *online) matchSeen() bool {
	extent := o.keys.Extent
	if freeOf(extent, o.loops) {
		return true
	}
	o.seen = extent
	values := map[sym.Name]sym.Expr{}
	for _, f := range o.loops {
		if !mentions(extent, f.Var) {
			continue
		}
		if !rises(extent, f.Var) {
			return false
		}
		values[f.Var] = f.Extent.Sub(one)
	}
	most := extent.Subst(func(name sym.Name) (sym.Expr, bool) { v, ok := values[name]; return v, ok }).Max(zero)
	o.keys = &loop.For{Kind: o.keys.Kind, Var: o.keys.Var, Extent: most, Body: o.keys.Body}
	return freeOf(most, o.loops)
}

// rises reports whether an extent, the least or greatest of sums, is seen not to fall when a variable rises.
func rises(extent sym.Expr, by sym.Name) bool {
	for _, args := range [][]sym.Expr{extent.MinArgs(), extent.MaxArgs()} {
		if len(args) > 1 {
			return !slices.ContainsFunc(args, func(e sym.Expr) bool { return !rises(e, by) })
		}
	}
	step, rest, ok := extent.Linear(by)
	if !ok {
		return false
	}
	n, fixed := step.Const()
	return fixed && n >= 0 && !mentions(rest, by)
}

// matchBegin finds the local of sums, which begin as 0, and the two values that go from key to key.
func (o *online) matchBegin(body []loop.Stmt) bool {
	cleared := false
	for _, s := range body {
		switch s := s.(type) {
		case *loop.Local:
			if len(s.Shape) != 1 || s.DType != dtype.F32 || o.sums != "" {
				return false
			}
			o.sums = s.Name
			o.size, _ = s.Shape[0].Const()
		case *loop.Var:
			switch begin, ok := s.X.(*loop.Const); {
			case !ok || s.X.DType() != dtype.F32:
				return false
			case begin.Bits == lowest.Bits && o.top == "":
				o.top = s.Name
			case begin.Bits == 0 && o.total == "":
				o.total = s.Name
			default:
				return false
			}
		case *loop.For:
			store := o.storeOf(s)
			if store == nil || len(s.Body) != 1 {
				return false
			}
			zero, ok := store.X.(*loop.Const)
			cleared = ok && zero.Bits == 0
		default:
			return false
		}
	}
	return cleared && o.size > 0 && o.top != "" && o.total != ""
}

// storeOf is the store that ends a loop over all sums, to the loop's own; nil if it does not end so.
func (o *online) storeOf(f *loop.For) *loop.Store {
	extent, fixed := f.Extent.Const()
	store, ok := f.Body[len(f.Body)-1].(*loop.Store)
	if !ok || !fixed || extent != o.size || f.Kind != loop.Each || store.To != o.sums || store.Mask != nil || !isVar(store.Index[0], f.Var) {
		return nil
	}
	return store
}

// matchKeys finds what is done for one key.
func (o *online) matchKeys(body []loop.Stmt) bool {
	if len(body) < 10 {
		return false
	}
	begin, ok := body[0].(*loop.Var)
	steps, also := body[1].(*loop.For)
	last := body[len(body)-3:]
	total, sets := last[0].(*loop.Set)
	top, more := last[1].(*loop.Set)
	elements, loops := last[2].(*loop.For)
	if !ok || !also || !sets || !more || !loops || steps.Kind != loop.Serial || !freeOf(steps.Extent, append(slices.Clone(o.loops), o.keys)) {
		return false
	}
	o.before, o.steps, o.elements = body[:1], []*loop.For{steps}, elements
	if !o.matchSum(steps.Body) || o.begin != begin || o.sum != dtype.F32 || !o.closed() {
		return false
	}
	var lets []*loop.Let
	for _, s := range body[2 : len(body)-3] {
		let, ok := s.(*loop.Let)
		if !ok {
			return false
		}
		lets = append(lets, let)
	}
	first := len(lets) - 4
	if first < 1 {
		return false
	}
	ref := func(name string) loop.Expr { return &loop.Ref{Name: name, Type: dtype.F32} }
	o.scores, o.score, o.greatest = body[2:2+first], lets[first-1].Name, lets[first].Name
	o.least, o.shrink, o.weight = lets[first+1], lets[first+2], lets[first+3]
	shrink, weight := ref(o.shrink.Name), ref(o.weight.Name)
	return loop.Same(lets[first].X, loop.Apply2(loop.Max, ref(o.top), ref(o.score))) &&
		loop.Same(o.weight.X, renamed(o.shrink.X, map[string]string{o.top: o.score})) &&
		only(o.least.X, o.greatest) && only(o.shrink.X, o.top, o.least.Name) &&
		total.Name == o.total && loop.Same(total.X, loop.Apply2(loop.Add, loop.Apply2(loop.Mul, ref(o.total), shrink), weight)) &&
		top.Name == o.top && loop.Same(top.X, ref(o.greatest)) &&
		o.matchScores() && o.matchValues(shrink, weight)
}

// only reports whether a value is made of some others alone.
func only(e loop.Expr, names ...string) bool {
	ok := len(loop.IntegersOf(e)) == 0
	loop.WalkExpr(e, func(x loop.Expr) {
		switch x := x.(type) {
		case *loop.Ref:
			ok = ok && slices.Contains(names, x.Name)
		case *loop.Load:
			ok = false
		}
	})
	return ok
}

// renamed is a value of others.
func renamed(e loop.Expr, names map[string]string) loop.Expr {
	return (&loop.Rewrite{Name: func(name string) string {
		if to, ok := names[name]; ok {
			return to
		}
		return name
	}}).Value(e)
}

// matchScores checks that scores are made of a product, and of what is not computed key by key.
func (o *online) matchScores() bool {
	known := []string{o.begin.Name}
	for _, s := range o.scores {
		let := s.(*loop.Let)
		if !refersOnly(let.X, known) {
			return false
		}
		known = append(known, let.Name)
	}
	return true
}

// refersOnly reports whether the values with names that a value mentions are among some.
func refersOnly(e loop.Expr, names []string) bool {
	ok := true
	loop.WalkExpr(e, func(x loop.Expr) {
		if r, is := x.(*loop.Ref); is {
			ok = ok && slices.Contains(names, r.Name)
		}
	})
	return ok
}

// matchValues finds the values that are weighed.
func (o *online) matchValues(shrink, weight loop.Expr) bool {
	store := o.storeOf(o.elements)
	if store == nil {
		return false
	}
	sum, ok := store.X.(*loop.Binary)
	if !ok || sum.Op != loop.Add {
		return false
	}
	held := &loop.Load{From: o.sums, Index: store.Index, Type: dtype.F32}
	times, ok := sum.Y.(*loop.Binary)
	if !ok || times.Op != loop.Mul || !loop.Same(times.X, weight) || !loop.Same(sum.X, loop.Apply2(loop.Mul, held, shrink)) {
		return false
	}
	o.values = &product{a: weight, b: times.Y}
	for _, s := range o.elements.Body[:len(o.elements.Body)-1] {
		if _, ok := s.(*loop.Let); !ok {
			return false
		}
		o.values.lets = append(o.values.lets, s)
	}
	return (&product{a: times.Y, b: times.Y, lets: o.values.lets}).closed() && !reads(o.values.b, o.sums)
}

// reads reports whether a value is of a buffer's elements.
func reads(e loop.Expr, buffer string) (found bool) {
	loop.WalkExpr(e, func(x loop.Expr) {
		l, ok := x.(*loop.Load)
		found = found || ok && l.From == buffer
	})
	return found
}

// matchEnd checks that what follows the keys is values with names, and one loop over the sums that stores.
func (o *online) matchEnd() bool {
	last := len(o.ended) - 1
	if last < 0 {
		return false
	}
	known := []string{o.total}
	for _, s := range o.ended[:last] {
		let, ok := s.(*loop.Let)
		if !ok || !refersOnly(let.X, known) || reads(let.X, o.sums) {
			return false
		}
		known = append(known, let.Name)
	}
	f, ok := o.ended[last].(*loop.For)
	if !ok || f.Kind != loop.Each {
		return false
	}
	if extent, fixed := f.Extent.Const(); !fixed || extent != o.size {
		return false
	}
	for _, s := range f.Body {
		switch s := s.(type) {
		case *loop.Let:
			known = append(known, s.Name)
		case *loop.Store:
			ok = ok && s.To != o.sums
		default:
			return false
		}
		for _, e := range loop.Values(s) {
			ok = ok && refersOnly(e, known)
			loop.WalkExpr(e, func(x loop.Expr) {
				if l, is := x.(*loop.Load); is && l.From == o.sums {
					ok = ok && isVar(l.Index[0], f.Var)
				}
			})
		}
	}
	return ok
}

// blockOnline makes a kernel of this form one for blocks of threads; nil where it is none, or no tile fits.
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

// onlineTiles are the tiles of rows and keys that a block may have.
func (s *scheduler) onlineTiles() (list []productTile) {
	for _, ownRows := range []int64{1, 2, 4, 8} {
		for _, ownColumns := range []int64{1, 2, 4, 8} {
			for _, rows := range []int64{1, 2, 4, 8, 16, 32} {
				for _, columns := range []int64{1, 2, 4, 8, 16, 32} {
					if threads := rows * columns; threads <= min(rowThreads, s.machine.Limits.Invocations) {
						list = append(list, productTile{rows * ownRows, columns * ownColumns, 1, ownRows, ownColumns})
					}
				}
			}
		}
	}
	return list
}

// mostOwnElements is how many elements of a value a thread has, at most: more have no registers.
const mostOwnElements = 16

// weighing is what a weight takes, in multiplications.
const weighing = 60

// ownElements is how many elements of a value a thread has.
func (o *online) ownElements(t productTile) int64 {
	threads := t.columns / t.ownColumns
	return (o.size + threads - 1) / threads
}

// onlineCost is about how long a kernel takes with a tile, in multiplications.
func (s *scheduler) onlineCost(o *online, t productTile) float64 {
	read := 4.0
	if s.machine.Has(target.CachedReads) {
		read = directRead
	}
	together := max(s.machine.Limits.Subgroup, 1)
	subgroups := func(threads int64) float64 { return float64((threads + together - 1) / together) }
	own := func(rows, columns int64) float64 { return float64(rows*columns) + read*float64(rows+columns) }
	elements := o.ownElements(t)
	step := subgroups(t.threads())*(s.sizeOf(o.steps)*own(t.ownRows, t.ownColumns)+float64(t.columns)*own(t.ownRows, elements)) +
		subgroups(t.rows)*weighing*float64(t.columns) + 3*barrierCost
	blocks := ceil(s.sizeOf(o.rows), t.rows) * s.sizeOf(o.batch)
	busy := float64(directBlocks)
	if read != directRead {
		busy = busyThreads / float64(t.threads())
	}
	return max(blocks, busy)*ceil(s.sizeOf(o.columns), t.columns)*step + directCompiled*float64(t.ownRows*(t.ownColumns+elements))
}

// onlineWriter writes one.
type onlineWriter struct {
	*productWriter
	of                        *online
	products, sums            *loop.Local // of each thread: of its rows and keys, and of its rows and elements
	a, b, weights, v          *loop.Local
	tops, totals, shrinks     *loop.Local // of each row
	scores                    *loop.Local // of each key and row: shared
	elementThreads, threadsOf sym.Expr    // of a row, and in all
}

func newOnlineWriter(p *productWriter, o *online) *onlineWriter {
	t := p.tile
	w := &onlineWriter{productWriter: p, of: o, threadsOf: sym.Const(t.threads()), elementThreads: sym.Const(t.columns / t.ownColumns)}
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
	w.tops, w.totals, w.shrinks = local("tops", loop.Shared, t.rows), local("totals", loop.Shared, t.rows), local("shrinks", loop.Shared, t.rows)
	w.scores = local("scores", loop.Shared, t.columns, t.rows)
	return w
}

// block is the loops over blocks, and what one does.
func (w *onlineWriter) block() []loop.Stmt {
	t := w.tile
	tiles := w.each(loop.Block, "bm", w.rowsOf.size.CeilDiv(sym.Const(t.rows)), func(bm sym.Expr) []loop.Stmt {
		w.row = bm.Mul(sym.Const(t.rows))
		body := []loop.Stmt{w.products, w.sums, w.a, w.b, w.weights, w.v, w.tops, w.totals, w.shrinks, w.scores}
		body = append(body, w.eachOwn(w.sums, func(thread, r, c sym.Expr) []loop.Stmt { return w.clear(w.sums, thread, r, c) }))
		body = append(body, w.each(loop.Thread, "r", sym.Const(t.rows), func(r sym.Expr) []loop.Stmt {
			return []loop.Stmt{store(w.tops, lowest, r), store(w.totals, zeroOf(dtype.F32), r)}
		}))
		body = append(body, w.each(loop.Serial, "u", w.keysSeen().CeilDiv(sym.Const(t.columns)), w.keyTile))
		return append(body, w.eachOwn(w.sums, w.result))
	})
	return inBlocks(w.batch, []loop.Stmt{tiles})
}

// keysSeen is how many keys the rows of a block go through: as many as the last of them, if that can be told.
func (w *onlineWriter) keysSeen() sym.Expr {
	if w.of.seen.Equal(sym.Expr{}) || len(w.rowsOf.loops) != 1 {
		return w.columnsOf.size
	}
	last := map[sym.Name]sym.Expr{w.rowsOf.loops[0].Var: w.row.Add(sym.Const(w.tile.rows)).Min(w.rowsOf.size).Sub(one)}
	return w.of.seenBy(last).Max(zero)
}

// seenBy is how many keys a row goes through.
func (o *online) seenBy(row map[sym.Name]sym.Expr) sym.Expr {
	return o.seen.Subst(func(name sym.Name) (sym.Expr, bool) { v, ok := row[name]; return v, ok })
}

func store(to *loop.Local, x loop.Expr, index ...sym.Expr) *loop.Store {
	return &loop.Store{To: to.Name, Index: index, X: x}
}

func load(from *loop.Local, index ...sym.Expr) *loop.Load {
	return &loop.Load{From: from.Name, Index: index, Type: from.DType}
}

func (w *onlineWriter) clear(l *loop.Local, thread, r, c sym.Expr) []loop.Stmt {
	return []loop.Stmt{store(l, zeroOf(l.DType), thread, r, c)}
}

// eachOwn has each thread do something for each element of a local of its own, [threads, rows, columns].
func (w *onlineWriter) eachOwn(l *loop.Local, do func(thread, r, c sym.Expr) []loop.Stmt) loop.Stmt {
	return w.each(loop.Thread, "t", w.threadsOf, func(thread sym.Expr) []loop.Stmt {
		return []loop.Stmt{w.each(loop.Each, "r", l.Shape[1], func(r sym.Expr) []loop.Stmt {
			return []loop.Stmt{w.each(loop.Each, "c", l.Shape[2], func(c sym.Expr) []loop.Stmt { return do(thread, r, c) })}
		})}
	})
}

// keyTile is what a block does for a tile of keys.
func (w *onlineWriter) keyTile(u sym.Expr) []loop.Stmt {
	t := w.tile
	w.column = u.Mul(sym.Const(t.columns))
	products := w.each(loop.Thread, "t", w.threadsOf, func(thread sym.Expr) []loop.Stmt {
		row, column, rowStep, columnStep := w.place(thread)
		body := []loop.Stmt{
			w.own(w.a, w.product.a, w.rowsOf, w.row.Add(row), rowStep, thread, t.rows),
			w.own(w.b, w.product.b, w.columnsOf, w.column.Add(column), columnStep, thread, t.columns),
			contractOwn(w.products, w.a, w.b, thread),
		}
		steps := w.product.steps[0]
		return []loop.Stmt{&loop.For{Kind: loop.Serial, Var: steps.Var, Extent: steps.Extent, Body: body}}
	})
	return []loop.Stmt{
		w.eachOwn(w.products, func(thread, r, c sym.Expr) []loop.Stmt { return w.clear(w.products, thread, r, c) }),
		products, w.eachOwn(w.products, w.scored), w.each(loop.Thread, "r", sym.Const(t.rows), w.weighed),
		w.eachOwn(w.sums, func(thread, r, e sym.Expr) []loop.Stmt {
			row, _, rowStep, _ := w.place(thread)
			shrunk := loop.Apply2(loop.Mul, load(w.sums, thread, r, e), load(w.shrinks, row.Add(r.Mul(rowStep))))
			return []loop.Stmt{store(w.sums, shrunk, thread, r, e)}
		}),
		w.each(loop.Thread, "t", w.threadsOf, func(thread sym.Expr) []loop.Stmt {
			return []loop.Stmt{w.each(loop.Serial, "k", sym.Const(t.columns), func(key sym.Expr) []loop.Stmt { return w.added(thread, key) })}
		}),
	}
}

// contractOwn adds the products of what a thread has of two operands in one step.
func contractOwn(sums, a, b *loop.Local, thread sym.Expr) *loop.Contract {
	origin, own := []sym.Expr{thread, zero}, []sym.Expr{zero, one}
	return &loop.Contract{M: sums.Shape[1], N: sums.Shape[2], K: one,
		C: loop.Tile{Buffer: sums.Name, Origin: []sym.Expr{thread, zero, zero}, Row: []sym.Expr{zero, one, zero}, Col: []sym.Expr{zero, zero, one}},
		A: loop.Tile{Buffer: a.Name, Origin: origin, Row: own, Col: []sym.Expr{zero, zero}},
		B: loop.Tile{Buffer: b.Name, Origin: origin, Row: []sym.Expr{zero, zero}, Col: own}}
}

// scored makes a score of a product; that of a key that does not exist, or that the row does not go to, is −∞.
func (w *onlineWriter) scored(thread, r, c sym.Expr) []loop.Stmt {
	row, column, rowStep, columnStep := w.place(thread)
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

// weighed makes weights of a row's scores.
func (w *onlineWriter) weighed(r sym.Expr) []loop.Stmt {
	name := map[string]string{}
	for _, n := range []string{w.of.top, w.of.greatest, w.of.least.Name, w.of.shrink.Name, w.of.score, w.of.weight.Name, w.of.total} {
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

// added adds the values of one key to a thread's sums. The elements of a key that does not exist are 0, whose weight is.
func (w *onlineWriter) added(thread, key sym.Expr) []loop.Stmt {
	row, column, rowStep, _ := w.place(thread)
	weights := w.each(loop.Each, "i", w.weights.Shape[1], func(i sym.Expr) []loop.Stmt {
		return []loop.Stmt{store(w.weights, load(w.scores, key, row.Add(i.Mul(rowStep))), thread, i)}
	})
	at, elements := w.column.Add(key), &productWriter{scheduler: w.scheduler, product: w.of.values, names: w.names}
	v := w.each(loop.Each, "i", w.v.Shape[1], func(i sym.Expr) []loop.Stmt {
		values := map[sym.Name]sym.Expr{w.of.elements.Var: w.element(column, i).Min(sym.Const(w.of.size - 1))}
		if w.whole() {
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

// element is the place in a value of a thread's i-th own element: those of neighbouring threads lie side by side.
func (w *onlineWriter) element(column, i sym.Expr) sym.Expr {
	return column.Add(i.Mul(w.elementThreads))
}

// whole reports whether all of the threads' elements exist.
func (w *onlineWriter) whole() bool {
	return w.of.ownElements(w.tile)*(w.tile.columns/w.tile.ownColumns) == w.of.size
}

// result makes of a sum what the kernel stores. Sums beyond the rows and elements are taken for those of the last ones, and not stored.
func (w *onlineWriter) result(thread, r, e sym.Expr) []loop.Stmt {
	row, column, rowStep, _ := w.place(thread)
	row = row.Add(r.Mul(rowStep))
	last := len(w.of.ended) - 1
	f := w.of.ended[last].(*loop.For)
	at, element := w.row.Add(row), w.element(column, e)
	values := map[sym.Name]sym.Expr{f.Var: element}
	var inside loop.Expr
	if !w.whole() {
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
