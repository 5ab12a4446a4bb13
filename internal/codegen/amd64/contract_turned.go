package amd64

import (
	"encoding/binary"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
)

// turnedRows is the number of rows that are stored together: the elements in a quarter of a 512-bit register.
const turnedRows = 4

// TurnFour transposes four registers, in blocks of 4 × 4.
func (e *machine) TurnFour(t *lanes.RegisterTile, rows [turnedRows]asm.Reg, spare asm.Reg) (out [turnedRows]asm.Reg,
	free asm.Reg) {
	pair := func(low, high asm.Op, x, y asm.Reg) (lo, hi asm.Reg) {
		e.tileWide(t, low, spare, x, y)
		e.tileWide(t, high, y, x, y)
		lo, spare = spare, x
		return lo, y
	}
	lo, hi := pair(asm.VUNPCKLPS, asm.VUNPCKHPS, rows[0], rows[1])
	lo2, hi2 := pair(asm.VUNPCKLPS, asm.VUNPCKHPS, rows[2], rows[3])
	out[0], out[1] = pair(asm.VUNPCKLPD, asm.VUNPCKHPD, lo, lo2)
	out[2], out[3] = pair(asm.VUNPCKLPD, asm.VUNPCKHPD, hi, hi2)
	return out, spare
}

// FourMask returns the mask of the first count of four elements.
func (e *machine) FourMask(t *lanes.RegisterTile, count int) asm.Reg {
	if e.isa.masks {
		bits, mask := e.General(), e.maskRegister()
		e.SetNumber(bits, 1<<count-1)
		e.Emit(asm.Inst{Op: asm.KMOVW, Args: [4]asm.Reg{mask, bits}})
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
	mask := t.Take()
	e.Emit(asm.Inst{Op: asm.VMOVUPS, Bits: 128, Args: [4]asm.Reg{mask, asm.Memory},
		Mem: asm.Mem{Pool: e.code.Constant(lanes)}})
	return mask
}

// StoreFour writes the lanes of a mask (NoReg: all) in a group of four lanes of a register. With a mask, a group other
// than the first goes through a free register, since an extraction to memory writes all four elements.
func (e *machine) StoreFour(t *lanes.RegisterTile, to asm.Mem, r asm.Reg, group int64, _ int, mask, free asm.Reg) {
	extract := asm.Inst{Op: asm.VEXTRACTF128, Bits: uint16(8 * t.Bytes), Imm: group}
	if group > 0 && mask == asm.NoReg {
		extract.Args, extract.Mem = [4]asm.Reg{asm.Memory, r}, to
		e.Emit(extract)
		return
	}
	if group > 0 {
		extract.Args = [4]asm.Reg{free, r}
		e.Emit(extract)
		r = free
	}
	switch {
	case mask != asm.NoReg && !e.isa.masks:
		e.Emit(asm.Inst{Op: asm.VMASKMOVPS, Bits: 128, Args: [4]asm.Reg{asm.Memory, mask, r}, Mem: to})
	default:
		e.Emit(asm.Inst{Op: asm.VMOVUPS, Bits: 128, Args: [4]asm.Reg{asm.Memory, r}, Mem: to, Mask: mask})
	}
}
