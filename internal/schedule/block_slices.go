package schedule

import (
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Few long reductions, for machines that run blocks of threads: one block for each would leave most of the machine
// idle. Each is cut into slices, which blocks reduce; what they come to lies in the launch's scratch, and a second part
// of the kernel combines it:
//
//	local partial [slices]
//	block p < slices { partial[p] = … }
//	block { s = begin; serial p { s = op(s, partial[p]) }; …; store }

const (
	fewReductions = 64      // at most
	longReduction = 1 << 15 // steps of one, at the least
	sliceSteps    = 1 << 12 // of a slice, about
	mostSlices    = 256
	openSlices    = 64 // at least, if a dimension decides the steps: there may be many more than are expected
)

// blockSlices makes a kernel of few long reductions one in two parts; nil if it is none.
func (s *scheduler) blockSlices(k *loop.Kernel) *loop.Kernel {
	r := soleReductionOf(k)
	if r == nil || s.sizeOf(r.loops) > fewReductions || s.sizeOf(r.nest) < longReduction {
		return nil
	}
	slices := int64(min(mostSlices, s.sizeOf(r.nest)/sliceSteps))
	if _, fixed := flatten1(r.nest).size.Const(); !fixed {
		slices = max(slices, openSlices)
	}
	for threads := int64(rowThreads); threads >= 2; threads /= 2 {
		if threads > s.machine.Limits.Invocations {
			continue
		}
		w := &sliceWriter{scheduler: s, soleReduction: r, names: s.newNamer(k), threads: threads, slices: slices}
		if next := s.ifFits(k, w.kernel()); next != nil {
			return next
		}
	}
	return nil
}

// sliceWriter writes one.
type sliceWriter struct {
	*scheduler
	*soleReduction
	names           *namer
	threads, slices int64
	partial         []*loop.Local // of each value that is reduced: what the slices come to
}

func (w *sliceWriter) kernel() (out []loop.Stmt) {
	var shape, at []sym.Expr
	for _, f := range w.loops {
		shape, at = append(shape, f.Extent), append(at, sym.Var(f.Var))
	}
	shape = append(shape, sym.Const(w.slices))
	for _, s := range w.inner {
		if r, ok := s.(*loop.Reduce); ok {
			l := &loop.Local{Name: w.names.name("partial"), DType: r.X.DType(), Shape: shape}
			w.partial, out = append(w.partial, l), append(out, l)
		}
	}
	first := w.names.bound("slice")
	body := []loop.Stmt{&loop.For{Kind: loop.Block, Var: first, Extent: sym.Const(w.slices),
		Body: w.first(at, sym.Var(first))}}
	return append(append(out, inBlocks(w.loops, body)...), w.second()...)
}

// first is what the block of a slice does.
func (w *sliceWriter) first(at []sym.Expr, slice sym.Expr) []loop.Stmt {
	parts, body := w.parts(w.names, w.threads)
	all, threads := flatten1(w.nest), sym.Const(w.threads)
	size := all.size.CeilDiv(sym.Const(w.slices))
	thread, round := w.names.bound("t"), w.names.bound("j")
	in := sym.Var(round).Mul(threads).Add(sym.Var(thread))
	step := slice.Mul(size).Add(in)
	values := map[sym.Name]sym.Expr{}
	all.at(step, values)
	known := w.known(parts)
	rename := w.names.anew(known)
	begin, end := ownParts(parts, rename, thread)
	within := loop.Apply2(loop.And, below(in, size), below(step, all.size))
	reduce := []loop.Stmt{&loop.When{Cond: within, Then: loop.Substitute(rename.body(w.inner), values)}}
	rounds := &loop.For{Kind: loop.Serial, Var: round, Extent: size.CeilDiv(threads), Body: reduce}
	own := append(append(append(rename.body(known), begin...), rounds), end...)
	body = append(body, &loop.For{Kind: loop.Thread, Var: thread, Extent: threads, Body: own})
	body = append(body, combined(w.names, parts, 1, w.threads)...)
	var stores []loop.Stmt
	for i, p := range parts {
		index := append(append([]sym.Expr{}, at...), slice)
		stores = append(stores, &loop.Store{To: w.partial[i].Name, Index: index,
			X: &loop.Load{From: p.of.Name, Index: []sym.Expr{zero}, Type: p.dt}})
	}
	return append(body, w.once(stores))
}

// once is what one thread of a block does.
func (w *sliceWriter) once(body []loop.Stmt) loop.Stmt {
	return &loop.For{Kind: loop.Thread, Var: w.names.bound("once"), Extent: one, Body: body}
}

// second combines what the slices come to.
func (w *sliceWriter) second() []loop.Stmt {
	values := map[sym.Name]sym.Expr{}
	var loops []*loop.For
	var at []sym.Expr
	for _, f := range w.loops {
		name := w.names.bound(f.Var.Text())
		values[f.Var] = sym.Var(name)
		loops, at = append(loops, &loop.For{Var: name, Extent: f.Extent}), append(at, sym.Var(name))
	}
	if len(loops) == 0 {
		loops = []*loop.For{{Var: w.names.bound("all"), Extent: one}}
	}
	parts, body := w.parts(w.names, w.threads)
	thread, round := w.names.bound("t"), w.names.bound("j")
	begin, end := ownParts(parts, w.names.anew(nil), thread)
	slice := sym.Var(round).Mul(sym.Const(w.threads)).Add(sym.Var(thread))
	var reduce []loop.Stmt
	for i, p := range parts {
		index := append(append([]sym.Expr{}, at...), slice)
		own := begin[i].(*loop.Var).Name
		reduce = append(reduce, &loop.Reduce{Name: own, Op: p.op,
			X: &loop.Load{From: w.partial[i].Name, Index: index, Type: p.dt}})
	}
	count := sym.Const(w.slices)
	rounds := &loop.For{Kind: loop.Serial, Var: round, Extent: count.CeilDiv(sym.Const(w.threads)),
		Body: ifBelow(slice, count, reduce)}
	body = append(body, &loop.For{Kind: loop.Thread, Var: thread, Extent: sym.Const(w.threads),
		Body: append(append(begin, rounds), end...)})
	body = append(body, combined(w.names, parts, 1, w.threads)...)
	body = append(body, w.once(loop.Substitute(w.end(parts, zero), values)))
	return inBlocks(loops, body)
}
