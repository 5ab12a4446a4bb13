package amd64

import (
	"math"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// This file converts lanes among the types of the core; see lanes.Vectors.

// ToInt rounds f32 to i32; numbers that do not fit become −2³¹.
func (b *builder) ToInt(x asm.Reg) asm.Reg { return b.two(asm.VCVTPS2DQ, x) }

// Converts reports whether Convert has a conversion: AVX2 has none of 64 bits.
func (b *builder) Converts(from, to dtype.DType) bool {
	return from.Bits() == 32 && to.Bits() == 32 || b.isa.masks
}

// converters are the instructions of Convert, by the type of the result. Numbers that do not fit become the least
// integer.
var converters = perType{dtype.F32: asm.VCVTDQ2PS, dtype.I32: asm.VCVTTPS2DQ, dtype.F64: asm.VCVTQQ2PD,
	dtype.I64: asm.VCVTTPD2QQ}

// Convert converts by one instruction.
func (b *builder) Convert(from, to dtype.DType, x asm.Reg) asm.Reg { return b.two(converters[to], x) }

// Truncated converts floats to integers without their fractions, NaN to 0, and numbers that do not fit to the nearest
// that does.
func (b *builder) Truncated(from, to dtype.DType, x asm.Reg) asm.Reg {
	if from == dtype.F64 {
		return b.truncatedWide(x, to == dtype.U64)
	}
	r := b.two(asm.VCVTTPS2DQ, x) // −2³¹ for numbers that do not fit
	r = b.Select(to, b.Compare(mathematics.GreaterOrEqual, from, x, b.float(1<<31)), b.repeated32(math.MaxInt32), r)
	return b.Select(to, b.Compare(mathematics.Unordered, from, x, x), b.repeated32(0), r)
}

// truncatedWide is Truncated for f64 and i64; if unsigned is true, numbers that are not negative become u64. A float
// of 2⁵² or more, and less than 2⁵³, has an integer in its low bits: adding such numbers gives the high and the low
// half of the result.
func (b *builder) truncatedWide(x asm.Reg, unsigned bool) asm.Reg {
	op := func(op loop.BinaryOp, x asm.Reg, y float64) asm.Reg { return b.Binary(op, dtype.F64, x, b.double(y)) }
	whole := b.Unary(loop.Trunc, dtype.F64, x)
	high := b.Unary(loop.Floor, dtype.F64, op(loop.Mul, whole, 0x1p-32))
	low := b.Binary(loop.Sub, dtype.F64, whole, op(loop.Mul, high, 0x1p32))
	high = b.twoImm(asm.VPSLLQ, op(loop.Add, high, 3<<51), 32)
	r := b.three(asm.VORPS, high, b.three(asm.VXORPS, op(loop.Add, low, 1<<52), b.double(1<<52)))
	limit, greatest := 0x1p63, uint64(math.MaxInt64)
	if unsigned {
		limit, greatest = 0x1p64, math.MaxUint64
	}
	limited := func(p mathematics.Predicate, limit float64, to uint64) {
		mask := b.Compare(p, dtype.F64, x, b.double(limit))
		r = b.Select(dtype.F64, mask, b.repeated64(to), r)
	}
	limited(mathematics.GreaterOrEqual, limit, greatest)
	limited(mathematics.Less, -0x1p63, 1<<63)
	limited(mathematics.Unordered, 0, 0)
	return r
}

// TruncatedHalves converts two registers of f64 to one of i32, as Truncated does.
func (b *builder) TruncatedHalves(lo, hi asm.Reg) asm.Reg {
	limited := func(x asm.Reg) asm.Reg {
		nan := b.Compare(mathematics.Unordered, dtype.F64, x, x)
		return b.Lesser(dtype.F64, b.Select(dtype.F64, nan, b.repeated64(0), x), b.double(math.MaxInt32))
	}
	x := limited(lo)
	if hi == lo {
		return b.Narrow(dtype.F64, dtype.I32, x, x)
	}
	return b.Narrow(dtype.F64, dtype.I32, x, limited(hi))
}

// ToDouble converts i64 or u64 to f64. The halves become floats in the low bits of 2⁵² and 2⁸⁴; all operations except
// the last are exact.
func (b *builder) ToDouble(dt dtype.DType, x asm.Reg) asm.Reg {
	bits, bias := uint64(0x4530000080000000), 0x1p84+0x1p63+0x1p52
	if dt == dtype.U64 {
		bits, bias = 0x4530000000000000, 0x1p84+0x1p52
	}
	low := b.three(asm.VORPS, b.three(asm.VANDPS, x, b.repeated64(math.MaxUint32)), b.double(1<<52))
	high := b.three(asm.VXORPS, b.twoImm(asm.VPSRLQ, x, 32), b.repeated64(bits))
	return b.three(asm.VADDPD, b.three(asm.VSUBPD, high, b.double(bias)), low)
}

// widenings are the instructions that double the width of lanes, by the type of their operand: to i64 and to f64.
var widenings = [...]perType{
	{dtype.I32: asm.VPMOVSXDQ, dtype.U32: asm.VPMOVZXDQ},
	{dtype.I32: asm.VCVTDQ2PD, dtype.F32: asm.VCVTPS2PD},
}

// Widen converts half of the lanes to lanes of 64 bits.
func (b *builder) Widen(from, to dtype.DType, x asm.Reg, high bool) asm.Reg {
	if high {
		x = b.upper(x)
	}
	if to == dtype.F64 {
		return b.two(widenings[1][from], x)
	}
	return b.two(widenings[0][from], x)
}

// Narrow converts two registers to one of lanes of 32 bits.
func (b *builder) Narrow(from, to dtype.DType, lo, hi asm.Reg) asm.Reg {
	op := asm.VCVTPD2PS
	switch {
	case from == dtype.I64 && !b.isa.masks:
		return b.twoImm(asm.VPERMQ, b.vectorOf(asm.VSHUFPS, 0x88, lo, hi), 0xd8)
	case from == dtype.I64:
		op = asm.VPMOVQD
	case to == dtype.I32:
		op = asm.VCVTTPD2DQ
	}
	low := b.two(op, lo)
	if hi == lo {
		return b.joined(low, low)
	}
	return b.joined(low, b.two(op, hi))
}

// joined returns a vector of two halves, and upper the upper half of a vector.
func (b *builder) joined(lo, hi asm.Reg) asm.Reg {
	if b.isa.bits == 512 {
		return b.vectorOf(asm.VINSERTF64X4, 1, lo, hi)
	}
	return b.vectorOf(asm.VINSERTF128, 1, lo, hi)
}
func (b *builder) upper(x asm.Reg) asm.Reg {
	if b.isa.bits == 512 {
		return b.twoImm(asm.VEXTRACTF64X4, x, 1)
	}
	return b.twoImm(asm.VEXTRACTF128, x, 1)
}

// RoundF16 rounds f32 to f16. ToF16 returns the bits of the results, and FromF16 is the reverse.
func (b *builder) RoundF16(x asm.Reg) asm.Reg { return b.two(asm.VCVTPH2PS, b.toHalf(x)) }
func (b *builder) ToF16(x asm.Reg) asm.Reg    { return b.two(asm.VPMOVZXWD, b.toHalf(x)) }
func (b *builder) FromF16(x asm.Reg) asm.Reg  { return b.two(asm.VCVTPH2PS, b.packed(dtype.U16, x)) }

// toHalf returns f32 lanes as f16 in half a vector.
func (b *builder) toHalf(x asm.Reg) asm.Reg { return b.two(asm.VCVTPS2PH, x) }
