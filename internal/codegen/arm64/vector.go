package arm64

import (
	"encoding/binary"
	"slices"

	"github.com/weirml/weir/internal/codegen/arm64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// This file is the arithmetic of lanes.Vectors. A mask is a vector of lanes of all ones or all zeros.

// three emits an operation on two vectors, and returns a new register.
func (b *builder) three(op asm.Op, s asm.Shape, x, y asm.Reg) asm.Reg {
	r := b.NewVector()
	b.op(op, s, r, x, y)
	return r
}

// two emits an operation on one vector, and returns a new register.
func (b *builder) two(op asm.Op, s asm.Shape, x asm.Reg) asm.Reg {
	r := b.NewVector()
	b.op(op, s, r, x)
	return r
}

// twoImm emits an operation on one vector and an immediate, and returns a new register.
func (b *builder) twoImm(op asm.Op, s asm.Shape, x asm.Reg, imm int64) asm.Reg {
	r := b.NewVector()
	b.opImm(op, s, imm, r, x)
	return r
}

// onto emits an operation on two vectors that also changes its destination, which begins as a copy of z.
func (b *builder) onto(op asm.Op, s asm.Shape, z, x, y asm.Reg) asm.Reg {
	r := b.CopyOf(z)
	b.op(op, s, r, x, y)
	return r
}

// shapeOf returns the shape of a vector's lanes.
func shapeOf(dt dtype.DType) asm.Shape {
	if dt.Bits() == 64 {
		return asm.D2
	}
	return asm.S4
}

// Broadcast returns a general register in all lanes, and BroadcastFirst lane 0 of a vector.
func (b *builder) Broadcast(dt dtype.DType, x regalloc.Reg) regalloc.Reg {
	return b.two(asm.DUP, shapeOf(dt), x)
}
func (b *builder) BroadcastFirst(dt dtype.DType, x regalloc.Reg) regalloc.Reg {
	return b.two(asm.DUP, shapeOf(dt), x)
}

// FirstLane returns a general register with lane 0.
func (b *builder) FirstLane(dt dtype.DType, x regalloc.Reg) regalloc.Reg {
	return b.LaneNumber(dt, x, 0)
}

// LaneNumber returns a general register with a lane.
func (b *builder) LaneNumber(dt dtype.DType, x regalloc.Reg, n int) regalloc.Reg {
	in := asm.Inst{Op: asm.SMOV, Shape: asm.X64, From: asm.S, Args: [6]asm.Reg{b.General(), x}, Lane: uint8(n)}
	switch dt {
	case dtype.U32:
		in.Op, in.Shape = asm.UMOV, asm.W32
	case dtype.I64, dtype.U64:
		in.Op, in.From = asm.UMOV, asm.D
	}
	b.Emit(in)
	return in.Args[0]
}

// binaries are the operations of one instruction, by the types of 32 bits. Those of 64 bits have the same, except some.
var binaries = map[dtype.DType]map[loop.BinaryOp]asm.Op{
	dtype.F32: {loop.Add: asm.FADD, loop.Sub: asm.FSUB, loop.Mul: asm.FMUL, loop.Div: asm.FDIV, loop.Min: asm.FMIN,
		loop.Max: asm.FMAX},
	dtype.I32: {loop.Add: asm.ADD, loop.Sub: asm.SUB, loop.Mul: asm.MUL, loop.Min: asm.SMIN, loop.Max: asm.SMAX},
	dtype.U32: {loop.Add: asm.ADD, loop.Sub: asm.SUB, loop.Mul: asm.MUL, loop.Min: asm.UMIN, loop.Max: asm.UMAX},
}

// bitwise are the operations on bits.
var bitwise = map[loop.BinaryOp]asm.Op{loop.And: asm.AND, loop.Or: asm.ORR, loop.Xor: asm.EOR}

// Has reports whether Binary or Test has an operation on a type.
func (b *builder) Has(op loop.BinaryOp, dt dtype.DType) bool {
	if binaries[narrow(dt)][op] != asm.NoOp {
		return true
	}
	switch op {
	case loop.And, loop.Or, loop.Xor, loop.Shl, loop.Shr, loop.Eq, loop.Lt, loop.Le, loop.Gt, loop.Ge:
		return narrow(dt) != dtype.F32
	}
	return false
}

// narrow returns the type of 32 bits of a type's kind.
func narrow(dt dtype.DType) dtype.DType {
	switch dt {
	case dtype.F64:
		return dtype.F32
	case dtype.I64:
		return dtype.I32
	case dtype.U64:
		return dtype.U32
	}
	return dt
}

// unaries are the operations of one instruction.
var unaries = map[bool]map[loop.UnaryOp]asm.Op{
	true: {loop.Neg: asm.FNEG, loop.Abs: asm.FABS, loop.Sqrt: asm.FSQRT, loop.Floor: asm.FRINTM, loop.Ceil: asm.FRINTP,
		loop.Round: asm.FRINTN, loop.Trunc: asm.FRINTZ},
	false: {loop.Neg: asm.NEG},
}

// Unary emits an operation on one vector.
func (b *builder) Unary(op loop.UnaryOp, dt dtype.DType, x regalloc.Reg) regalloc.Reg {
	if op == loop.BitNot {
		return b.two(asm.NOT, asm.B16, x)
	}
	return b.two(unaries[narrow(dt) == dtype.F32][op], shapeOf(dt), x)
}

// Binary emits an operation on two vectors.
func (b *builder) Binary(op loop.BinaryOp, dt dtype.DType, x, y regalloc.Reg) regalloc.Reg {
	if o := bitwise[op]; o != asm.NoOp {
		return b.three(o, asm.B16, x, y)
	}
	s := shapeOf(dt)
	switch {
	case op == loop.Shl || op == loop.Shr:
		return b.shift(op, dt, x, y)
	case s == asm.D2 && narrow(dt) != dtype.F32 && op == loop.Mul:
		return b.multiplyLong(x, y)
	case s == asm.D2 && narrow(dt) != dtype.F32 && op == loop.Min:
		return b.Select(dt, b.Test(loop.Gt, dt, x, y), y, x)
	case s == asm.D2 && narrow(dt) != dtype.F32 && op == loop.Max:
		return b.Select(dt, b.Test(loop.Gt, dt, x, y), x, y)
	}
	o := binaries[narrow(dt)][op]
	if o == asm.NoOp {
		panic(diag.Internalf("arm64: no operation %s of %s", op, dt))
	}
	return b.three(o, s, x, y)
}

// multiplyLong returns the low halves of products of 64 bits: the products of the low halves, and above them those of
// one's low and the other's high half.
func (b *builder) multiplyLong(x, y asm.Reg) asm.Reg {
	crossed := b.three(asm.MUL, asm.S4, x, b.two(asm.REV64, asm.S4, y))
	high := b.twoImm(asm.SHL, asm.D2, b.two(asm.UADDLP, asm.S4, crossed), 32)
	b.op(asm.UMLAL, asm.S2, high, b.two(asm.XTN, asm.S2, x), b.two(asm.XTN, asm.S2, y))
	return high
}

// shift shifts lanes by counts: the instruction takes the low byte of a count, to the right if it is negative. Counts
// are cut to the size, which shifts all bits out.
func (b *builder) shift(op loop.BinaryOp, dt dtype.DType, x, count asm.Reg) asm.Reg {
	s, o := shapeOf(dt), asm.USHL
	size := b.Repeated(dt, uint64(dt.Bits()))
	if s == asm.S4 {
		count = b.three(asm.UMIN, s, count, size)
	} else {
		count = b.Select(dt, b.three(asm.CMHI, s, count, size), size, count)
	}
	if op == loop.Shr {
		count = b.two(asm.NEG, s, count)
		if dt == dtype.I32 || dt == dtype.I64 {
			o = asm.SSHL
		}
	}
	return b.three(o, s, x, count)
}

// ShiftBy shifts all lanes by one count.
func (b *builder) ShiftBy(op loop.BinaryOp, dt dtype.DType, x regalloc.Reg, n int64) regalloc.Reg {
	o := asm.SHL
	switch {
	case n == 0:
		return x
	case op == loop.Shr && (dt == dtype.I32 || dt == dtype.I64):
		o = asm.SSHR
	case op == loop.Shr:
		o = asm.USHR
	}
	return b.twoImm(o, shapeOf(dt), x, n)
}

// AndNot returns y without the bits of x.
func (b *builder) AndNot(x, y regalloc.Reg) regalloc.Reg { return b.three(asm.BIC, asm.B16, y, x) }

// Lesser returns x where x < y, and else y. Greater does so by x > y.
func (b *builder) Lesser(dt dtype.DType, x, y regalloc.Reg) regalloc.Reg {
	return b.Select(dt, b.three(asm.FCMGT, shapeOf(dt), y, x), x, y)
}
func (b *builder) Greater(dt dtype.DType, x, y regalloc.Reg) regalloc.Reg {
	return b.Select(dt, b.three(asm.FCMGT, shapeOf(dt), x, y), x, y)
}

// MulWhere returns x·y in the lanes of a mask, and 0 in the others.
func (b *builder) MulWhere(dt dtype.DType, mask, x, y regalloc.Reg) regalloc.Reg {
	return b.three(asm.FMUL, shapeOf(dt), b.three(asm.AND, asm.B16, mask, x), y)
}

// Fused returns a sum or difference of x·y and z, rounded once.
func (b *builder) Fused(form lanes.Form, dt dtype.DType, x, y, z regalloc.Reg) regalloc.Reg {
	s := shapeOf(dt)
	switch form {
	case lanes.MinusProduct:
		return b.onto(asm.FMLS, s, z, x, y)
	case lanes.ProductMinus:
		r := b.two(asm.FNEG, s, z)
		b.op(asm.FMLA, s, r, x, y)
		return r
	}
	return b.onto(asm.FMLA, s, z, x, y)
}

// AddProduct adds the products of two vectors to a sum.
func (b *builder) AddProduct(dt dtype.DType, sum, x, y regalloc.Reg) {
	b.op(asm.FMLA, shapeOf(dt), sum, x, y)
}

// AddDot adds the products of x's four bytes, unsigned, and y's, signed, to each lane of a sum.
func (b *builder) AddDot(sum, x, y regalloc.Reg) {
	switch {
	case b.isa.matrix:
		b.op(asm.USDOT, asm.S4, sum, x, y)
	case b.isa.dot: // x·y = (x − 128)·y + 64·y + 64·y, of signed bytes
		b.op(asm.SDOT, asm.S4, sum, b.three(asm.EOR, asm.B16, x, b.repeated32(0x80808080)), y)
		for range 2 {
			b.op(asm.SDOT, asm.S4, sum, b.repeated32(0x40404040), y)
		}
	default: // a product has 16 bits with its sign
		var pairs [2]asm.Reg
		for n, s := range []asm.Shape{asm.B8, asm.B16} {
			product := b.three(asm.MUL, asm.H8, b.twoImm(asm.USHLL, s, x, 0), b.twoImm(asm.SSHLL, s, y, 0))
			pairs[n] = b.two(asm.SADDLP, asm.H8, product)
		}
		b.op(asm.ADD, asm.S4, sum, sum, b.three(asm.ADDP, asm.S4, pairs[0], pairs[1]))
	}
}

// SmallProduct is the product of I32.
func (b *builder) SmallProduct(x, y regalloc.Reg) regalloc.Reg {
	return b.three(asm.MUL, asm.S4, x, y)
}

// AddSmallProduct adds the product of I32.
func (b *builder) AddSmallProduct(sum, x, y regalloc.Reg, _ bool) { b.op(asm.MLA, asm.S4, sum, x, y) }

// Compare returns the mask of the lanes for which a predicate holds.
func (b *builder) Compare(p mathematics.Predicate, dt dtype.DType, x, y regalloc.Reg) regalloc.Reg {
	s := shapeOf(dt)
	switch p {
	case mathematics.Equal:
		return b.three(asm.FCMEQ, s, x, y)
	case mathematics.Less:
		return b.three(asm.FCMGT, s, y, x)
	case mathematics.LessOrEqual:
		return b.three(asm.FCMGE, s, y, x)
	case mathematics.GreaterOrEqual:
		return b.three(asm.FCMGE, s, x, y)
	case mathematics.Greater:
		return b.three(asm.FCMGT, s, x, y)
	case mathematics.NotEqual:
		return b.MaskNot(b.three(asm.FCMEQ, s, x, y))
	case mathematics.NotLess:
		return b.MaskNot(b.three(asm.FCMGT, s, y, x))
	}
	number := b.three(asm.FCMEQ, s, x, x) // Unordered
	if x != y {
		number = b.three(asm.AND, asm.B16, number, b.three(asm.FCMEQ, s, y, y))
	}
	return b.MaskNot(number)
}

// Test returns the mask of the lanes for which a comparison of integers holds.
func (b *builder) Test(op loop.BinaryOp, dt dtype.DType, x, y regalloc.Reg) regalloc.Reg {
	greater, atLeast := asm.CMGT, asm.CMGE
	if narrow(dt) == dtype.U32 {
		greater, atLeast = asm.CMHI, asm.CMHS
	}
	s := shapeOf(dt)
	switch op {
	case loop.Eq:
		return b.three(asm.CMEQ, s, x, y)
	case loop.Ne:
		return b.MaskNot(b.three(asm.CMEQ, s, x, y))
	case loop.Lt:
		return b.three(greater, s, y, x)
	case loop.Le:
		return b.three(atLeast, s, y, x)
	case loop.Gt:
		return b.three(greater, s, x, y)
	case loop.Ge:
		return b.three(atLeast, s, x, y)
	}
	panic(diag.Internalf("arm64: no comparison %s of %s", op, dt))
}

// Select returns x in the lanes of a mask, and y in the others.
func (b *builder) Select(_ dtype.DType, mask, x, y regalloc.Reg) regalloc.Reg {
	return b.onto(asm.BSL, asm.B16, mask, x, y)
}

// Masks.

// MaskOf returns the mask of all lanes or of none.
func (b *builder) MaskOf(all bool) regalloc.Reg {
	if all {
		return b.repeated32(0xFFFFFFFF)
	}
	return b.repeated32(0)
}

// Masks combines two masks.
func (b *builder) Masks(op loop.BinaryOp, x, y regalloc.Reg) regalloc.Reg {
	return b.three(bitwise[op], asm.B16, x, y)
}

// MaskNot returns the lanes outside a mask.
func (b *builder) MaskNot(x regalloc.Reg) regalloc.Reg { return b.two(asm.NOT, asm.B16, x) }

// JoinMasks makes a mask of lanes of 32 bits of those of the two halves.
func (b *builder) JoinMasks(lo, hi regalloc.Reg) regalloc.Reg {
	return b.three(asm.UZP1, asm.S4, lo, hi)
}

// HalfMasks makes masks of lanes of 64 bits of one of lanes of 32.
func (b *builder) HalfMasks(mask regalloc.Reg) (lo, hi regalloc.Reg) {
	return b.three(asm.ZIP1, asm.S4, mask, mask), b.three(asm.ZIP2, asm.S4, mask, mask)
}

// FirstLanes returns the mask of the lanes below count, a general register; 0 or less is none.
func (b *builder) FirstLanes(count regalloc.Reg) regalloc.Reg {
	return b.three(asm.CMGT, asm.S4, b.Broadcast(dtype.I32, count), b.iota32())
}

// bitsOfLane is the number of bits of a lane in a LaneWord.
const bitsOfLane = 16

// LaneWord returns a general register with the lanes of a mask, 16 bits each.
func (b *builder) LaneWord(dt dtype.DType, mask regalloc.Reg) regalloc.Reg {
	if dt.Bits() == 64 {
		mask = b.three(asm.UZP1, asm.S4, mask, b.repeated32(0))
	}
	r := b.General()
	b.Emit(asm.Inst{Op: asm.FMOV, Shape: asm.X64, From: asm.D, Args: [6]asm.Reg{r, b.two(asm.XTN, asm.H4, mask)}})
	return r
}

// AllLanes is the LaneWord of all lanes of 32 bits.
func (b *builder) AllLanes() int64 { return -1 }

// FirstSet returns the number of the first lane in a LaneWord.
func (b *builder) FirstSet(word regalloc.Reg) regalloc.Reg {
	r := b.General()
	b.op(asm.RBIT, asm.X64, r, word)
	b.op(asm.CLZ, asm.X64, r, r)
	b.ShiftDown(r, int64(lanes.Log2(bitsOfLane)))
	return r
}

// JumpOnSet jumps if a lane is in a LaneWord, or is not.
func (b *builder) JumpOnSet(word regalloc.Reg, lane int, set bool, to regalloc.Label) {
	b.opImm(asm.TST, asm.X64, 1<<(bitsOfLane*lane), word)
	condition := lanes.Equal
	if set {
		condition = lanes.NotEqual
	}
	b.JumpIf(condition, to)
}

// JumpIfNone jumps if no lane of 32 bits is in a mask.
func (b *builder) JumpIfNone(mask regalloc.Reg, to regalloc.Label) {
	b.Emit(asm.Inst{Op: asm.CBZ, Shape: asm.X64, Args: [6]asm.Reg{b.LaneWord(dtype.I32, mask)}, To: to})
}

// Conversions.

// ToInt rounds F32 to I32; numbers that do not fit, and NaN, become −2³¹. The instruction makes others of NaN and of
// large numbers.
func (b *builder) ToInt(x regalloc.Reg) regalloc.Reg {
	fits := b.three(asm.FCMGT, asm.S4, b.float(1<<31), x)
	b.op(asm.BSL, asm.B16, fits, b.two(asm.FCVTNS, asm.S4, x), b.integer32(-1<<31))
	return fits
}

// Converts reports that there are all conversions.
func (b *builder) Converts(from, to dtype.DType) bool { return true }

// Convert converts between integers and floats of a size.
func (b *builder) Convert(from, to dtype.DType, x regalloc.Reg) regalloc.Reg {
	if narrow(from) == dtype.F32 {
		return b.two(asm.FCVTZS, shapeOf(from), x)
	}
	return b.two(asm.SCVTF, shapeOf(from), x)
}

// Truncated converts floats to integers without the fraction, or to the nearest that there is.
func (b *builder) Truncated(from, to dtype.DType, x regalloc.Reg) regalloc.Reg {
	s := shapeOf(from)
	signed := b.two(asm.FCVTZS, s, x)
	if to != dtype.U64 {
		return signed
	}
	negative := b.twoImm(asm.FCMLT, s, x, 0)
	b.op(asm.BSL, asm.B16, negative, signed, b.two(asm.FCVTZU, s, x))
	return negative
}

// TruncatedHalves converts two registers of F64 to I32, as Truncated.
func (b *builder) TruncatedHalves(lo, hi regalloc.Reg) regalloc.Reg {
	r := b.two(asm.SQXTN, asm.S2, b.two(asm.FCVTZS, asm.D2, lo))
	b.op(asm.SQXTN, asm.S4, r, b.two(asm.FCVTZS, asm.D2, hi))
	return r
}

// ToDouble converts I64 or U64 to F64.
func (b *builder) ToDouble(dt dtype.DType, x regalloc.Reg) regalloc.Reg {
	if dt == dtype.U64 {
		return b.two(asm.UCVTF, asm.D2, x)
	}
	return b.two(asm.SCVTF, asm.D2, x)
}

// Widen converts a half of the lanes to 64 bits.
func (b *builder) Widen(from, to dtype.DType, x regalloc.Reg, high bool) regalloc.Reg {
	s := asm.S2
	if high {
		s = asm.S4
	}
	switch from {
	case dtype.F32:
		return b.two(asm.FCVTL, s, x)
	case dtype.U32:
		return b.twoImm(asm.USHLL, s, x, 0)
	}
	r := b.twoImm(asm.SSHLL, s, x, 0)
	if to == dtype.F64 {
		return b.two(asm.SCVTF, asm.D2, r)
	}
	return r
}

// Narrow converts two registers of 64-bit lanes to one of 32 bits.
func (b *builder) Narrow(from, to dtype.DType, lo, hi regalloc.Reg) regalloc.Reg {
	if from == dtype.F64 && to == dtype.F32 {
		r := b.two(asm.FCVTN, asm.S2, lo)
		b.op(asm.FCVTN, asm.S4, r, hi)
		return r
	}
	if from == dtype.F64 {
		same := lo == hi
		if lo = b.two(asm.FCVTZS, asm.D2, lo); same {
			hi = lo
		} else {
			hi = b.two(asm.FCVTZS, asm.D2, hi)
		}
	}
	return b.three(asm.UZP1, asm.S4, lo, hi)
}

// RoundF16 rounds F32 to numbers of F16; ToF16 and FromF16 convert to their bits, and from them.
func (b *builder) RoundF16(x regalloc.Reg) regalloc.Reg {
	return b.two(asm.FCVTL, asm.H4, b.two(asm.FCVTN, asm.H4, x))
}
func (b *builder) ToF16(x regalloc.Reg) regalloc.Reg {
	return b.twoImm(asm.USHLL, asm.H4, b.two(asm.FCVTN, asm.H4, x), 0)
}
func (b *builder) FromF16(x regalloc.Reg) regalloc.Reg {
	return b.two(asm.FCVTL, asm.H4, b.two(asm.XTN, asm.H4, x))
}

// Lanes that move.

// bytesOfLanes returns the numbers of the bytes of the lanes that an index names, of a power of two.
func (b *builder) bytesOfLanes(index asm.Reg, count int) asm.Reg {
	low := b.three(asm.AND, asm.B16, index, b.repeated32(uint32(count-1)))
	return b.onto(asm.MLA, asm.S4, b.repeated32(0x03020100), low, b.repeated32(0x04040404))
}

// TakeLanes returns the lanes of x that index names.
func (b *builder) TakeLanes(index, x regalloc.Reg) regalloc.Reg {
	return b.three(asm.TBL, asm.B16, x, b.bytesOfLanes(index, vectorLanes))
}

// TakesOfTwo reports that TakeLanesOfTwo is there. A lookup of a byte beyond a table gives 0, or keeps the byte.
func (b *builder) TakesOfTwo() bool { return true }
func (b *builder) TakeLanesOfTwo(to, index, low, high regalloc.Reg) {
	bytes := b.bytesOfLanes(index, 2*vectorLanes)
	r := b.three(asm.TBL, asm.B16, low, bytes)
	b.op(asm.TBX, asm.B16, r, high, b.three(asm.SUB, asm.B16, bytes, b.repeated32(0x10101010)))
	b.Assign(to, r)
}

// Entries is the largest size of a table.
func (b *builder) Entries() int { return 16 }

// Lookup returns the table's entries that the low bits of index name.
func (b *builder) Lookup(table []uint32, index regalloc.Reg) regalloc.Reg {
	for len(table) < vectorLanes {
		table = slices.Concat(table, table)
	}
	bytes := b.bytesOfLanes(index, len(table))
	var r asm.Reg
	for from := 0; from < len(table); from += vectorLanes {
		var part []byte
		for _, entry := range table[from : from+vectorLanes] {
			part = binary.LittleEndian.AppendUint32(part, entry)
		}
		if from == 0 {
			r = b.three(asm.TBL, asm.B16, b.Vector(part), bytes)
			continue
		}
		bytes = b.three(asm.SUB, asm.B16, bytes, b.repeated32(0x10101010))
		b.op(asm.TBX, asm.B16, r, b.Vector(part), bytes)
	}
	return r
}

// Exchanged returns a vector whose groups of n lanes of 32 bits are exchanged with their neighbours.
func (b *builder) Exchanged(x regalloc.Reg, n int) regalloc.Reg {
	if n == 1 {
		return b.two(asm.REV64, asm.S4, x)
	}
	r := b.NewVector()
	b.opImm(asm.EXT, asm.B16, 8, r, x, x)
	return r
}

// Transposed returns the columns of four rows.
func (b *builder) Transposed(rows []regalloc.Reg) []regalloc.Reg {
	var pairs [4]asm.Reg
	for n := range 2 {
		pairs[2*n] = b.three(asm.TRN1, asm.S4, rows[2*n], rows[2*n+1])
		pairs[2*n+1] = b.three(asm.TRN2, asm.S4, rows[2*n], rows[2*n+1])
	}
	return []regalloc.Reg{b.three(asm.TRN1, asm.D2, pairs[0], pairs[2]), b.three(asm.TRN1, asm.D2, pairs[1], pairs[3]),
		b.three(asm.TRN2, asm.D2, pairs[0], pairs[2]), b.three(asm.TRN2, asm.D2, pairs[1], pairs[3])}
}

// FourAcross adds up four vectors of F32, side by side.
func (b *builder) FourAcross(x [4]regalloc.Reg) regalloc.Reg {
	return b.three(asm.FADDP, asm.S4, b.three(asm.FADDP, asm.S4, x[0], x[1]), b.three(asm.FADDP, asm.S4, x[2], x[3]))
}

// QuartersAcross returns its only vector: a vector has one part of 128 bits.
func (b *builder) QuartersAcross(x []regalloc.Reg) regalloc.Reg { return x[0] }
