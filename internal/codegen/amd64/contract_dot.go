package amd64

import (
	"encoding/binary"
	"slices"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// One instruction adds up a group of 2 or 4 consecutive steps of a sum of products of bytes or bf16. Such a product is
// done by groups if the right operand stores each column's groups side by side: a lane of 32 bits holds a group of A,
// repeated for all columns, and a group of B. Everything is exact, and wraps as the sums do. VPMADDWD multiplies two
// numbers of 16 bits, to which bytes are widened. VPDPBUSD takes four bytes, unsigned ones on one side and signed ones
// on the other. If both sides are signed, or both unsigned, 128 is added to or subtracted from A: each sum is then off
// by 128 times the sum of its column. A row of these, computed with 128 in place of A, is added up beside the tile's
// rows, and subtracted from them at the end. VDPBF16PS adds up two products of bf16 in f32.

// dot describes how a term's groups are read.
type dot struct {
	group     int64 // elements
	size      int64 // bytes of an element
	count     int64 // elements of A in a group that are multiplied
	step      int64 // bytes from one of them to the next
	unsignedB bool
	shifted   bool  // A is shifted by 128
	before    int64 // elements of A before these, which are read with them and multiplied by 0
}

// moreRows returns the number of rows of sums besides a tile's own.
func (d *dot) moreRows() int {
	if d != nil && d.shifted {
		return 1
	}
	return 0
}

// dotOf returns how a contraction is done by groups; nil if it cannot be.
func (p *product) dotOf(s *loop.Contract, formA, formB *operandForm) *dot {
	row, fixedRow := p.Offset(s.B.Buffer, s.B.Row).Const()
	column, fixedColumn := p.Offset(s.B.Buffer, s.B.Col).Const()
	step, fixed := p.Offset(s.A.Buffer, s.A.Col).Const()
	count, known := p.Resolve(s.K).Const()
	d := &dot{group: p.isa.dot, size: formB.size, count: count, step: step * formA.size,
		unsignedB: formB.extend == asm.VPMOVZXBD}
	if formA.high && formB.high {
		d.group = p.isa.bf16
	} else if formA.size != 1 || formB.size != 1 {
		return nil
	}
	if !fixedRow || !fixedColumn || !fixed || !known || row != 1 || column != d.group || count < 1 || count > d.group ||
		step > lanes.FarApart || step < -lanes.FarApart {
		return nil
	}
	d.shifted = d.group == 4 && d.unsignedB == (formA.extend == asm.VPMOVZXBD)
	return d
}

// squareKind returns the name of the tile registers' product of two types; "" if there is none.
func (p *product) squareKind(a, b dtype.DType) string {
	whole := func(dt dtype.DType) bool { return dt == dtype.I8 || dt == dtype.U8 }
	switch {
	case whole(a) && whole(b) && p.ops.size == 4:
		return "bytes"
	case a == dtype.BF16 && b == dtype.BF16 && p.isa.bf16 > 0:
		return "bf16"
	}
	return ""
}

// inGroups makes a term's steps groups: those of the innermost serial loop, or a single one.
func (t *term) inGroups() {
	t.depth, t.deepA, t.deepB = lanes.Known(1), lanes.Known(0), lanes.Known(0)
	if n := len(t.serial); n > 0 {
		s := t.serial[n-1]
		t.depth, t.deepA, t.deepB, t.serial = s.extent, s.stepA, s.stepB, t.serial[:n-1]
	}
	whole := func(f *operandForm) *operandForm { // a group of elements of a form
		switch {
		case t.dot.group*t.dot.size == 4:
			return &operandForm{size: 4}
		case f.extend == asm.VPMOVSXBD:
			return &operandForm{size: 2, extend: asm.VPMOVSXBW, repeat: asm.VPBROADCASTW}
		}
		return &operandForm{size: 2, extend: asm.VPMOVZXBW, repeat: asm.VPBROADCASTW}
	}
	t.formA, t.formB = whole(t.formA), whole(t.formB)
}

// readBefore makes an incomplete group of bytes be read together with the bytes before it that complete it, if these
// are known to be in memory; from is the least offset of an incomplete group.
func (d *dot) readBefore(from int64) {
	if d != nil && d.size == 1 && d.count < d.group && d.step == d.size && from >= d.group-d.count {
		d.before = d.group - d.count
	}
}

// readRight reads a vector of groups of B. The bytes of an incomplete group move to A's positions.
func (t *registerTile) readRight(m *term, r asm.Reg, vector int, at asm.Mem, masked bool) {
	t.readRun(m.formB, r, vector, at, masked)
	if m.dot != nil && m.dot.before > 0 {
		t.Emit(asm.Inst{Op: asm.VPSLLD, Bits: uint16(t.isa.bits), Args: [4]asm.Reg{r, r},
			Imm: 32 / m.dot.group * m.dot.before})
	}
}

// readGroup reads a group of A into all lanes; at is the address of each element of it.
func (t *registerTile) readGroup(d *dot, f *operandForm, r asm.Reg, at func(i int64) asm.Mem) {
	if d.count+d.before == d.group && d.step == d.size {
		t.readOne(f, r, at(-d.before))
	} else {
		all, next := t.General(), t.General()
		read := asm.MOVZXB
		if d.size == 2 {
			read = asm.MOVZXW
		}
		t.Emit(asm.Inst{Op: read, Bits: 32, Args: [4]asm.Reg{all, asm.Memory}, Mem: at(0)})
		for i := int64(1); i < d.count; i++ {
			t.Emit(asm.Inst{Op: read, Bits: 32, Args: [4]asm.Reg{next, asm.Memory}, Mem: at(i)})
			t.Emit(asm.Inst{Op: asm.SHL, Bits: 32, Args: [4]asm.Reg{next}, Imm: 8 * d.size * i})
			t.Emit(asm.Inst{Op: asm.OR, Bits: 32, Args: [4]asm.Reg{all, next}})
		}
		t.Emit(asm.Inst{Op: asm.VMOVD, Args: [4]asm.Reg{r, all}})
		t.wide(asm.VPBROADCASTD, r, r)
		if f.extend != asm.NoOp { // a group in two bytes: repeated in each two bytes
			t.wide(asm.VPBROADCASTW, r, r)
			t.wide(f.extend, r, r)
		}
	}
	if d.shifted {
		t.wide(t.ops.xor, r, r, t.shift())
	}
}

// shift returns the register with the number by which A is shifted, in the bytes that are multiplied.
func (t *registerTile) shift() asm.Reg { return asm.V(t.isa.registers - 1) }

// beginShifted prepares a term whose left operand is shifted.
func (t *registerTile) beginShifted(m *term) {
	if m.dot.moreRows() == 0 {
		return
	}
	pattern := binary.LittleEndian.AppendUint32(nil, 0x80808080>>(8*(4-m.dot.count-m.dot.before)))
	t.wideFrom(t.ops.move, asm.Mem{Pool: t.code.Constant(slices.Repeat(pattern, t.isa.lanes))}, t.shift())
	for v := range t.vectors {
		t.wide(t.ops.xor, t.sum(t.rows, v), t.sum(t.rows, v), t.sum(t.rows, v))
	}
}

// endShifted subtracts from the sums the effect of the shift.
func (t *registerTile) endShifted(m *term) {
	if m.dot.moreRows() == 0 {
		return
	}
	for row := range t.rows {
		for v := range t.vectors {
			t.wide(t.ops.sub, t.sum(row, v), t.sum(row, v), t.sum(t.rows, v))
		}
	}
}
