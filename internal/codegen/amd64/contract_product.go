package amd64

import (
	"slices"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
)

// product is a contraction group whose sums are computed in registers.
type product struct {
	*emitter
	ops     *elementOps
	rows    sym.Expr
	cols    sym.Expr
	height  asm.Reg // rows, if they are not a constant
	width   asm.Reg // columns, likewise
	terms   []*term
	streams []*stream
	whole   bool // results may be written in full vectors
	start   func(t *registerTile)
	finish  func(t *registerTile)
	fetch   func(t *registerTile) // prefetches before the products; nil if nothing is prefetched
	cleared bool                  // start makes all sums 0
	save    *stream               // the stream to which finish writes the sums; nil if it does something else
}

// newProduct prepares the operands of all tiles, before the first tile.
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
	t := &term{kind: p.squareKind(a.dtype, b.dtype), formA: formA, formB: formB, depth: p.iterations(depth),
		dot:   p.dotOf(s, formA, formB),
		deepA: p.distance(p.offset(s.A.Buffer, s.A.Col), formA.size),
		deepB: p.distance(p.offset(s.B.Buffer, s.B.Row), formB.size)}
	if step, ok := p.offset(s.B.Buffer, s.B.Col).Const(); t.dot == nil && !isOne(p.cols) && (!ok || step != 1) {
		refuse("a product whose columns are not adjacent")
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
		t.serial = append(t.serial, serial{p.iterations(f.Extent), p.distance(coefA, formA.size),
			p.distance(coefB, formB.size)})
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

// few splits an extent in tiles: all have full elements except the last, which has rest.
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

// columns writes the tiles of n columns.
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

// lanesOf returns the number of lanes of a vector for a type of sums.
func (i *isa) lanesOf(ops *elementOps) int64 { return int64(i.bits/8) / ops.size }

// vectorsFor chooses the length of vectors for n columns, on machines on which half vectors take half the time.
// It chooses halves if half of a vector would be empty, if a row has one vector, whose every product would need a full
// read, and for few rows, which wait for memory, where reads of half the length are faster.
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
	// Full tiles while at least two of them are left, then two tiles of even size, or one.
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
	p.builder.Emit(asm.Inst{Op: asm.SHR, Bits: 64, Args: [4]asm.Reg{size}, Imm: 1})
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

// mostRowsAhead is the largest number of rows during which a panel's next one is fetched, if the number is not
// constant.
const mostRowsAhead = 1 << 10

// rowsAhead returns the number of rows expected while the next panel is fetched: for a block whose extent is named,
// that of a full block; 0 if nothing is known.
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

// mostRows returns the largest number of rows of a tile: more would only lengthen the code. With few registers, some
// are kept for the expressions of a single vector's sums.
func mostRows(isa *isa, vectors int) int {
	if vectors == 1 && isa.registers < 32 {
		return 8
	}
	return 14
}

// evenRows cuts n rows into tiles of at most `most` rows, of nearly equal sizes: first the larger tiles, then tiles
// with one row less. It calls do for each size, with the number of tiles.
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
