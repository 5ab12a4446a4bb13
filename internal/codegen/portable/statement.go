package portable

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// action runs a statement, on n lanes inside a vector loop; n has no meaning outside of one.
type action func(f frame, n int)

// failure is the panic that ends a running kernel with an error.
type failure struct{ err error }

// body compiles a list of statements, and releases the strips of their declarations at its end.
func (c *compiler) body(list []loop.Stmt) action {
	mark := c.mark()
	actions := make([]action, 0, len(list))
	for _, s := range list {
		if do := c.statement(s); do != nil {
			actions = append(actions, do)
		}
	}
	c.release(mark)
	switch len(actions) {
	case 0:
		return func(frame, int) {}
	case 1:
		return actions[0]
	case 2:
		first, second := actions[0], actions[1]
		return func(f frame, n int) {
			first(f, n)
			second(f, n)
		}
	}
	return func(f frame, n int) {
		for _, do := range actions {
			do(f, n)
		}
	}
}

// statement compiles a statement; nil for one that does nothing when it runs.
func (c *compiler) statement(s loop.Stmt) action {
	switch s := s.(type) {
	case *loop.For:
		if s.Kind == loop.Vector && c.vector == nil && vectorizable(s.Body) {
			return c.vectorLoop(s)
		}
		return c.serial(s)
	case *loop.Let:
		return c.declare(s.Name, s.X, false)
	case *loop.Var:
		return c.declare(s.Name, s.X, true)
	case *loop.Set:
		b := c.bound[s.Name]
		mark := c.mark()
		do, _ := c.family(b.dt).assign(c, b, s.X)
		c.release(mark)
		return do
	case *loop.Reduce:
		b := c.bound[s.Name]
		mark := c.mark()
		do := c.family(b.dt).reduce(c, b, s)
		c.release(mark)
		return do
	case *loop.Check:
		return c.family(s.X.DType()).check(c, s)
	case *loop.Store:
		mark := c.mark()
		do := c.store(s)
		c.release(mark)
		return do
	case *loop.When:
		return c.when(s)
	case *loop.Local:
		return nil // its address is a word that Run sets
	case *loop.Contract:
		return c.contract(s)
	}
	c.bug("a statement of type %T", s)
	panic("not reached")
}

// vectorizable reports whether a body can run on strips: it has neither locals nor contractions.
func vectorizable(body []loop.Stmt) bool {
	good := true
	loop.Walk(body, func(s loop.Stmt) bool {
		switch s.(type) {
		case *loop.Local, *loop.Contract:
			good = false
		}
		return good
	})
	return good
}

// serial compiles a loop whose iterations run in order.
func (c *compiler) serial(s *loop.For) action {
	slot, extent, left, work := c.integers[s.Var], c.integer(s.Extent), c.budget, workOf(s.Body)
	do := c.body(s.Body)
	inner := make([]integer, 0, 2)
	for _, e := range loop.Hollow(s, func(x sym.Expr) int64 { low, _ := c.ranges.Bounds(x); return low }, c.most) {
		inner = append(inner, c.integer(e))
	}
	return func(f frame, n int) {
		count := extent.get(f)
		for _, e := range inner {
			if e.get(f) <= 0 {
				count = 0
			}
		}
		at := word[int64](f, slot)
		for i := int64(0); i < count; i++ {
			*at = i
			do(f, n)
			spend(f, left, work*int64(max(n, 1)))
		}
	}
}

// vector is the vector loop that is being compiled.
type vector struct {
	variable sym.Name
	width    int // lanes of a strip
	used     int // bytes per lane of the present strips
	peak     int // the largest value of used
}

// The strips of a vector loop should stay in the first-level cache, together with their operands.
const (
	stripBytes = 16 << 10
	leastLanes = 32
)

var mostLanes = 1024 // tests lower it, for many strips in little time

// vectorLoop compiles a vector loop. It does so twice: the first time shows the number of strips, which decides their
// width.
func (c *compiler) vectorLoop(s *loop.For) action {
	extent, slot := c.integer(s.Extent), c.integers[s.Var]
	saved := *c
	c.vector = &vector{variable: s.Var, width: leastLanes}
	c.known, c.launch = cloneMap(saved.known), saved.launch[:len(saved.launch):len(saved.launch)]
	c.body(s.Body)
	peak := max(c.vector.peak, 1)
	width := min(max(stripBytes/peak, leastLanes), mostLanes) &^ 15 // strips of any type begin at multiples of 16 bytes
	width = int(min(int64(width), roundUp(max(min(c.most(s.Extent), int64(width)), 1), 16)))
	*c = saved
	c.vector = &vector{variable: s.Var, width: width}
	do := c.body(s.Body)
	c.fixed = max(c.fixed, c.panels+peak*width)
	c.vector = nil
	left, work := c.budget, int64(width)*workOf(s.Body)
	return func(f frame, _ int) {
		count := extent.get(f)
		at := word[int64](f, slot)
		for i := int64(0); i < count; i += int64(width) {
			*at = i
			do(f, int(min(int64(width), count-i)))
			spend(f, left, work)
		}
	}
}

// workOf returns the number of operations of one iteration, without those of the loops inside, which count their own.
func workOf(body []loop.Stmt) int64 {
	work := int64(1)
	count := func(loop.Expr) { work++ }
	for _, s := range body {
		switch s := s.(type) {
		case *loop.Let:
			loop.WalkExpr(s.X, count)
		case *loop.Var:
			loop.WalkExpr(s.X, count)
		case *loop.Set:
			loop.WalkExpr(s.X, count)
		case *loop.Reduce:
			loop.WalkExpr(s.X, count)
		case *loop.Check:
			loop.WalkExpr(s.X, count)
		case *loop.Store:
			loop.WalkExpr(s.X, count)
		case *loop.When:
			loop.WalkExpr(s.Cond, count)
			work += workOf(s.Then) + workOf(s.Else)
		}
	}
	return work
}

// cloneMap returns a copy of a map, which is not nil.
func cloneMap[K comparable, V any](m map[K]V) map[K]V {
	c := make(map[K]V, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

// newStrip reserves a strip of elements of a size in bytes, and returns its offset in bytes. Outside vector loops it
// does nothing.
func (c *compiler) newStrip(size int) int {
	v := c.vector
	if v == nil {
		return 0
	}
	at := c.panels + v.used*v.width
	v.used += size
	v.peak = max(v.peak, v.used)
	return at
}

// mark returns the present use of strips, for release.
func (c *compiler) mark() int {
	if c.vector == nil {
		return 0
	}
	return c.vector.used
}

// release frees the strips reserved since a mark.
func (c *compiler) release(mark int) {
	if c.vector != nil {
		c.vector.used = mark
	}
}

// declare compiles a Let or a Var. In a vector loop a Var is a strip, and so is a Let unless its value is uniform.
func (c *compiler) declare(name string, x loop.Expr, variable bool) action {
	b := binding{dt: x.DType(), uniform: c.vector == nil}
	if b.uniform {
		b.at = c.newWord()
	} else {
		b.at = c.newStrip(c.repOf(b.dt).width())
	}
	mark := c.mark()
	do, uniform := c.family(b.dt).assign(c, b, x)
	c.release(mark)
	if uniform && !b.uniform && !variable {
		b.uniform, b.at = true, c.newWord()
		do, _ = c.family(b.dt).assign(c, b, x)
	}
	c.bound[name] = b
	return do
}

// assign compiles the assignment of x to a binding, and reports whether x is uniform.
func (k *numeric[T]) assign(c *compiler, b binding, x loop.Expr) (action, bool) {
	at := b.at
	if b.uniform {
		one, ok := c.expr(x, nil).run.(scalar[T])
		if !ok {
			c.bug("a value that differs by lane is assigned to a uniform name")
		}
		return func(f frame, _ int) { *word[T](f, at) = one(f) }, true
	}
	into := lanes[T](func(f frame, n int) []T { return strip[T](f, at, n) })
	v := c.expr(x, into)
	run, inPlace := spread[T](c, v, into)
	if inPlace {
		return func(f frame, n int) { run(f, n) }, v.uniform
	}
	return func(f frame, n int) { copy(strip[T](f, at, n), run(f, n)) }, v.uniform
}

// reduce compiles a Reduce.
func (k *numeric[T]) reduce(c *compiler, b binding, s *loop.Reduce) action {
	f, fix := k.arith.two[s.Op], settle[T](b.dt)
	if f == nil {
		c.bug("%s reduces %s", s.Op, b.dt)
	}
	switch {
	case c.vector == nil:
		at, one := b.at, c.expr(s.X, nil).run.(scalar[T])
		if fix != nil {
			return func(fr frame, _ int) {
				p := word[T](fr, at)
				*p = settleOne(fix, f(*p, one(fr)))
			}
		}
		return func(fr frame, _ int) {
			p := word[T](fr, at)
			*p = f(*p, one(fr))
		}
	case b.uniform:
		return k.across(c, b, s, f, fix)
	}
	return k.within(c, b, s, fix)
}

// within compiles a Reduce of a strip: each lane is combined with its own value.
func (k *numeric[T]) within(c *compiler, b binding, s *loop.Reduce, fix func([]T)) action {
	at := b.at
	if m, ok := s.X.(*loop.Binary); ok && s.Op == loop.Add && m.Op == loop.Mul && fix == nil {
		x, y := k.operand(c, m.X), k.operand(c, m.Y)
		if x.uniform {
			x, y = y, x
		}
		switch {
		case !x.uniform && !y.uniform:
			left, right := x.run.(lanes[T]), y.run.(lanes[T])
			return func(f frame, n int) { addProducts(strip[T](f, at, n), left(f, n), right(f, n)) }
		case !x.uniform:
			left, right := x.run.(lanes[T]), y.run.(scalar[T])
			return func(f frame, n int) { addScaled(strip[T](f, at, n), left(f, n), right(f)) }
		}
	}
	x := c.expr(s.X, nil)
	if side := k.arith.rightLoop[s.Op]; x.uniform && side != nil {
		one := x.run.(scalar[T])
		return func(f frame, n int) {
			acc := strip[T](f, at, n)
			side(acc, acc, one(f))
			if fix != nil {
				fix(acc)
			}
		}
	}
	run, _ := spread[T](c, x, nil)
	each := k.pairs(s.Op)
	return func(f frame, n int) {
		acc := strip[T](f, at, n)
		each(acc, acc, run(f, n))
		if fix != nil {
			fix(acc)
		}
	}
}

// across compiles a Reduce of a value from outside the vector loop: it is combined with all lanes.
func (k *numeric[T]) across(c *compiler, b binding, s *loop.Reduce, f func(x, y T) T, fix func([]T)) action {
	at := b.at
	if m, ok := s.X.(*loop.Binary); ok && s.Op == loop.Add && m.Op == loop.Mul && fix == nil {
		x, y := k.operand(c, m.X), k.operand(c, m.Y)
		if !x.uniform && !y.uniform {
			left, right := x.run.(lanes[T]), y.run.(lanes[T])
			return func(f frame, n int) {
				p := word[T](f, at)
				v := left(f, n)
				*p = sumProducts(*p, v, right(f, n))
			}
		}
	}
	run, _ := spread[T](c, c.expr(s.X, nil), nil)
	total := k.arith.total[s.Op]
	if total == nil || fix != nil {
		total = func(first T, x []T) T {
			for _, v := range x {
				first = settleOne(fix, f(first, v))
			}
			return first
		}
	}
	return func(f frame, n int) {
		p := word[T](f, at)
		*p = total(*p, run(f, n))
	}
}

// when compiles a When, whose condition is the same for all lanes.
func (c *compiler) when(s *loop.When) action {
	mark := c.mark()
	cond, ok := c.condition(s.Cond).run.(scalar[uint8])
	if !ok {
		c.bug("the condition of a when differs by lane")
	}
	c.release(mark)
	then, otherwise := c.body(s.Then), c.body(s.Else)
	return func(f frame, n int) {
		if cond(f) != 0 {
			then(f, n)
		} else {
			otherwise(f, n)
		}
	}
}

// check compiles a Check. The checked value is a word, or a strip of int64 if it differs by lane.
func (k *numeric[T]) check(c *compiler, s *loop.Check) action {
	low, high := c.integer(s.Min), c.integer(s.Max)
	dt, what, slot := s.X.DType(), s.What, c.integers[s.Name]
	source := c.kernel.Source
	test := func(f frame, x T) int64 {
		v, a, b := int64(x), low.get(f), high.get(f)
		if v < a || v > b || dt == dtype.U64 && uint64(v) > math.MaxInt64 {
			detail := loop.CheckDetail(what, dt, loop.FromInt(dt, v), a, b)
			panic(failure{&diag.Error{Kind: diag.ErrInput, Node: source, Detail: detail}})
		}
		return v
	}
	if c.vector == nil {
		one := c.expr(s.X, nil).run.(scalar[T])
		return func(f frame, _ int) { *word[int64](f, slot) = test(f, one(f)) }
	}
	at := c.newStrip(8)
	mark := c.mark()
	x := c.expr(s.X, nil)
	run, _ := x.run.(lanes[T])
	c.release(mark)
	if x.uniform {
		one := x.run.(scalar[T])
		return func(f frame, _ int) { *word[int64](f, slot) = test(f, one(f)) }
	}
	c.checked[s.Name] = at
	return func(f frame, n int) {
		v := run(f, n)
		to := strip[int64](f, at, n)
		for i, x := range v[:len(to)] {
			to[i] = test(f, x)
		}
	}
}

// contract compiles a Contract.
func (c *compiler) contract(s *loop.Contract) action {
	switch represents[c.memory(s.C.Buffer).dt] {
	case repF32:
		return contraction[float32](c, s)
	case repF64:
		return contraction[float64](c, s)
	case repI32, repU32:
		return contraction[int32](c, s)
	case repI64, repU64:
		return contraction[int64](c, s)
	}
	c.bug("a contraction cannot add in %s", c.memory(s.C.Buffer).dt)
	panic("not reached")
}

// contraction compiles a Contract whose sums have type T.
func contraction[T accumulator](c *compiler, s *loop.Contract) action {
	m, n, k := c.integer(s.M), c.integer(s.N), c.integer(s.K)
	to, a, b := c.tile(s.C), c.tile(s.A), c.tile(s.B)
	formA, formB := form[T](c, c.memory(s.A.Buffer).dt), form[T](c, c.memory(s.B.Buffer).dt)
	// If nothing writes the left operand, its packed panels serve the next contraction of the same tile too.
	constant, held, left := c.readOnly(s.A.Buffer), c.held, c.budget
	room := c.room(s)
	elements := int(room.left + room.right)
	return func(f frame, _ int) {
		panels := strip[T](f, 0, elements)
		before := word[leftPanels](f, held)
		if !constant {
			*before = leftPanels{}
		}
		contract(effort{f, left}, panels, room, before, m.get(f), n.get(f), k.get(f), to(f), a(f), b(f), formA, formB)
		if !constant {
			*before = leftPanels{}
		}
	}
}

// readOnly reports whether a buffer is a parameter that the kernel only reads.
func (c *compiler) readOnly(buffer string) bool {
	return slices.ContainsFunc(c.kernel.Params, func(p *loop.Param) bool {
		return p.Name == buffer && p.Access == loop.Read
	})
}

// tile compiles a Tile.
func (c *compiler) tile(t loop.Tile) func(f frame) matrix {
	m := c.memory(t.Buffer)
	origin, row, col := c.integer(m.offset(t.Origin)), c.integer(m.offset(t.Row)), c.integer(m.offset(t.Col))
	return func(f frame) matrix {
		return matrix{address(f, m.slot), origin.get(f), row.get(f), col.get(f)}
	}
}
