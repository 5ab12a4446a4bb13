package amd64

import (
	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
)

// squareProduct returns the instruction that multiplies a term's squares.
func squareProduct(m *lanes.Term) asm.Op {
	switch unsignedA, unsignedB := m.Left.In == dtype.U8, m.Right.In == dtype.U8; {
	case m.Group.Size == 2:
		return asm.TDPBF16PS
	case unsignedA && unsignedB:
		return asm.TDPBUUD
	case unsignedA:
		return asm.TDPBUSD
	case unsignedB:
		return asm.TDPBSUD
	}
	return asm.TDPBSSD
}

// squareKind returns the name of the tile registers' product of a term's types; "" if there is none.
func (e *machine) squareKind(m *lanes.Term, sums *lanes.Sums) string {
	switch {
	case isByte(m.Left.In) && isByte(m.Right.In) && sums.Size == 4:
		return "bytes"
	case m.Left.In == dtype.BF16 && m.Right.In == dtype.BF16 && e.isa.bf16 > 0:
		return "bf16"
	}
	return ""
}

// finishRows runs the last nest on a block's sums in the frame, in vectors, and advances the streams.
func (b *squareBlock) finishRows() {
	if b.line == 0 {
		for _, s := range b.product.Streams {
			if b.rows.Known() {
				b.product.MoveOn(s.At, b.product.TimesDistance(s.Row, b.rows.Fixed-b.again))
				continue
			}
			r := b.CopyOf(b.rows.Register)
			if s.Row.Known() {
				r = b.Times(r, s.Row.Fixed)
			} else {
				b.integerOp(asm.IMUL, r, s.Row.Register)
			}
			b.product.MoveOn(s.At, lanes.Distance{Register: r})
		}
		return
	}
	n := b.line / b.product.Sums.Size
	perVector := b.product.Sums.Lanes()
	vectors := int((n + perVector - 1) / perVector)
	from := &lanes.Stream{At: b.CopyOf(frameRegister), Row: lanes.Known(b.line)}
	b.integerImm(asm.ADD, from.At, int64(b.at)+b.again*b.line)
	some := func(rows int) {
		t := b.product.NewTile(b.product.Sums, rows, vectors, lanes.Known(n%perVector))
		t.Begin()
		if b.product.Cleared {
			t.LoadSums(from)
		} else {
			b.product.Start(t)
			t.AddSums(from)
		}
		b.product.Finish(t)
		for _, s := range append([]*lanes.Stream{from}, b.product.Streams...) {
			t.MoveOn(s.At, t.TimesDistance(s.Row, int64(rows)))
		}
	}
	if !b.rows.Known() {
		b.product.RepeatAtMost(b.rows, 2*squareRows, func() { some(1) })
		return
	}
	most := mostTileRows(b.isa.productRegisters(b.product.Sums.DType), vectors, mostFinishRows)
	lanes.EvenRows(b.rows.Fixed-b.again, max(most, 1), func(count int64, rows int) {
		b.product.Repeat(lanes.Known(count), func() { some(rows) })
	})
}

// mostFinishRows is the largest number of rows whose sums are finished at once.
const mostFinishRows = 4
