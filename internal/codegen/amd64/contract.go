package amd64

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// group emits a contraction group at the head of a body, and returns how many statements it is; 0 where there is none. A group is a local, a
// nest that writes it, and contractions into it, each inside serial loops or none. Its sums stay in registers, a tile of rows after the
// other. Where what follows is one nest that computes something simple of the sums, that is done in the registers too, and the local is never written.
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

// contractionGroup is a group taken apart. The row axis of the local is that of the contractions' rows; axes beside the two have one element.
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

// nestOfSums is a nest of at most two loops over the rows and the columns, by their variables (empty where the axis has one element), and what it does.
type nestOfSums struct {
	row, column sym.Name
	body        []loop.Stmt
}

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

// variesIn reports whether an expression mentions a loop's variable: a sum whose steps are more in one iteration than in
// another, such as the last block of them, is no sum of one loop.
func variesIn(loops []*loop.For, x sym.Expr) bool {
	return slices.ContainsFunc(x.Vars(), func(name sym.Name) bool {
		return slices.ContainsFunc(loops, func(f *loop.For) bool { return f.Var == name })
	})
}

// fits reports whether a contraction adds to the whole of the group's part of the local, as those before it do.
func (g *contractionGroup) fits(c *loop.Contract) bool {
	row, column := unitAxis(c.C.Row), unitAxis(c.C.Col)
	if row < 0 || column < 0 || row == column || slices.ContainsFunc(c.C.Origin, func(x sym.Expr) bool { return !isZero(x) }) {
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

// unitAxis is the axis along which a tile steps by 1; −1 where it steps otherwise.
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

// nest takes apart a nest over the rows and columns.
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

// takesLast reports whether a nest does no more with the local than to read, in each iteration, the element there; it is the group's last part then.
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

// contractions emits a group: from its first nest on in registers, to its contractions, or, where it is direct, to its last nest.
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
		sums := p.stream(g.local.Name, sym.Const(0), e.distance(loop.Offset(unitIndex(len(m.shape), g.row), m.shape, m.strides), p.ops.size))
		p.finish, p.save = func(t *registerTile) { t.saveSums(sums) }, sums
		n, ok := m.shape[g.column].Const()
		p.whole = ok && n*p.ops.size%int64(e.isa.bits/8) == 0
	}
	p.all()
}

func unitIndex(rank, axis int) []sym.Expr {
	index := make([]sym.Expr, rank)
	for i := range index {
		index[i] = sym.Const(0)
	}
	index[axis] = sym.Const(1)
	return index
}

// contract emits a product of tiles in memory: sums are read, added to, and written, a tile of registers after the other.
func (e *emitter) contract(s *loop.Contract) {
	m := e.k.memory(s.C.Buffer)
	if e.vector != nil || elements[m.dtype] == nil {
		refuse("a product of %s", m.dtype)
	}
	if step, ok := e.offset(s.C.Buffer, s.C.Col).Const(); !isOne(s.N) && (!ok || step != 1) {
		refuse("a product whose columns lie apart")
	}
	p := e.newProduct(m.dtype, s.M, s.N, []contraction{{product: s}})
	sums := p.stream(s.C.Buffer, e.resolve(m.offset(s.C.Origin)), e.distance(e.offset(s.C.Buffer, s.C.Row), p.ops.size))
	p.start = func(t *registerTile) { t.loadSums(sums) }
	p.finish, p.save = func(t *registerTile) { t.saveSums(sums) }, sums
	p.all()
}

// offset is how far steps along a buffer's axes lead, in elements.
func (e *emitter) offset(buffer string, steps []sym.Expr) sym.Expr {
	m := e.k.memory(buffer)
	return e.resolve(loop.Offset(steps, m.shape, m.strides))
}

// farApart is the most bytes between rows, or steps of a sum, that displacements are made of: a tile has at most
// mostRows of them, and a round unrolled steps.
const farApart = 1 << 26

// distance is a number of elements in bytes, as a number where that is fit for displacements.
func (e *emitter) distance(x sym.Expr, size int64) distance {
	x = e.resolve(x)
	if n, ok := x.Const(); ok && n <= farApart/size && n >= -farApart/size {
		return known(n * size)
	}
	return distance{register: e.times(e.integer(x), size)}
}

// iterations is a number of steps of a sum, or of a loop.
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

// disp is a number as a displacement.
func (t *registerTile) disp(v int64) int32 {
	if v > 1<<30 || v < -1<<30 {
		refuse("rows that lie far apart")
	}
	return int32(v)
}

// product is a contraction on its way into registers.
type product struct {
	*emitter
	ops     *elementOps
	rows    sym.Expr
	cols    sym.Expr
	height  asm.Reg // rows, where they are no number
	width   asm.Reg // and columns
	terms   []*term
	streams []*stream
	whole   bool // what is written may be written in whole vectors
	start   func(t *registerTile)
	finish  func(t *registerTile)
	fetch   func(t *registerTile) // before the products; nil: nothing is
	cleared bool                  // start makes all sums 0
	save    *stream               // to which finish writes them; nil: it does otherwise
}

// newProduct prepares what the tiles need, before the first of them.
func (e *emitter) newProduct(dt dtype.DType, rows, cols sym.Expr, list []contraction) *product {
	p := &product{emitter: e, ops: elements[dt], rows: e.resolve(rows), cols: e.resolve(cols)}
	if _, ok := p.rows.Const(); !ok {
		p.height = p.integer(p.rows)
	}
	if _, ok := p.cols.Const(); !ok {
		p.width = p.integer(p.cols)
	}
	for _, c := range list {
		p.terms = append(p.terms, p.term(dt, c))
	}
	return p
}

// term prepares the operands of a contraction.
func (p *product) term(dt dtype.DType, c contraction) *term {
	s := c.product
	a, b := p.k.memory(s.A.Buffer), p.k.memory(s.B.Buffer)
	formA, formB := formOf(a.dtype, dt), formOf(b.dtype, dt)
	if formA == nil || formB == nil {
		refuse("a product of %s and %s added up in %s", a.dtype, b.dtype, dt)
	}
	originA, originB := p.resolve(a.offset(s.A.Origin)), p.resolve(b.offset(s.B.Origin))
	depth := p.resolve(s.K)
	if lo, _ := p.bounds(depth); lo < 0 {
		depth = depth.Max(sym.Const(0))
	}
	t := &term{kind: p.squareKind(a.dtype, b.dtype), formA: formA, formB: formB, depth: p.iterations(depth), dot: p.dotOf(s, formA, formB),
		deepA: p.distance(p.offset(s.A.Buffer, s.A.Col), formA.size), deepB: p.distance(p.offset(s.B.Buffer, s.B.Row), formB.size)}
	if step, ok := p.offset(s.B.Buffer, s.B.Col).Const(); t.dot == nil && !isOne(p.cols) && (!ok || step != 1) {
		refuse("a product with columns that lie apart")
	}
	forward := true // along rows, and with each loop
	if lo, _ := p.bounds(p.offset(s.A.Buffer, s.A.Row)); lo < 0 {
		forward = false
	}
	for _, f := range c.serial {
		coefA, restA, okA := originA.Linear(f.Var)
		coefB, restB, okB := originB.Linear(f.Var)
		if !okA || !okB {
			refuse("an operand that does not move evenly with %s", f.Var)
		}
		t.serial = append(t.serial, serial{p.iterations(f.Extent), p.distance(coefA, formA.size), p.distance(coefB, formB.size)})
		originA, originB = restA, restB
		if lo, _ := p.bounds(coefA); lo < 0 {
			forward = false
		}
	}
	if lo, _ := p.bounds(originA); forward {
		t.dot.readBefore(lo)
	}
	t.a = p.stream(s.A.Buffer, originA, p.distance(p.offset(s.A.Buffer, s.A.Row), formA.size))
	t.b = p.pointer(s.B.Buffer, originB)
	t.room = 1
	axis := len(b.shape) - 1
	if t.dot != nil {
		t.inGroups()
		axis--
	}
	if axis >= 0 && b.strides == nil && isZero(s.B.Origin[axis]) && unitAxis(s.B.Col) == axis {
		if n, ok := b.shape[axis].Const(); ok {
			t.room = n
			line := n * t.formB.size
			t.packed = axis > 0 && t.deepB.is(line) && line*unrolled%64 == 0
		}
	}
	t.merge()
	return t
}

// stream is memory that is walked row by row, from an offset in elements on.
func (p *product) stream(buffer string, offset sym.Expr, row distance) *stream {
	from := p.pointer(buffer, offset)
	for _, s := range p.streams {
		if s.from == from && s.row == row {
			return s
		}
	}
	s := &stream{from: from, row: row}
	p.streams = append(p.streams, s)
	return s
}

// all writes the tiles of all columns.
func (p *product) all() {
	lanes := p.isa.lanesOf(p.ops)
	if n, ok := p.cols.Const(); ok {
		p.columns(n)
		return
	}
	end := p.label()
	count := p.width
	if full, rest, ok := p.few(p.cols); ok {
		ragged := p.label()
		p.integerImm(asm.CMP, count, full)
		p.jump(asm.JL, ragged)
		p.columns(full)
		p.jump(asm.JMP, end)
		p.bind(ragged)
		p.columns(rest)
		p.bind(end)
		return
	}
	_, most := p.k.ranges.Bounds(p.cols)
	if most > 8*lanes {
		refuse("%s columns", p.cols)
	}
	if lo, _ := p.bounds(p.cols); lo < 1 {
		p.integerOp(asm.TEST, count, count)
		p.jump(asm.JLE, end)
	}
	for n := lanes; ; n += lanes {
		next := p.label()
		if n < most {
			p.integerImm(asm.CMP, count, n)
			p.jump(asm.JG, next)
		}
		part := p.copyOf(count)
		p.integerImm(asm.SUB, part, n-lanes)
		p.tiles(p.isa, int(n/lanes), distance{register: part})
		if n >= most {
			break
		}
		p.jump(asm.JMP, end)
		p.bind(next)
	}
	p.bind(end)
}

// few takes apart the length of a tile: full but for the last one, which is rest.
func (p *product) few(x sym.Expr) (full, rest int64, ok bool) {
	args := x.MinArgs()
	if len(args) != 2 {
		return 0, 0, false
	}
	for i := range args {
		if full, ok = args[i].Const(); !ok || len(args[1-i].Vars()) != 1 {
			continue
		}
		name := args[1-i].Vars()[0]
		step, _, linear := args[1-i].Linear(name)
		if n, fixed := step.Const(); !linear || !fixed || n != -full {
			continue
		}
		_, last := p.k.ranges.Bounds(sym.Var(name))
		if last >= 1<<40 {
			continue
		}
		rest, ok = args[1-i].Subst(func(sym.Name) (sym.Expr, bool) { return sym.Const(last), true }).Const()
		return full, rest, ok && rest > 0 && rest <= full
	}
	return 0, 0, false
}

// columns writes the tiles of so many columns.
func (p *product) columns(n int64) {
	if n <= 0 {
		return
	}
	isa := p.vectorsFor(n)
	lanes := isa.lanesOf(p.ops)
	vectors := (n + lanes - 1) / lanes
	if vectors > 8 {
		refuse("%d columns", n)
	}
	p.tiles(isa, int(vectors), known(n%lanes))
}

func (i *isa) lanesOf(ops *elementOps) int64 { return int64(i.bits/8) / ops.size }

// vectorsFor chooses the length of vectors for so many columns, where a machine has a choice that costs nothing: half as long where half of a vector would be empty, where a row has
// one vector, whose every product would need a read as long, and for few rows, which wait for memory: reads of half the length are faster there.
func (p *product) vectorsFor(n int64) *isa {
	half := p.isa.half
	narrow := func(t *term) bool { return t.dot != nil || t.formA.size != p.ops.size || t.formB.size != p.ops.size }
	if half == nil || slices.ContainsFunc(p.terms, narrow) {
		return p.isa
	}
	lanes := half.lanesOf(p.ops)
	vectors := (n + lanes - 1) / lanes
	rows, fixed := p.rows.Const()
	switch {
	case vectors > 8:
	case vectors%2 == 1, vectors == 2, fixed && rows <= fewestRows:
		return half
	}
	return p.isa
}

// tiles writes the tiles of all rows.
func (p *product) tiles(isa *isa, vectors int, part distance) {
	if q := p.inSquares(vectors, part); q != nil {
		q.all()
		return
	}
	more := 0
	for _, m := range p.terms {
		more = max(more, m.dot.moreRows())
	}
	most := mostTileRows(p.ops.registers(isa), vectors, mostRows(isa, vectors)+more) - more
	if most <= 0 {
		refuse("%d vectors of sums", vectors)
	}
	for _, s := range p.streams {
		s.at = p.copyOf(s.from)
	}
	for _, m := range p.terms {
		m.lookAhead(p.builder, (p.rowsAhead()+int64(most)-1)/int64(most))
	}
	one := func(rows int) {
		t := &registerTile{emitter: p.emitter, isa: isa, ops: p.ops, rows: rows, vectors: vectors, part: part, whole: p.whole}
		t.begin()
		p.start(t)
		if p.fetch != nil {
			p.fetch(t)
		}
		for _, m := range p.terms {
			t.products(m)
		}
		p.finish(t)
		for _, s := range p.streams {
			t.moveOn(s.at, t.timesDistance(s.row, int64(rows)))
		}
	}
	if n, ok := p.rows.Const(); ok {
		evenRows(n, most, func(count int64, rows int) { p.repeat(known(count), func() { one(rows) }) })
		return
	}
	end := p.label()
	count := p.height
	if full, rest, ok := p.few(p.rows); ok {
		last := p.label()
		p.integerImm(asm.CMP, count, full)
		p.jump(asm.JL, last)
		evenRows(full, most, func(count int64, rows int) { p.repeat(known(count), func() { one(rows) }) })
		p.jump(asm.JMP, end)
		p.bind(last)
		evenRows(rest, most, func(count int64, rows int) { p.repeat(known(count), func() { one(rows) }) })
		p.bind(end)
		return
	}
	// Full tiles while there are two of them left, then two even ones, or one.
	left, size, again := p.copyOf(count), p.general(), p.label()
	p.integerOp(asm.TEST, left, left)
	p.jump(asm.JLE, end)
	p.turns(again, p.most(p.rows), false, asm.NoReg, 0)
	sizes := make([]asm.Label, most+1)
	for rows := range sizes {
		sizes[rows] = p.label()
	}
	next := p.label()
	p.integerImm(asm.CMP, left, int64(2*most))
	p.jump(asm.JGE, sizes[most])
	p.assign(size, left)
	single := p.label()
	p.integerImm(asm.CMP, left, int64(most))
	p.jump(asm.JLE, single)
	p.integerImm(asm.ADD, size, 1)
	p.builder.emit(asm.Inst{Op: asm.SHR, Bits: 64, Args: [4]asm.Reg{size}, Imm: 1})
	p.bind(single)
	for rows := 1; rows < most; rows++ {
		p.integerImm(asm.CMP, size, int64(rows))
		p.jump(asm.JE, sizes[rows])
	}
	for rows := most; rows > 0; rows-- {
		p.bind(sizes[rows])
		one(rows)
		p.integerImm(asm.SUB, left, int64(rows))
		if rows > 1 {
			p.jump(asm.JMP, next)
		}
	}
	p.bind(next)
	p.integerOp(asm.TEST, left, left)
	p.jump(asm.JG, again)
	p.bind(end)
}

// mostRowsAhead is the most rows, if there is no number of them, that a panel's next one is fetched during.
const mostRowsAhead = 1 << 10

// rowsAhead is how many rows are expected while the next panel is fetched: of a part of named extents, as many as whole
// parts have; 0 if nothing is known.
func (p *product) rowsAhead() int64 {
	if n, ok := p.rows.Const(); ok {
		return n
	}
	if full, _, ok := p.few(p.rows); ok {
		return full
	}
	if _, most := p.bounds(p.rows); most <= mostRowsAhead {
		return most
	}
	return 0
}

// mostRows is the most rows of a tile: more would only lengthen the code. With few registers, some are left for what is
// made of the sums of a single vector.
func mostRows(isa *isa, vectors int) int {
	if vectors == 1 && isa.registers < 32 {
		return 8
	}
	return 14
}

// evenRows cuts n rows into tiles of at most so many, as even as can be: some of one size, then some of one row less.
func evenRows(n int64, most int, do func(count int64, rows int)) {
	if n <= 0 {
		return
	}
	tiles := (n + int64(most) - 1) / int64(most)
	size := (n + tiles - 1) / tiles
	larger := n - tiles*(size-1)
	do(larger, int(size))
	if size > 1 && tiles > larger {
		do(tiles-larger, int(size-1))
	}
}
