package amd64

import (
	"math"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

// tileBinary returns the instruction of an operation on two vectors of sums.
func tileBinary(op loop.BinaryOp, dt dtype.DType) asm.Op {
	switch {
	case dt != dtype.U32:
	case op == loop.Min:
		return asm.VPMINUD
	case op == loop.Max:
		return asm.VPMAXUD
	default:
		dt = dtype.I32
	}
	return binaries[op][dt]
}

// multiplyAdd returns the instruction that adds products of a type to sums; NoOp if there is none.
func multiplyAdd(dt dtype.DType) asm.Op { return fused[lanes.ProductPlus][dt] }

// productRegisters returns the number of the machine's vector registers, less one for products that no single
// instruction adds to a sum.
func (i *isa) productRegisters(dt dtype.DType) int {
	if multiplyAdd(dt) == asm.NoOp {
		return i.registers - 1
	}
	return i.registers
}

// SumsOf returns the vectors that add up in a type; nil if there are none.
func (e *machine) SumsOf(dt dtype.DType) *lanes.Sums {
	switch dt {
	case dtype.F32, dtype.F64, dtype.I32, dtype.U32:
	default:
		return nil
	}
	s := &lanes.Sums{DType: dt, Size: int64(dt.Bits() / 8), Bytes: e.isa.VectorBytes(), Registers: e.isa.registers,
		Masks: e.isa.masks, Second: true}
	if half := e.isa.half; half != nil {
		shorter := *s
		shorter.Bytes, s.Half = half.VectorBytes(), &shorter
	}
	return s
}

// MostRows returns the most rows of a tile: more than 14 would only lengthen the code. With few registers, some are
// kept for the expressions of a single vector's sums.
func (e *machine) MostRows(s *lanes.Sums, vectors int, g lanes.Grouping) int {
	most := 14
	if vectors == 1 && e.isa.registers < 32 {
		most = 8
	}
	return mostTileRows(e.isa.productRegisters(s.DType), vectors, most+g.More) - g.More
}

// mostTileRows returns the largest number of rows of a tile with so many vectors whose sums fit so many registers; 0 if
// not even one row's do.
func mostTileRows(registers, vectors, most int) int {
	rows := most
	for rows > 0 && target.SumRegisters(int64(rows), int64(vectors)) > int64(registers) {
		rows--
	}
	return rows
}

// RowsOfBase returns how many rows a register addresses: with another one for their distance, three.
func (e *machine) RowsOfBase(distance lanes.Distance) int {
	if distance.Known() {
		return math.MaxInt32
	}
	return 3
}

// BeginTile begins a tile's code, and makes the opmask of the last vector's lanes.
func (e *machine) BeginTile(t *lanes.RegisterTile) {
	if e.Spoil(); e.isa.masks && t.Partial(t.Vectors-1) {
		t.Mask = e.opmask(t.Part)
	}
}

// opmask returns the mask of the first lanes.
func (e *machine) opmask(count lanes.Distance) asm.Reg {
	bits := e.General()
	if count.Known() {
		e.SetNumber(bits, 1<<count.Fixed-1)
	} else {
		e.SetNumber(bits, -1)
		e.Emit(asm.Inst{Op: asm.BZHI, Bits: 64, Args: [4]asm.Reg{bits, bits, count.Register}})
	}
	mask := e.MaskRegister()
	e.Emit(asm.Inst{Op: asm.KMOVW, Args: [4]asm.Reg{mask, bits}})
	return mask
}

// MaskRegister returns a new opmask.
func (b *builder) MaskRegister() asm.Reg { return b.Register(asm.Opmask) }

// Halve divides an integer of 0 or more by 2.
func (b *builder) Halve(x asm.Reg) {
	b.Emit(asm.Inst{Op: asm.SHR, Bits: 64, Args: [4]asm.Reg{x}, Imm: 1})
}

// fetches are the instructions that bring memory into a cache.
var fetches = [...]asm.Op{lanes.FetchNear: asm.PREFETCHT0, lanes.FetchSecond: asm.PREFETCHT1,
	lanes.FetchWrite: asm.PREFETCHW}

// Fetch brings a line of memory into a cache.
func (b *builder) Fetch(at asm.Mem, how lanes.Fetch) {
	b.Emit(asm.Inst{Op: fetches[how], Args: [4]asm.Reg{asm.Memory}, Mem: at})
}
