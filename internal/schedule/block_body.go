package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Kernels that keep state from step to step, for machines that run blocks of threads: recurrent networks, scans. Such a
// kernel has locals, and nests that read and write them, some of them in a serial loop:
//
//	each i … { local h; each j { h[j] = … }; serial t … { contract s += h × w; each j { … h[j] = …; store } } }
//
// A block runs one iteration of the outer loops. Its threads share the locals, and each nest of independent iterations,
// or of a contraction's sums, is spread over them.

// bodyThreads is the least number of iterations of the largest nest for which threads pay; a kernel without steps needs
// more than the work of one row for a thread.
const bodyThreads = 16

// blockBody rewrites a kernel with locals for blocks of threads; nil if it has no locals, or contains statements that a
// block cannot run.
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

// nestsOf returns the loops of a kernel, each in a list of its own; the entire body in one list if it has other
// statements.
func nestsOf(body []loop.Stmt) (list [][]loop.Stmt) {
	for i, s := range body {
		if _, ok := s.(*loop.For); !ok {
			return [][]loop.Stmt{body}
		}
		list = append(list, body[i:i+1])
	}
	return list
}

// bodyWriter writes the body of a block.
type bodyWriter struct {
	*scheduler
	names  *namer
	widest float64 // iterations of the largest nest that is spread
	locals bool
	spread int  // number of spread nests
	steps  bool // there are nests in serial steps, or sums of products
	not    bool // there is a statement that a block cannot run
}

// body returns a list of statements as a block runs them.
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
		case *loop.Let, *loop.Var, *loop.Set, *loop.Reduce, *loop.Store, *loop.Check:
			out = append(out, s)
		default:
			w.not = true
		}
	}
	return out
}

// loop returns a loop as a block runs it: spread over the threads if its iterations are independent and one thread can
// run each alone.
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

// alone reports whether one thread can run statements alone: they change no scalar that is declared outside.
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

// contract returns a contraction whose sums are spread over the threads.
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
