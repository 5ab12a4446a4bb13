package amd64

import (
	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// One instruction adds up a group of 2 or 4 consecutive steps of a sum of products of bytes or bf16: a lane of 32 bits
// holds a group of A, repeated for all columns, and a group of B. VPMADDWD multiplies two numbers of 16 bits, to which
// bytes are widened. VPDPBUSD takes four bytes, unsigned ones on one side and signed ones on the other. If both sides
// are signed, or both unsigned, 128 is added to or subtracted from A: each sum is then off by 128 times the sum of its
// column. A row of these, computed with 128 in place of A, is added up beside the tile's rows, and subtracted from them
// at the end. VDPBF16PS adds up two products of bf16 in f32.

// GroupOf returns the steps of a group, and one more row of sums if A is shifted.
func (e *machine) GroupOf(left, right, _ dtype.DType) lanes.Grouping {
	switch {
	case left == dtype.BF16 && right == dtype.BF16:
		return lanes.Grouping{Steps: e.isa.bf16}
	case !isByte(left) || !isByte(right):
		return lanes.Grouping{}
	case e.isa.dot == 4 && left == right:
		return lanes.Grouping{Steps: e.isa.dot, More: 1}
	}
	return lanes.Grouping{Steps: e.isa.dot}
}

// isByte reports whether a type is an integer of 8 bits.
func isByte(dt dtype.DType) bool { return dt == dtype.I8 || dt == dtype.U8 }

// shiftRegister returns the register with the number by which A is shifted, in the bytes that are multiplied.
func (e *machine) shiftRegister() asm.Reg { return asm.V(e.isa.registers - 1) }

// BeginTerm prepares a term whose left operand is shifted.
func (e *machine) BeginTerm(t *lanes.RegisterTile, m *lanes.Term) {
	if m.More() == 0 {
		return
	}
	pattern := uint64(0x80808080 >> (8 * (4 - m.Group.Count - m.Group.Before)))
	e.tileFrom(t, tileMove(t), e.RepeatedBits(t, pattern).At, e.shiftRegister())
	for v := range t.Vectors {
		e.ClearLanes(t, t.Sum(t.Rows, v))
	}
}

// EndTerm subtracts from the sums the effect of the shift.
func (e *machine) EndTerm(t *lanes.RegisterTile, m *lanes.Term) {
	if m.More() == 0 {
		return
	}
	for row := range t.Rows {
		for v := range t.Vectors {
			e.tileWide(t, tileBinary(loop.Sub, t.DType), t.Sum(row, v), t.Sum(row, v), t.Sum(t.Rows, v))
		}
	}
}

// Round adds the products of a round's steps, one after the other.
func (e *machine) Round(t *lanes.RegisterTile, r *lanes.Round) {
	for k := range r.Steps {
		r.FetchColumns(t, k)
		e.step(t, r, k)
	}
}

// step adds the products of one step of a round.
func (e *machine) step(t *lanes.RegisterTile, r *lanes.Round, k int64) {
	add := multiplyAdd(t.DType)
	registers, all := e.isa.productRegisters(t.DType), t.Rows+r.More()
	free := registers - all*t.Vectors
	first := registers - 1
	left := func(row int, to asm.Reg) asm.Reg { // an element of A, in a register or in that of the shift
		if row == t.Rows {
			return e.shiftRegister()
		}
		e.readLeft(t, r, to, r.Row(row, k))
		return to
	}
	right := func(vector int, to asm.Reg) {
		at, part := r.Column(t, vector, k)
		e.readRight(t, r, to, at, part)
	}
	switch {
	case all == 1: // the columns are used once
		a := left(0, asm.V(first))
		for v := range t.Vectors {
			at, part := r.Column(t, v, k)
			if part || r.Right.Narrow() || r.Group != nil || add == asm.NoOp {
				e.readRight(t, r, asm.V(first-1), at, part)
				e.addProduct(t, r, t.Sum(0, v), a, asm.V(first-1))
			} else {
				e.tileFrom(t, add, at, t.Sum(0, v), a)
			}
		}
	case free > t.Vectors: // the columns stay in registers, the rows are read in turn
		for v := range t.Vectors {
			right(v, asm.V(first-v))
		}
		others := free - t.Vectors
		if t.Vectors == 1 && e.isa.masks && r.Group == nil && !r.Left.Narrow() && add != asm.NoOp {
			for i := range all { // the instruction itself reads an element of A into all lanes
				e.Emit(asm.Inst{Op: add, Bits: uint16(8 * t.Bytes), Mem: r.Row(i, k), Broadcast: true,
					Args: [4]asm.Reg{t.Sum(i, 0), asm.V(first), asm.Memory}})
			}
			return
		}
		for i := range all {
			a := left(i, asm.V(first-t.Vectors-i%others))
			for v := range t.Vectors {
				e.addProduct(t, r, t.Sum(i, v), a, asm.V(first-v))
			}
		}
	default: // the rows stay in registers, the columns are read in turn
		at := make([]asm.Reg, all)
		for i := range at {
			at[i] = left(i, asm.V(first-i))
		}
		others := free - t.Rows
		for v := range t.Vectors {
			x := asm.V(first - t.Rows - v%others)
			right(v, x)
			for i, a := range at {
				e.addProduct(t, r, t.Sum(i, v), a, x)
			}
		}
	}
}

// readLeft reads a row's element or group of A into all lanes.
func (e *machine) readLeft(t *lanes.RegisterTile, r *lanes.Round, to asm.Reg, at asm.Mem) {
	g := r.Group
	if g == nil {
		e.ReadOne(t, r.Left, to, at)
		return
	}
	if g.Count+g.Before == g.Steps && g.Step == g.Size {
		at.Disp -= int32(g.Before * g.Step)
		e.ReadOne(t, r.Left, to, at)
	} else {
		e.readParts(t, r, to, at)
	}
	if r.More() > 0 {
		e.tileWide(t, asm.VXORPS, to, to, e.shiftRegister())
	}
}

// readParts reads a group of A that is not contiguous, or not complete, into all lanes.
func (e *machine) readParts(t *lanes.RegisterTile, r *lanes.Round, to asm.Reg, at asm.Mem) {
	g := r.Group
	all, next := e.General(), e.General()
	read := func(r asm.Reg) {
		op := asm.MOVZXB
		if g.Size == 2 {
			op = asm.MOVZXW
		}
		e.Emit(asm.Inst{Op: op, Bits: 32, Args: [4]asm.Reg{r, asm.Memory}, Mem: at})
		at.Disp += int32(g.Step)
	}
	read(all)
	for i := int64(1); i < g.Count; i++ {
		read(next)
		e.Emit(asm.Inst{Op: asm.SHL, Bits: 32, Args: [4]asm.Reg{next}, Imm: 8 * g.Size * i})
		e.Emit(asm.Inst{Op: asm.OR, Bits: 32, Args: [4]asm.Reg{all, next}})
	}
	e.Emit(asm.Inst{Op: asm.VMOVD, Args: [4]asm.Reg{to, all}})
	e.tileWide(t, asm.VPBROADCASTD, to, to)
	if r.Left.Narrow() { // a group in two bytes: repeated in each two bytes
		e.tileWide(t, asm.VPBROADCASTW, to, to)
		e.tileWide(t, formOf(r.Left).extend, to, to)
	}
}

// readRight reads a vector of elements or groups of B. The bytes of an incomplete group move to A's positions.
func (e *machine) readRight(t *lanes.RegisterTile, r *lanes.Round, to asm.Reg, at asm.Mem, part bool) {
	e.ReadRun(t, r.Right, to, at, part)
	if g := r.Group; g != nil && g.Before > 0 {
		e.shiftedLanes(t, asm.VPSLLD, to, 32/g.Steps*g.Before)
	}
}

// addProduct adds the products of two registers' lanes to a sum.
func (e *machine) addProduct(t *lanes.RegisterTile, r *lanes.Round, sum, a, b asm.Reg) {
	g, add := r.Group, multiplyAdd(t.DType)
	switch {
	case g != nil && g.Size == 2:
		e.tileWide(t, asm.VDPBF16PS, sum, a, b)
	case g != nil && g.Steps == 4:
		if r.Right.In == dtype.U8 {
			a, b = b, a
		}
		e.tileWide(t, e.encoded(asm.VPDPBUSD, asm.AVXVPDPBUSD), sum, a, b)
	case add != asm.NoOp:
		e.tileWide(t, add, sum, a, b)
	default:
		multiply, through := tileBinary(loop.Mul, t.DType), asm.V(e.isa.registers-1)
		if g != nil {
			multiply = asm.VPMADDWD
		}
		e.tileWide(t, multiply, through, a, b)
		e.tileWide(t, tileBinary(loop.Add, t.DType), sum, sum, through)
	}
}
