package blocks

import (
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// All threads of a block run its body together. Each of them runs the statements outside Thread loops, with the same
// values; the iterations of a Thread loop are spread over them. There is a barrier before a Thread loop that may touch
// memory that an earlier one wrote, or write memory that it read.

// blockThreads returns the number of threads of a nest's blocks: as many as a product of matrices takes, or else the
// first extent of threads' own locals, or else as many as the widest Thread loop has iterations.
func (w *Writer) blockThreads(n nest) int64 {
	most := w.machine.Limits.Invocations
	w.enterNest(n)
	if threads := w.findMatrices(n.body); threads > 0 {
		return threads
	}
	own := w.ownLocals(n.body)
	if len(own) > 0 {
		for _, l := range own {
			threads, fixed := l.Shape[0].Const()
			if !fixed || threads < 1 || threads > most {
				Refuse("a block of %s threads, of at most %d", l.Shape[0], most)
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

// ownLocals returns the locals of a block's body outside Thread loops that are not shared: each thread has a slice.
func (w *Writer) ownLocals(body []loop.Stmt) (list []*loop.Local) {
	var walk func(body []loop.Stmt)
	walk = func(body []loop.Stmt) {
		for _, s := range body {
			switch s := s.(type) {
			case *loop.Local:
				if s.Space == loop.Own {
					if len(s.Shape) == 0 {
						Refuse("a local of a block that has no axes")
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

// threadNests visits the nests of Thread loops of a block's body: loops directly inside one another are one nest.
func (w *Writer) threadNests(body []loop.Stmt, visit func(loops []*loop.For, inside []loop.Stmt)) {
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

// threadLoops returns the nest of Thread loops that begins with f, and the body inside.
func threadLoops(f *loop.For) (loops []*loop.For, body []loop.Stmt) {
	loops, body = []*loop.For{f}, f.Body
	for {
		inner, ok := loop.Only(body)
		if !ok || inner.Kind != loop.Thread {
			return loops, body
		}
		for _, outer := range loops { // the nest has a fixed number of iterations only if no extent depends on its loops
			for _, name := range inner.Extent.Vars() {
				if name == outer.Var {
					return loops, body
				}
			}
		}
		loops, body = append(loops, inner), inner.Body
	}
}

// block writes a nest of blocks, and returns the bytes of a block's shared memory.
func (w *Writer) block(n nest, total sym.Expr, threads int64) int64 {
	w.threads, w.shared = threads, 0
	w.touched = map[string]bool{}
	at := w.blockNumber(total)
	w.When(w.below(at, w.Integer(total)), func() {
		for i := len(n.loops) - 1; i > 0; i-- {
			extent := w.Integer(n.loops[i].Extent)
			w.bind(n.loops[i].Var, w.remainder(at, extent))
			at = w.quotient(at, extent)
		}
		w.bind(n.loops[0].Var, at)
		w.together(n.body)
	}, nil)
	return w.shared
}

// together writes the statements that all threads of a block run together.
func (w *Writer) together(body []loop.Stmt) {
	done := 0 // statements that are written
	for i, s := range body {
		if i < done {
			continue
		}
		if n := w.combine(body[i:]); n > 0 {
			done = i + n
			continue
		}
		switch s := s.(type) {
		case *loop.Local:
			w.blockLocal(s)
		case *loop.For:
			if s.Kind == loop.Thread {
				w.spread(s)
				continue
			}
			if s.Kind != loop.Serial && s.Kind != loop.Each {
				Refuse("a %s loop in a block", kindWord(s.Kind))
			}
			w.blockLoop(s)
		case *loop.When:
			w.settle()
			cond := map[string]bool{}
			noteReads(s.Cond, cond)
			after := map[string]bool{}
			w.branch(s, func(body []loop.Stmt) {
				w.touched = map[string]bool{} // another thread may still read memory for the condition
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
		case *loop.Contract:
			w.blockContract(s)
		case *loop.Store:
			w.once(s)
		default:
			w.meet(readsOf([]loop.Stmt{s}), nil)
			w.scalar(s)
		}
	}
}

// once writes a statement that one thread runs.
func (w *Writer) once(s loop.Stmt) {
	w.spread(&loop.For{Kind: loop.Thread, Var: sym.Bound(w.kernel.Name + " once"), Extent: sym.Const(1),
		Body: []loop.Stmt{s}})
}

// blockLoop writes a loop whose iterations all threads of a block run together.
func (w *Writer) blockLoop(s *loop.For) {
	w.settle()
	var product *matrixProduct
	if w.sums == nil {
		product = w.held(s)
	}
	if product != nil {
		w.sums = w.loadSums(product)
	}
	w.serial(s, func() {
		w.together(s.Body)
		w.settle()
	})
	if product != nil {
		w.storeSums(w.sums)
		w.sums = nil
	}
}

// blockContract writes a Contract of a block: its subgroups compute it together, or else one thread does.
func (w *Writer) blockContract(s *loop.Contract) {
	switch p := w.products[s]; {
	case p == nil:
		w.once(s)
	case w.sums != nil && w.sums.same(p):
		w.addProducts(w.sums, p)
	default:
		sums := w.loadSums(p)
		w.addProducts(sums, p)
		w.storeSums(sums)
	}
}

// kindWord returns the name of a kind of loop that a block cannot contain.
func kindWord(k loop.LoopKind) string {
	return map[loop.LoopKind]string{loop.Parallel: "parallel", loop.Vector: "vector", loop.Block: "block"}[k]
}

// blockLocal declares a local of a block: shared memory, or a variable of each thread.
func (w *Writer) blockLocal(l *loop.Local) {
	m := &Memory{DType: l.DType, Shape: l.Shape, Strides: loop.RowMajor(l.Shape)}
	count := elements(l.Shape)
	if count == 0 {
		if n, fixed := sym.Product(l.Shape...).Const(); !fixed || n != 0 {
			Refuse("a local of a block, %s%v, of dynamic size", l.DType, l.Shape)
		}
		count = 1
	}
	switch {
	case l.Space == loop.Shared:
		m.Variable, m.Shared = w.Shared(l.DType, count), true
		w.shared += count * int64(w.machine.SharedBits(l.DType.Bits())/8)
	default:
		if n, fixed := l.Shape[0].Const(); !fixed || n != w.threads {
			Refuse("own memory of %s threads in a block of %d", l.Shape[0], w.threads)
		}
		m.thread = true
		m.Variable = w.Private(l.DType, max(1, count/w.threads))
	}
	w.memories[l.Name] = m
}

// spread writes a Thread loop: iterations are dealt to the threads in turn.
func (w *Writer) spread(f *loop.For) {
	reads, writes := touches(f.Body)
	w.meet(reads, writes)
	loops, body := threadLoops(f)
	if w.reachesOwn(reads, writes) { // the loop's variable is then the thread's number
		if n, fixed := f.Extent.Const(); !fixed || n != w.threads {
			Refuse("a loop over %s threads, of %d, that accesses threads' own memory", f.Extent, w.threads)
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
	do := func(at Integer) {
		for i := len(loops) - 1; i > 0; i-- {
			extent := w.Integer(loops[i].Extent)
			w.bind(loops[i].Var, w.remainder(at, extent))
			at = w.quotient(at, extent)
		}
		w.bind(loops[0].Var, at)
		if perThread := w.allocateLocals(body); !perThread.Equal(sym.Const(0)) {
			Refuse("%s bytes of locals of a thread of a block in the launch's scratch", perThread)
		}
		w.statements(body)
	}
	n, fixed := count.Const()
	switch {
	case fixed && n == w.threads:
		do(local)
	case w.most(count) <= w.threads:
		w.When(w.below(local, w.Integer(count)), func() { do(local) }, nil)
	case fixed && n%w.threads == 0 && n/w.threads <= mostCopies:
		for i := range n / w.threads {
			do(w.sum(local, w.Constant(i*w.threads)))
		}
	default:
		w.stride(local, w.Integer(count), w.Constant(w.threads), most.CeilDiv(sym.Const(w.threads)), do)
	}
}

// mostCopies is the largest number of iterations of a thread that are unrolled.
const mostCopies = 8

// reachesOwn reports whether one of the named buffers is threads' own memory.
func (w *Writer) reachesOwn(sets ...map[string]bool) bool {
	for _, set := range sets {
		for name := range set {
			if m := w.memories[name]; m != nil && m.thread {
				return true
			}
		}
	}
	return false
}

// meet writes a barrier before a loop that reads memory that was written since the last barrier, or writes memory that
// was touched since. It notes the buffers that the loop reads and writes.
func (w *Writer) meet(reads, writes map[string]bool) {
	clash := false
	for name := range reads {
		clash = clash || w.shares(name) && w.touched[name]
	}
	for name := range writes {
		_, read := w.touched[name]
		clash = clash || w.shares(name) && read
	}
	if clash {
		w.Barrier()
		w.touched = map[string]bool{}
	}
	for name := range reads {
		w.touched[name] = w.touched[name]
	}
	for name := range writes {
		w.touched[name] = true
	}
}

// settle writes a barrier if memory that threads share was touched since the last one. It is needed around a body that
// may run any number of times.
func (w *Writer) settle() {
	for name := range w.touched {
		if w.shares(name) {
			w.Barrier()
			break
		}
	}
	w.touched = map[string]bool{}
}

// shares reports whether one thread may see what another writes to a buffer: it is shared memory, or memory at an
// address that the kernel writes.
func (w *Writer) shares(name string) bool {
	m := w.memories[name]
	return m == nil || m.Shared || m.Variable == 0 && m.Written
}

// touches returns the buffers that statements read and write, without locals that they declare.
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
		if l, is := s.(*loop.Local); is {
			delete(reads, l.Name)
			delete(writes, l.Name)
		}
		return true
	})
	return reads, writes
}

// readsOf returns the buffers that the values in statements are loaded from.
func readsOf(body []loop.Stmt) map[string]bool {
	reads := map[string]bool{}
	loop.WalkValues(body, func(e loop.Expr) { noteRead(e, reads) })
	return reads
}

// noteReads adds the buffers from which an expression loads.
func noteReads(e loop.Expr, reads map[string]bool) {
	loop.WalkExpr(e, func(e loop.Expr) { noteRead(e, reads) })
}

// noteRead adds the buffer of a load; it ignores other expressions.
func noteRead(e loop.Expr, reads map[string]bool) {
	if l, is := e.(*loop.Load); is {
		reads[l.From] = true
	}
}
