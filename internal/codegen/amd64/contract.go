package amd64

import (
	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Sums reports whether contractions can add up in a type.
func (e *machine) Sums(dt dtype.DType) bool { return elements[dt] != nil }

// Contractions emits a group in registers: its first nest and its contractions and, if direct, its last nest.
func (e *machine) Contractions(g *lanes.ContractionGroup, direct bool) {
	p := e.newProduct(g.Local.DType, g.Rows, g.Cols, g.Terms)
	store := g.First.Body[0].(*loop.Store)
	if c, ok := store.X.(*loop.Const); ok && c.Bits == 0 {
		p.start, p.cleared = (*registerTile).clear, true
	} else {
		first := p.expressions(g, g.First)
		p.start = func(t *registerTile) { first.fill(t, store.X) }
	}
	if direct {
		last := p.expressions(g, g.Last)
		p.finish, p.fetch = last.run, last.fetch
	} else {
		m := e.Kernel.Memory(g.Local.Name)
		sums := p.stream(g.Local.Name, sym.Const(0),
			e.Distance(loop.Offset(lanes.UnitIndex(len(m.Shape), g.Row), m.Shape, m.Strides), p.ops.size))
		p.finish, p.save = func(t *registerTile) { t.saveSums(sums) }, sums
		n, ok := m.Shape[g.Column].Const()
		p.whole = ok && n*p.ops.size%int64(e.isa.bits/8) == 0
	}
	p.all()
}

// Contract emits a product of tiles in memory: sums are read, added to, and written, a tile of registers after the
// other.
func (e *machine) Contract(s *loop.Contract) {
	m := e.Kernel.Memory(s.C.Buffer)
	if e.Strip != nil || elements[m.DType] == nil {
		lanes.Refuse("a product of %s", m.DType)
	}
	if step, ok := e.Offset(s.C.Buffer, s.C.Col).Const(); !lanes.IsOne(s.N) && (!ok || step != 1) {
		lanes.Refuse("a product whose columns are not adjacent")
	}
	p := e.newProduct(m.DType, s.M, s.N, []lanes.Contraction{{Product: s}})
	sums := p.stream(s.C.Buffer, e.Resolve(m.Offset(s.C.Origin)), e.Distance(e.Offset(s.C.Buffer, s.C.Row), p.ops.size))
	p.start = func(t *registerTile) { t.loadSums(sums) }
	p.finish, p.save = func(t *registerTile) { t.saveSums(sums) }, sums
	p.all()
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
	if !s.row.Known() {
		base = t.CopyOf(base)
	}
	for row := range t.rows {
		at := asm.Mem{Base: base}
		if s.row.Known() {
			at.Disp = t.disp(int64(row) * s.row.Fixed)
		}
		for vector := range t.vectors {
			v := at
			v.Disp += int32(vector * t.isa.bits / 8)
			do(row, vector, v)
		}
		if !s.row.Known() {
			t.MoveOn(base, s.row)
		}
	}
}

// disp returns a number as a displacement of 32 bits.
func (t *registerTile) disp(v int64) int32 {
	if v > 1<<30 || v < -1<<30 {
		lanes.Refuse("rows too far from each other")
	}
	return int32(v)
}
