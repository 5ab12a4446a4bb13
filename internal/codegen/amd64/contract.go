package amd64

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// group emits a contraction group at the head of a body, and returns the number of its statements; 0 if there is none.
// A group is a local, a nest that writes it, and contractions into it, each inside serial loops or none. Its sums stay
// in registers, one tile of rows after the other. If one nest follows that computes simple expressions of the sums, it
// is done in the registers too, and the local is never written.
func (e *emitter) group(list []loop.Stmt) int {
	if e.vector != nil {
		return 0
	}
	g := groupOf(list)
	if g == nil {
		return 0
	}
	rest := list[2+len(g.terms):]
	for _, direct := range []bool{true, false} {
		if direct && (len(rest) != 1 || !g.takesLast(rest[0])) {
			continue
		}
		saved := e.snapshot()
		reason := attempt(func() { e.contractions(g, direct) })
		if reason == "" {
			if direct {
				return len(list)
			}
			return 2 + len(g.terms)
		}
		e.restore(saved)
		e.k.note("the sums in %%%s do not stay in registers: %s", g.local.Name, reason)
	}
	return 0
}

// contractionGroup is the parts of a group. The local's row axis is that of the contractions' rows; its other axes,
// besides the column axis, have one element.
type contractionGroup struct {
	local       *loop.Local
	rows, cols  sym.Expr
	row, column int // axes
	first, last nestOfSums
	terms       []contraction
}

// contraction is a product inside serial loops.
type contraction struct {
	serial  []*loop.For
	product *loop.Contract
}

// nestOfSums is a nest of at most two loops over the rows and the columns, by their variables (empty if the axis has
// one element), and its statements.
type nestOfSums struct {
	row, column sym.Name
	body        []loop.Stmt
}

// groupOf returns the contractions into one local that begin a body, with the local; nil if the body has another form.
func groupOf(list []loop.Stmt) *contractionGroup {
	l, ok := list[0].(*loop.Local)
	if !ok || len(list) < 3 || l.Space != 0 || len(l.Shape) < 2 || elements[l.DType] == nil {
		return nil
	}
	g := &contractionGroup{local: l}
	for _, s := range list[2:] {
		t := contraction{}
		for {
			f, ok := s.(*loop.For)
			if !ok || f.Kind != loop.Serial || len(f.Body) != 1 {
				break
			}
			t.serial = append(t.serial, f)
			s = f.Body[0]
		}
		c, ok := s.(*loop.Contract)
		if !ok || c.C.Buffer != l.Name || !g.fits(c) || variesIn(t.serial, c.K) {
			break
		}
		t.product = c
		g.terms = append(g.terms, t)
	}
	if len(g.terms) == 0 {
		return nil
	}
	if g.first, ok = g.nest(list[1]); !ok || len(g.first.body) != 1 {
		return nil
	}
	s, ok := g.first.body[0].(*loop.Store)
	if !ok || s.To != l.Name || s.Mask != nil || !g.at(s.Index, g.first) {
		return nil
	}
	return g
}

// variesIn reports whether an expression mentions a loop's variable: a sum with more steps in one iteration than in
// another, such as in the last block, is not a sum of one loop.
func variesIn(loops []*loop.For, x sym.Expr) bool {
	return slices.ContainsFunc(x.Vars(), func(name sym.Name) bool {
		return slices.ContainsFunc(loops, func(f *loop.For) bool { return f.Var == name })
	})
}

// fits reports whether a contraction adds to all elements of the local that the group's other contractions add to.
func (g *contractionGroup) fits(c *loop.Contract) bool {
	row, column := unitAxis(c.C.Row), unitAxis(c.C.Col)
	if row < 0 || column < 0 || row == column || slices.ContainsFunc(c.C.Origin, func(x sym.Expr) bool {
		return !isZero(x)
	}) {
		return false
	}
	if len(g.terms) == 0 {
		g.rows, g.cols, g.row, g.column = c.M, c.N, row, column
		for axis, x := range g.local.Shape {
			if n, ok := x.Const(); axis != row && axis != column && (!ok || n != 1) {
				return false
			}
		}
		return true
	}
	return g.rows.Equal(c.M) && g.cols.Equal(c.N) && g.row == row && g.column == column
}

// unitAxis returns the axis along which a tile steps by 1; −1 if it steps otherwise.
func unitAxis(steps []sym.Expr) int {
	axis := -1
	for i, x := range steps {
		n, ok := x.Const()
		switch {
		case ok && n == 0:
		case ok && n == 1 && axis < 0:
			axis = i
		default:
			return -1
		}
	}
	return axis
}

// nest reads a nest over the rows and columns; ok is false for other statements.
func (g *contractionGroup) nest(s loop.Stmt) (n nestOfSums, ok bool) {
	n.body = []loop.Stmt{s}
	for {
		f, ok := loop.Only(n.body)
		if !ok {
			break
		}
		switch {
		case n.column.None() && f.Extent.Equal(g.cols) && f.Kind == loop.Vector:
			n.column = f.Var
		case n.row.None() && n.column.None() && f.Extent.Equal(g.rows) && f.Kind == loop.Each:
			n.row = f.Var
		default:
			return n, false
		}
		n.body = f.Body
	}
	return n, (!n.row.None() || isOne(g.rows)) && (!n.column.None() || isOne(g.cols))
}

// isOne reports whether an integer is the constant 1.
func isOne(x sym.Expr) bool { v, ok := x.Const(); return ok && v == 1 }

// at reports whether an index is the local's element at a nest's own row and column.
func (g *contractionGroup) at(index []sym.Expr, n nestOfSums) bool {
	is := func(x sym.Expr, variable sym.Name) bool {
		if variable.None() {
			return isZero(x)
		}
		name, ok := x.Name()
		return ok && name == variable
	}
	for axis, x := range index {
		variable := sym.Name{}
		switch axis {
		case g.row:
			variable = n.row
		case g.column:
			variable = n.column
		}
		if !is(x, variable) {
			return false
		}
	}
	return true
}

// takesLast reports whether a nest only reads the local's element of its own iteration; it then becomes the group's
// last nest.
func (g *contractionGroup) takesLast(s loop.Stmt) bool {
	n, ok := g.nest(s)
	if !ok {
		return false
	}
	for _, a := range loop.Accesses(n.body) {
		if a.Buffer == g.local.Name && (a.Write || a.Tile != nil || a.Mask != nil || !g.at(a.Index, n)) {
			return false
		}
	}
	for _, s := range n.body {
		switch s.(type) {
		case *loop.Let, *loop.Store:
		default:
			return false
		}
	}
	g.last = n
	return true
}

// contractions emits a group in registers: its first nest and its contractions and, if direct, its last nest.
func (e *emitter) contractions(g *contractionGroup, direct bool) {
	p := e.newProduct(g.local.DType, g.rows, g.cols, g.terms)
	store := g.first.body[0].(*loop.Store)
	if c, ok := store.X.(*loop.Const); ok && c.Bits == 0 {
		p.start, p.cleared = (*registerTile).clear, true
	} else {
		first := p.expressions(g, g.first)
		p.start = func(t *registerTile) { first.fill(t, store.X) }
	}
	if direct {
		last := p.expressions(g, g.last)
		p.finish, p.fetch = last.run, last.fetch
	} else {
		m := e.k.memory(g.local.Name)
		sums := p.stream(g.local.Name, sym.Const(0),
			e.distance(loop.Offset(unitIndex(len(m.shape), g.row), m.shape, m.strides), p.ops.size))
		p.finish, p.save = func(t *registerTile) { t.saveSums(sums) }, sums
		n, ok := m.shape[g.column].Const()
		p.whole = ok && n*p.ops.size%int64(e.isa.bits/8) == 0
	}
	p.all()
}

// unitIndex returns an index that is 1 along an axis and 0 along all others.
func unitIndex(rank, axis int) []sym.Expr {
	index := make([]sym.Expr, rank)
	for i := range index {
		index[i] = sym.Const(0)
	}
	index[axis] = sym.Const(1)
	return index
}

// contract emits a product of tiles in memory: sums are read, added to, and written, a tile of registers after the
// other.
func (e *emitter) contract(s *loop.Contract) {
	m := e.k.memory(s.C.Buffer)
	if e.vector != nil || elements[m.dtype] == nil {
		refuse("a product of %s", m.dtype)
	}
	if step, ok := e.offset(s.C.Buffer, s.C.Col).Const(); !isOne(s.N) && (!ok || step != 1) {
		refuse("a product whose columns are not adjacent")
	}
	p := e.newProduct(m.dtype, s.M, s.N, []contraction{{product: s}})
	sums := p.stream(s.C.Buffer, e.resolve(m.offset(s.C.Origin)), e.distance(e.offset(s.C.Buffer, s.C.Row), p.ops.size))
	p.start = func(t *registerTile) { t.loadSums(sums) }
	p.finish, p.save = func(t *registerTile) { t.saveSums(sums) }, sums
	p.all()
}

// offset returns the distance in elements of steps along a buffer's axes.
func (e *emitter) offset(buffer string, steps []sym.Expr) sym.Expr {
	m := e.k.memory(buffer)
	return e.resolve(loop.Offset(steps, m.shape, m.strides))
}

// farApart is the greatest distance in bytes between rows, or steps of a sum, that displacements can express: a tile
// has at most mostRows rows, and a round unrolled steps.
const farApart = 1 << 26

// distance returns a number of elements in bytes, as a constant if it is at most farApart, else in a register.
func (e *emitter) distance(x sym.Expr, size int64) distance {
	x = e.resolve(x)
	if n, ok := x.Const(); ok && n <= farApart/size && n >= -farApart/size {
		return known(n * size)
	}
	return distance{register: e.times(e.integer(x), size)}
}

// iterations returns the number of steps of a sum, or of a loop, as a constant or in a register.
func (e *emitter) iterations(x sym.Expr) distance {
	x = e.resolve(x)
	if n, ok := x.Const(); ok && n <= math.MaxInt32 {
		return known(n)
	}
	return distance{register: e.integer(x)}
}

// loadSums reads all sums from memory.
func (t *registerTile) loadSums(s *stream) {
	t.eachVector(s, func(row, vector int, at asm.Mem) { t.loadLanes(t.sum(row, vector), vector, at) })
}

// saveSums writes all sums to memory.
func (t *registerTile) saveSums(s *stream) {
	t.eachVector(s, func(row, vector int, at asm.Mem) { t.storeLanes(at, vector, t.sum(row, vector)) })
}

// eachVector calls do for each of the tile's vectors, with its address in a stream.
func (t *registerTile) eachVector(s *stream, do func(row, vector int, at asm.Mem)) {
	base := s.at
	if !s.row.known() {
		base = t.copyOf(base)
	}
	for row := range t.rows {
		at := asm.Mem{Base: base}
		if s.row.known() {
			at.Disp = t.disp(int64(row) * s.row.fixed)
		}
		for vector := range t.vectors {
			v := at
			v.Disp += int32(vector * t.isa.bits / 8)
			do(row, vector, v)
		}
		if !s.row.known() {
			t.moveOn(base, s.row)
		}
	}
}

// disp returns a number as a displacement of 32 bits.
func (t *registerTile) disp(v int64) int32 {
	if v > 1<<30 || v < -1<<30 {
		refuse("rows too far from each other")
	}
	return int32(v)
}
