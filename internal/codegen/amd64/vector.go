package amd64

import (
	"encoding/binary"
	"math"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// This file is vector arithmetic; see lanes.Vectors. A mask is a register of maskRegister's class: with opmasks a bit
// a lane, without them a lane of all ones or all zeros.

// three emits an operation on two vectors, and returns a new register.
func (b *builder) three(op asm.Op, x, y asm.Reg) asm.Reg { return b.vectorOf(op, 0, x, y) }

// two emits an operation on one vector, and returns a new register.
func (b *builder) two(op asm.Op, x asm.Reg) asm.Reg { return b.twoImm(op, x, 0) }

// twoImm emits an operation on one vector and an immediate, and returns a new register.
func (b *builder) twoImm(op asm.Op, x asm.Reg, imm int64) asm.Reg {
	return b.vectorOf(op, imm, x, asm.NoReg)
}

// vectorOf emits an operation on two vectors and an immediate.
func (b *builder) vectorOf(op asm.Op, imm int64, x, y asm.Reg) asm.Reg {
	r := b.NewVector()
	b.Emit(asm.Inst{Op: op, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{r, x, y}, Imm: imm})
	return r
}

// accumulate emits r = ±x·y ± r, with the operation's signs.
func (b *builder) accumulate(op asm.Op, r, x, y asm.Reg) {
	b.Emit(asm.Inst{Op: op, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{r, x, y}})
}

// perType has an instruction for each of the types that have one.
type perType = [dtype.F64 + 1]asm.Op

// sized returns the instruction for a type's size of lanes.
func sized(dt dtype.DType, word, wide asm.Op) asm.Op {
	if dt == dtype.F64 || dt == dtype.I64 || dt == dtype.U64 {
		return wide
	}
	return word
}

// binaries are the operations that are one instruction; NoOp if there is none.
var binaries = [...]perType{
	loop.Add: {dtype.F32: asm.VADDPS, dtype.F64: asm.VADDPD, dtype.I32: asm.VPADDD, dtype.I64: asm.VPADDQ},
	loop.Sub: {dtype.F32: asm.VSUBPS, dtype.F64: asm.VSUBPD, dtype.I32: asm.VPSUBD, dtype.I64: asm.VPSUBQ},
	loop.Mul: {dtype.F32: asm.VMULPS, dtype.F64: asm.VMULPD, dtype.I32: asm.VPMULLD, dtype.I64: asm.VPMULLQ},
	loop.Div: {dtype.F32: asm.VDIVPS, dtype.F64: asm.VDIVPD},
	loop.Min: {dtype.F32: asm.VMINPS, dtype.F64: asm.VMINPD, dtype.I32: asm.VPMINSD, dtype.I64: asm.VPMINSQ},
	loop.Max: {dtype.F32: asm.VMAXPS, dtype.F64: asm.VMAXPD, dtype.I32: asm.VPMAXSD, dtype.I64: asm.VPMAXSQ},
	loop.And: {dtype.I32: asm.VANDPS, dtype.I64: asm.VANDPS},
	loop.Or:  {dtype.I32: asm.VORPS, dtype.I64: asm.VORPS},
	loop.Xor: {dtype.I32: asm.VXORPS, dtype.I64: asm.VXORPS},
	loop.Shl: {dtype.I32: asm.VPSLLVD, dtype.I64: asm.VPSLLVQ},
	loop.Shr: {dtype.I32: asm.VPSRAVD, dtype.I64: asm.VPSRAVQ, dtype.U32: asm.VPSRLVD, dtype.U64: asm.VPSRLVQ},
	loop.Eq:  {dtype.I32: asm.VPCMPEQD, dtype.I64: asm.VPCMPEQQ},
	loop.Gt:  {dtype.I32: asm.VPCMPGTD, dtype.I64: asm.VPCMPGTQ},
}

// Has reports whether Binary or Test has an operation. Of AVX2, I64 lacks extremes and shifts of the sign.
func (b *builder) Has(op loop.BinaryOp, dt dtype.DType) bool {
	if dt == dtype.I64 && !b.isa.masks && (op == loop.Min || op == loop.Max || op == loop.Shr) {
		return false
	}
	return int(op) < len(binaries) && binaries[op][dt] != asm.NoOp
}

// Binary emits an operation on two vectors.
func (b *builder) Binary(op loop.BinaryOp, dt dtype.DType, x, y asm.Reg) asm.Reg {
	switch {
	case (op == loop.Min || op == loop.Max) && dt.IsFloat():
		return b.extreme(op, dt, x, y)
	case op == loop.Mul && dt == dtype.I64 && !b.isa.masks:
		high := func(x asm.Reg) asm.Reg { return b.twoImm(asm.VPSRLQ, x, 32) }
		cross := b.three(asm.VPADDQ, b.three(asm.VPMULUDQ, high(x), y), b.three(asm.VPMULUDQ, x, high(y)))
		return b.three(asm.VPADDQ, b.three(asm.VPMULUDQ, x, y), b.twoImm(asm.VPSLLQ, cross, 32))
	}
	return b.three(binaries[op][dt], x, y)
}

// AndNot returns y without the bits of x.
func (b *builder) AndNot(x, y asm.Reg) asm.Reg { return b.three(asm.VANDNPS, x, y) }

// Lesser and Greater are the machine's minimum and maximum: y if an operand is NaN, and if both are zeros.
func (b *builder) Lesser(dt dtype.DType, x, y asm.Reg) asm.Reg {
	return b.three(binaries[loop.Min][dt], x, y)
}
func (b *builder) Greater(dt dtype.DType, x, y asm.Reg) asm.Reg {
	return b.three(binaries[loop.Max][dt], x, y)
}

// number returns the float that a constant has in all lanes; ok is false for other registers, and for NaN.
func (b *builder) number(dt dtype.DType, r asm.Reg) (v float64, ok bool) {
	bytes := b.Bytes(r)
	switch {
	case bytes == nil:
		return 0, false
	case dt == dtype.F64:
		v = math.Float64frombits(binary.LittleEndian.Uint64(bytes))
	default:
		v = float64(math.Float32frombits(binary.LittleEndian.Uint32(bytes)))
	}
	return v, !math.IsNaN(v)
}

// extreme returns the lesser or greater of two registers: NaN if an operand is NaN, and −0 less than 0, so that no
// order of a reduction changes a bit. The machine's instructions give the second operand if one operand is NaN, and if
// both are zeros.
func (b *builder) extreme(op loop.BinaryOp, dt dtype.DType, x, y asm.Reg) asm.Reg {
	in, greatest := binaries[op][dt], op == loop.Max
	if _, number := b.number(dt, y); number {
		x, y = y, x
	}
	if v, number := b.number(dt, x); number {
		zero, negative := v == 0, math.Signbit(v)
		switch r := b.three(in, x, y); { // y if y is NaN, or equal to x
		case !zero || negative == greatest:
			return r
		case greatest:
			return b.Binary(loop.Add, dt, r, x) // −0 + 0 is 0
		}
		// the lesser of −0 and x is the general case below
	}
	switch {
	case b.isa.masks:
		ranged, mode := sized(dt, asm.VRANGEPS, asm.VRANGEPD), int64(4) // the lesser, with its sign
		if greatest {
			mode = 5
		}
		r := b.vectorOf(ranged, mode, x, y)
		nan := b.Compare(mathematics.Unordered, dt, x, y)
		return b.Select(dt, nan, b.repeated32(0xffffffff), r)
	case !greatest:
		return b.three(asm.VORPS, b.three(in, x, y), b.three(in, y, x)) // of zeros, the sign; of NaN and a number, NaN
	}
	r := b.three(asm.VANDPS, b.three(in, x, y), b.three(in, y, x))
	return b.three(asm.VORPS, r, b.Compare(mathematics.Unordered, dt, x, y))
}

// The modes by which VROUNDPS and VRNDSCALEPS round.
const (
	toNearest  = 8 // half to even; 8: without raising the inexact flag
	downward   = 9
	upward     = 10
	towardZero = 11
)

// roundings are the modes of the operations that round to integers.
var roundings = map[loop.UnaryOp]int64{loop.Round: toNearest, loop.Floor: downward, loop.Ceil: upward,
	loop.Trunc: towardZero}

// Unary emits an operation on one vector.
func (b *builder) Unary(op loop.UnaryOp, dt dtype.DType, x asm.Reg) asm.Reg {
	switch op {
	case loop.Neg:
		if dt == dtype.I32 || dt == dtype.I64 {
			return b.three(binaries[loop.Sub][dt], b.repeated32(0), x)
		}
		return b.three(asm.VXORPS, x, b.Repeated(dt, 1<<(dt.Bits()-1)))
	case loop.Abs:
		return b.three(asm.VANDPS, x, b.Repeated(dt, 1<<(dt.Bits()-1)-1))
	case loop.BitNot:
		return b.three(asm.VXORPS, x, b.repeated32(0xffffffff))
	case loop.Sqrt:
		return b.two(sized(dt, asm.VSQRTPS, asm.VSQRTPD), x)
	}
	if b.isa.masks {
		return b.twoImm(sized(dt, asm.VRNDSCALEPS, asm.VRNDSCALEPD), x, roundings[op])
	}
	return b.twoImm(sized(dt, asm.VROUNDPS, asm.VROUNDPD), x, roundings[op])
}

// shifts are the shifts by one count.
var shifts = [...]perType{
	loop.Shl: {dtype.I32: asm.VPSLLD, dtype.I64: asm.VPSLLQ},
	loop.Shr: {dtype.I32: asm.VPSRAD, dtype.I64: asm.VPSRAQ, dtype.U32: asm.VPSRLD, dtype.U64: asm.VPSRLQ},
}

// ShiftBy shifts all lanes by one count.
func (b *builder) ShiftBy(op loop.BinaryOp, dt dtype.DType, x asm.Reg, n int64) asm.Reg {
	return b.twoImm(shifts[op][dt], x, n)
}

// MulWhere returns x·y in the lanes of the mask and 0 in the others; y must be positive.
func (b *builder) MulWhere(dt dtype.DType, mask, x, y asm.Reg) asm.Reg {
	op := binaries[loop.Mul][dt]
	if !b.isa.masks {
		return b.three(op, b.three(asm.VANDPS, mask, x), y)
	}
	r := b.NewVector()
	b.Emit(asm.Inst{Op: op, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{r, x, y}, Mask: mask, Zero: true})
	return r
}

// fused are the forms of fused multiply-adds that overwrite z.
var fused = [...]perType{
	lanes.ProductPlus:  {dtype.F32: asm.VFMADD231PS, dtype.F64: asm.VFMADD231PD},
	lanes.MinusProduct: {dtype.F32: asm.VFNMADD231PS, dtype.F64: asm.VFNMADD231PD},
	lanes.ProductMinus: {dtype.F32: asm.VFMSUB231PS, dtype.F64: asm.VFMSUB231PD},
}

// Fused emits a fused multiply-add of the given form, rounded once; no operand is changed.
func (b *builder) Fused(form lanes.Form, dt dtype.DType, x, y, z asm.Reg) asm.Reg {
	op := fused[form][dt]
	if _, constant := b.Constants[z]; constant { // the constant may stay in memory if x·y overwrites x
		if _, constant := b.Constants[x]; constant {
			x, y = y, x
		}
		r := b.CopyOf(x)
		b.accumulate(op-asm.VFMADD231PS+asm.VFMADD213PS, r, y, z)
		return r
	}
	r := b.CopyOf(z)
	b.accumulate(op, r, x, y)
	return r
}

// AddProduct adds the products of two vectors of f32 or f64 to a sum.
func (b *builder) AddProduct(dt dtype.DType, sum, x, y asm.Reg) {
	b.accumulate(fused[lanes.ProductPlus][dt], sum, x, y)
}

// AddDot adds to each lane of a sum the products of x's bytes, unsigned, and y's, signed.
func (b *builder) AddDot(sum, x, y asm.Reg) {
	if b.isa.dot == 4 {
		b.accumulate(b.encoded(asm.VPDPBUSD, asm.AVXVPDPBUSD), sum, x, y)
		return
	}
	// VPMADDUBSW saturates a sum of two products, which no two of at most 127 reach: the highest bits are multiplied
	// separately.
	ones := b.repeated32(0x0001_0001)
	low := b.three(asm.VPMADDUBSW, b.three(asm.VANDPS, x, b.repeated32(0x7f7f7f7f)), y)
	high := b.three(asm.VPMADDUBSW, b.three(asm.VANDPS, b.twoImm(asm.VPSRLD, x, 7), b.repeated32(0x01010101)), y)
	b.Assign(sum, b.three(asm.VPADDD, sum, b.three(asm.VPMADDWD, low, ones)))
	b.Assign(sum, b.three(asm.VPADDD, sum, b.twoImm(asm.VPSLLD, b.three(asm.VPMADDWD, high, ones), 7)))
}

// encoded returns the first of two instructions if the processor has AVX-512, whose encoding it has, else the second.
func (b *builder) encoded(wide, narrow asm.Op) asm.Op {
	if b.isa.masks {
		return wide
	}
	return narrow
}

// SmallProduct multiplies an unsigned byte by a word: the product of the upper halves, which VPMADDWD adds to that of
// the lower halves, is 0. It takes half as long as a product of 32 bits.
func (b *builder) SmallProduct(x, y asm.Reg) asm.Reg { return b.three(asm.VPMADDWD, x, y) }

// AddSmallProduct adds a product by the instruction that computes it, if the processor has VNNI: the upper halves are
// multiplied too, so that one operand's are cleared if both may be negative.
func (b *builder) AddSmallProduct(sum, x, y asm.Reg, signed bool) {
	var product asm.Reg
	switch {
	case b.isa.dot == 4:
		if signed {
			x = b.three(asm.VANDPS, x, b.repeated32(0xffff))
		}
		b.accumulate(b.encoded(asm.VPDPWSSD, asm.AVXVPDPWSSD), sum, x, y)
		return
	case signed:
		product = b.three(asm.VPMULLD, x, y)
	default:
		product = b.SmallProduct(x, y)
	}
	b.Assign(sum, b.three(asm.VPADDD, sum, product))
}

// Comparisons and masks.

// ordered is the machine's number of the comparison that holds if no operand is NaN.
const ordered = 0x07

// predicates are the machine's numbers of comparisons of floats; all except NotEqual, NotLess and Unordered are false
// if an operand is NaN.
var predicates = [...]int64{mathematics.Equal: 0x00, mathematics.Less: 0x11, mathematics.LessOrEqual: 0x12,
	mathematics.Unordered: 0x03, mathematics.NotEqual: 0x04, mathematics.NotLess: 0x15, mathematics.GreaterOrEqual: 0x1d,
	mathematics.Greater: 0x1e}

// Compare compares lanes of floats.
func (b *builder) Compare(p mathematics.Predicate, dt dtype.DType, x, y asm.Reg) asm.Reg {
	return b.compareWith(sized(dt, asm.VCMPPS, asm.VCMPPD), predicates[p], x, y)
}

// compareWith emits a comparison by an immediate, and returns its mask.
func (b *builder) compareWith(op asm.Op, imm int64, x, y asm.Reg) asm.Reg {
	r := b.maskRegister()
	b.Emit(asm.Inst{Op: op, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{r, x, y}, Imm: imm})
	return r
}

// Test compares integers: by number into an opmask, or by an instruction into a vector.
func (b *builder) Test(op loop.BinaryOp, dt dtype.DType, x, y asm.Reg) asm.Reg {
	if !b.isa.masks {
		return b.three(binaries[op][dt], x, y)
	}
	number := int64(0)
	if op == loop.Gt {
		number = 6
	}
	return b.compareWith(sized(dt, asm.VPCMPD, asm.VPCMPQ), number, x, y)
}

// Select returns x in the lanes of the mask, y in the others.
func (b *builder) Select(dt dtype.DType, mask, x, y asm.Reg) asm.Reg {
	r := b.NewVector()
	if b.isa.masks {
		b.Emit(asm.Inst{Op: sized(dt, asm.VBLENDMPS, asm.VBLENDMPD), Bits: uint16(b.isa.bits), Args: [4]asm.Reg{r, y, x},
			Mask: mask})
	} else {
		b.Emit(asm.Inst{Op: sized(dt, asm.VBLENDVPS, asm.VBLENDVPD), Bits: uint16(b.isa.bits),
			Args: [4]asm.Reg{r, y, x, mask}})
	}
	return r
}

// maskOps are the operations on opmasks.
var maskOps = map[loop.BinaryOp]asm.Op{loop.And: asm.KANDW, loop.Or: asm.KORW, loop.Xor: asm.KXORW}

// Masks combines masks, and MaskNot returns the lanes outside one.
func (b *builder) Masks(op loop.BinaryOp, x, y asm.Reg) asm.Reg {
	if !b.isa.masks {
		return b.three(binaries[op][dtype.I32], x, y)
	}
	r := b.maskRegister()
	b.Emit(asm.Inst{Op: maskOps[op], Bits: 16, Args: [4]asm.Reg{r, x, y}})
	return r
}
func (b *builder) MaskNot(x asm.Reg) asm.Reg { return b.Masks(loop.Xor, x, b.MaskOf(true)) }

// MaskOf returns a mask of all lanes, or of none.
func (b *builder) MaskOf(all bool) asm.Reg {
	switch {
	case b.isa.masks:
		r, op := b.maskRegister(), asm.KXORW
		if all {
			op = asm.KXNORW
		}
		b.Emit(asm.Inst{Op: op, Bits: 16, Args: [4]asm.Reg{r, asm.K(0), asm.K(0)}})
		return r
	case all:
		return b.repeated32(0xffffffff)
	}
	return b.repeated32(0)
}

// JoinMasks combines the masks of the two halves of 64-bit lanes into a mask of 32-bit lanes.
func (b *builder) JoinMasks(lo, hi asm.Reg) asm.Reg {
	if b.isa.masks {
		r := b.maskRegister()
		b.Emit(asm.Inst{Op: asm.KUNPCKBW, Args: [4]asm.Reg{r, hi, lo}})
		return r
	}
	return b.twoImm(asm.VPERMQ, b.vectorOf(asm.VSHUFPS, 0x88, lo, hi), 0xd8)
}

// HalfMasks is the reverse of JoinMasks.
func (b *builder) HalfMasks(mask asm.Reg) (lo, hi asm.Reg) {
	if b.isa.masks {
		hi = b.maskRegister()
		b.Emit(asm.Inst{Op: asm.KSHIFTRW, Args: [4]asm.Reg{hi, mask}, Imm: 8})
		return mask, hi
	}
	return b.two(asm.VPMOVSXDQ, mask), b.two(asm.VPMOVSXDQ, b.upper(mask))
}

// LaneWord returns a general register with a bit for each lane of a mask.
func (b *builder) LaneWord(dt dtype.DType, mask asm.Reg) asm.Reg {
	r := b.General()
	if !b.isa.masks {
		b.Emit(asm.Inst{Op: sized(dt, asm.VMOVMSKPS, asm.VMOVMSKPD), Bits: uint16(b.isa.bits), Args: [4]asm.Reg{r, mask}})
		return r
	}
	b.Emit(asm.Inst{Op: asm.KMOVW, Bits: 32, Args: [4]asm.Reg{r, mask}})
	if dt.Bits() == 64 {
		b.integerImm(asm.AND, r, 1<<(b.isa.lanes/2)-1)
	}
	return r
}

// AllLanes is the word of all lanes.
func (b *builder) AllLanes() int64 { return 1<<b.isa.lanes - 1 }

// FirstSet returns the number of the first lane in a word.
func (b *builder) FirstSet(word asm.Reg) asm.Reg {
	r := b.General()
	b.Emit(asm.Inst{Op: asm.TZCNT, Bits: 32, Args: [4]asm.Reg{r, word}})
	return r
}

// JumpOnSet continues at a label if a lane is in a word, or is not.
func (b *builder) JumpOnSet(word asm.Reg, lane int, set bool, to asm.Label) {
	b.Emit(asm.Inst{Op: asm.TEST, Bits: 32, Args: [4]asm.Reg{word}, Imm: 1 << lane})
	if set {
		b.jump(asm.JNE, to)
	} else {
		b.jump(asm.JE, to)
	}
}

// JumpIfNone continues at a label if a mask has no lane.
func (b *builder) JumpIfNone(mask asm.Reg, to asm.Label) {
	word := b.LaneWord(dtype.I32, mask)
	b.Emit(asm.Inst{Op: asm.TEST, Bits: 32, Args: [4]asm.Reg{word, word}})
	b.jump(asm.JE, to)
}
