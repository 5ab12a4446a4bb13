package schedule

import (
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Few long reductions, for machines that run blocks of threads: with one block for each, most of the machine would be
// idle. Each reduction is cut into slices. A block reduces one slice and stores its partial result in the launch's
// scratch; the second half of the kernel combines the partial results:
//
//	local partial [slices]
//	block p < slices { partial[p] = … }
//	block { s = begin; serial p { s = op(s, partial[p]) }; …; store }

const (
	fewReductions = 64      // the largest number of reductions that count as few
	longReduction = 1 << 15 // the least number of steps of a long reduction
	sliceSteps    = 1 << 12 // approximate number of steps of a slice
	mostSlices    = 256
	// the least number of slices if the number of steps is dynamic: it may be much larger than its estimate
	openSlices = 64
)

// blockSlices rewrites a kernel of few long reductions for blocks of threads; nil for other kernels.
func (s *scheduler) blockSlices(k *loop.Kernel) *loop.Kernel {
	r := soleReductionOf(k)
	if r == nil || s.sizeOf(r.loops) > fewReductions || s.sizeOf(r.nest) < longReduction {
		return nil
	}
	slices := int64(min(mostSlices, s.sizeOf(r.nest)/sliceSteps))
	if _, fixed := asOneLoop(r.nest).size.Const(); !fixed {
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

// sliceWriter writes a kernel of reductions in slices.
type sliceWriter struct {
	*scheduler
	*soleReduction
	names           *namer
	threads, slices int64
	partial         []*loop.Local // for each reduced value: the results of the slices
}

// kernel returns the kernel's body: the locals of the partial results, the blocks that compute them, and those that
// combine them.
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

// first returns the statements of the block that reduces a slice; at is the index of the reduction.
func (w *sliceWriter) first(at []sym.Expr, slice sym.Expr) []loop.Stmt {
	partials, body := w.partials(w.names, w.threads)
	all, threads := asOneLoop(w.nest), sym.Const(w.threads)
	size := all.size.CeilDiv(sym.Const(w.slices))
	thread, round := w.names.bound("t"), w.names.bound("j")
	in := sym.Var(round).Mul(threads).Add(sym.Var(thread))
	step := slice.Mul(size).Add(in)
	values := map[sym.Name]sym.Expr{}
	all.at(step, values)
	known := w.known(partials)
	rename := w.names.anew(known)
	begin, end := ownPartials(partials, rename, thread)
	within := loop.Apply2(loop.And, below(in, size), below(step, all.size))
	reduce := []loop.Stmt{&loop.When{Cond: within, Then: loop.Substitute(rename.body(w.inner), values)}}
	rounds := &loop.For{Kind: loop.Serial, Var: round, Extent: size.CeilDiv(threads), Body: reduce}
	own := append(append(append(rename.body(known), begin...), rounds), end...)
	body = append(body, &loop.For{Kind: loop.Thread, Var: thread, Extent: threads, Body: own})
	body = append(body, combined(w.names, partials, 1, w.threads)...)
	var stores []loop.Stmt
	for i, p := range partials {
		index := append(append([]sym.Expr{}, at...), slice)
		stores = append(stores, &loop.Store{To: w.partial[i].Name, Index: index,
			X: &loop.Load{From: p.of.Name, Index: []sym.Expr{zero}, Type: p.dt}})
	}
	return append(body, w.once(stores))
}

// once returns a body as one thread of a block runs it.
func (w *sliceWriter) once(body []loop.Stmt) loop.Stmt {
	return &loop.For{Kind: loop.Thread, Var: w.names.bound("once"), Extent: one, Body: body}
}

// second returns the blocks that combine the results of the slices, and compute from them the values that the kernel
// stores.
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
	partials, body := w.partials(w.names, w.threads)
	thread, round := w.names.bound("t"), w.names.bound("j")
	begin, end := ownPartials(partials, w.names.anew(nil), thread)
	slice := sym.Var(round).Mul(sym.Const(w.threads)).Add(sym.Var(thread))
	var reduce []loop.Stmt
	for i, p := range partials {
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
	body = append(body, combined(w.names, partials, 1, w.threads)...)
	body = append(body, w.once(loop.Substitute(w.end(partials, zero), values)))
	return inBlocks(loops, body)
}
