package schedule

import (
	"math"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Rows, for machines that run blocks of threads: sums and other reductions, softmax, normalisations. The kernel
// computes something from all elements of each row:
//
//	each i … { var s = begin; serial k … { s = op(s, x) }; …; each k … { … store … } }
//
// A block has a row. In a loop that reduces, the elements are dealt to the threads in turn; the partial results of the
// threads are combined in shared memory, by halves. A loop that stores is spread over the threads. An element that
// several loops need is read several times, so that rows may have any length.

// rowThreads is the largest number of threads of a block that has a row.
const rowThreads = 256

// shortRow is the length of the longest row for which one thread is enough.
const shortRow = 32

// rows holds the components of a kernel of rows.
type rows struct {
	loops []*loop.For // over rows
	body  []loop.Stmt // for one row
}

// blockRows rewrites a kernel of rows for blocks of threads; nil for other kernels.
func (s *scheduler) blockRows(k *loop.Kernel) *loop.Kernel {
	r := &rows{}
	r.loops, r.body = outerLoops(k.Body)
	if !r.reduces(s) {
		return nil
	}
	for threads := rowThreads; threads >= 2; threads /= 2 {
		if int64(threads) > s.machine.Limits.Invocations {
			continue
		}
		w := &rowWriter{scheduler: s, names: s.newNamer(k), threads: int64(threads)}
		block := w.block(k.Clone())
		if block == nil {
			return nil
		}
		if next := s.ifFits(k, []loop.Stmt{block}); next != nil {
			return next
		}
	}
	return nil
}

// reduces reports whether the body has a loop that reduces a long row, and only statements that blockRows can rewrite.
func (r *rows) reduces(s *scheduler) bool {
	long := false
	for _, stmt := range r.body {
		switch stmt := stmt.(type) {
		case *loop.Let, *loop.Var, *loop.Store:
		case *loop.For:
			if loops, _ := reduction(stmt); loops != nil {
				size := 1.0
				for _, f := range loops {
					size *= s.guess(f.Extent)
				}
				long = long || size > shortRow
				continue
			}
			if !spreads(stmt) {
				return false
			}
		default:
			return false
		}
	}
	return long
}

// reduction returns the nested loops of a loop that only reduces, and the innermost body; nil for other loops.
func reduction(f *loop.For) (loops []*loop.For, inner []loop.Stmt) {
	body := []loop.Stmt{f}
	for {
		f, ok := loop.Only(body)
		if !ok || f.Kind != loop.Serial || !freeOf(f.Extent, loops) {
			break
		}
		loops, body = append(loops, f), f.Body
	}
	reduces := false
	reduced := map[string]bool{}
	for _, s := range body {
		switch s := s.(type) {
		case *loop.Let:
		case *loop.Reduce:
			if _, known := identityOf(s.Op, s.X.DType()); !known {
				return nil, nil
			}
			reduces, reduced[s.Name] = true, true
		default:
			return nil, nil
		}
	}
	if !reduces {
		return nil, nil
	}
	ok := true // no value is read while it is being reduced
	loop.WalkValues(body, func(e loop.Expr) {
		if r, is := e.(*loop.Ref); is && reduced[r.Name] {
			ok = false
		}
	})
	if !ok {
		return nil, nil
	}
	return loops, body
}

// spreads reports whether a loop's iterations may be spread over threads: they are independent, and a thread can run
// one alone.
func spreads(f *loop.For) bool {
	if f.Kind != loop.Each {
		return false
	}
	ok := true
	loop.Walk(f.Body, func(s loop.Stmt) bool {
		switch s := s.(type) {
		case *loop.Set, *loop.Reduce, *loop.Contract, *loop.Check, *loop.Local:
			ok = false
		case *loop.For:
			ok = ok && s.Kind == loop.Each
		}
		return ok
	})
	return ok
}

// identityOf returns the value that leaves any other unchanged when an operation combines both. It returns false for
// operations and types that have none here.
func identityOf(op loop.BinaryOp, dt dtype.DType) (loop.Expr, bool) {
	switch {
	case op == loop.Add || op == loop.Or || op == loop.Xor:
		return &loop.Const{Type: dt}, true
	case op == loop.Mul && (dt.IsInt() || dt.IsFloat()):
		return loop.Number(dt, 1), true
	case op == loop.Max && dt.IsFloat():
		return &loop.Const{Type: dt, Bits: loop.FromFloat(dt, math.Inf(-1))}, dt == dtype.F32 || dt == dtype.F64 ||
			dt == dtype.F16 || dt == dtype.BF16
	case op == loop.Min && dt.IsFloat():
		return &loop.Const{Type: dt, Bits: loop.FromFloat(dt, math.Inf(1))}, dt == dtype.F32 || dt == dtype.F64 ||
			dt == dtype.F16 || dt == dtype.BF16
	}
	return nil, false
}

// rowWriter writes a kernel of rows.
type rowWriter struct {
	*scheduler
	names   *namer
	threads int64
	shared  map[dtype.DType]*loop.Local
	locals  []loop.Stmt
}

// block returns the loops over blocks and their body; nil if two loops reduce the same value.
func (w *rowWriter) block(k *loop.Kernel) loop.Stmt {
	w.shared = map[dtype.DType]*loop.Local{}
	loops, body := outerLoops(k.Body)
	if len(loops) == 0 {
		loops = []*loop.For{{Var: w.names.bound("row"), Extent: one}}
	}
	reduced := map[string]bool{}
	for _, s := range body {
		if f, ok := s.(*loop.For); ok {
			if _, inner := reduction(f); inner != nil {
				for _, s := range inner {
					if r, ok := s.(*loop.Reduce); ok {
						if reduced[r.Name] { // by two loops: afterwards its name could stand for one result only
							return nil
						}
						reduced[r.Name] = true
					}
				}
			}
		}
	}
	begins := map[string]loop.Expr{}
	var out []loop.Stmt
	for _, s := range body {
		switch s := s.(type) {
		case *loop.Var:
			if reduced[s.Name] {
				begins[s.Name] = s.X
				continue
			}
			out = append(out, s)
		case *loop.For:
			if nest, inner := reduction(s); nest != nil {
				out = append(out, w.reduce(nest, inner, begins)...)
				continue
			}
			s.Kind = loop.Thread
			out = append(out, s)
		case *loop.Store: // by one thread
			once := w.names.bound("once")
			out = append(out, &loop.For{Kind: loop.Thread, Var: once, Extent: one, Body: []loop.Stmt{s}})
		default:
			out = append(out, s)
		}
	}
	out = append(w.locals, out...)
	return inBlocks(loops, out)[0]
}

// partial is a reduced value, and the shared memory in which each thread stores its partial result.
type partial struct {
	name string
	op   loop.BinaryOp
	dt   dtype.DType
	of   *loop.Local
}

// ownPartials returns the statements around a thread's reduction: begin declares its own values, with new names, and
// end stores them to shared memory.
func ownPartials(partials []*partial, rename *renaming, thread sym.Name) (begin, end []loop.Stmt) {
	for _, p := range partials {
		identity, _ := identityOf(p.op, p.dt)
		own := rename.to(p.name)
		begin = append(begin, &loop.Var{Name: own, X: identity})
		end = append(end, &loop.Store{To: p.of.Name, Index: []sym.Expr{sym.Var(thread)}, X: &loop.Ref{Name: own, Type: p.dt}})
	}
	return begin, end
}

// combined returns loops that combine the partial results of groups of threads, by halves. There are width groups of
// threads threads; element i of the shared memory then holds the result of group i.
func combined(names *namer, partials []*partial, width, threads int64) (out []loop.Stmt) {
	for half := threads / 2; half >= 1; half /= 2 {
		t := names.bound("t")
		var fold []loop.Stmt
		for _, p := range partials {
			load := func(i sym.Expr) loop.Expr { return &loop.Load{From: p.of.Name, Index: []sym.Expr{i}, Type: p.dt} }
			x := &loop.Binary{Op: p.op, X: load(sym.Var(t)), Y: load(sym.Var(t).Add(sym.Const(half * width)))}
			fold = append(fold, &loop.Store{To: p.of.Name, Index: []sym.Expr{sym.Var(t)}, X: x})
		}
		out = append(out, &loop.For{Kind: loop.Thread, Var: t, Extent: sym.Const(half * width), Body: fold})
	}
	return out
}

// reduce returns the statements for a loop that reduces: each thread's reduction, and the combination of their results,
// for which the names of the reduced values then stand.
func (w *rowWriter) reduce(nest []*loop.For, inner []loop.Stmt, begins map[string]loop.Expr) (out []loop.Stmt) {
	all, threads := asOneLoop(nest), sym.Const(w.threads)
	thread, round := w.names.bound("t"), w.names.bound("j")
	at := sym.Var(round).Mul(threads).Add(sym.Var(thread))
	values := map[sym.Name]sym.Expr{}
	all.at(at, values)
	var partials []*partial
	for _, s := range inner {
		if r, ok := s.(*loop.Reduce); ok {
			dt := r.X.DType()
			partials = append(partials, &partial{r.Name, r.Op, dt, w.sharedFor(dt, len(partials))})
		}
	}
	rename := w.names.anew(nil)
	begin, end := ownPartials(partials, rename, thread)
	body := loop.Substitute(rename.body(inner), values)
	if !w.equal(all.size.Mod(threads), zero) {
		body = ifBelow(at, all.size, body)
	}
	rounds := &loop.For{Kind: loop.Serial, Var: round, Extent: all.size.CeilDiv(threads), Body: body}
	out = append(out, &loop.For{Kind: loop.Thread, Var: thread, Extent: threads,
		Body: append(append(begin, rounds), end...)})
	out = append(out, combined(w.names, partials, 1, w.threads)...)
	for _, p := range partials {
		x := &loop.Binary{Op: p.op, X: begins[p.name], Y: &loop.Load{From: p.of.Name, Index: []sym.Expr{zero}, Type: p.dt}}
		out = append(out, &loop.Let{Name: p.name, X: x})
	}
	return out
}

// sharedFor returns shared memory with an element for each thread, for the n-th value that a loop reduces. The first
// values of all loops share it, by type.
func (w *rowWriter) sharedFor(dt dtype.DType, n int) *loop.Local {
	key := dt
	if n == 0 {
		if l := w.shared[key]; l != nil {
			return l
		}
	}
	l := &loop.Local{Name: w.names.name("parts"), DType: dt, Shape: []sym.Expr{sym.Const(w.threads)}, Space: loop.Shared}
	w.locals = append(w.locals, l)
	if n == 0 {
		w.shared[key] = l
	}
	return l
}
