package amd64

import (
	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
)

// squareProduct returns the instruction that multiplies a term's squares.
func (m *term) squareProduct() asm.Op {
	if m.dot.size == 2 {
		return asm.TDPBF16PS
	}
	unsignedA := m.dot.unsignedB == m.dot.shifted
	switch {
	case unsignedA && m.dot.unsignedB:
		return asm.TDPBUUD
	case unsignedA:
		return asm.TDPBUSD
	case m.dot.unsignedB:
		return asm.TDPBSUD
	}
	return asm.TDPBSSD
}

// finishRows runs the last nest on a block's sums in the frame, in vectors, and advances the streams.
func (b *squareBlock) finishRows() {
	if b.line == 0 {
		for _, s := range b.streams {
			if b.rows.Known() {
				b.MoveOn(s.at, b.TimesDistance(s.row, b.rows.Fixed-b.again))
				continue
			}
			r := b.CopyOf(b.rows.Register)
			if s.row.Known() {
				r = b.Times(r, s.row.Fixed)
			} else {
				b.integerOp(asm.IMUL, r, s.row.Register)
			}
			b.MoveOn(s.at, lanes.Distance{Register: r})
		}
		return
	}
	n := b.line / b.ops.size
	perVector := b.isa.lanesOf(b.ops)
	vectors := int((n + perVector - 1) / perVector)
	from := &stream{at: b.CopyOf(frameRegister), row: lanes.Known(b.line)}
	b.integerImm(asm.ADD, from.at, int64(b.at)+b.again*b.line)
	some := func(rows int) {
		t := &registerTile{machine: b.machine, isa: b.isa, ops: b.ops, rows: rows, vectors: vectors,
			part:  lanes.Known(n % perVector),
			whole: b.whole}
		t.begin()
		if b.cleared {
			t.loadSums(from)
		} else {
			b.start(t)
			t.eachVector(from, func(row, vector int, at asm.Mem) {
				r := t.take()
				t.loadLanes(r, vector, at)
				t.wide(t.ops.add, t.sum(row, vector), t.sum(row, vector), r)
				t.give(r)
			})
		}
		b.finish(t)
		for _, s := range append([]*stream{from}, b.streams...) {
			t.MoveOn(s.at, t.TimesDistance(s.row, int64(rows)))
		}
	}
	if !b.rows.Known() {
		b.RepeatAtMost(b.rows, 2*squareRows, func() { some(1) })
		return
	}
	most := mostTileRows(b.ops.registers(b.isa), vectors, mostFinishRows)
	lanes.EvenRows(b.rows.Fixed-b.again, max(most, 1), func(count int64, rows int) {
		b.Repeat(lanes.Known(count), func() { some(rows) })
	})
}

// mostFinishRows is the largest number of rows whose sums are finished at once.
const mostFinishRows = 4
