package blocks

import (
	"fmt"
	"math"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// nestThreads is the number of threads of a block in a nest whose threads work independently.
const nestThreads = 64

// mostThreads is the largest number of threads of a nest with locals in the launch's scratch: if there are more
// iterations, each thread runs several.
const mostThreads = 1 << 14

// mostPrivate is the largest number of bytes of a thread's locals that are variables; further locals are in the
// launch's scratch.
const mostPrivate = 4 << 10

// nest is the statements of one entry: independent loops whose extents depend only on dimensions, and their body.
type nest struct {
	loops  []*loop.For
	body   []loop.Stmt
	blocks bool      // an iteration of the loops is a block; otherwise it is a thread
	alone  bool      // one thread runs everything
	step   *loop.For // the serial loop around it, for each of whose iterations it runs again; nil if there is none
}

// nests divides a kernel into nests. Each nest repeats the Lets before it that read no memory; locals outside of nests
// are in the launch's scratch. If there are other statements, the entire kernel is one nest of one thread.
func (w *Writer) nests() []nest {
	var list []nest
	var before []loop.Stmt
	stepped := false
	for _, s := range w.kernel.Body {
		f, ok := s.(*loop.For)
		if l, is := s.(*loop.Local); is && l.Space == loop.Own && l.DType.Bits() >= 8 {
			w.launchLocals = append(w.launchLocals, l)
			continue
		}
		if !ok {
			if l, names := s.(*loop.Let); !names || loop.ReadsMemory(l.X) {
				w.launchLocals = nil
				return []nest{{body: w.kernel.Body, alone: true}}
			}
			before = append(before, s)
			continue
		}
		inside := []nest{w.nest(f)}
		if !stepped {
			if stages := w.stages(f); stages != nil {
				inside, stepped = stages, true
			}
		}
		for _, n := range inside {
			if len(before) > 0 {
				n.body = append(append([]loop.Stmt{}, before...), n.body...)
			}
			list = append(list, n)
		}
	}
	if len(list) == 0 { // a module has an entry, even if the kernel's results are always empty
		list = []nest{{alone: true}}
	}
	return list
}

// stages returns the nests inside a serial loop, if it has nothing but nests of blocks and parallel nests, whose number
// of blocks is the same in each step; nil for other loops.
func (w *Writer) stages(f *loop.For) (list []nest) {
	if f.Kind != loop.Serial || !w.overDims(f.Extent) {
		return nil
	}
	for _, s := range f.Body {
		inner, ok := s.(*loop.For)
		if !ok || inner.Kind != loop.Block && inner.Kind != loop.Parallel || !w.overDims(inner.Extent) {
			return nil
		}
		n := w.nest(inner)
		n.step = f
		list = append(list, n)
	}
	return list
}

// stepped returns the nests that run in steps: those from first to before end.
func (w *Writer) stepped(nests []nest) (first, end int) {
	for i, n := range nests {
		if n.step != nil {
			if end == 0 {
				first = i
			}
			end = i + 1
		}
	}
	return first, end
}

// nest returns a loop as a nest: the outermost independent loops, and the body inside them.
func (w *Writer) nest(f *loop.For) nest {
	n := nest{blocks: f.Kind == loop.Block, body: []loop.Stmt{f}}
	for {
		inner, ok := loop.Only(n.body)
		if !ok || !w.overDims(inner.Extent) || n.blocks != (inner.Kind == loop.Block) || !independent(inner) {
			break
		}
		n.loops, n.body = append(n.loops, inner), inner.Body
	}
	n.alone = len(n.loops) == 0
	return n
}

// independent reports whether a loop's iterations may run concurrently.
func independent(f *loop.For) bool {
	return f.Kind == loop.Each || f.Kind == loop.Parallel || f.Kind == loop.Vector || f.Kind == loop.Block ||
		f.Kind == loop.Thread
}

// overDims reports whether an integer depends on the kernel's dimensions only.
func (w *Writer) overDims(e sym.Expr) bool {
	for _, name := range e.Vars() {
		known := false
		for _, dim := range w.kernel.Dims {
			known = known || dim == name
		}
		if !known {
			return false
		}
	}
	return true
}

// most returns an upper bound of an integer, by the present ranges of names.
func (w *Writer) most(e sym.Expr) int64 {
	r, _ := w.ranges.Of(e)
	return r.Max
}

// least returns a lower bound of an integer.
func (w *Writer) least(e sym.Expr) int64 {
	r, _ := w.ranges.Of(e)
	return r.Min
}

// entry writes an entry point, and returns its number of blocks.
func (w *Writer) entry(n nest) (e target.Entry, blocks sym.Expr) {
	e = target.Entry{Name: fmt.Sprintf("part%d", len(w.entryNames)), Threads: nestThreads}
	w.entryNames = append(w.entryNames, e.Name)
	w.begin()
	if n.step != nil {
		most := min(max(w.most(n.step.Extent), 1), mostSteps)
		w.extents[n.step.Var] = n.step.Extent
		w.ranges.Set(n.step.Var, sym.Range{Max: most - 1})
		w.names[n.step.Var] = Integer{w.Step(), false}
	}
	w.taken = sym.Const(0)
	total := sym.Const(1)
	for _, l := range n.loops {
		total = total.Mul(l.Extent.Max(sym.Const(0)))
	}
	switch {
	case n.blocks:
		e.Threads = w.blockThreads(n)
		blocks = total
		e.Shared = w.block(n, total, e.Threads)
	case n.alone:
		e.Threads = 1
		blocks = w.threadNest(n, total, 1)
	default:
		e.Threads = min(nestThreads, w.machine.Limits.Invocations)
		blocks = w.threadNest(n, total, e.Threads)
	}
	w.longest = w.longest.Max(w.taken)
	w.Finish(&e)
	return e, blocks
}

// threadNest writes a nest of which each thread runs one iteration, or several if there are too many, and returns its
// number of blocks.
func (w *Writer) threadNest(n nest, total sym.Expr, threads int64) (blocks sym.Expr) {
	w.enterNest(n)
	perThread := w.allocateLocals(n.body)
	size := sym.Const(threads)
	blocks = total.CeilDiv(size)
	if n.alone {
		blocks = sym.Const(1)
	}
	limited := false
	if zero, ok := perThread.Const(); !ok || zero != 0 {
		most := sym.Const(max(1, mostThreads/threads))
		limited = w.most(blocks) > mostThreads/threads
		if limited {
			blocks = blocks.Min(most)
		}
	}
	thread := w.globalThread(threads, total)
	count := w.Integer(total)
	work := func(at Integer) {
		for i := len(n.loops) - 1; i > 0; i-- {
			var rest Integer
			extent := w.Integer(n.loops[i].Extent)
			rest, at = w.remainder(at, extent), w.quotient(at, extent)
			w.bind(n.loops[i].Var, rest)
		}
		if len(n.loops) > 0 {
			w.bind(n.loops[0].Var, at)
		}
		w.offsetLocals(thread, perThread)
		w.statements(n.body)
	}
	if !limited {
		w.When(w.below(thread, count), func() { work(thread) }, nil)
	} else {
		w.stride(thread, count, w.Product(w.Integer(blocks), w.Constant(threads)), total.CeilDiv(sym.Const(mostThreads)),
			work)
	}
	if !perThread.Equal(sym.Const(0)) {
		if len(w.launchLocals) > 0 {
			Refuse("locals of threads and of the launch in one kernel")
		}
		w.scratch = w.scratch.Max(perThread.Mul(blocks).Mul(size))
	}
	return blocks
}

// enterNest sets the ranges of the names that a nest declares.
func (w *Writer) enterNest(n nest) {
	for _, l := range n.loops {
		w.extents[l.Var] = l.Extent
		w.ranges.Set(l.Var, sym.Range{Max: max(w.most(l.Extent), 1) - 1})
	}
	w.rangesOf(n.body)
}

// rangesOf sets the ranges of the names that statements declare: the widest that they can have.
func (w *Writer) rangesOf(body []loop.Stmt) {
	loop.Walk(body, func(s loop.Stmt) bool {
		switch s := s.(type) {
		case *loop.For:
			w.ranges.Set(s.Var, sym.Range{Max: max(w.most(s.Extent), 1) - 1})
		case *loop.Check:
			low, _ := w.ranges.Of(s.Min)
			high, _ := w.ranges.Of(s.Max)
			w.ranges.Set(s.Name, sym.Range{Min: min(low.Min, high.Max), Max: high.Max})
			w.checked[s.Name] = s
		}
		return true
	})
}

// allocateLocals makes each local of a thread a variable, or memory in the launch's scratch. It returns the bytes of
// scratch of one thread.
func (w *Writer) allocateLocals(body []loop.Stmt) sym.Expr {
	k := &loop.Kernel{Name: w.kernel.Name, Body: body}
	private := int64(0)
	perThread := sym.Const(0)
	for _, local := range loop.Locals(k) {
		l := local.Local
		m := &Memory{DType: l.DType, Shape: l.Shape, Strides: loop.RowMajor(l.Shape)}
		bytes, fixed := loop.Bytes(l.DType, l.Shape).Const()
		if fixed && bytes <= mostPrivate-private && l.DType.Bits() >= 8 {
			private += bytes
			m.Variable = w.Private(l.DType, max(1, elements(l.Shape)))
		} else {
			m.offset, m.Written = local.Offset, true
			end := local.Offset.Add(loop.Bytes(l.DType, l.Shape))
			perThread = perThread.Max(end.CeilDiv(sym.Const(loop.ScratchAlign)).Mul(sym.Const(loop.ScratchAlign)))
			w.inScratch = append(w.inScratch, m)
		}
		w.memories[l.Name] = m
	}
	return perThread
}

// elements returns the number of elements of a shape; 0 if that is not a constant from 1 to 2³¹ − 1.
func elements(shape []sym.Expr) int64 {
	n, ok := sym.Product(shape...).Const()
	if !ok || n < 0 || n > math.MaxInt32 {
		return 0
	}
	return n
}

// launchBytes returns the bytes of the launch's locals, each of which begins at a multiple of loop.ScratchAlign.
func (w *Writer) launchBytes() sym.Expr {
	total, align := sym.Const(0), sym.Const(loop.ScratchAlign)
	for _, l := range w.launchLocals {
		total = total.Add(loop.Bytes(l.DType, l.Shape).CeilDiv(align).Mul(align))
	}
	return total
}

// allocateLaunchLocals computes the addresses of the launch's locals, at the beginning of an entry.
func (w *Writer) allocateLaunchLocals() {
	if len(w.launchLocals) == 0 {
		return
	}
	base, at, align := w.Argument(len(w.kernel.Params)+len(w.kernel.Dims)), sym.Const(0), sym.Const(loop.ScratchAlign)
	for _, l := range w.launchLocals {
		w.memories[l.Name] = &Memory{DType: l.DType, Shape: l.Shape, Strides: loop.RowMajor(l.Shape),
			Base: w.Address(base, w.Integer(at)), Written: true}
		at = at.Add(loop.Bytes(l.DType, l.Shape).CeilDiv(align).Mul(align))
	}
}

// offsetLocals computes the addresses of a thread's locals in the launch's scratch.
func (w *Writer) offsetLocals(thread Integer, perThread sym.Expr) {
	if len(w.inScratch) == 0 {
		return
	}
	base := w.Argument(len(w.kernel.Params) + len(w.kernel.Dims))
	if !w.int64s() {
		w.fits(perThread, 2*mostThreads) // the offset of the last thread
	}
	own := w.Product(w.Widened(thread), w.Widened(w.Integer(perThread)))
	for _, m := range w.inScratch {
		m.Base = w.Address(base, w.sum(own, w.Widened(w.Integer(m.offset))))
	}
	w.inScratch = nil
}

// Bug panics with a message and the kernel's text.
func (w *Writer) Bug(format string, args ...any) {
	panic(diag.Internalf("code of kernel @%s: "+format+"\n%s", append(append([]any{w.kernel.Name}, args...), w.kernel)...))
}
