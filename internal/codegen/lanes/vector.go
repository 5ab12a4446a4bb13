package lanes

import (
	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// Vectors is the core that expressions are made of: operations on vectors of a few element types, I32, U32, I64, U64,
// F32 and F64. If a type's sign does not matter to an operation, the type is I32 or I64.
//
// A vector fills a register: n lanes of 32 bits, or half as many of 64. A value of 64 bits for each of n lanes has two
// registers, the lower half of the lanes and the higher. A mask belongs to lanes of 32 or of 64 bits, is of one class
// of registers in both cases, and each lane is in it or not. A mask operand may be NoReg if that is said: all lanes.
//
// Every operation on floats rounds once, to nearest, half to even, and keeps subnormal numbers; which NaN a NaN
// becomes is open. No operation changes its operands, except those that say so; each returns a register that must not
// be changed. Has, Converts, Parts, Apart, Spreads, Scatters and TakesOfTwo report what a machine has; an operation
// that it lacks is not asked for.
type Vectors interface {
	// NewVector returns a new register, of any contents.
	NewVector() regalloc.Reg
	// Vector returns a constant that fills a register, lane 0 first. Repeated returns the low bits of a number in all
	// lanes of a type's size. Bytes returns the bytes of such a register; nil for others.
	Vector(bytes []byte) regalloc.Reg
	Repeated(dt dtype.DType, bits uint64) regalloc.Reg
	Bytes(x regalloc.Reg) []byte
	// InPool returns the address of a constant that fills a register.
	InPool(bytes []byte) regalloc.Mem

	// Broadcast returns a general register in all lanes of a type, I32 (its low 32 bits) or I64. BroadcastFirst does so
	// with lane 0 of a vector.
	Broadcast(dt dtype.DType, x regalloc.Reg) regalloc.Reg
	BroadcastFirst(dt dtype.DType, x regalloc.Reg) regalloc.Reg
	// FirstLane returns a general register with lane 0 of I32 (extended by its sign), U32 (by zeros) or I64. LaneNumber
	// does so with lane n of I32 or I64.
	FirstLane(dt dtype.DType, x regalloc.Reg) regalloc.Reg
	LaneNumber(dt dtype.DType, x regalloc.Reg, n int) regalloc.Reg

	// Has reports whether Binary or Test has an operation on a type. Every machine has Add, Sub, Mul, Div, Min and Max
	// of F32 and F64; Add, Sub, Mul, And, Or, Xor, Shl of I32 and I64; Shr of I32, U32 and U64; Min and Max of I32; Eq
	// and Gt of I32 and I64. Others are composed of these, or refused.
	Has(op loop.BinaryOp, dt dtype.DType) bool
	// Unary has Neg, Abs, Sqrt, Floor, Ceil, Round (half to even) and Trunc of F32 and F64; Neg of I32 and I64, which
	// wraps, and BitNot of I32. Neg and Abs of floats change only the sign bit, of NaN too. The others keep −0.
	Unary(op loop.UnaryOp, dt dtype.DType, x regalloc.Reg) regalloc.Reg
	// Binary has Add, Sub, Mul and Div of floats; Min and Max of floats, which are NaN if an operand is NaN, and by
	// which −0 is less than 0. Integers wrap; And, Or and Xor take any bits. Shl and Shr shift each lane by its own
	// count, an unsigned number of the lane's size: a count of the size or more gives 0 or, of I32 and I64, copies of
	// the sign.
	Binary(op loop.BinaryOp, dt dtype.DType, x, y regalloc.Reg) regalloc.Reg
	// ShiftBy is Binary with Shl or Shr and one count for all lanes, of 0 to the size − 1.
	ShiftBy(op loop.BinaryOp, dt dtype.DType, x regalloc.Reg, n int64) regalloc.Reg
	// AndNot returns y without the bits of x.
	AndNot(x, y regalloc.Reg) regalloc.Reg
	// Lesser returns x in the lanes of F32 or F64 in which x < y, and y in all others: also if an operand is NaN, or
	// both are zeros. Greater does so by x > y.
	Lesser(dt dtype.DType, x, y regalloc.Reg) regalloc.Reg
	Greater(dt dtype.DType, x, y regalloc.Reg) regalloc.Reg
	// MulWhere returns x·y of F32 or F64 in the lanes of a mask of their size, and 0 in the others; y is positive and
	// finite.
	MulWhere(dt dtype.DType, mask, x, y regalloc.Reg) regalloc.Reg
	// Fused returns a sum or difference of x·y and z, of F32 or F64, rounded once.
	Fused(form Form, dt dtype.DType, x, y, z regalloc.Reg) regalloc.Reg
	// AddProduct adds the products of two vectors of F32 or F64 to a register, sum, each rounded once, and AddDot adds
	// to each lane of 32 bits the products of x's four bytes, unsigned, and y's, signed.
	AddProduct(dt dtype.DType, sum, x, y regalloc.Reg)
	AddDot(sum, x, y regalloc.Reg)
	// SmallProduct is the product of I32 of which one is in 0 to 255 and the other in −2¹⁵ to 2¹⁵ − 1, and
	// AddSmallProduct adds it to a register, sum; with signed, both may be in −2¹⁵ to 2¹⁵ − 1.
	SmallProduct(x, y regalloc.Reg) regalloc.Reg
	AddSmallProduct(sum, x, y regalloc.Reg, signed bool)

	// Compare returns the mask of the lanes of F32 or F64 for which a predicate holds; Test that of integers. Select
	// returns x in the lanes of a mask, of the type's size, and y in the others.
	Compare(p mathematics.Predicate, dt dtype.DType, x, y regalloc.Reg) regalloc.Reg
	Test(op loop.BinaryOp, dt dtype.DType, x, y regalloc.Reg) regalloc.Reg
	Select(dt dtype.DType, mask, x, y regalloc.Reg) regalloc.Reg

	// MaskOf returns the mask of all lanes or of none, of both sizes. Masks combines two of one size by And, Or or Xor,
	// and MaskNot returns the lanes outside one. JoinMasks makes one of lanes of 32 bits of those of the two halves, and
	// HalfMasks is the reverse.
	MaskOf(all bool) regalloc.Reg
	Masks(op loop.BinaryOp, x, y regalloc.Reg) regalloc.Reg
	MaskNot(x regalloc.Reg) regalloc.Reg
	JoinMasks(lo, hi regalloc.Reg) regalloc.Reg
	HalfMasks(mask regalloc.Reg) (lo, hi regalloc.Reg)
	// LaneWord returns a general register, which may be changed, that tells which lanes of a type's size are in a mask:
	// 0 if none is, AllLanes if all of 32 bits are; its lowest bit is lane 0's. FirstSet returns the number of the first
	// lane in it, if one is. JumpOnSet jumps if lane n of 32 bits is in it, or is not. JumpIfNone jumps if no lane of 32
	// bits is in a mask.
	LaneWord(dt dtype.DType, mask regalloc.Reg) regalloc.Reg
	AllLanes() int64
	FirstSet(word regalloc.Reg) regalloc.Reg
	JumpOnSet(word regalloc.Reg, lane int, set bool, to regalloc.Label)
	JumpIfNone(mask regalloc.Reg, to regalloc.Label)

	// ToInt rounds F32 to I32, half to even; numbers that do not fit, and NaN, become −2³¹.
	ToInt(x regalloc.Reg) regalloc.Reg
	// Converts reports whether Convert has a conversion. Convert converts I32 to F32, rounding; F32 to I32 and, if the
	// machine has them, F64 to I64, without the fraction: what numbers that do not fit become is open; I64 to F64,
	// rounding.
	Converts(from, to dtype.DType) bool
	Convert(from, to dtype.DType, x regalloc.Reg) regalloc.Reg
	// Truncated converts F32 to I32, and F64 to I64 or U64: without the fraction, NaN to 0, and numbers that do not fit
	// to the nearest that does; but negative numbers become U64 as they become I64. TruncatedHalves converts two
	// registers of F64 to one of I32 in this way.
	Truncated(from, to dtype.DType, x regalloc.Reg) regalloc.Reg
	TruncatedHalves(lo, hi regalloc.Reg) regalloc.Reg
	// ToDouble converts I64 or U64 to F64, rounding.
	ToDouble(dt dtype.DType, x regalloc.Reg) regalloc.Reg
	// Widen converts the lower or the higher half of the lanes of a vector: F32 to F64, I32 to F64 or I64, U32 to I64.
	Widen(from, to dtype.DType, x regalloc.Reg, high bool) regalloc.Reg
	// Narrow converts two registers to one: F64 to F32, rounding; I64 to I32, the low bits; F64 to I32, without the
	// fraction: 2³¹ becomes −2³¹, and what others that do not fit become is open. If lo and hi are one register, so may
	// be the two halves of the result be.
	Narrow(from, to dtype.DType, lo, hi regalloc.Reg) regalloc.Reg
	// RoundF16 rounds F32 to numbers of F16. ToF16 returns their bits, in the low 16 bits of lanes of 32 that are 0
	// above; FromF16 is the reverse, with any bits above.
	RoundF16(x regalloc.Reg) regalloc.Reg
	ToF16(x regalloc.Reg) regalloc.Reg
	FromF16(x regalloc.Reg) regalloc.Reg

	// TakeLanes returns, in each lane of 32 bits, the lane of x that the low bits of index's lane name. TakeLanesOfTwo
	// sets a register to the lanes of low (numbers below n) and high (from n on); TakesOfTwo reports whether the machine
	// has it. Lookup returns the table's entry that the low bits of index's lane name; the table has a power of two of
	// entries, at most Entries.
	TakeLanes(index, x regalloc.Reg) regalloc.Reg
	TakesOfTwo() bool
	TakeLanesOfTwo(to, index, low, high regalloc.Reg)
	Lookup(table []uint32, index regalloc.Reg) regalloc.Reg
	Entries() int
	// Exchanged returns a vector whose groups of n lanes of 32 bits are exchanged with their neighbours. Transposed
	// returns the columns of as many rows as there are lanes of 32 bits.
	Exchanged(x regalloc.Reg, n int) regalloc.Reg
	Transposed(rows []regalloc.Reg) []regalloc.Reg
	// FourAcross adds up four vectors of F32 within each 128 bits: lane i of each 128 bits of the result has the sum of
	// vector i's. QuartersAcross adds up such parts of each vector, and puts the sums side by side.
	FourAcross(x [4]regalloc.Reg) regalloc.Reg
	QuartersAcross(x []regalloc.Reg) regalloc.Reg
}

// Form is the signs of a fused multiply-add.
type Form uint8

// The forms.
const (
	ProductPlus  Form = iota // x·y + z
	MinusProduct             // z − x·y
	ProductMinus             // x·y − z
)

// Access is a machine's reads and writes of elements of memory. A type is one of 8 or 16 bits, I8, U8, I16 or U16,
// which lanes of 32 bits hold extended by its sign or zeros (stores write the low bits); F16, which lanes hold as F32;
// or I32 or I64, whose bits are kept. An address has any base, index, scale and displacement that Scales allows,
// unless said otherwise. Memory of lanes outside a mask is not touched.
type Access interface {
	// Load reads adjacent elements into the lanes, and Store writes them; of I64, half as many. With a mask (NoReg: all
	// lanes), of lanes of the type's size or of 32 bits, lanes outside it become 0 and stay in memory. Parts reports
	// whether a machine has masks for a type.
	Load(dt dtype.DType, at regalloc.Mem, mask regalloc.Reg) regalloc.Reg
	Store(dt dtype.DType, at regalloc.Mem, x, mask regalloc.Reg)
	Parts(dt dtype.DType) bool
	// LoadOne reads one element into all lanes, and StoreOne writes lane 0. StoreLane writes lane n, of 32 bits as bits
	// of the type's size (F16: bits by ToF16), or of I64.
	LoadOne(dt dtype.DType, at regalloc.Mem) regalloc.Reg
	StoreOne(dt dtype.DType, at regalloc.Mem, x regalloc.Reg)
	StoreLane(dt dtype.DType, at regalloc.Mem, x regalloc.Reg, n int)
	// LoadApart reads elements a step apart, in elements, into the lanes, lane by lane; of I64, hi has the higher half.
	// StoreApart writes elements of at most 32 bits. Apart reports whether a machine can, at a step and an address.
	Apart(dt dtype.DType, at regalloc.Mem, step int64) bool
	LoadApart(dt dtype.DType, at regalloc.Mem, step int64) (lo, hi regalloc.Reg)
	StoreApart(dt dtype.DType, at regalloc.Mem, step int64, x regalloc.Reg)
	// LoadSpread reads elements of 32 bits at a small step, forward or backward, with those between them. at is the
	// lowest address. With a mask (NoReg: all lanes) only its lanes' elements are touched. Spreads reports whether a
	// machine does so, with a mask (part) or without.
	Spreads(step int64, part bool) bool
	LoadSpread(at regalloc.Mem, step int64, mask regalloc.Reg) regalloc.Reg
	// Gather reads 32 bits for each lane of a mask (NoReg: all), at an address without an index plus the lane of index,
	// of I32 or I64, times scale; lanes outside it become 0. GatherWide reads 64 bits, at a scale of 8.
	Gather(at regalloc.Mem, index Value, scale uint8, mask regalloc.Reg) regalloc.Reg
	GatherWide(at regalloc.Mem, index Value, mask regalloc.Reg) (lo, hi regalloc.Reg)
	// Scatter writes 32 bits for each lane of a mask, at a scale of 4, and ScatterWide 64; of equal addresses the last
	// lane's stays. Scatters reports whether the machine has them.
	Scatters() bool
	Scatter(at regalloc.Mem, index Value, x, mask regalloc.Reg)
	ScatterWide(at regalloc.Mem, index Value, lo, hi, mask regalloc.Reg)
	// StorePacked writes the low 2 or 4 bits of all lanes of 32 bits side by side.
	StorePacked(bits int, at regalloc.Mem, x regalloc.Reg)
	// Prefetch reads memory into the cache.
	Prefetch(at regalloc.Mem)
}
