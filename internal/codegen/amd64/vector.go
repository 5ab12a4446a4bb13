package amd64

import "github.com/weirml/weir/internal/codegen/amd64/asm"

// This file is vector arithmetic without the differences between AVX2 and AVX-512. A mask is a register of
// maskRegister's class: with opmasks a bit a lane, without them a lane of all ones or all zeros. Values of 32 bits fill
// one register, values of 64 bits two: the low half of the lanes and the high half, each with masks of its own (see
// halves).

// three emits an operation on two vectors, and returns a new register.
func (b *builder) three(op asm.Op, x, y asm.Reg) asm.Reg {
	r := b.vector()
	b.Emit(asm.Inst{Op: op, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{r, x, y}})
	return r
}

// two emits an operation on one vector, and returns a new register.
func (b *builder) two(op asm.Op, x asm.Reg) asm.Reg {
	r := b.vector()
	b.Emit(asm.Inst{Op: op, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{r, x}})
	return r
}

// twoImm emits an operation on one vector and an immediate, and returns a new register.
func (b *builder) twoImm(op asm.Op, x asm.Reg, imm int64) asm.Reg {
	r := b.vector()
	b.Emit(asm.Inst{Op: op, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{r, x}, Imm: imm})
	return r
}

// vectorOf emits an operation on two vectors and an immediate.
func (b *builder) vectorOf(op asm.Op, imm int64, x, y asm.Reg) asm.Reg {
	r := b.vector()
	b.Emit(asm.Inst{Op: op, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{r, x, y}, Imm: imm})
	return r
}

// f32.

func (b *builder) add(x, y asm.Reg) asm.Reg { return b.three(asm.VADDPS, x, y) }
func (b *builder) sub(x, y asm.Reg) asm.Reg { return b.three(asm.VSUBPS, x, y) }
func (b *builder) mul(x, y asm.Reg) asm.Reg { return b.three(asm.VMULPS, x, y) }
func (b *builder) div(x, y asm.Reg) asm.Reg { return b.three(asm.VDIVPS, x, y) }

// mulWhere returns x·y in the lanes of the mask and 0 in the others; y must be positive.
func (b *builder) mulWhere(mask, x, y asm.Reg) asm.Reg { return b.mulMasked(asm.VMULPS, mask, x, y) }

// mulMasked emits a product that is 0 in the lanes outside the mask.
func (b *builder) mulMasked(op asm.Op, mask, x, y asm.Reg) asm.Reg {
	if !b.isa.masks {
		return b.three(op, b.and(mask, x), y)
	}
	r := b.vector()
	b.Emit(asm.Inst{Op: op, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{r, x, y}, Mask: mask, Zero: true})
	return r
}

// min and max are the machine's: y if an operand is NaN, and if both are zeros.
func (b *builder) min(x, y asm.Reg) asm.Reg { return b.three(asm.VMINPS, x, y) }
func (b *builder) max(x, y asm.Reg) asm.Reg { return b.three(asm.VMAXPS, x, y) }
func (b *builder) sqrt(x asm.Reg) asm.Reg   { return b.two(asm.VSQRTPS, x) }

// fma returns x·y + z, rounded once.
func (b *builder) fma(x, y, z asm.Reg) asm.Reg { return b.fused(asm.VFMADD231PS, x, y, z) }

// fnma returns z − x·y, rounded once.
func (b *builder) fnma(x, y, z asm.Reg) asm.Reg { return b.fused(asm.VFNMADD231PS, x, y, z) }

// fms returns x·y − z, rounded once.
func (b *builder) fms(x, y, z asm.Reg) asm.Reg { return b.fused(asm.VFMSUB231PS, x, y, z) }

// fused emits a fused multiply-add of the given form, rounded once; no operand is changed.
func (b *builder) fused(op asm.Op, x, y, z asm.Reg) asm.Reg {
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

// accumulate emits r = ±x·y ± r, with the operation's signs.
func (b *builder) accumulate(op asm.Op, r, x, y asm.Reg) {
	b.Emit(asm.Inst{Op: op, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{r, x, y}})
}

// The modes of round.
const (
	toNearest  = 8 // half to even; 8: without raising the inexact flag
	downward   = 9
	upward     = 10
	towardZero = 11
)

// round rounds f32 lanes to integers by a mode.
func (b *builder) round(x asm.Reg, mode int64) asm.Reg {
	if b.isa.masks {
		return b.twoImm(asm.VRNDSCALEPS, x, mode)
	}
	return b.twoImm(asm.VROUNDPS, x, mode)
}

// Bits.

func (b *builder) and(x, y asm.Reg) asm.Reg { return b.three(asm.VANDPS, x, y) }
func (b *builder) or(x, y asm.Reg) asm.Reg  { return b.three(asm.VORPS, x, y) }
func (b *builder) xor(x, y asm.Reg) asm.Reg { return b.three(asm.VXORPS, x, y) }

// andNot returns y without the bits of x.
func (b *builder) andNot(x, y asm.Reg) asm.Reg { return b.three(asm.VANDNPS, x, y) }

// i32.

func (b *builder) addInt(x, y asm.Reg) asm.Reg                 { return b.three(asm.VPADDD, x, y) }
func (b *builder) subInt(x, y asm.Reg) asm.Reg                 { return b.three(asm.VPSUBD, x, y) }
func (b *builder) mulInt(x, y asm.Reg) asm.Reg                 { return b.three(asm.VPMULLD, x, y) }
func (b *builder) shiftLeft(x asm.Reg, n int64) asm.Reg        { return b.twoImm(asm.VPSLLD, x, n) }
func (b *builder) shiftRight(x asm.Reg, n int64) asm.Reg       { return b.twoImm(asm.VPSRLD, x, n) }
func (b *builder) shiftRightSigned(x asm.Reg, n int64) asm.Reg { return b.twoImm(asm.VPSRAD, x, n) }

// toInt rounds to the nearest i32, half to even; truncateToInt rounds toward zero. Numbers that do not fit become −2³¹.
func (b *builder) toInt(x asm.Reg) asm.Reg         { return b.two(asm.VCVTPS2DQ, x) }
func (b *builder) truncateToInt(x asm.Reg) asm.Reg { return b.two(asm.VCVTTPS2DQ, x) }
func (b *builder) toFloat(x asm.Reg) asm.Reg       { return b.two(asm.VCVTDQ2PS, x) }

// Comparisons and masks.

// predicate is a comparison of floats; all except notEqual, notLess and unordered are false if an operand is NaN.
type predicate int64

// The predicates, by the machine's numbers.
const (
	equal          predicate = 0x00
	less           predicate = 0x11
	lessOrEqual    predicate = 0x12
	unordered      predicate = 0x03
	notEqual       predicate = 0x04
	ordered        predicate = 0x07
	greaterOrEqual predicate = 0x1d
	greater        predicate = 0x1e
	notLess        predicate = 0x15
)

func (b *builder) compare(p predicate, x, y asm.Reg) asm.Reg {
	return b.compareWith(asm.VCMPPS, int64(p), x, y)
}

// compareWith emits a comparison by an immediate, and returns its mask.
func (b *builder) compareWith(op asm.Op, imm int64, x, y asm.Reg) asm.Reg {
	r := b.maskRegister()
	b.Emit(asm.Inst{Op: op, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{r, x, y}, Imm: imm})
	return r
}

// equalInt and greaterInt compare lanes of 32 bits, as signed integers.
func (b *builder) equalInt(x, y asm.Reg) asm.Reg {
	return b.compareIntegers(asm.VPCMPD, 0, asm.VPCMPEQD, x, y)
}
func (b *builder) greaterInt(x, y asm.Reg) asm.Reg {
	return b.compareIntegers(asm.VPCMPD, 6, asm.VPCMPGTD, x, y)
}

// equalWide and greaterWide compare lanes of 64 bits; their masks are of such lanes.
func (b *builder) equalWide(x, y asm.Reg) asm.Reg {
	return b.compareIntegers(asm.VPCMPQ, 0, asm.VPCMPEQQ, x, y)
}
func (b *builder) greaterWide(x, y asm.Reg) asm.Reg {
	return b.compareIntegers(asm.VPCMPQ, 6, asm.VPCMPGTQ, x, y)
}

// compareIntegers emits a comparison of integers: by number into an opmask, or by an instruction into a vector.
func (b *builder) compareIntegers(masked asm.Op, number int64, plain asm.Op, x, y asm.Reg) asm.Reg {
	if b.isa.masks {
		return b.compareWith(masked, number, x, y)
	}
	return b.three(plain, x, y)
}

// selectLanes returns x in the lanes of the mask, y in the others.
func (b *builder) selectLanes(mask, x, y asm.Reg) asm.Reg {
	r := b.vector()
	if b.isa.masks {
		b.Emit(asm.Inst{Op: asm.VBLENDMPS, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{r, y, x}, Mask: mask})
	} else {
		b.Emit(asm.Inst{Op: asm.VBLENDVPS, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{r, y, x, mask}})
	}
	return r
}

// selectWide is selectLanes for lanes of 64 bits, with a mask of such lanes.
func (b *builder) selectWide(mask, x, y asm.Reg) asm.Reg {
	r := b.vector()
	if b.isa.masks {
		b.Emit(asm.Inst{Op: asm.VBLENDMPD, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{r, y, x}, Mask: mask})
	} else {
		b.Emit(asm.Inst{Op: asm.VBLENDVPD, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{r, y, x, mask}})
	}
	return r
}

// maskOp combines masks.
func (b *builder) maskOp(k, v asm.Op, x, y asm.Reg) asm.Reg {
	if !b.isa.masks {
		return b.three(v, x, y)
	}
	r := b.maskRegister()
	b.Emit(asm.Inst{Op: k, Bits: 16, Args: [4]asm.Reg{r, x, y}})
	return r
}

func (b *builder) maskAnd(x, y asm.Reg) asm.Reg { return b.maskOp(asm.KANDW, asm.VANDPS, x, y) }
func (b *builder) maskOr(x, y asm.Reg) asm.Reg  { return b.maskOp(asm.KORW, asm.VORPS, x, y) }
func (b *builder) maskXor(x, y asm.Reg) asm.Reg { return b.maskOp(asm.KXORW, asm.VXORPS, x, y) }
func (b *builder) maskNot(x asm.Reg) asm.Reg    { return b.maskXor(x, b.maskConst(true)) }

// maskConst returns a mask of all lanes, or of none.
func (b *builder) maskConst(all bool) asm.Reg {
	if !b.isa.masks {
		if all {
			return b.repeated32(0xffffffff)
		}
		return b.repeated32(0)
	}
	r := b.maskRegister()
	op := asm.KXORW
	if all {
		op = asm.KXNORW
	}
	b.Emit(asm.Inst{Op: op, Bits: 16, Args: [4]asm.Reg{r, asm.K(0), asm.K(0)}})
	return r
}

// FirstLanes returns the mask of the lanes below count, a general register; 0 or less is none.
func (b *builder) FirstLanes(count asm.Reg) asm.Reg {
	return b.greaterInt(b.broadcastInt(count), b.iota32())
}

// bitsOf returns a general register with a bit for each lane of a mask, of 32 bits a lane.
func (b *builder) bitsOf(mask asm.Reg) asm.Reg {
	r := b.General()
	if b.isa.masks {
		b.Emit(asm.Inst{Op: asm.KMOVW, Bits: 32, Args: [4]asm.Reg{r, mask}})
	} else {
		b.Emit(asm.Inst{Op: asm.VMOVMSKPS, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{r, mask}})
	}
	return r
}

// Memory.

// load returns a full vector from memory.
func (b *builder) load(m asm.Mem) asm.Reg {
	r := b.vector()
	b.Emit(asm.Inst{Op: asm.VMOVUPS, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{r, asm.Memory}, Mem: m})
	return r
}

// loadMasked reads the lanes of 32 bits of a mask from memory; the others are 0, and their memory is not touched.
func (b *builder) loadMasked(mask asm.Reg, m asm.Mem) asm.Reg {
	r := b.vector()
	if b.isa.masks {
		b.Emit(asm.Inst{Op: asm.VMOVUPS, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{r, asm.Memory}, Mem: m, Mask: mask,
			Zero: true})
	} else {
		b.Emit(asm.Inst{Op: asm.VMASKMOVPS, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{r, mask, asm.Memory}, Mem: m})
	}
	return r
}

// loadWideMasked is loadMasked for lanes of 64 bits, with a mask of such lanes.
func (b *builder) loadWideMasked(mask asm.Reg, m asm.Mem) asm.Reg {
	r := b.vector()
	if b.isa.masks {
		b.Emit(asm.Inst{Op: asm.VMOVUPD, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{r, asm.Memory}, Mem: m, Mask: mask,
			Zero: true})
	} else {
		b.Emit(asm.Inst{Op: asm.VMASKMOVPD, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{r, mask, asm.Memory}, Mem: m})
	}
	return r
}

func (b *builder) store(m asm.Mem, x asm.Reg) {
	b.Emit(asm.Inst{Op: asm.VMOVUPS, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{asm.Memory, x}, Mem: m})
}

// storeMasked writes the lanes of 32 bits of a mask.
func (b *builder) storeMasked(mask asm.Reg, m asm.Mem, x asm.Reg) {
	if b.isa.masks {
		b.Emit(asm.Inst{Op: asm.VMOVUPS, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{asm.Memory, x}, Mem: m, Mask: mask})
	} else {
		b.Emit(asm.Inst{Op: asm.VMASKMOVPS, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{asm.Memory, mask, x}, Mem: m})
	}
}

// storeWideMasked writes the lanes of 64 bits of a mask of such lanes.
func (b *builder) storeWideMasked(mask asm.Reg, m asm.Mem, x asm.Reg) {
	if b.isa.masks {
		b.Emit(asm.Inst{Op: asm.VMOVUPD, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{asm.Memory, x}, Mem: m, Mask: mask})
	} else {
		b.Emit(asm.Inst{Op: asm.VMASKMOVPD, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{asm.Memory, mask, x}, Mem: m})
	}
}

// broadcast returns the f32 at an address in all lanes.
func (b *builder) broadcast(m asm.Mem) asm.Reg {
	r := b.vector()
	b.Emit(asm.Inst{Op: asm.VBROADCASTSS, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{r, asm.Memory}, Mem: m})
	return r
}

// broadcastInt returns the low 32 bits of a general register in all lanes.
func (b *builder) broadcastInt(x asm.Reg) asm.Reg {
	r := b.vector()
	b.Emit(asm.Inst{Op: asm.VMOVD, Bits: 128, Args: [4]asm.Reg{r, x}})
	return b.two(asm.VPBROADCASTD, r)
}

// broadcastWide returns a general register in all lanes of 64 bits.
func (b *builder) broadcastWide(x asm.Reg) asm.Reg {
	r := b.vector()
	b.Emit(asm.Inst{Op: asm.VMOVQ, Bits: 128, Args: [4]asm.Reg{r, x}})
	return b.two(asm.VPBROADCASTQ, r)
}
