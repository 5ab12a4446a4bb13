package amd64

import (
	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// This file stores blocks of as many registers as a register has lanes, of which each is to become a column.

// StoreTurned stores registers as columns; in an incomplete strip only its columns.
func (e *machine) StoreTurned(s *loop.Store, rows []asm.Reg) {
	m := e.Kernel.Memory(s.To)
	p := e.TakeApart(e.Simpler(e.Resolve(m.Offset(s.Index))))
	if !lanes.IsZero(p.Rest) || lanes.IsZero(p.Step) {
		lanes.Refuse("columns without a constant distance")
	}
	at, step := e.Address(s.To, p.Base), e.IntegerOf(p.Step.Mul(sym.Const(lanes.BytesOf(m.DType))))
	begin := e.General()
	e.Emit(asm.Inst{Op: asm.LEA, Bits: 64, Args: [4]asm.Reg{begin, asm.Memory}, Mem: at})
	columns := e.transposed(rows)
	bits, end := asm.NoReg, e.Label()
	if tail := e.TailMask(); tail != asm.NoReg {
		bits = e.bitsOf(tail)
	}
	scope := e.Open(nil)
	for i, x := range columns {
		if bits != asm.NoReg {
			e.Emit(asm.Inst{Op: asm.TEST, Bits: 32, Args: [4]asm.Reg{bits}, Imm: 1 << i})
			e.JumpIf(lanes.Equal, end)
		}
		e.storeRun(m.DType, asm.Mem{Base: begin}, lanes.Value{DType: m.DType, Lo: x}, asm.NoReg)
		e.Integer(lanes.Add, begin, step)
	}
	body := e.Close()
	e.Place(scope, body)
	e.Bind(end)
}

// transposed transposes as many registers of 32-bit lanes as they have lanes: in quarters of 4 × 4, which are then
// exchanged.
func (e *machine) transposed(rows []asm.Reg) []asm.Reg {
	out := make([]asm.Reg, len(rows))
	quarters := make([][turnedRows]asm.Reg, len(rows)/turnedRows)
	for g := range quarters {
		r := rows[g*turnedRows:]
		low, high := e.three(asm.VUNPCKLPS, r[0], r[1]), e.three(asm.VUNPCKHPS, r[0], r[1])
		low2, high2 := e.three(asm.VUNPCKLPS, r[2], r[3]), e.three(asm.VUNPCKHPS, r[2], r[3])
		quarters[g] = [turnedRows]asm.Reg{e.three(asm.VUNPCKLPD, low, low2), e.three(asm.VUNPCKHPD, low, low2),
			e.three(asm.VUNPCKLPD, high, high2), e.three(asm.VUNPCKHPD, high, high2)}
	}
	for i := range turnedRows {
		if !e.isa.masks {
			a, b := quarters[0][i], quarters[1][i]
			out[i], out[turnedRows+i] = e.shuffled(asm.VPERM2F128, a, b, 0x20), e.shuffled(asm.VPERM2F128, a, b, 0x31)
			continue
		}
		pair := func(g int) (low, high asm.Reg) {
			a, b := quarters[g][i], quarters[g+1][i]
			return e.shuffled(asm.VSHUFF32X4, a, b, 0x44), e.shuffled(asm.VSHUFF32X4, a, b, 0xee)
		}
		low, high := pair(0)
		low2, high2 := pair(2)
		for j, x := range []asm.Reg{e.shuffled(asm.VSHUFF32X4, low, low2, 0x88), e.shuffled(asm.VSHUFF32X4, low, low2, 0xdd),
			e.shuffled(asm.VSHUFF32X4, high, high2, 0x88), e.shuffled(asm.VSHUFF32X4, high, high2, 0xdd)} {
			out[j*turnedRows+i] = x
		}
	}
	return out
}

// shuffled returns quarters of two registers, selected by a number.
func (e *machine) shuffled(op asm.Op, x, y asm.Reg, which int64) asm.Reg {
	r := e.builder.vector()
	e.Emit(asm.Inst{Op: op, Bits: uint16(e.isa.bits), Args: [4]asm.Reg{r, x, y}, Imm: which})
	return r
}
