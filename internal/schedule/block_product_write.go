package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// fetch returns the loop that copies an operand's tile to shared memory: n elements from begin on along its own axis,
// for each step from first on. Neighbouring threads read neighbouring elements along the axis that the load's last
// index follows.
func (w *productWriter) fetch(to *loop.Local, e loop.Expr, across flat, begin, first sym.Expr, n int64) loop.Stmt {
	if narrow := narrowOf(e, w.sum); narrow != nil {
		e = narrow
	}
	steps, width := sym.Const(w.tile.steps), sym.Const(n)
	return w.each(loop.Thread, "e", steps.Mul(width), func(i sym.Expr) []loop.Stmt {
		step, element := i.FloorDiv(width), i.Mod(width)
		if w.stepsContiguous(e, across) {
			step, element = i.Mod(steps), i.FloorDiv(steps)
		}
		values := map[sym.Name]sym.Expr{}
		across.at(inRange(begin.Add(element), across.size, w.scheduler, n), values)
		at := first.Add(step)
		inside := w.equal(w.stepsOf.size.Mod(steps), zero)
		from := at
		if !inside {
			from = at.Min(w.stepsOf.size.Sub(one))
		}
		w.stepsOf.at(from, values)
		body, x := w.computed(e, values)
		if !inside {
			x = &loop.Select{Cond: below(at, w.stepsOf.size), X: x, Y: zeroOf(x.DType())}
		}
		return append(body, &loop.Store{To: to.Name, Index: []sym.Expr{step, element}, X: x})
	})
}

// computed returns an operand's element for some values of the loops' variables, and the named values that must precede
// it.
func (w *productWriter) computed(e loop.Expr, values map[sym.Name]sym.Expr) ([]loop.Stmt, loop.Expr) {
	needed := map[string]bool{}
	visit := func(x loop.Expr) {
		if r, is := x.(*loop.Ref); is {
			needed[r.Name] = true
		}
	}
	loop.WalkExpr(e, visit)
	var lets []loop.Stmt
	for _, s := range slices.Backward(w.lets) {
		if l := s.(*loop.Let); needed[l.Name] {
			loop.WalkExpr(l.X, visit)
			lets = append(lets, s)
		}
	}
	slices.Reverse(lets)
	rename := w.names.anew(lets)
	return loop.Substitute(rename.body(lets), values), withIntegers(rename.rewrite().Value(e), values)
}

// withIntegers returns an expression with some of its integers replaced.
func withIntegers(e loop.Expr, values map[sym.Name]sym.Expr) loop.Expr {
	return (&loop.Rewrite{Integer: func(i sym.Expr) sym.Expr {
		return i.Subst(func(name sym.Name) (sym.Expr, bool) { v, ok := values[name]; return v, ok })
	}}).Value(e)
}

// inRange returns an index, clamped to the last one unless by divides size.
func inRange(index, size sym.Expr, s *scheduler, by int64) sym.Expr {
	if s.equal(size.Mod(sym.Const(by)), zero) {
		return index
	}
	return index.Min(size.Sub(one))
}

// stepsContiguous reports whether the last index of one of an operand's loads follows the steps, and not the operand's
// other axis.
func (w *productWriter) stepsContiguous(e loop.Expr, across flat) bool {
	last := func(loops []*loop.For) sym.Name { return loops[len(loops)-1].Var }
	step, other := last(w.stepsOf.loops), last(across.loops)
	contiguous := false
	loop.WalkExpr(e, func(x loop.Expr) {
		l, ok := x.(*loop.Load)
		if !ok || len(l.Index) == 0 {
			return
		}
		end := l.Index[len(l.Index)-1]
		if mentions(end, step) && !mentions(end, other) {
			contiguous = true
		}
	})
	return contiguous
}

// firstOwn returns a thread's first row and column in the tile, and the steps to its next ones. Neighbouring threads
// have neighbouring rows or columns, whichever the kernel stores contiguously.
func (w *productWriter) firstOwn(thread sym.Expr) (row, column, rowStep, columnStep sym.Expr) {
	t := w.tile
	rows, columns := sym.Const(t.rows/t.ownRows), sym.Const(t.columns/t.ownColumns)
	if w.storedRows {
		return thread.Mod(rows), thread.FloorDiv(rows), rows, columns
	}
	return thread.FloorDiv(columns), thread.Mod(columns), rows, columns
}

// multiply returns the contraction that adds to a thread's sums the products of its rows and columns, for all steps of
// a tile.
func (w *productWriter) multiply(sums, a, b *loop.Local, thread sym.Expr) loop.Stmt {
	row, column, rowStep, columnStep := w.firstOwn(thread)
	return &loop.Contract{M: sym.Const(w.tile.ownRows), N: sym.Const(w.tile.ownColumns), K: sym.Const(w.tile.steps),
		C: loop.Tile{Buffer: sums.Name, Origin: []sym.Expr{thread, zero, zero}, Row: []sym.Expr{zero, one, zero},
			Col: []sym.Expr{zero, zero, one}},
		A: loop.Tile{Buffer: a.Name, Origin: []sym.Expr{zero, row}, Row: []sym.Expr{zero, rowStep},
			Col: []sym.Expr{one, zero}},
		B: loop.Tile{Buffer: b.Name, Origin: []sym.Expr{zero, column}, Row: []sym.Expr{one, zero},
			Col: []sym.Expr{zero, columnStep}}}
}

// finish computes from a sum the values that the kernel stores. Sums beyond the last row or column repeat those of the
// last, and are not stored.
func (w *productWriter) finish(sums *loop.Local, thread, r, c sym.Expr) []loop.Stmt {
	row, column, rowStep, columnStep := w.firstOwn(thread)
	m, n := w.row.Add(row).Add(r.Mul(rowStep)), w.column.Add(column).Add(c.Mul(columnStep))
	values := map[sym.Name]sym.Expr{}
	w.rowsOf.at(inRange(m, w.rowsOf.size, w.scheduler, w.tile.rows), values)
	w.columnsOf.at(inRange(n, w.columnsOf.size, w.scheduler, w.tile.columns), values)
	var body []loop.Stmt
	for _, s := range w.before {
		if s != loop.Stmt(w.product.begin) {
			body = append(body, s)
			continue
		}
		sum := loop.Expr(&loop.Load{From: sums.Name, Index: []sym.Expr{thread, r, c}, Type: w.sum})
		if zero, is := w.product.begin.X.(*loop.Const); !is || zero.Bits != 0 {
			sum = &loop.Binary{Op: loop.Add, X: w.product.begin.X, Y: sum}
		}
		body = append(body, &loop.Let{Name: w.product.begin.Name, X: sum})
	}
	body = loop.Substitute(append(body, w.after...), values)
	inside := w.inside(m, n)
	if inside == nil {
		return body
	}
	return (&loop.Rewrite{Stmt: func(s loop.Stmt) []loop.Stmt {
		if _, stores := s.(*loop.Store); stores {
			return []loop.Stmt{&loop.When{Cond: inside, Then: []loop.Stmt{s}}}
		}
		return []loop.Stmt{s}
	}}).Body(body)
}

// inside returns the condition that a row and a column exist; nil if all rows and columns of the tiles exist.
func (w *productWriter) inside(row, column sym.Expr) (inside loop.Expr) {
	for _, x := range []struct {
		at, size sym.Expr
		by       int64
	}{{row, w.rowsOf.size, w.tile.rows}, {column, w.columnsOf.size, w.tile.columns}} {
		if w.equal(x.size.Mod(sym.Const(x.by)), zero) {
			continue
		}
		if within := below(x.at, x.size); inside == nil {
			inside = within
		} else {
			inside = loop.Apply2(loop.And, inside, within)
		}
	}
	return inside
}

// tileReuse is the number of multiplications of an element in shared memory from which on the cost of computing that
// element is small in comparison.
const tileReuse = 32

// computedInTiles reports whether a kernel is a product for blocks of threads that may compute a map of its operand
// whenever it fills a tile: each element in the tile is used so often that this costs less than to store the map's
// result and to load it. functions and loads are the map's, per element.
func (s *scheduler) computedInTiles(k *loop.Kernel, functions, loads int) bool {
	if !s.machine.HasBlocks() || functions > mostRecomputed || loads > 3 {
		return false
	}
	p := matchProduct(k)
	if p == nil {
		return false
	}
	return s.guess(asOneLoop(p.rows).size) >= tileReuse && s.guess(asOneLoop(p.columns).size) >= tileReuse
}
