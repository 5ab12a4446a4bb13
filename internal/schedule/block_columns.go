package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Columns, for machines that run blocks of threads: sums and other reductions whose neighbours in memory are other reductions' elements, such as sums of
// columns, and products of a row and a matrix:
//
//	each i … { each j { var s = begin; serial k … { s = op(s, x[k, j]) }; …; store y[j] } }
//
// A block has neighbouring columns, each of which several threads reduce: threads side by side read elements side by side. What those of a column have is
// combined in shared memory, by halves.

// Columns and threads of a block, at most.
const (
	blockOfColumns = 32
	columnThreads  = 256
)

// blockColumns makes a kernel of columns one for blocks of threads; nil where it is none.
func (s *scheduler) blockColumns(k *loop.Kernel) *loop.Kernel {
	loops, body := outerLoops(k.Body)
	at := slices.IndexFunc(body, func(s loop.Stmt) bool { _, is := s.(*loop.For); return is })
	if len(loops) == 0 || at < 0 || !alone(body[:at]) || !alone(body[at+1:]) || hasLoops(body[at+1:]) {
		return nil
	}
	nest, inner := reduction(body[at].(*loop.For))
	last := loops[len(loops)-1]
	if nest == nil || s.sizeOf(nest) <= shortRow || s.guess(last.Extent) < 2 || !besideColumns(inner, last.Var, nest[len(nest)-1].Var) {
		return nil
	}
	w := &columnWriter{scheduler: s, names: s.newNamer(k), loops: loops, before: body[:at], after: body[at+1:], nest: nest, inner: inner}
	for w.width = blockOfColumns; w.width >= 2; w.width /= 2 {
		for w.groups = columnThreads / w.width; w.groups >= 2; w.groups /= 2 {
			if w.width*w.groups > s.machine.Limits.Invocations {
				continue
			}
			next := k.Clone()
			next.Body = w.block()
			if next.Dims = dimsOf(next, k); s.fits(next) {
				return next
			}
		}
	}
	return nil
}

func hasLoops(body []loop.Stmt) bool {
	found := false
	loop.Walk(body, func(s loop.Stmt) bool {
		_, is := s.(*loop.For)
		found = found || is
		return true
	})
	return found
}

// besideColumns reports whether what a reduction reads lies side by side for neighbouring columns, and not for neighbouring steps.
func besideColumns(inner []loop.Stmt, column, step sym.Name) bool {
	columns, steps := false, false
	loop.WalkValues(inner, func(e loop.Expr) {
		loop.WalkExpr(e, func(x loop.Expr) {
			if l, ok := x.(*loop.Load); ok && len(l.Index) > 0 {
				end, all := l.Index[len(l.Index)-1], l.Index
				columns = columns || mentions(end, column) && !mentions(end, step)
				steps = steps || mentions(end, step) && anyMentions(all, column)
			}
		})
	})
	return columns && !steps
}

// columnWriter writes a kernel of columns.
type columnWriter struct {
	*scheduler
	names         *namer
	loops         []*loop.For // the last is over columns
	before, after []loop.Stmt
	nest          []*loop.For
	inner         []loop.Stmt // of the reduction
	width, groups int64       // columns of a block, and threads of a column
}

func (w *columnWriter) block() []loop.Stmt {
	var parts []*part
	var locals []loop.Stmt
	for _, s := range w.inner {
		if r, ok := s.(*loop.Reduce); ok {
			p := &part{name: r.Name, op: r.Op, dt: r.X.DType()}
			p.of = &loop.Local{Name: w.names.name("parts"), DType: p.dt, Shape: []sym.Expr{sym.Const(w.width * w.groups)}, Space: loop.Shared}
			parts, locals = append(parts, p), append(locals, p.of)
		}
	}
	last, first := w.loops[len(w.loops)-1], w.names.bound("bn")
	width := sym.Const(w.width)
	column := func(at sym.Expr) sym.Expr { return sym.Var(first).Mul(width).Add(at) }
	body := append(locals, w.reduce(parts, func(at sym.Expr) sym.Expr { return inRange(column(at), last.Extent, w.scheduler, w.width) }))
	body = append(body, combined(w.names, parts, w.width, w.groups)...)
	body = append(body, w.end(parts, column))
	body = []loop.Stmt{&loop.For{Kind: loop.Block, Var: first, Extent: last.Extent.CeilDiv(width), Body: body}}
	return inBlocks(w.loops[:len(w.loops)-1], body)
}

// reduce is each thread's part of its column.
func (w *columnWriter) reduce(parts []*part, column func(at sym.Expr) sym.Expr) loop.Stmt {
	all, groups, width := flatten1(w.nest), sym.Const(w.groups), sym.Const(w.width)
	thread, round := w.names.bound("t"), w.names.bound("j")
	at := sym.Var(round).Mul(groups).Add(sym.Var(thread).FloorDiv(width))
	values := map[sym.Name]sym.Expr{w.loops[len(w.loops)-1].Var: column(sym.Var(thread).Mod(width))}
	all.at(at, values)
	known := w.known(parts)
	rename := w.names.anew(known)
	begin, end := ownParts(parts, rename, thread)
	begin = append(loop.Substitute(rename.body(known), values), begin...)
	body := loop.Substitute(rename.body(w.inner), values)
	if !w.equal(all.size.Mod(groups), zero) {
		within := &loop.Binary{Op: loop.Lt, X: &loop.Index{X: at}, Y: &loop.Index{X: all.size}}
		body = []loop.Stmt{&loop.When{Cond: within, Then: body}}
	}
	rounds := &loop.For{Kind: loop.Serial, Var: round, Extent: all.size.CeilDiv(groups), Body: body}
	return &loop.For{Kind: loop.Thread, Var: thread, Extent: sym.Const(w.width * w.groups), Body: append(append(begin, rounds), end...)}
}

// known are the values that stand before the reduction, but for those that it reduces.
func (w *columnWriter) known(parts []*part) (list []loop.Stmt) {
	for _, s := range w.before {
		if v, is := s.(*loop.Var); !is || !slices.ContainsFunc(parts, func(p *part) bool { return p.name == v.Name }) {
			list = append(list, s)
		}
	}
	return list
}

// end makes of a column's result what the kernel stores.
func (w *columnWriter) end(parts []*part, column func(at sym.Expr) sym.Expr) loop.Stmt {
	last, thread := w.loops[len(w.loops)-1], w.names.bound("t")
	at := column(sym.Var(thread))
	values := map[sym.Name]sym.Expr{last.Var: at}
	var body []loop.Stmt
	for _, s := range w.before {
		v, ok := s.(*loop.Var)
		i := -1
		if ok {
			i = slices.IndexFunc(parts, func(p *part) bool { return p.name == v.Name })
		}
		if i < 0 {
			body = append(body, s)
			continue
		}
		p := parts[i]
		body = append(body, &loop.Let{Name: p.name, X: &loop.Binary{Op: p.op, X: v.X, Y: &loop.Load{From: p.of.Name, Index: []sym.Expr{sym.Var(thread)}, Type: p.dt}}})
	}
	body = loop.Substitute(append(body, w.after...), values)
	if !w.equal(last.Extent.Mod(sym.Const(w.width)), zero) {
		within := &loop.Binary{Op: loop.Lt, X: &loop.Index{X: at}, Y: &loop.Index{X: last.Extent}}
		body = []loop.Stmt{&loop.When{Cond: within, Then: body}}
	}
	return &loop.For{Kind: loop.Thread, Var: thread, Extent: sym.Const(w.width), Body: body}
}
