package amd64

import (
	"encoding/binary"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
)

// This file stores sums whose rows are adjacent in memory and whose columns are not, as in a result with its channels
// first: four rows at a time are transposed in registers, and four elements of a column are stored together.

// turnedRows is the number of rows that are stored together: the elements in a quarter of a 512-bit register.
const turnedRows = 4

// turned stores all sums; it overwrites their registers.
func (t *registerTile) turned(p location) {
	for first := 0; first < t.rows; first += turnedRows {
		t.turnRows(p, first, min(turnedRows, t.rows-first))
	}
}

// turnRows stores count rows from the first on: column after column.
func (t *registerTile) turnRows(p location, first, count int) {
	at := t.CopyOf(p.stream.at)
	t.MoveOn(at, lanes.Known(int64(first)*t.ops.size))
	mask := t.maskOfRows(count)
	end := t.Label()
	for vector := range t.vectors {
		columns, ragged := t.lanes(), t.partial(vector) && !t.part.Known()
		if t.partial(vector) && t.part.Known() {
			columns = t.part.Fixed
		}
		rows := make([]asm.Reg, turnedRows)
		for i := range rows {
			if i < count {
				rows[i] = t.sum(first+i, vector)
			} else {
				rows[i] = t.take()
			}
		}
		spare := t.take()
		blocks, free := t.transposed(rows, spare)
		for c := range columns {
			if ragged {
				t.integerImm(asm.CMP, t.part.Register, c)
				t.jump(asm.JLE, end)
			}
			t.storePart(at, blocks[c%turnedRows], c/turnedRows, mask, free)
			t.MoveOn(at, p.column)
		}
		for _, r := range append(rows[count:], spare) { // their present contents do not matter
			t.give(r)
		}
	}
	t.Bind(end)
	if mask != asm.NoReg && !t.isa.masks {
		t.give(mask)
	}
}

// transposed transposes four registers, in blocks of 4 × 4: lane group l of the i-th result has element 4·l + i of
// each. The results are in four of the given registers, spare included; free is the fifth.
func (t *registerTile) transposed(rows []asm.Reg, spare asm.Reg) (out [turnedRows]asm.Reg, free asm.Reg) {
	pair := func(low, high asm.Op, x, y asm.Reg) (lo, hi asm.Reg) {
		t.wide(low, spare, x, y)
		t.wide(high, y, x, y)
		lo, spare = spare, x
		return lo, y
	}
	lo, hi := pair(asm.VUNPCKLPS, asm.VUNPCKHPS, rows[0], rows[1])
	lo2, hi2 := pair(asm.VUNPCKLPS, asm.VUNPCKHPS, rows[2], rows[3])
	out[0], out[1] = pair(asm.VUNPCKLPD, asm.VUNPCKHPD, lo, lo2)
	out[2], out[3] = pair(asm.VUNPCKLPD, asm.VUNPCKHPD, hi, hi2)
	return out, spare
}

// maskOfRows returns the mask of the first count of four elements; NoReg for all of them.
func (t *registerTile) maskOfRows(count int) asm.Reg {
	if count == turnedRows {
		return asm.NoReg
	}
	if t.isa.masks {
		bits, mask := t.General(), t.maskRegister()
		t.SetNumber(bits, 1<<count-1)
		t.Emit(asm.Inst{Op: asm.KMOVW, Args: [4]asm.Reg{mask, bits}})
		return mask
	}
	var lanes []byte
	for i := range turnedRows {
		lane := uint32(0)
		if i < count {
			lane--
		}
		lanes = binary.LittleEndian.AppendUint32(lanes, lane)
	}
	mask := t.take()
	t.Emit(asm.Inst{Op: asm.VMOVUPS, Bits: 128, Args: [4]asm.Reg{mask, asm.Memory},
		Mem: asm.Mem{Pool: t.code.Constant(lanes)}})
	return mask
}

// storePart writes the lanes of a mask (NoReg: all) in a group of four lanes of a register. With a mask, a group other
// than the first goes through a free register, since an extraction to memory writes all four elements.
func (t *registerTile) storePart(at, r asm.Reg, group int64, mask, free asm.Reg) {
	to, extract := asm.Mem{Base: at}, asm.Inst{Op: asm.VEXTRACTF128, Bits: uint16(t.isa.bits), Imm: group}
	if group > 0 && mask == asm.NoReg {
		extract.Args, extract.Mem = [4]asm.Reg{asm.Memory, r}, to
		t.Emit(extract)
		return
	}
	if group > 0 {
		extract.Args = [4]asm.Reg{free, r}
		t.Emit(extract)
		r = free
	}
	switch {
	case mask != asm.NoReg && !t.isa.masks:
		t.Emit(asm.Inst{Op: asm.VMASKMOVPS, Bits: 128, Args: [4]asm.Reg{asm.Memory, mask, r}, Mem: to})
	default:
		t.Emit(asm.Inst{Op: asm.VMOVUPS, Bits: 128, Args: [4]asm.Reg{asm.Memory, r}, Mem: to, Mask: mask})
	}
}
