package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Kernels that keep something from step to step, for machines that run blocks of threads: recurrent networks, scans. A
// kernel has locals, and nests that read and write them, some of them in a loop whose iterations follow one another:
//
//	each i … { local h; each j { h[j] = … }; serial t … { contract s += h × w; each j { … h[j] = …; store } } }
//
// A block does what is in the outer loops. Its threads share the locals, and each nest of independent iterations, or of
// a contraction's sums, is spread over them.

// bodyThreads is how many iterations some nest must have for it to be worth threads; a kernel without steps needs more
// than a thread does alone of a row.
const bodyThreads = 16

// blockBody makes a kernel with locals one for blocks of threads; nil if it has none, or does what a block cannot.
func (s *scheduler) blockBody(k *loop.Kernel) *loop.Kernel {
	w := &bodyWriter{scheduler: s, names: s.newNamer(k)}
	var out []loop.Stmt
	for _, nest := range nestsOf(k.Clone().Body) {
		loops, body := outerLoops(nest)
		if body = w.body(body); len(loops) == 0 {
			loops = []*loop.For{{Var: w.names.bound("block"), Extent: one}}
		}
		out = append(out, inBlocks(loops, body)...)
	}
	if w.not || w.widest < bodyThreads || !w.locals || !w.steps && w.widest <= shortRow {
		return nil
	}
	return s.ifFits(k, out)
}

// nestsOf are the loops that stand one after the other in a kernel, each apart; all of the kernel if there is something
// else beside them.
func nestsOf(body []loop.Stmt) (list [][]loop.Stmt) {
	for i, s := range body {
		if _, ok := s.(*loop.For); !ok {
			return [][]loop.Stmt{body}
		}
		list = append(list, body[i:i+1])
	}
	return list
}

// bodyWriter writes what a block does.
type bodyWriter struct {
	*scheduler
	names  *namer
	widest float64 // iterations of a nest that is spread
	locals bool
	spread int  // nests
	steps  bool // there are nests in steps that follow one another, or sums of products
	not    bool // there is something that a block cannot do
}

// body is statements that a block does.
func (w *bodyWriter) body(body []loop.Stmt) (out []loop.Stmt) {
	for _, s := range body {
		switch s := s.(type) {
		case *loop.Local:
			s.Space = loop.Shared
			w.locals = true
			out = append(out, s)
		case *loop.Contract:
			out = append(out, w.contract(s))
		case *loop.For:
			out = append(out, w.loop(s))
		case *loop.When:
			s.Then, s.Else = w.body(s.Then), w.body(s.Else)
			out = append(out, s)
		case *loop.Let, *loop.Var, *loop.Set, *loop.Reduce, *loop.Store:
			out = append(out, s)
		default:
			w.not = true
		}
	}
	return out
}

// loop is a loop that a block does: it is spread over the threads if its iterations are independent, and need nothing
// but what a thread has.
func (w *bodyWriter) loop(f *loop.For) loop.Stmt {
	switch {
	case f.Kind == loop.Each && alone(f.Body):
		size := 1.0
		for inner := f; ; {
			inner.Kind = loop.Thread
			size *= w.guess(inner.Extent)
			next, ok := loop.Only(inner.Body)
			if !ok || next.Kind != loop.Each {
				break
			}
			inner = next
		}
		w.widest = max(w.widest, size)
		w.spread++
	case f.Kind == loop.Each || f.Kind == loop.Serial:
		steps, spread := f.Kind == loop.Serial, w.spread
		f.Kind = loop.Serial
		f.Body = w.body(f.Body)
		w.steps = w.steps || steps && w.spread > spread
	default:
		w.not = true
	}
	return f
}

// alone reports whether one thread can do statements by itself: it changes no value that is declared around them.
func alone(body []loop.Stmt) bool {
	names, ok := declared(body), true
	loop.Walk(body, func(s loop.Stmt) bool {
		switch s := s.(type) {
		case *loop.Set:
			ok = ok && slices.Contains(names, s.Name)
		case *loop.Reduce:
			ok = ok && slices.Contains(names, s.Name)
		case *loop.Let, *loop.Var, *loop.Store, *loop.When:
		case *loop.For:
			ok = ok && (s.Kind == loop.Each || s.Kind == loop.Serial)
		default:
			ok = false
		}
		return ok
	})
	return ok
}

// contract is a contraction whose sums the threads have one by one.
func (w *bodyWriter) contract(c *loop.Contract) loop.Stmt {
	w.widest, w.steps = max(w.widest, w.guess(c.M)*w.guess(c.N)), true
	row, column := w.names.bound("m"), w.names.bound("n")
	move := func(t *loop.Tile, steps []sym.Expr, by sym.Name) {
		t.Origin = slices.Clone(t.Origin)
		for i := range t.Origin {
			t.Origin[i] = t.Origin[i].Add(steps[i].Mul(sym.Var(by)))
		}
	}
	sum := *c
	move(&sum.C, c.C.Row, row)
	move(&sum.C, c.C.Col, column)
	move(&sum.A, c.A.Row, row)
	move(&sum.B, c.B.Col, column)
	sum.M, sum.N = one, one
	inner := &loop.For{Kind: loop.Thread, Var: column, Extent: c.N, Body: []loop.Stmt{&sum}}
	return &loop.For{Kind: loop.Thread, Var: row, Extent: c.M, Body: []loop.Stmt{inner}}
}
