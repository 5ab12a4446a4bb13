package schedule

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Times in estimated nanoseconds. Handing out tiles takes about a microsecond each time.
const (
	stepTime     = 8_000    // the least time of a step whose nests become tiles
	stepTile     = 1_000    // the target time of such a tile
	stepLarge    = 3_000    // loops with longer iterations are cut further inside
	stepsEnough  = 0.8      // share of busy workers at which the kernel's own tiles are kept
	productNanos = 1.0 / 40 // time of a multiplication or an addition of a product
	operandNanos = 1.0 / 15 // time of an element of a product's operands
)

// inSteps turns kernels that run through steps in order, as recurrent layers do, into courses (see loop.Course), if
// their tiles keep too few workers busy. The locals of such a tile become memory that all workers share, and the nests
// before, in and after the steps have tiles of their own.
func (s *scheduler) inSteps() {
	if !s.registerTiles() || s.off("tiles") || s.machine.Threads < 2 {
		return
	}
	var launches map[*loop.Kernel][]*loop.Launch
	for _, k := range s.module.Kernels {
		course := s.course(k)
		if course == nil {
			continue
		}
		if launches == nil {
			launches = s.launches()
		}
		for _, l := range launches[k] {
			for _, p := range course.Params[len(k.Params):] {
				b := &loop.Buffer{Name: s.bufferName(k.Name + "_" + p.Name), DType: p.DType, Shape: slices.Clone(p.Shape)}
				s.module.Buffers = append(s.module.Buffers, b)
				l.Args = append(l.Args, b)
			}
		}
		*k = *course
	}
}

// chain is a nest of a kernel each of whose tiles runs through all steps in order.
type chain struct {
	loops  []*loop.For // enclosing loops: their iterations are the tiles
	before []loop.Stmt // nests
	steps  *loop.For   // of nests
	after  []loop.Stmt
	locals []*loop.Local
	extent sym.Expr    // the greatest number of steps
	count  *loop.Check // of the number of steps, if a nest of before computes it
}

// chains returns the chains of a kernel that consists of independent chains with the same number of steps, side by
// side, each in loops of a kind; nil for other kernels.
func (s *scheduler) chains(k *loop.Kernel, kind loop.LoopKind) (list []*chain) {
	bodies := [][]loop.Stmt{k.Body}
	if len(k.Body) > 1 {
		bodies = bodies[:0]
		for _, stmt := range k.Body {
			if f, ok := stmt.(*loop.For); !ok || f.Kind != kind {
				return nil
			}
			bodies = append(bodies, []loop.Stmt{stmt})
		}
	}
	for _, body := range bodies {
		c := chainOf(k, body)
		if c == nil || len(list) > 0 && !s.equal(c.extent, list[0].extent) {
			return nil
		}
		list = append(list, c)
	}
	return list
}

// chainOf returns the chain of loops around locals, nests, a serial loop of nests, and nests; nil for other bodies.
func chainOf(k *loop.Kernel, body []loop.Stmt) *chain {
	c := &chain{}
	for {
		f, only := loop.Only(body)
		if !only || f.Kind != loop.Parallel && f.Kind != loop.Each {
			break
		}
		if !onlyDims(k, f.Extent) {
			return nil
		}
		c.loops, body = append(c.loops, f), f.Body
	}
	nest := func(stmt loop.Stmt) bool {
		switch stmt := stmt.(type) {
		case *loop.Local:
			c.locals = append(c.locals, stmt)
			return stmt.Space == loop.Own && stmt.DType.Bits() >= 8
		case *loop.Check:
			load, is := stmt.X.(*loop.Load)
			is = is && c.count == nil && c.steps == nil && onlyDims(k, stmt.Max) &&
				slices.ContainsFunc(c.locals, func(l *loop.Local) bool { return l.Name == load.From })
			c.count = stmt
			return is
		case *loop.For:
			return stmt.Kind == loop.Each || stmt.Kind == loop.Vector
		}
		return false
	}
	list := &c.before
	for _, stmt := range body {
		if f, is := stmt.(*loop.For); is && f.Kind == loop.Serial {
			c.extent = f.Extent
			if c.count != nil && f.Extent.Equal(sym.Var(c.count.Name)) {
				c.extent = c.count.Max
			}
			if c.steps != nil || !onlyDims(k, c.extent) {
				return nil
			}
			c.steps, list = f, &c.after
			continue
		}
		if !nest(stmt) {
			return nil
		}
		*list = append(*list, stmt)
	}
	if c.steps == nil {
		return nil
	}
	for _, stmt := range c.steps.Body {
		if !nest(stmt) {
			return nil
		}
	}
	return c
}

// onlyDims reports whether an expression contains only the kernel's dimensions.
func onlyDims(k *loop.Kernel, e sym.Expr) bool {
	for _, name := range e.Vars() {
		if !slices.Contains(k.Dims, name) {
			return false
		}
	}
	return true
}

// course returns the kernel as a course; nil if it does not become one.
func (s *scheduler) course(k *loop.Kernel) *loop.Kernel {
	s.free = k.Dims
	if neverRuns(k) || forBlocks(k) || s.chains(k, loop.Parallel) == nil {
		return nil
	}
	k = k.Clone()
	list := s.chains(k, loop.Parallel)
	coster := s.coster(k)
	coster.product, coster.operand = productNanos, operandNanos
	coster.tile, coster.large = stepTile, stepLarge
	tiles, step := 0.0, 0.0
	for _, c := range list {
		n := 1.0
		for _, f := range c.loops {
			n *= max(s.guess(f.Extent), 1)
		}
		tiles += n
		step += n * coster.of(c.steps.Body)
	}
	threads := float64(s.machine.Threads)
	if tiles/(math.Ceil(tiles/threads)*threads) >= stepsEnough || step < stepTime {
		return nil
	}
	names := s.newNamer(k)
	steps := list[0].steps
	var before, each, after []loop.Stmt
	for _, c := range list {
		for _, p := range s.share(k, c) {
			coster.shapes[p.Name] = p
		}
		spread := func(to *[]loop.Stmt, list []loop.Stmt) {
			for _, stmt := range list {
				if f, ok := stmt.(*loop.For); ok {
					nest := coster.inStep(f, k, names)
					c.counted(nest, to == &each, names)
					*to = append(*to, c.around(nest, loop.Parallel, steps.Var, names))
				}
			}
		}
		spread(&before, c.before)
		spread(&each, c.steps.Body)
		spread(&after, c.after)
	}
	k.Body = append(append(before, &loop.For{Kind: loop.Serial, Var: steps.Var, Extent: list[0].extent, Body: each}),
		after...)
	k.Dims = dimsOf(k, &loop.Kernel{Dims: k.Dims})
	if _, ok := loop.CourseOf(k); !ok || !s.fits(k) {
		return nil
	}
	return k
}

// share turns the locals into parameters with one slice for each tile of the chain, and returns them.
func (s *scheduler) share(k *loop.Kernel, c *chain) []*loop.Param {
	var extents, prefix []sym.Expr
	for _, f := range c.loops {
		if !isOne(f.Extent) {
			extents, prefix = append(extents, f.Extent), append(prefix, sym.Var(f.Var))
		}
	}
	shared := map[string]bool{}
	for _, l := range c.locals {
		shared[l.Name] = true
		k.Params = append(k.Params, &loop.Param{Name: l.Name, Access: loop.Work, DType: l.DType,
			Shape: join(extents, l.Shape)})
	}
	none := make([]sym.Expr, len(prefix))
	tile := func(t *loop.Tile) {
		if shared[t.Buffer] {
			t.Origin, t.Row, t.Col = join(prefix, t.Origin), join(none, t.Row), join(none, t.Col)
		}
	}
	r := &loop.Rewrite{
		Expr: func(e loop.Expr) loop.Expr {
			if load, ok := e.(*loop.Load); ok && shared[load.From] {
				load.Index = join(prefix, load.Index)
			}
			return e
		},
		Stmt: func(stmt loop.Stmt) []loop.Stmt {
			switch stmt := stmt.(type) {
			case *loop.Local:
				if shared[stmt.Name] {
					return nil
				}
			case *loop.Store:
				if shared[stmt.To] {
					stmt.Index = join(prefix, stmt.Index)
				}
			case *loop.Contract:
				tile(&stmt.A)
				tile(&stmt.B)
				tile(&stmt.C)
			}
			return []loop.Stmt{stmt}
		},
	}
	c.before, c.after, c.steps.Body = r.Body(c.before), r.Body(c.after), r.Body(c.steps.Body)
	if c.count != nil {
		c.count = r.Body([]loop.Stmt{c.count})[0].(*loop.Check)
	}
	return k.Params[len(k.Params)-len(c.locals):]
}

// join returns a new list of both lists' items.
func join(first, second []sym.Expr) []sym.Expr {
	return append(first[:len(first):len(first)], second...)
}

// around puts the chain's loops around a nest, as loops of a kind, with new variables except for the step's.
func (c *chain) around(stmt loop.Stmt, kind loop.LoopKind, step sym.Name, names *namer) loop.Stmt {
	values := map[sym.Name]sym.Expr{c.steps.Var: sym.Var(step)}
	loops := make([]*loop.For, len(c.loops))
	for i, f := range c.loops {
		loops[i] = &loop.For{Kind: kind, Var: names.bound(f.Var.Text()), Extent: f.Extent}
		values[f.Var] = sym.Var(loops[i].Var)
	}
	body := loop.Substitute([]loop.Stmt{stmt}, values)
	for i := len(loops) - 1; i >= 0; i-- {
		loops[i].Body = body
		body = []loop.Stmt{loops[i]}
	}
	return body[0]
}

// counted makes the tiles of a nest read the number of steps, if a nest before computes one: those of a step do nothing
// from that number on.
func (c *chain) counted(f *loop.For, step bool, names *namer) {
	for inner, only := loop.Only(f.Body); only && inner.Kind == loop.Parallel; inner, only = loop.Only(f.Body) {
		f = inner
	}
	if c.count == nil || !step && !loop.Uses(f.Body, c.count.Name) {
		return
	}
	check := *c.count
	check.Name = names.bound(c.count.Name.Text())
	body := loop.Substitute(f.Body, map[sym.Name]sym.Expr{c.count.Name: sym.Var(check.Name)})
	if step {
		runs := loop.Apply2(loop.Lt, loop.At(sym.Var(c.steps.Var)), loop.At(sym.Var(check.Name)))
		body = []loop.Stmt{&loop.When{Cond: runs, Then: body}}
	}
	f.Body = append([]loop.Stmt{&check}, body...)
}

// inStep returns a nest of a step with its outermost loop parallel, if such tiles pay.
func (c *coster) inStep(f *loop.For, k *loop.Kernel, names *namer) *loop.For {
	if !onlyDims(k, f.Extent) || f.Kind == loop.Vector && reducesOut(f) {
		return &loop.For{Kind: loop.Parallel, Var: names.bound("t"), Extent: one, Body: []loop.Stmt{f}}
	}
	return c.tiles(f, 1, names)
}
