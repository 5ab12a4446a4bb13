package amd64

import "github.com/weirml/weir/internal/codegen/amd64/asm"

// FourAcross adds up four vectors within each 128 bits: lane i of each 128 bits of the result has the sum of vector
// i's.
func (e *machine) FourAcross(x [4]asm.Reg) asm.Reg {
	pairs := func(low, high asm.Op, x, y asm.Reg) asm.Reg { return e.add(e.three(low, x, y), e.three(high, x, y)) }
	return pairs(asm.VUNPCKLPD, asm.VUNPCKHPD, pairs(asm.VUNPCKLPS, asm.VUNPCKHPS, x[0], x[1]),
		pairs(asm.VUNPCKLPS, asm.VUNPCKHPS, x[2], x[3]))
}

// QuartersAcross adds up the quarters, or halves, of each vector, and puts the sums side by side.
func (e *machine) QuartersAcross(x []asm.Reg) asm.Reg {
	pairs := func(op asm.Op, low, high int64, x, y asm.Reg) asm.Reg {
		return e.add(e.vectorOf(op, low, x, y), e.vectorOf(op, high, x, y))
	}
	if len(x) == 2 {
		return pairs(asm.VPERM2F128, 0x20, 0x31, x[0], x[1])
	}
	return pairs(asm.VSHUFF64X2, 0x88, 0xdd, pairs(asm.VSHUFF64X2, 0x88, 0xdd, x[0], x[1]),
		pairs(asm.VSHUFF64X2, 0x88, 0xdd, x[2], x[3]))
}
