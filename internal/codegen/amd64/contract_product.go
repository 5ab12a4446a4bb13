package amd64

import (
	"slices"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
)

// product is a contraction group whose sums are computed in registers.
type product struct {
	*machine
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
func (e *machine) newProduct(dt dtype.DType, rows, cols sym.Expr, list []lanes.Contraction) *product {
	p := &product{machine: e, ops: elements[dt], rows: e.Resolve(rows), cols: e.Resolve(cols)}
	if _, ok := p.rows.Const(); !ok {
		p.height = p.IntegerOf(p.rows)
	}
	if _, ok := p.cols.Const(); !ok {
		p.width = p.IntegerOf(p.cols)
	}
	for _, c := range list {
		p.terms = append(p.terms, p.term(dt, c))
	}
	return p
}

// term prepares the operands of a contraction.
func (p *product) term(dt dtype.DType, c lanes.Contraction) *term {
	s := c.Product
	a, b := p.Kernel.Memory(s.A.Buffer), p.Kernel.Memory(s.B.Buffer)
	formA, formB := formOf(a.DType, dt), formOf(b.DType, dt)
	if formA == nil || formB == nil {
		lanes.Refuse("a product of %s and %s added up in %s", a.DType, b.DType, dt)
	}
	originA, originB := p.Resolve(a.Offset(s.A.Origin)), p.Resolve(b.Offset(s.B.Origin))
	depth := p.Resolve(s.K)
	if lo, _ := p.Bounds(depth); lo < 0 {
		depth = depth.Max(sym.Const(0))
	}
	t := &term{kind: p.squareKind(a.DType, b.DType), formA: formA, formB: formB, depth: p.Iterations(depth),
		dot:   p.dotOf(s, formA, formB),
		deepA: p.Distance(p.Offset(s.A.Buffer, s.A.Col), formA.size),
		deepB: p.Distance(p.Offset(s.B.Buffer, s.B.Row), formB.size)}
	if step, ok := p.Offset(s.B.Buffer, s.B.Col).Const(); t.dot == nil && !lanes.IsOne(p.cols) && (!ok || step != 1) {
		lanes.Refuse("a product whose columns are not adjacent")
	}
	forward := true // along rows, and with each loop
	if lo, _ := p.Bounds(p.Offset(s.A.Buffer, s.A.Row)); lo < 0 {
		forward = false
	}
	for _, f := range c.Serial {
		coefA, restA, okA := originA.Linear(f.Var)
		coefB, restB, okB := originB.Linear(f.Var)
		if !okA || !okB {
			lanes.Refuse("an operand that does not move evenly with %s", f.Var)
		}
		t.serial = append(t.serial, serial{p.Iterations(f.Extent), p.Distance(coefA, formA.size),
			p.Distance(coefB, formB.size)})
		originA, originB = restA, restB
		if lo, _ := p.Bounds(coefA); lo < 0 {
			forward = false
		}
	}
	if lo, _ := p.Bounds(originA); forward {
		t.dot.readBefore(lo)
	}
	t.a = p.stream(s.A.Buffer, originA, p.Distance(p.Offset(s.A.Buffer, s.A.Row), formA.size))
	t.b = p.Pointer(s.B.Buffer, originB)
	t.room = 1
	axis := len(b.Shape) - 1
	if t.dot != nil {
		t.inGroups()
		axis--
	}
	if axis >= 0 && b.Strides == nil && lanes.IsZero(s.B.Origin[axis]) && lanes.UnitAxis(s.B.Col) == axis {
		if n, ok := b.Shape[axis].Const(); ok {
			t.room = n
			line := n * t.formB.size
			t.packed = axis > 0 && t.deepB.Is(line) && line*unrolled%64 == 0
		}
	}
	t.merge()
	return t
}

// stream is memory that is walked row by row, from an offset in elements on.
func (p *product) stream(buffer string, offset sym.Expr, row lanes.Distance) *stream {
	from := p.Pointer(buffer, offset)
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
	perVector := p.isa.lanesOf(p.ops)
	if n, ok := p.cols.Const(); ok {
		p.columns(n)
		return
	}
	end := p.Label()
	count := p.width
	if full, rest, ok := p.Few(p.cols); ok {
		ragged := p.Label()
		p.integerImm(asm.CMP, count, full)
		p.jump(asm.JL, ragged)
		p.columns(full)
		p.jump(asm.JMP, end)
		p.Bind(ragged)
		p.columns(rest)
		p.Bind(end)
		return
	}
	_, most := p.Kernel.Ranges.Bounds(p.cols)
	if most > 8*perVector {
		lanes.Refuse("%s columns", p.cols)
	}
	if lo, _ := p.Bounds(p.cols); lo < 1 {
		p.integerOp(asm.TEST, count, count)
		p.jump(asm.JLE, end)
	}
	for n := perVector; ; n += perVector {
		next := p.Label()
		if n < most {
			p.integerImm(asm.CMP, count, n)
			p.jump(asm.JG, next)
		}
		part := p.CopyOf(count)
		p.integerImm(asm.SUB, part, n-perVector)
		p.tiles(p.isa, int(n/perVector), lanes.Distance{Register: part})
		if n >= most {
			break
		}
		p.jump(asm.JMP, end)
		p.Bind(next)
	}
	p.Bind(end)
}

// columns writes the tiles of n columns.
func (p *product) columns(n int64) {
	if n <= 0 {
		return
	}
	isa := p.vectorsFor(n)
	perVector := isa.lanesOf(p.ops)
	vectors := (n + perVector - 1) / perVector
	if vectors > 8 {
		lanes.Refuse("%d columns", n)
	}
	p.tiles(isa, int(vectors), lanes.Known(n%perVector))
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
	perVector := half.lanesOf(p.ops)
	vectors := (n + perVector - 1) / perVector
	rows, fixed := p.rows.Const()
	switch {
	case vectors > 8:
	case vectors%2 == 1, vectors == 2, fixed && rows <= fewestRows:
		return half
	}
	return p.isa
}

// tiles writes the tiles of all rows.
func (p *product) tiles(isa *isa, vectors int, part lanes.Distance) {
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
		lanes.Refuse("%d vectors of sums", vectors)
	}
	for _, s := range p.streams {
		s.at = p.CopyOf(s.from)
	}
	for _, m := range p.terms {
		m.lookAhead(p.machine, (p.rowsAhead()+int64(most)-1)/int64(most))
	}
	one := func(rows int) {
		t := &registerTile{machine: p.machine, isa: isa, ops: p.ops, rows: rows, vectors: vectors, part: part, whole: p.whole}
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
			t.MoveOn(s.at, t.TimesDistance(s.row, int64(rows)))
		}
	}
	if n, ok := p.rows.Const(); ok {
		lanes.EvenRows(n, most, func(count int64, rows int) { p.Repeat(lanes.Known(count), func() { one(rows) }) })
		return
	}
	end := p.Label()
	count := p.height
	if full, rest, ok := p.Few(p.rows); ok {
		last := p.Label()
		p.integerImm(asm.CMP, count, full)
		p.jump(asm.JL, last)
		lanes.EvenRows(full, most, func(count int64, rows int) { p.Repeat(lanes.Known(count), func() { one(rows) }) })
		p.jump(asm.JMP, end)
		p.Bind(last)
		lanes.EvenRows(rest, most, func(count int64, rows int) { p.Repeat(lanes.Known(count), func() { one(rows) }) })
		p.Bind(end)
		return
	}
	// Full tiles while at least two of them are left, then two tiles of even size, or one.
	left, size, again := p.CopyOf(count), p.General(), p.Label()
	p.integerOp(asm.TEST, left, left)
	p.jump(asm.JLE, end)
	p.Turns(again, p.Most(p.rows), false, asm.NoReg, 0)
	sizes := make([]asm.Label, most+1)
	for rows := range sizes {
		sizes[rows] = p.Label()
	}
	next := p.Label()
	p.integerImm(asm.CMP, left, int64(2*most))
	p.jump(asm.JGE, sizes[most])
	p.Assign(size, left)
	single := p.Label()
	p.integerImm(asm.CMP, left, int64(most))
	p.jump(asm.JLE, single)
	p.integerImm(asm.ADD, size, 1)
	p.builder.Emit(asm.Inst{Op: asm.SHR, Bits: 64, Args: [4]asm.Reg{size}, Imm: 1})
	p.Bind(single)
	for rows := 1; rows < most; rows++ {
		p.integerImm(asm.CMP, size, int64(rows))
		p.jump(asm.JE, sizes[rows])
	}
	for rows := most; rows > 0; rows-- {
		p.Bind(sizes[rows])
		one(rows)
		p.integerImm(asm.SUB, left, int64(rows))
		if rows > 1 {
			p.jump(asm.JMP, next)
		}
	}
	p.Bind(next)
	p.integerOp(asm.TEST, left, left)
	p.jump(asm.JG, again)
	p.Bind(end)
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
	if full, _, ok := p.Few(p.rows); ok {
		return full
	}
	if _, most := p.Bounds(p.rows); most <= mostRowsAhead {
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
