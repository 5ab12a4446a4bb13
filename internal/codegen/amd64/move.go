package amd64

import (
	"encoding/binary"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/dtype"
)

// This file moves lanes; see lanes.Vectors.

// Broadcast returns the low bits of a general register in all lanes of a type.
func (b *builder) Broadcast(dt dtype.DType, x asm.Reg) asm.Reg {
	r := b.NewVector()
	b.Emit(asm.Inst{Op: sized(dt, asm.VMOVD, asm.VMOVQ), Bits: 128, Args: [4]asm.Reg{r, x}})
	return b.BroadcastFirst(dt, r)
}

// BroadcastFirst returns lane 0 of a vector in all lanes.
func (b *builder) BroadcastFirst(dt dtype.DType, x asm.Reg) asm.Reg {
	return b.two(sized(dt, asm.VPBROADCASTD, asm.VPBROADCASTQ), x)
}

// FirstLane returns a general register with lane 0 of a vector.
func (b *builder) FirstLane(dt dtype.DType, x asm.Reg) asm.Reg {
	r := b.General()
	b.Emit(asm.Inst{Op: sized(dt, asm.VMOVD, asm.VMOVQ), Args: [4]asm.Reg{r, x}})
	if dt == dtype.I32 {
		b.Emit(asm.Inst{Op: asm.MOVSXD, Bits: 64, Args: [4]asm.Reg{r, r}})
	}
	return r
}

// LaneNumber returns a general register with a lane of a vector.
func (b *builder) LaneNumber(dt dtype.DType, x asm.Reg, n int) asm.Reg {
	r := b.General()
	if dt == dtype.I64 {
		b.Emit(asm.Inst{Op: asm.VPEXTRQ, Args: [4]asm.Reg{r, b.quarter(x, n/2)}, Imm: int64(n % 2)})
		return r
	}
	b.Emit(asm.Inst{Op: asm.VPEXTRD, Args: [4]asm.Reg{r, b.quarter(x, n/4)}, Imm: int64(n % 4)})
	b.Emit(asm.Inst{Op: asm.MOVSXD, Bits: 64, Args: [4]asm.Reg{r, r}})
	return r
}

// TakeLanes returns the lanes of a vector by their numbers in another.
func (b *builder) TakeLanes(index, x asm.Reg) asm.Reg { return b.three(asm.VPERMD, index, x) }

// TakesOfTwo reports whether TakeLanesOfTwo has an instruction.
func (b *builder) TakesOfTwo() bool { return b.isa.masks }

// TakeLanesOfTwo sets a register to the lanes of two vectors by their numbers.
func (b *builder) TakeLanesOfTwo(to, index, low, high asm.Reg) {
	b.Assign(to, index)
	b.accumulate(asm.VPERMI2D, to, low, high)
}

// Entries is the most entries of a table of Lookup.
func (b *builder) Entries() int { return b.isa.lanes }

// Lookup returns the table's entry that the low bits of each lane name.
func (b *builder) Lookup(table []uint32, index asm.Reg) asm.Reg {
	var bytes []byte
	for i := range b.isa.lanes {
		bytes = binary.LittleEndian.AppendUint32(bytes, table[i%len(table)])
	}
	return b.three(asm.VPERMPS, index, b.Vector(bytes))
}

// Exchanged returns a vector whose groups of n lanes of 32 bits are exchanged with their neighbours.
func (b *builder) Exchanged(x asm.Reg, n int) asm.Reg {
	switch n {
	case 8:
		return b.vectorOf(asm.VSHUFF64X2, 0x4e, x, x)
	case 4:
		if b.isa.bits == 512 {
			return b.vectorOf(asm.VSHUFF64X2, 0xb1, x, x)
		}
		return b.vectorOf(asm.VPERM2F128, 0x01, x, x)
	case 2:
		return b.twoImm(asm.VPSHUFD, x, 0x4e)
	}
	return b.twoImm(asm.VPSHUFD, x, 0xb1)
}

// Transposed transposes as many registers of 32-bit lanes as they have lanes: in quarters of 4 × 4, which are then
// exchanged.
func (b *builder) Transposed(rows []asm.Reg) []asm.Reg {
	out := make([]asm.Reg, len(rows))
	quarters := make([][turnedRows]asm.Reg, len(rows)/turnedRows)
	for g := range quarters {
		r := rows[g*turnedRows:]
		low, high := b.three(asm.VUNPCKLPS, r[0], r[1]), b.three(asm.VUNPCKHPS, r[0], r[1])
		low2, high2 := b.three(asm.VUNPCKLPS, r[2], r[3]), b.three(asm.VUNPCKHPS, r[2], r[3])
		quarters[g] = [turnedRows]asm.Reg{b.three(asm.VUNPCKLPD, low, low2), b.three(asm.VUNPCKHPD, low, low2),
			b.three(asm.VUNPCKLPD, high, high2), b.three(asm.VUNPCKHPD, high, high2)}
	}
	for i := range turnedRows {
		if !b.isa.masks {
			x, y := quarters[0][i], quarters[1][i]
			out[i], out[turnedRows+i] = b.vectorOf(asm.VPERM2F128, 0x20, x, y), b.vectorOf(asm.VPERM2F128, 0x31, x, y)
			continue
		}
		pair := func(g int) (low, high asm.Reg) {
			x, y := quarters[g][i], quarters[g+1][i]
			return b.vectorOf(asm.VSHUFF32X4, 0x44, x, y), b.vectorOf(asm.VSHUFF32X4, 0xee, x, y)
		}
		low, high := pair(0)
		low2, high2 := pair(2)
		for j, x := range []asm.Reg{b.vectorOf(asm.VSHUFF32X4, 0x88, low, low2), b.vectorOf(asm.VSHUFF32X4, 0xdd, low, low2),
			b.vectorOf(asm.VSHUFF32X4, 0x88, high, high2), b.vectorOf(asm.VSHUFF32X4, 0xdd, high, high2)} {
			out[j*turnedRows+i] = x
		}
	}
	return out
}

// FourAcross adds up four vectors within each 128 bits: lane i of each 128 bits of the result has the sum of vector
// i's.
func (b *builder) FourAcross(x [4]asm.Reg) asm.Reg {
	pairs := func(low, high asm.Op, x, y asm.Reg) asm.Reg {
		return b.three(asm.VADDPS, b.three(low, x, y), b.three(high, x, y))
	}
	return pairs(asm.VUNPCKLPD, asm.VUNPCKHPD, pairs(asm.VUNPCKLPS, asm.VUNPCKHPS, x[0], x[1]),
		pairs(asm.VUNPCKLPS, asm.VUNPCKHPS, x[2], x[3]))
}

// QuartersAcross adds up the quarters, or halves, of each vector, and puts the sums side by sidb.
func (b *builder) QuartersAcross(x []asm.Reg) asm.Reg {
	pairs := func(op asm.Op, low, high int64, x, y asm.Reg) asm.Reg {
		return b.three(asm.VADDPS, b.vectorOf(op, low, x, y), b.vectorOf(op, high, x, y))
	}
	if len(x) == 2 {
		return pairs(asm.VPERM2F128, 0x20, 0x31, x[0], x[1])
	}
	return pairs(asm.VSHUFF64X2, 0x88, 0xdd, pairs(asm.VSHUFF64X2, 0x88, 0xdd, x[0], x[1]),
		pairs(asm.VSHUFF64X2, 0x88, 0xdd, x[2], x[3]))
}
