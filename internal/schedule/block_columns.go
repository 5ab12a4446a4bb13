package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Columns, for machines that run blocks of threads: sums and other reductions of elements that are not contiguous,
// while elements of neighbouring reductions are, such as sums of columns, and products of a row and a matrix:
//
//	each i … { each j { var s = begin; serial k … { s = op(s, x[k, j]) }; …; store y[j] } }
//
// A block has neighbouring columns, each of which several threads reduce: neighbouring threads read neighbouring
// elements. The partial results of a column's threads are combined in shared memory, by halves.

const (
	blockOfColumns = 32  // columns of a block, at most
	columnThreads  = 256 // threads of a block
)

// blockColumns rewrites a kernel of columns for blocks of threads; nil for other kernels.
func (s *scheduler) blockColumns(k *loop.Kernel) *loop.Kernel {
	r := soleReductionOf(k)
	if r == nil || len(r.loops) == 0 {
		return nil
	}
	last := r.loops[len(r.loops)-1]
	if s.sizeOf(r.nest) <= shortRow || s.guess(last.Extent) < 2 ||
		!besideColumns(r.inner, last.Var, r.nest[len(r.nest)-1].Var) {
		return nil
	}
	w := &columnWriter{scheduler: s, names: s.newNamer(k), soleReduction: r}
	for w.width = blockOfColumns; w.width >= 2; w.width /= 2 {
		for w.groups = columnThreads / w.width; w.groups >= 2; w.groups /= 2 {
			if w.width*w.groups > s.machine.Limits.Invocations {
				continue
			}
			if next := s.ifFits(k, w.block()); next != nil {
				return next
			}
		}
	}
	return nil
}

// soleReduction holds the components of a kernel that reduces once for each iteration of its outer loops.
type soleReduction struct {
	loops         []*loop.For
	before, after []loop.Stmt
	nest          []*loop.For
	inner         []loop.Stmt // the body of the reduction
}

// soleReductionOf returns the components of a kernel with one reduction; nil for other kernels.
func soleReductionOf(k *loop.Kernel) *soleReduction {
	isLoop := func(s loop.Stmt) bool { _, is := s.(*loop.For); return is }
	loops, body := outerLoops(k.Body)
	at := slices.IndexFunc(body, isLoop)
	if at < 0 || !alone(body[:at]) || !alone(body[at+1:]) || slices.ContainsFunc(body[at+1:], isLoop) {
		return nil
	}
	nest, inner := reduction(body[at].(*loop.For))
	if nest == nil {
		return nil
	}
	return &soleReduction{loops, body[:at], body[at+1:], nest, inner}
}

// partials returns the reduced values, with shared memory for the partial results of threads.
func (r *soleReduction) partials(names *namer, threads int64) (partials []*partial, locals []loop.Stmt) {
	for _, s := range r.inner {
		if r, ok := s.(*loop.Reduce); ok {
			p := &partial{name: r.Name, op: r.Op, dt: r.X.DType()}
			p.of = &loop.Local{Name: names.name("parts"), DType: p.dt, Shape: []sym.Expr{sym.Const(threads)}, Space: loop.Shared}
			partials, locals = append(partials, p), append(locals, p.of)
		}
	}
	return partials, locals
}

// known returns the statements before the reduction, except the declarations of the reduced values.
func (r *soleReduction) known(partials []*partial) (list []loop.Stmt) {
	for _, s := range r.before {
		if begun(s, partials) == nil {
			list = append(list, s)
		}
	}
	return list
}

// begun returns the partial result whose first value a statement declares; nil for other statements.
func begun(s loop.Stmt, partials []*partial) *partial {
	if v, is := s.(*loop.Var); is {
		for _, p := range partials {
			if p.name == v.Name {
				return p
			}
		}
	}
	return nil
}

// end returns the statements after the reduction: first values are combined with the results at index at of shared
// memory.
func (r *soleReduction) end(partials []*partial, at sym.Expr) (body []loop.Stmt) {
	for _, s := range r.before {
		if p := begun(s, partials); p != nil {
			all := &loop.Load{From: p.of.Name, Index: []sym.Expr{at}, Type: p.dt}
			s = &loop.Let{Name: p.name, X: &loop.Binary{Op: p.op, X: s.(*loop.Var).X, Y: all}}
		}
		body = append(body, s)
	}
	return append(body, r.after...)
}

// besideColumns reports whether the elements that a reduction reads are contiguous for neighbouring columns, and not
// for neighbouring steps.
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

// columnWriter writes a kernel of columns: its last loop is over them.
type columnWriter struct {
	*scheduler
	*soleReduction
	names         *namer
	width, groups int64 // columns of a block, and threads of a column
}

// block returns the loops over blocks and their body.
func (w *columnWriter) block() []loop.Stmt {
	partials, locals := w.partials(w.names, w.width*w.groups)
	last, first := w.loops[len(w.loops)-1], w.names.bound("bn")
	width := sym.Const(w.width)
	column := func(at sym.Expr) sym.Expr { return sym.Var(first).Mul(width).Add(at) }
	body := append(locals, w.reduce(partials, func(at sym.Expr) sym.Expr {
		return inRange(column(at), last.Extent, w.scheduler, w.width)
	}))
	body = append(body, combined(w.names, partials, w.width, w.groups)...)
	body = append(body, w.finish(partials, column))
	body = []loop.Stmt{&loop.For{Kind: loop.Block, Var: first, Extent: last.Extent.CeilDiv(width), Body: body}}
	return inBlocks(w.loops[:len(w.loops)-1], body)
}

// reduce returns the loop in which each thread reduces its share of a column.
func (w *columnWriter) reduce(partials []*partial, column func(at sym.Expr) sym.Expr) loop.Stmt {
	all, groups, width := asOneLoop(w.nest), sym.Const(w.groups), sym.Const(w.width)
	thread, round := w.names.bound("t"), w.names.bound("j")
	at := sym.Var(round).Mul(groups).Add(sym.Var(thread).FloorDiv(width))
	values := map[sym.Name]sym.Expr{w.loops[len(w.loops)-1].Var: column(sym.Var(thread).Mod(width))}
	all.at(at, values)
	known := w.known(partials)
	rename := w.names.anew(known)
	begin, end := ownPartials(partials, rename, thread)
	begin = append(loop.Substitute(rename.body(known), values), begin...)
	body := loop.Substitute(rename.body(w.inner), values)
	if !w.equal(all.size.Mod(groups), zero) {
		body = ifBelow(at, all.size, body)
	}
	rounds := &loop.For{Kind: loop.Serial, Var: round, Extent: all.size.CeilDiv(groups), Body: body}
	return &loop.For{Kind: loop.Thread, Var: thread, Extent: sym.Const(w.width * w.groups),
		Body: append(append(begin, rounds), end...)}
}

// finish returns the loop that computes from each column's result the values that the kernel stores.
func (w *columnWriter) finish(partials []*partial, column func(at sym.Expr) sym.Expr) loop.Stmt {
	last, thread := w.loops[len(w.loops)-1], w.names.bound("t")
	at := column(sym.Var(thread))
	body := loop.Substitute(w.end(partials, sym.Var(thread)), map[sym.Name]sym.Expr{last.Var: at})
	if !w.equal(last.Extent.Mod(sym.Const(w.width)), zero) {
		body = ifBelow(at, last.Extent, body)
	}
	return &loop.For{Kind: loop.Thread, Var: thread, Extent: sym.Const(w.width), Body: body}
}
