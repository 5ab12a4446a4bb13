package spirv

import (
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// A block's body is done by all threads of the block together: what stands outside Thread loops each of them does, with
// the same values, and a Thread loop's iterations are spread over them. If a Thread loop may touch what an earlier one
// wrote, or write what it read, the threads wait for one another before it.

// blockThreads is how many threads a nest's blocks have: those of the loops by which locals of a thread's own are
// indexed, or else as many as the widest Thread loop has work for.
func (w *writer) blockThreads(n nest) int64 {
	most := w.machine.Limits.Invocations
	w.enterPlain(n)
	own := w.ownLocals(n.body)
	if len(own) > 0 {
		for _, l := range own {
			threads, fixed := l.Shape[0].Const()
			if !fixed || threads < 1 || threads > most {
				refuse("a block of %s threads, of at most %d", l.Shape[0], most)
			}
			return threads
		}
	}
	widest := int64(0)
	w.threadNests(n.body, func(loops []*loop.For, _ []loop.Stmt) {
		count := sym.Const(1)
		for _, l := range loops {
			count = count.Mul(l.Extent)
		}
		if v, fixed := count.Const(); fixed {
			widest = max(widest, v)
		} else {
			widest = max(widest, min(64, most))
		}
	})
	return max(1, min(widest, most))
}

// ownLocals are the locals of a block's body that are no shared memory: one for each thread.
func (w *writer) ownLocals(body []loop.Stmt) (list []*loop.Local) {
	var walk func(body []loop.Stmt)
	walk = func(body []loop.Stmt) {
		for _, s := range body {
			switch s := s.(type) {
			case *loop.Local:
				if s.Space == loop.Own {
					if len(s.Shape) == 0 {
						refuse("a local of a block without a shape")
					}
					list = append(list, s)
				}
			case *loop.For:
				if s.Kind != loop.Thread {
					walk(s.Body)
				}
			case *loop.When:
				walk(s.Then)
				walk(s.Else)
			}
		}
	}
	walk(body)
	return list
}

// threadNests visits the Thread loops of a block's body, those that stand directly inside one another taken as one.
func (w *writer) threadNests(body []loop.Stmt, visit func(loops []*loop.For, inside []loop.Stmt)) {
	for _, s := range body {
		switch s := s.(type) {
		case *loop.For:
			if s.Kind == loop.Thread {
				visit(threadLoops(s))
			} else {
				w.threadNests(s.Body, visit)
			}
		case *loop.When:
			w.threadNests(s.Then, visit)
			w.threadNests(s.Else, visit)
		}
	}
}

func threadLoops(f *loop.For) (loops []*loop.For, body []loop.Stmt) {
	loops, body = []*loop.For{f}, f.Body
	for {
		inner, ok := loop.Only(body)
		if !ok || inner.Kind != loop.Thread {
			return loops, body
		}
		for _, outer := range loops { // an extent that an outer one decides makes no rectangle
			for _, name := range inner.Extent.Vars() {
				if name == outer.Var {
					return loops, body
				}
			}
		}
		loops, body = append(loops, inner), inner.Body
	}
}

// block writes a nest of blocks, and says how many bytes their threads share.
func (w *writer) block(n nest, total sym.Expr, threads int64) int64 {
	w.threads, w.shared = threads, 0
	w.touched = map[string]bool{}
	at := w.blockNumber(w.most(total))
	w.when(w.below(at, w.integer(total)), func() {
		for i := len(n.loops) - 1; i > 0; i-- {
			extent := w.integer(n.loops[i].Extent)
			w.bind(n.loops[i].Var, w.remainder(at, extent))
			at = w.quotient(at, extent)
		}
		w.bind(n.loops[0].Var, at)
		w.together(n.body)
	}, nil)
	return w.shared
}

// together writes what a block does.
func (w *writer) together(body []loop.Stmt) {
	for i, s := range body {
		switch s := s.(type) {
		case *loop.Local:
			w.blockLocal(s)
		case *loop.For:
			if s.Kind == loop.Thread {
				w.spread(s)
				continue
			}
			if s.Kind != loop.Serial && s.Kind != loop.Each {
				refuse("a %s loop in a block", kindWord(s.Kind))
			}
			w.settle()
			w.serial(s, func() {
				w.together(s.Body)
				w.settle()
			})
		case *loop.When:
			w.settle()
			cond := map[string]bool{}
			noteReads(s.Cond, cond)
			after := map[string]bool{}
			w.branch(s, func(body []loop.Stmt) {
				w.touched = map[string]bool{} // a thread may write what another has yet to read for the condition
				w.meet(cond, nil)
				w.together(body)
				for name, wrote := range w.touched {
					after[name] = after[name] || wrote
				}
			})
			w.touched = after
			w.meet(cond, nil)
		case *loop.Check:
			w.meet(readsOf([]loop.Stmt{s}), nil)
			w.check(s, func() { w.together(body[i+1:]) })
			return
		case *loop.Store, *loop.Contract:
			w.spread(&loop.For{Kind: loop.Thread, Var: sym.Bound(w.kernel.Name + " once"), Extent: sym.Const(1),
				Body: []loop.Stmt{s}})
		default:
			w.meet(readsOf([]loop.Stmt{s}), nil)
			w.scalar(s)
		}
	}
}

func kindWord(k loop.LoopKind) string {
	return map[loop.LoopKind]string{loop.Parallel: "parallel", loop.Vector: "vector", loop.Block: "block"}[k]
}

// blockLocal gives a local of a block its place.
func (w *writer) blockLocal(l *loop.Local) {
	m := &memory{dt: l.DType, shape: l.Shape, strides: loop.RowMajor(l.Shape)}
	count := elements(l.Shape)
	if count == 0 {
		if n, fixed := sym.Product(l.Shape...).Const(); !fixed || n != 0 {
			refuse("a local of a block, %s%v, whose size is not known", l.DType, l.Shape)
		}
		count = 1
	}
	switch {
	case l.Space == loop.Shared:
		array := w.arrayType(w.sharedType(l.DType), count)
		m.variable, m.class = w.unique(opVariable, w.pointerType(storageClassWorkgroup, array), storageClassWorkgroup),
			storageClassWorkgroup
		w.uses(m.variable)
		w.shared += count * int64(w.machine.SharedBits(l.DType.Bits())/8)
	default:
		if n, fixed := l.Shape[0].Const(); !fixed || n != w.threads {
			refuse("%s threads' own memory in a block of %d", l.Shape[0], w.threads)
		}
		m.thread = true
		m.variable, m.class = w.body.variable(w.arrayType(w.heldType(l.DType), max(1, count/w.threads))), storageClassFunction
	}
	w.memories[l.Name] = m
}

// spread writes a Thread loop: each thread does every so many-th iteration.
func (w *writer) spread(f *loop.For) {
	reads, writes := touches(f.Body)
	w.meet(reads, writes)
	loops, body := threadLoops(f)
	if w.reachesOwn(reads, writes) { // of the thread that the variable names
		if n, fixed := f.Extent.Const(); !fixed || n != w.threads {
			refuse("a loop over %s threads, of %d, that reaches what each has for its own", f.Extent, w.threads)
		}
		loops, body = []*loop.For{f}, f.Body
		w.thread = f.Var
	}
	defer func() { w.thread = sym.Name{} }()
	count, most := sym.Const(1), sym.Const(1)
	for _, l := range loops {
		w.ranges.Set(l.Var, sym.Range{Max: max(w.most(l.Extent), 1) - 1})
		w.extents[l.Var] = l.Extent
		count, most = count.Mul(l.Extent.Max(sym.Const(0))), most.Mul(w.overAll(l.Extent))
	}
	w.rangesOf(body)
	local := w.localThread()
	do := func(at integer) {
		for i := len(loops) - 1; i > 0; i-- {
			extent := w.integer(loops[i].Extent)
			w.bind(loops[i].Var, w.remainder(at, extent))
			at = w.quotient(at, extent)
		}
		w.bind(loops[0].Var, at)
		if perThread := w.placeLocals(body); !perThread.Equal(sym.Const(0)) {
			refuse("locals of %s bytes of a thread in a block", perThread)
		}
		w.statements(body)
	}
	n, fixed := count.Const()
	switch {
	case fixed && n == w.threads:
		do(local)
	case w.most(count) <= w.threads:
		w.when(w.below(local, w.integer(count)), func() { do(local) }, nil)
	case fixed && n%w.threads == 0 && n/w.threads <= mostCopies:
		for i := range n / w.threads {
			do(w.sum(local, w.constant(i*w.threads)))
		}
	default:
		w.stride(local, w.integer(count), w.constant(w.threads), most.CeilDiv(sym.Const(w.threads)), do)
	}
}

// mostCopies is how many iterations of a thread are written one after the other rather than as a loop.
const mostCopies = 8

// reachesOwn reports whether one of some memories is a thread's own.
func (w *writer) reachesOwn(sets ...map[string]bool) bool {
	for _, set := range sets {
		for name := range set {
			if m := w.memories[name]; m != nil && m.thread {
				return true
			}
		}
	}
	return false
}

// meet has the threads wait where a loop touches what one before it wrote, or writes what one before it read, and notes
// what it touches.
func (w *writer) meet(reads, writes map[string]bool) {
	clash := false
	for name := range reads {
		clash = clash || w.shares(name) && w.touched[name]
	}
	for name := range writes {
		_, read := w.touched[name]
		clash = clash || w.shares(name) && read
	}
	if clash {
		w.barrier()
		w.touched = map[string]bool{}
	}
	for name := range reads {
		w.touched[name] = w.touched[name]
	}
	for name := range writes {
		w.touched[name] = true
	}
}

// settle has the threads wait, if any has touched what others may, before a body that may be done more than once, or
// not at all.
func (w *writer) settle() {
	for name := range w.touched {
		if w.shares(name) {
			w.barrier()
			break
		}
	}
	w.touched = map[string]bool{}
}

// shares reports whether a thread may see what another writes to a memory: not to a thread's own variables, nor to what
// nobody writes.
func (w *writer) shares(name string) bool {
	m := w.memories[name]
	return m == nil || m.class == storageClassWorkgroup || m.variable == 0 && m.written
}

// touches are the buffers that statements read and write.
func touches(body []loop.Stmt) (reads, writes map[string]bool) {
	reads, writes = readsOf(body), map[string]bool{}
	loop.Walk(body, func(s loop.Stmt) bool {
		switch s := s.(type) {
		case *loop.Store:
			writes[s.To] = true
		case *loop.Contract:
			reads[s.A.Buffer], reads[s.B.Buffer], reads[s.C.Buffer], writes[s.C.Buffer] = true, true, true, true
		}
		return true
	})
	loop.Walk(body, func(s loop.Stmt) bool {
		if l, is := s.(*loop.Local); is { // a thread's own
			delete(reads, l.Name)
			delete(writes, l.Name)
		}
		return true
	})
	return reads, writes
}

func readsOf(body []loop.Stmt) map[string]bool {
	reads := map[string]bool{}
	loop.WalkValues(body, func(e loop.Expr) { noteRead(e, reads) })
	return reads
}

// noteReads notes the buffers that a value is computed from.
func noteReads(e loop.Expr, reads map[string]bool) {
	loop.WalkExpr(e, func(e loop.Expr) { noteRead(e, reads) })
}

func noteRead(e loop.Expr, reads map[string]bool) {
	if l, is := e.(*loop.Load); is {
		reads[l.From] = true
	}
}
