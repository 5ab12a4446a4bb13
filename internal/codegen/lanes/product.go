package lanes

import (
	"slices"

	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Product is a contraction group whose sums are computed in registers, one tile after the other.
type Product struct {
	*Emitter
	Sums          *Sums
	Rows, cols    sym.Expr
	Height        regalloc.Reg // rows, if they are not a constant
	width         regalloc.Reg // columns, likewise
	Terms         []*Term
	Streams       []*Stream
	whole         bool // results may be written in full vectors
	Start, Finish func(t *RegisterTile)
	fetch         func(t *RegisterTile) // before the products; nil if nothing is fetched
	Cleared       bool                  // Start makes all sums 0
	Save          *Stream               // the stream to which Finish writes the sums; nil if it does something else
}

// Stream is memory of which a tile reads or writes a row for each row of its own.
type Stream struct {
	From, At regalloc.Reg // the address of its beginning, and of the tile's first row
	Row      Distance     // from a row to the next
}

// contractions emits a contraction group in registers: its first nest and its contractions and, if direct, its last
// nest.
func (e *Emitter) contractions(g *contractionGroup, direct bool) {
	p := e.newProduct(e.SumsOf(g.local.DType), g.rows, g.cols, g.terms)
	store := g.first.body[0].(*loop.Store)
	if c, ok := store.X.(*loop.Const); ok && c.Bits == 0 {
		p.Start, p.Cleared = (*RegisterTile).clear, true
	} else {
		first := p.expressions(g, g.first)
		p.Start = func(t *RegisterTile) { first.fill(t, store.X) }
	}
	if direct {
		last := p.expressions(g, g.last)
		p.Finish, p.fetch = last.run, last.fetchStores
	} else {
		m := e.Kernel.Memory(g.local.Name)
		sums := p.stream(g.local.Name, sym.Const(0),
			e.Distance(loop.Offset(UnitIndex(len(m.Shape), g.row), m.Shape, m.Strides), p.Sums.Size))
		p.Finish, p.Save = func(t *RegisterTile) { t.saveSums(sums) }, sums
		n, ok := m.Shape[g.column].Const()
		p.whole = ok && n%p.Sums.Lanes() == 0
	}
	p.all()
}

// contract emits a product of tiles in memory: sums are read, added to, and written, a tile of registers after the
// other.
func (e *Emitter) contract(s *loop.Contract) {
	m := e.Kernel.Memory(s.C.Buffer)
	sums := e.SumsOf(m.DType)
	if e.Strip != nil || sums == nil {
		Refuse("a product of %s", m.DType)
	}
	if step, ok := e.Offset(s.C.Buffer, s.C.Col).Const(); !isOne(s.N) && (!ok || step != 1) {
		Refuse("a product whose columns are not adjacent")
	}
	p := e.newProduct(sums, s.M, s.N, []contraction{{product: s}})
	at := p.stream(s.C.Buffer, e.Resolve(m.Offset(s.C.Origin)), e.Distance(e.Offset(s.C.Buffer, s.C.Row), sums.Size))
	p.Start = func(t *RegisterTile) { t.LoadSums(at) }
	p.Finish, p.Save = func(t *RegisterTile) { t.saveSums(at) }, at
	p.all()
}

// newProduct prepares the operands of all tiles, before the first tile.
func (e *Emitter) newProduct(sums *Sums, rows, cols sym.Expr, list []contraction) *Product {
	p := &Product{Emitter: e, Sums: sums, Rows: e.Resolve(rows), cols: e.Resolve(cols)}
	if _, ok := p.Rows.Const(); !ok {
		p.Height = p.IntegerOf(p.Rows)
	}
	if _, ok := p.cols.Const(); !ok {
		p.width = p.IntegerOf(p.cols)
	}
	for _, c := range list {
		p.Terms = append(p.Terms, p.term(c))
	}
	return p
}

// stream returns memory that is walked row by row, from an offset in elements on.
func (p *Product) stream(buffer string, offset sym.Expr, row Distance) *Stream {
	from := p.Pointer(buffer, offset)
	for _, s := range p.Streams {
		if s.From == from && s.Row == row {
			return s
		}
	}
	s := &Stream{From: from, Row: row}
	p.Streams = append(p.Streams, s)
	return s
}

// mostVectors is the largest number of vectors of a tile.
const mostVectors = 8

// all emits the tiles of all columns.
func (p *Product) all() {
	perVector := p.Sums.Lanes()
	if n, ok := p.cols.Const(); ok {
		p.columns(n)
		return
	}
	end := p.Label()
	count := p.width
	if full, rest, ok := p.Few(p.cols); ok {
		p.Either(count, full, rest, end, p.columns)
		return
	}
	_, most := p.Kernel.Ranges.Bounds(p.cols)
	if most > mostVectors*perVector {
		Refuse("%s columns", p.cols)
	}
	if lo, _ := p.Bounds(p.cols); lo < 1 {
		p.CompareZero(count)
		p.JumpIf(LessOrEqual, end)
	}
	for n := perVector; ; n += perVector {
		next := p.Label()
		if n < most {
			p.CompareNumber(count, n)
			p.JumpIf(Greater, next)
		}
		part := p.CopyOf(count)
		p.IntegerNumber(Subtract, part, n-perVector)
		p.tiles(p.Sums, int(n/perVector), Distance{Register: part})
		if n >= most {
			break
		}
		p.Jump(end)
		p.Bind(next)
	}
	p.Bind(end)
}

// Either emits do for a count that is full or rest, and binds end after it.
func (e *Emitter) Either(count regalloc.Reg, full, rest int64, end regalloc.Label, do func(n int64)) {
	ragged := e.Label()
	e.CompareNumber(count, full)
	e.JumpIf(Less, ragged)
	do(full)
	e.Jump(end)
	e.Bind(ragged)
	do(rest)
	e.Bind(end)
}

// columns emits the tiles of n columns.
func (p *Product) columns(n int64) {
	if n <= 0 {
		return
	}
	sums := p.vectorsFor(n)
	perVector := sums.Lanes()
	vectors := (n + perVector - 1) / perVector
	if vectors > mostVectors {
		Refuse("%d columns", n)
	}
	p.tiles(sums, int(vectors), Known(n%perVector))
}

// vectorsFor chooses the length of vectors for n columns, on machines on which half vectors take half the time.
// It chooses halves if half of a vector would be empty, if a row has one vector, whose every product would need a full
// read, and for few rows, which wait for memory, where reads of half the length are faster.
func (p *Product) vectorsFor(n int64) *Sums {
	half := p.Sums.Half
	narrow := func(m *Term) bool { return m.Group != nil || m.Left.Narrow() || m.Right.Narrow() }
	if half == nil || slices.ContainsFunc(p.Terms, narrow) {
		return p.Sums
	}
	perVector := half.Lanes()
	vectors := (n + perVector - 1) / perVector
	rows, fixed := p.Rows.Const()
	switch {
	case vectors > mostVectors:
	case vectors%2 == 1, vectors == 2, fixed && rows <= fewestRows:
		return half
	}
	return p.Sums
}

// NewTile returns a tile of sums; part is the number of lanes of the last vector that it has, 0: all.
func (p *Product) NewTile(sums *Sums, rows, vectors int, part Distance) *RegisterTile {
	return &RegisterTile{Emitter: p.Emitter, Sums: sums, Rows: rows, Vectors: vectors, Part: part, whole: p.whole}
}

// tiles emits the tiles of all rows.
func (p *Product) tiles(sums *Sums, vectors int, part Distance) {
	if p.InMatrices(p, vectors, part) {
		return
	}
	by := Grouping{Together: 1}
	for _, m := range p.Terms {
		by.More, by.Together = max(by.More, m.More()), max(by.Together, m.Together())
	}
	most := p.MostRows(sums, vectors, by)
	if most <= 0 {
		Refuse("%d vectors of sums", vectors)
	}
	for _, s := range p.Streams {
		s.At = p.CopyOf(s.From)
	}
	for _, m := range p.Terms {
		m.lookAhead(p, int64(most))
	}
	one := func(rows int) {
		t := p.NewTile(sums, rows, vectors, part)
		t.Begin()
		p.Start(t)
		t.Cleared = p.Cleared
		if p.fetch != nil {
			p.fetch(t)
		}
		for _, m := range p.Terms {
			t.products(m)
			t.Cleared = false
		}
		p.Finish(t)
		for _, s := range p.Streams {
			t.MoveOn(s.At, t.TimesDistance(s.Row, int64(rows)))
		}
	}
	even := func(n int64) {
		evenGroups(n, most, by.Together, func(count int64, rows int) { p.Repeat(Known(count), func() { one(rows) }) })
	}
	if n, ok := p.Rows.Const(); ok {
		even(n)
		return
	}
	end := p.Label()
	if full, rest, ok := p.Few(p.Rows); ok {
		p.Either(p.Height, full, rest, end, even)
		return
	}
	// Full tiles while at least two of them are left, then two tiles of even size, or one.
	left, size, again := p.CopyOf(p.Height), p.General(), p.Label()
	p.CompareZero(left)
	p.JumpIf(LessOrEqual, end)
	for _, m := range p.Terms {
		m.divideAhead(p, left, int64(most))
	}
	p.Turns(again, p.Most(p.Rows), false, regalloc.NoReg, 0)
	sizes := make([]regalloc.Label, most+1)
	for rows := range sizes {
		sizes[rows] = p.Label()
	}
	next := p.Label()
	p.CompareNumber(left, int64(2*most))
	p.JumpIf(GreaterOrEqual, sizes[most])
	p.Assign(size, left)
	single := p.Label()
	p.CompareNumber(left, int64(most))
	p.JumpIf(LessOrEqual, single)
	p.IntegerNumber(Add, size, 1)
	p.Halve(size)
	if n := int64(by.Together); n > 1 {
		p.IntegerNumber(Add, size, n-1)
		p.IntegerNumber(And, size, -n)
	}
	p.Bind(single)
	for rows := 1; rows < most; rows++ {
		p.CompareNumber(size, int64(rows))
		p.JumpIf(Equal, sizes[rows])
	}
	for rows := most; rows > 0; rows-- {
		p.Bind(sizes[rows])
		one(rows)
		p.IntegerNumber(Subtract, left, int64(rows))
		if rows > 1 {
			p.Jump(next)
		}
	}
	p.Bind(next)
	p.CompareZero(left)
	p.JumpIf(Greater, again)
	p.Bind(end)
}

// mostRowsAhead is the largest number of rows during which a panel's next one is fetched, if the number is not
// constant.
const mostRowsAhead = 1 << 10

// tilesAhead returns the number of tiles of most rows while the next panel is fetched, 0 if nothing is known of it, and
// whether a run keeps to it: for a block whose extent is named, it is that of a full block.
func (p *Product) tilesAhead(most int64) (tiles int64, known bool) {
	of := func(rows int64) int64 { return (rows + most - 1) / most }
	if n, ok := p.Rows.Const(); ok {
		return of(n), true
	}
	if full, _, ok := p.Few(p.Rows); ok {
		return of(full), true
	}
	if _, rows := p.Bounds(p.Rows); rows <= mostRowsAhead {
		return of(rows), false
	}
	return 0, false
}
