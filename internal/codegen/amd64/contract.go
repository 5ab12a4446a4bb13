package amd64

import (
	"math"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/target"
)

// elementOps are the instructions for a type of sums; NoOp if there is none.
type elementOps struct {
	size                                            int64
	multiplyAdd, broadcast, move, maskMove, compare asm.Op
	add, sub, mul, div, min, max, sqrt, and, xor    asm.Op
}

// registers returns the number of the machine's vector registers, less one for products that no single instruction adds
// to a sum.
func (o *elementOps) registers(i *isa) int {
	if o.multiplyAdd == asm.NoOp {
		return i.registers - 1
	}
	return i.registers
}

var elements = map[dtype.DType]*elementOps{
	dtype.F32: {4, asm.VFMADD231PS, asm.VBROADCASTSS, asm.VMOVUPS, asm.VMASKMOVPS, asm.VPCMPGTD,
		asm.VADDPS, asm.VSUBPS, asm.VMULPS, asm.VDIVPS, asm.VMINPS, asm.VMAXPS, asm.VSQRTPS, asm.VANDPS, asm.VXORPS},
	dtype.F64: {8, asm.VFMADD231PD, asm.VBROADCASTSD, asm.VMOVUPD, asm.VMASKMOVPD, asm.VPCMPGTQ,
		asm.VADDPD, asm.VSUBPD, asm.VMULPD, asm.VDIVPD, asm.VMINPD, asm.VMAXPD, asm.VSQRTPD, asm.VANDPD, asm.VXORPD},
	dtype.I32: wholeNumbers(asm.VPMINSD, asm.VPMAXSD),
	dtype.U32: wholeNumbers(asm.VPMINUD, asm.VPMAXUD),
}

// wholeNumbers returns the instructions for i32 or u32 elements, given those for the minimum and the maximum.
func wholeNumbers(least, greatest asm.Op) *elementOps {
	return &elementOps{size: 4, broadcast: asm.VBROADCASTSS, move: asm.VMOVUPS, maskMove: asm.VMASKMOVPS,
		compare: asm.VPCMPGTD,
		add:     asm.VPADDD, sub: asm.VPSUBD, mul: asm.VPMULLD, min: least, max: greatest, xor: asm.VXORPS}
}

// SumsOf returns the vectors that add up in a type; nil if there are none.
func (e *machine) SumsOf(dt dtype.DType) *lanes.Sums {
	ops := elements[dt]
	if ops == nil {
		return nil
	}
	s := &lanes.Sums{DType: dt, Size: ops.size, Bytes: e.isa.VectorBytes(), Registers: e.isa.registers,
		Masks: e.isa.masks, Second: true}
	if half := e.isa.half; half != nil {
		shorter := *s
		shorter.Bytes, s.Half = half.VectorBytes(), &shorter
	}
	return s
}

// MostRows returns the most rows of a tile: more than 14 would only lengthen the code. With few registers, some are
// kept for the expressions of a single vector's sums.
func (e *machine) MostRows(s *lanes.Sums, vectors, more int) int {
	most := 14
	if vectors == 1 && e.isa.registers < 32 {
		most = 8
	}
	return mostTileRows(elements[s.DType].registers(e.isa), vectors, most+more) - more
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

// tileWide emits an instruction on a tile's full vectors; one of its operands may be in memory.
func (e *machine) tileWide(t *lanes.RegisterTile, op asm.Op, args ...asm.Reg) {
	e.tileFrom(t, op, asm.Mem{}, args...)
}

// tileFrom emits an instruction whose last operand is in memory, unless the address is empty.
func (e *machine) tileFrom(t *lanes.RegisterTile, op asm.Op, at asm.Mem, args ...asm.Reg) {
	in := asm.Inst{Op: op, Bits: uint16(8 * t.Bytes), Mem: at}
	if n := copy(in.Args[:], args); at != (asm.Mem{}) {
		in.Args[n] = asm.Memory
	}
	e.Emit(in)
}

// BeginTile begins a tile's code, and makes the opmask of the last vector's lanes.
func (e *machine) BeginTile(t *lanes.RegisterTile) {
	e.spoil()
	if !e.isa.masks || !t.Partial(t.Vectors-1) {
		return
	}
	bits := e.General()
	if t.Part.Known() {
		e.SetNumber(bits, 1<<t.Part.Fixed-1)
	} else {
		e.SetNumber(bits, -1)
		e.Emit(asm.Inst{Op: asm.BZHI, Bits: 64, Args: [4]asm.Reg{bits, bits, t.Part.Register}})
	}
	t.Mask = e.maskRegister()
	e.Emit(asm.Inst{Op: asm.KMOVW, Args: [4]asm.Reg{t.Mask, bits}})
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
