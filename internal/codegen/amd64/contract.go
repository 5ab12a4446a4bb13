package amd64

import (
	"math"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

// elementOps are the instructions for a type of sums; NoOp if there is none.
type elementOps struct {
	*sizeOps
	multiplyAdd, sqrt, and, xor asm.Op
	two                         [loop.Max + 1]asm.Op
}

// sizeOps are the instructions for types of a size: for floats, or for any. Those of round and blend are for machines
// without opmasks, and with them.
type sizeOps struct {
	broadcast, move, maskMove, greater, compare asm.Op
	round, blend                                [2]asm.Op
}

var (
	ops32 = &sizeOps{asm.VBROADCASTSS, asm.VMOVUPS, asm.VMASKMOVPS, asm.VPCMPGTD, asm.VCMPPS,
		[2]asm.Op{asm.VROUNDPS, asm.VRNDSCALEPS}, [2]asm.Op{asm.VBLENDVPS, asm.VBLENDMPS}}
	ops64 = &sizeOps{asm.VBROADCASTSD, asm.VMOVUPD, asm.VMASKMOVPD, asm.VPCMPGTQ, asm.VCMPPD,
		[2]asm.Op{asm.VROUNDPD, asm.VRNDSCALEPD}, [2]asm.Op{asm.VBLENDVPD, asm.VBLENDMPD}}
)

// elements are the instructions by the type of sums; nil for types without.
var elements = [math.MaxUint8 + 1]*elementOps{
	dtype.F32: {ops32, asm.VFMADD231PS, asm.VSQRTPS, asm.VANDPS, asm.VXORPS,
		ofTwo(asm.VADDPS, asm.VSUBPS, asm.VMULPS, asm.VMINPS, asm.VMAXPS, asm.VDIVPS)},
	dtype.F64: {ops64, asm.VFMADD231PD, asm.VSQRTPD, asm.VANDPD, asm.VXORPD,
		ofTwo(asm.VADDPD, asm.VSUBPD, asm.VMULPD, asm.VMINPD, asm.VMAXPD, asm.VDIVPD)},
	dtype.I32: {ops32, asm.NoOp, asm.NoOp, asm.NoOp, asm.VXORPS,
		ofTwo(asm.VPADDD, asm.VPSUBD, asm.VPMULLD, asm.VPMINSD, asm.VPMAXSD, asm.NoOp)},
	dtype.U32: {ops32, asm.NoOp, asm.NoOp, asm.NoOp, asm.VXORPS,
		ofTwo(asm.VPADDD, asm.VPSUBD, asm.VPMULLD, asm.VPMINUD, asm.VPMAXUD, asm.NoOp)},
}

// ofTwo returns instructions of two operands by their operations.
func ofTwo(add, sub, mul, least, greatest, div asm.Op) [loop.Max + 1]asm.Op {
	return [...]asm.Op{loop.Add: add, loop.Sub: sub, loop.Mul: mul, loop.Min: least, loop.Max: greatest,
		loop.Div: div}
}

// registers returns the number of the machine's vector registers, less one for products that no single instruction adds
// to a sum.
func (o *elementOps) registers(i *isa) int {
	if o.multiplyAdd == asm.NoOp {
		return i.registers - 1
	}
	return i.registers
}

// SumsOf returns the vectors that add up in a type; nil if there are none.
func (e *machine) SumsOf(dt dtype.DType) *lanes.Sums {
	if elements[dt] == nil {
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

// BeginTile begins a tile's code, and makes the opmask of the last vector's lanes.
func (e *machine) BeginTile(t *lanes.RegisterTile) {
	if e.spoil(); e.isa.masks && t.Partial(t.Vectors-1) {
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
