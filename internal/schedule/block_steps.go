package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// Recurrences step by step, for machines that run blocks of threads. blockBody has one block for each sequence, so that
// few sequences leave most of the machine idle. Here the locals of a sequence are in the launch's scratch, for all
// sequences, and each nest of a step is a stage: blocks of its own, which begin when those of the stage before have
// ended. The device runs the stages of the serial loop again for each step:
//
//	local h [sequences, n]
//	local gates [sequences, m]
//	each i, j { h[i, j] = … }
//	serial t {
//	  block … { s = …; serial k { s += h × w }; gates[i, j] = s }
//	  parallel i, j { h[i, j] = … }
//	}
//	each i, j { … = h[i, j] }
//
// A contraction between the nest that sets its sums and the nest that uses them becomes one nest with a sum for each
// iteration, which the recipes of products and reductions know.

const (
	// The time of a dispatch and of the barrier before it, in multiplications of a block that runs alone: on a processor,
	// as measured with lavapipe, and on a card, by estimate.
	stageCost, cardStageCost = 1 << 13, 1 << 16
	cardBlocks               = busyThreads / rowThreads // number of blocks that keep a card busy
	stageGain                = 2                        // stages read an element once for several sums
)

// blockSteps rewrites a kernel of chains (see chain) as stages; nil for other kernels, or if a block for each sequence
// takes less time.
func (s *scheduler) blockSteps(k *loop.Kernel) *loop.Kernel {
	if next, pays := s.inStages(k); pays {
		return next
	}
	return nil
}

// inStages returns a kernel of chains as stages, and whether these take less time than a block for each sequence; nil
// for other kernels.
func (s *scheduler) inStages(k *loop.Kernel) (next *loop.Kernel, pays bool) {
	next = k.Clone()
	w := &stepWriter{scheduler: s, kernel: next, names: s.newNamer(next), list: s.chains(next, loop.Each)}
	if len(w.list) == 0 || !w.prepare() {
		return nil, false
	}
	steps := w.list[0].steps
	serial := &loop.For{Kind: loop.Serial, Var: steps.Var, Extent: w.list[0].extent}
	var before, after []loop.Stmt
	for _, c := range w.list {
		before = append(before, w.nests(c, c.before)...)
		serial.Body = append(serial.Body, w.stages(c)...)
		after = append(after, w.nests(c, c.after)...)
	}
	body := append(w.locals, before...)
	body = append(append(body, serial), after...)
	next.Params = next.Params[:len(k.Params)]
	return s.ifFits(next, body), w.pays(len(serial.Body))
}

// pays estimates whether a number of stages takes less time than a block for each sequence. If only a run knows the
// number of sequences, it must pay for one.
func (w *stepWriter) pays(stages int) bool {
	blocks, cost := blocksOf(w.machine)
	whole, apart := 0.0, cost*float64(stages)
	for _, c := range w.list {
		sequences := 1.0
		for _, f := range c.loops {
			if n, fixed := f.Extent.Const(); fixed {
				sequences *= float64(max(n, 1))
			}
		}
		work := w.workOf(c.steps.Body) * sequences
		whole += work / min(sequences, blocks)
		apart += work / (blocks * stageGain)
	}
	return apart < whole
}

// blocksOf returns the number of blocks that keep a machine busy, and the cost of a stage.
func blocksOf(machine target.Machine) (blocks, cost float64) {
	if machine.Has(target.CachedReads) {
		return directBlocks, stageCost
	}
	return cardBlocks, cardStageCost
}

// workOf estimates the number of times that statements without loops run.
func (s *scheduler) workOf(body []loop.Stmt) (n float64) {
	for _, stmt := range body {
		switch stmt := stmt.(type) {
		case *loop.For:
			n += max(s.guess(stmt.Extent), 0) * s.workOf(stmt.Body)
		case *loop.Contract:
			n += s.guess(stmt.M) * s.guess(stmt.N) * s.guess(stmt.K)
		case *loop.When:
			n += max(s.workOf(stmt.Then), s.workOf(stmt.Else))
		case *loop.Store, *loop.Reduce, *loop.Set:
			n++
		}
	}
	return n
}

// WholeSequences returns the reason why a block runs all steps of a sequence, for a scheduled kernel of which blocks
// do; the empty text for other kernels.
func WholeSequences(k *loop.Kernel, machine target.Machine, dims *sym.Dims) (reason string) {
	s := &scheduler{machine: machine, dims: dims, free: k.Dims}
	if dims == nil {
		s.dims = sym.NewDims()
	}
	for _, stmt := range k.Body {
		f, is := stmt.(*loop.For)
		if !is || f.Kind != loop.Block {
			continue
		}
		loop.Walk(f.Body, func(stmt loop.Stmt) bool {
			steps, is := stmt.(*loop.For)
			if !is || steps.Kind != loop.Serial || isOne(steps.Extent) || !storesResults(k, steps.Body) {
				return !is || steps.Kind != loop.Thread
			}
			blocks, cost := blocksOf(machine)
			switch work := s.workOf(steps.Body); {
			case !onlyDims(k, steps.Extent):
				reason = "elements decide the number of steps"
			case work/stageGain < cost*2 || work*s.guess(f.Extent)/blocks < cost:
				reason = "a step has too little work for blocks of its own"
			default:
				reason = "a step is not only nests and products"
			}
			return false
		})
	}
	if reason != "" {
		reason = "one block runs all steps of a sequence: " + reason
	}
	return reason
}

// storesResults reports whether threads of a block store to a kernel's parameters in a body.
func storesResults(k *loop.Kernel, body []loop.Stmt) (stores bool) {
	loop.Walk(body, func(stmt loop.Stmt) bool {
		if to, is := stmt.(*loop.Store); is {
			stores = stores || slices.ContainsFunc(k.Params, func(p *loop.Param) bool { return p.Name == to.To })
		}
		return !stores
	})
	return stores && forBlocks(&loop.Kernel{Body: body})
}

// stepWriter writes a kernel of stages.
type stepWriter struct {
	*scheduler
	kernel *loop.Kernel // its parameters are followed by the locals of all chains
	names  *namer
	list   []*chain
	locals []loop.Stmt // of the launch
}

// prepare changes the chains to nests without locals and contractions; it reports whether that is possible.
func (w *stepWriter) prepare() bool {
	for _, c := range w.list {
		if c.count != nil {
			return false
		}
		for _, body := range []*[]loop.Stmt{&c.before, &c.steps.Body, &c.after} {
			*body = c.withoutLocals(*body)
			if *body = w.withoutContractions(c, *body); *body == nil {
				return false
			}
		}
		for _, p := range w.share(w.kernel, c) {
			w.locals = append(w.locals, &loop.Local{Name: p.Name, DType: p.DType, Shape: p.Shape})
		}
	}
	return true
}

// withoutLocals returns a body with the locals in its loops of one iteration declared by the chain, and such loops
// replaced by their bodies.
func (c *chain) withoutLocals(body []loop.Stmt) (out []loop.Stmt) {
	for _, stmt := range body {
		f, ok := stmt.(*loop.For)
		isLocal := func(s loop.Stmt) bool { _, is := s.(*loop.Local); return is }
		if !ok || !isOne(f.Extent) || !slices.ContainsFunc(f.Body, isLocal) {
			out = append(out, stmt)
			continue
		}
		for _, inner := range loop.Substitute(f.Body, map[sym.Name]sym.Expr{f.Var: zero}) {
			if l, is := inner.(*loop.Local); is {
				c.locals = append(c.locals, l)
			} else {
				out = append(out, inner)
			}
		}
	}
	return out
}

// withoutContractions returns a body with each contraction, the nest before it and the nest after it replaced by one
// nest of sums; nil if that is impossible, or if other statements are no nests.
func (w *stepWriter) withoutContractions(c *chain, body []loop.Stmt) []loop.Stmt {
	out := []loop.Stmt{}
	for i := 0; i < len(body); i++ {
		if i+2 < len(body) {
			if product, is := body[i+1].(*loop.Contract); is {
				sums := w.sums(c, body[i], product, body[i+2])
				if sums == nil {
					return nil
				}
				out, i = append(out, sums), i+2
				continue
			}
		}
		switch stmt := body[i].(type) {
		case *loop.Local: // the chain declares it
		case *loop.For:
			if stmt.Kind != loop.Each {
				return nil
			}
			out = append(out, stmt)
		default:
			return nil
		}
	}
	return out
}

// sums returns a nest with a sum of products in each iteration, instead of a nest that sets sums, a contraction that
// adds to them, and a nest that alone reads them; nil if the three have other forms.
func (w *stepWriter) sums(c *chain, first loop.Stmt, product *loop.Contract, last loop.Stmt) loop.Stmt {
	at := slices.IndexFunc(c.locals, func(l *loop.Local) bool { return l.Name == product.C.Buffer })
	if at < 0 || len(c.locals[at].Shape) != 2 || !isUnit(product.C) {
		return nil
	}
	local := c.locals[at]
	from, set := w.elements(first, local)
	index, use := w.elements(last, local)
	if from == nil || index == nil || !w.equal(product.M, local.Shape[0]) || !w.equal(product.N, local.Shape[1]) {
		return nil
	}
	values := map[sym.Name]sym.Expr{}
	for axis, e := range from {
		for _, name := range e.Vars() {
			values[name] = index[axis]
		}
	}
	set = loop.Substitute(set, values)
	to, is := set[len(set)-1].(*loop.Store)
	if !is || to.To != local.Name || to.Mask != nil || !sameElement(to.Index, index) ||
		!apart(set, product, use, local) {
		return nil
	}
	if bufferOf(w.kernel, product.A.Buffer) == nil || bufferOf(w.kernel, product.B.Buffer) == nil {
		return nil
	}
	sum, step := w.names.name("sum"), w.names.bound("k")
	operand := func(t loop.Tile, row, column sym.Expr) loop.Expr {
		x := &loop.Load{From: t.Buffer, Type: bufferOf(w.kernel, t.Buffer).DType}
		for i := range t.Origin {
			x.Index = append(x.Index, t.Origin[i].Add(t.Row[i].Mul(row)).Add(t.Col[i].Mul(column)))
		}
		return loop.Convert(local.DType, x)
	}
	add := &loop.Reduce{Name: sum, Op: loop.Add, X: loop.Apply2(loop.Mul, operand(product.A, index[0], sym.Var(step)),
		operand(product.B, sym.Var(step), index[1]))}
	body := append(set[:len(set)-1], &loop.Var{Name: sum, X: to.X},
		&loop.For{Kind: loop.Serial, Var: step, Extent: product.K, Body: []loop.Stmt{add}})
	body = append(body, (&loop.Rewrite{Expr: func(e loop.Expr) loop.Expr {
		if l, is := e.(*loop.Load); is && l.From == local.Name {
			return &loop.Ref{Name: sum, Type: local.DType}
		}
		return e
	}}).Body(use)...)
	c.locals = slices.Delete(c.locals, at, at+1)
	loops, _ := outerLoops([]loop.Stmt{last})
	loops[len(loops)-1].Body = body
	return loops[0]
}

// elements returns the index of the element of a local with two axes that an iteration of a nest belongs to, and the
// nest's body; nil if the nest's loops do not run over the local. A nest has no loop over an axis with one element.
func (s *scheduler) elements(nest loop.Stmt, l *loop.Local) (index []sym.Expr, body []loop.Stmt) {
	loops, body := outerLoops([]loop.Stmt{nest})
	rest := loops
	for _, extent := range l.Shape {
		switch {
		case len(rest) > 0 && s.equal(rest[0].Extent, extent):
			index, rest = append(index, sym.Var(rest[0].Var)), rest[1:]
		case isOne(extent):
			index = append(index, zero)
		default:
			return nil, nil
		}
	}
	if len(rest) > 0 || len(loops) == 0 || len(body) == 0 {
		return nil, nil
	}
	return index, body
}

// isUnit reports whether a tile's rows and columns are those of its buffer.
func isUnit(t loop.Tile) bool {
	return sameElement(t.Origin, []sym.Expr{zero, zero}) && sameElement(t.Row, []sym.Expr{one, zero}) &&
		sameElement(t.Col, []sym.Expr{zero, one})
}

// sameElement reports whether two indices are equal.
func sameElement(a, b []sym.Expr) bool { return slices.EqualFunc(a, b, sym.Expr.Equal) }

// apart reports whether the statements that set a local of sums and those that use it may run together: the first read,
// as the contraction does, nothing that the others store, and the others read their own sums only.
func apart(set []loop.Stmt, product *loop.Contract, use []loop.Stmt, local *loop.Local) bool {
	own := set[len(set)-1].(*loop.Store).Index
	stored, ok := map[string]bool{}, true
	loop.Walk(use, func(s loop.Stmt) bool {
		switch s := s.(type) {
		case *loop.Store:
			stored[s.To] = true
		case *loop.Let, *loop.Var, *loop.Set, *loop.When:
		default:
			ok = false
		}
		return true
	})
	loop.Walk(set[:len(set)-1], func(s loop.Stmt) bool {
		_, is := s.(*loop.Let)
		ok = ok && is
		return true
	})
	visit := func(body []loop.Stmt, each func(l *loop.Load)) {
		loop.WalkValues(body, func(e loop.Expr) {
			loop.WalkExpr(e, func(e loop.Expr) {
				if l, is := e.(*loop.Load); is {
					each(l)
				}
			})
		})
	}
	visit(use, func(l *loop.Load) { ok = ok && (l.From != local.Name || l.Mask == nil && sameElement(l.Index, own)) })
	visit(set, func(l *loop.Load) { ok = ok && l.From != local.Name && !stored[l.From] })
	return ok && !stored[local.Name] && !stored[product.A.Buffer] && !stored[product.B.Buffer] &&
		product.A.Buffer != local.Name && product.B.Buffer != local.Name
}

// nests returns the chain's nests before or after the steps.
func (w *stepWriter) nests(c *chain, body []loop.Stmt) (out []loop.Stmt) {
	for _, stmt := range body {
		out = append(out, c.around(stmt, loop.Each, w.list[0].steps.Var, w.names))
	}
	return out
}

// stages returns the chain's nests in a step.
func (w *stepWriter) stages(c *chain) (out []loop.Stmt) {
	for _, nest := range w.nests(c, c.steps.Body) {
		for _, stmt := range w.names.again(w.stage(c, nest)) {
			if l, is := stmt.(*loop.Local); is {
				w.locals = append(w.locals, l)
			} else {
				out = append(out, stmt)
			}
		}
	}
	return out
}

// stage returns a nest of a step by the recipe that applies: locals of the launch, and nests. The chain's loops whose
// number of iterations only a run knows are loops over blocks, so that few sequences do not leave most of a tile empty.
func (w *stepWriter) stage(c *chain, nest loop.Stmt) []loop.Stmt {
	inner := *w.scheduler
	inner.options.Refuses = nil // the whole kernel is shown to it
	inner.dims = w.dims.Clone()
	within := func(variable sym.Name, extent sym.Expr) {
		inner.dims.Set(variable, sym.Range{Max: max(w.most(extent), 1) - 1})
	}
	within(c.steps.Var, c.extent)
	var open []*loop.For
	body := []loop.Stmt{nest}
	for range c.loops {
		f := body[0].(*loop.For)
		if _, fixed := f.Extent.Const(); fixed {
			break
		}
		within(f.Var, f.Extent)
		open, body = append(open, f), f.Body
	}
	part := &loop.Kernel{Name: w.kernel.Name, Params: w.kernel.Params, Body: body}
	part.Dims = dimsOf(part, w.kernel)
	inner.free = part.Dims
	for _, recipe := range []func(k *loop.Kernel) *loop.Kernel{inner.blockDirect, inner.blockProduct,
		inner.blockSlices, inner.blockColumns, inner.blockRows} {
		if next := recipe(part); next != nil && (len(open) == 0 || len(next.Body) == 1) {
			return inBlocks(open, next.Body)
		}
	}
	nest.(*loop.For).Kind = loop.Parallel
	return []loop.Stmt{nest}
}
