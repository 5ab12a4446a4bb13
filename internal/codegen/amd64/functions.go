package amd64

import (
	"encoding/binary"
	"math"
	"strings"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// emitted is the functions of package mathematics over instructions.
type emitted = mathematics.Functions[asm.Reg, asm.Reg]

// functions and functions2 are the functions of f32 that take more than an instruction.
var (
	functions = map[loop.UnaryOp]func(b *builder, x asm.Reg) asm.Reg{
		loop.Exp:     emit(emitted.Exp),
		loop.Expm1:   emit(emitted.Expm1),
		loop.Log:     emit(emitted.Log),
		loop.Log1p:   emit(emitted.Log1p),
		loop.Sin:     emit(emitted.Sin),
		loop.Cos:     emit(emitted.Cos),
		loop.Tan:     emit(emitted.Tan),
		loop.Asin:    emit(emitted.Asin),
		loop.Acos:    emit(emitted.Acos),
		loop.Atan:    emit(emitted.Atan),
		loop.Sinh:    emit(emitted.Sinh),
		loop.Cosh:    emit(emitted.Cosh),
		loop.Tanh:    emit(emitted.Tanh),
		loop.Asinh:   emit(emitted.Asinh),
		loop.Acosh:   emit(emitted.Acosh),
		loop.Atanh:   emit(emitted.Atanh),
		loop.Erf:     emit(emitted.Erf),
		loop.Sigmoid: emit(emitted.Sigmoid),
	}
	functions2 = map[loop.BinaryOp]func(b *builder, x, y asm.Reg) asm.Reg{
		loop.Atan2: func(b *builder, y, x asm.Reg) asm.Reg { return emitted{Algebra: vectors{b}}.Atan2(y, x) },
		loop.Pow: func(b *builder, x, y asm.Reg) asm.Reg {
			if c, ok := b.constantFloat(y); ok {
				if power, ok := (emitted{Algebra: vectors{b}}).PowConstant(x, c); ok {
					return power
				}
			}
			return emitted{Algebra: vectors{b}}.Pow(x, y)
		},
	}
)

// emit returns a function of a builder from a function of package mathematics.
func emit(f func(m emitted, x asm.Reg) asm.Reg) func(b *builder, x asm.Reg) asm.Reg {
	return func(b *builder, x asm.Reg) asm.Reg { return f(emitted{Algebra: vectors{b}}, x) }
}

// fromCode and toCode are those of package mathematics.
func (b *builder) fromCode(dt dtype.DType, x asm.Reg) asm.Reg {
	return emitted{Algebra: vectors{b}}.FromCode(dt, x)
}

func (b *builder) toCode(dt dtype.DType, x asm.Reg, clamped bool) asm.Reg {
	return emitted{Algebra: vectors{b}}.ToCode(dt, x, clamped)
}

// constantFloat returns the f32 that a constant has in all lanes; ok is false for other registers.
func (b *builder) constantFloat(r asm.Reg) (c float32, ok bool) {
	for bytes, constant := range b.pooled {
		if constant == r && bytes == strings.Repeat(bytes[:4], len(bytes)/4) {
			return math.Float32frombits(binary.LittleEndian.Uint32([]byte(bytes))), true
		}
	}
	return 0, false
}

// wideFunctions are the functions of f64 that take more than an instruction; the others are left to package portable.
var wideFunctions = map[loop.UnaryOp]func(b *builder, x asm.Reg) asm.Reg{
	loop.Exp:     emitWide(emittedWide.Exp),
	loop.Expm1:   emitWide(emittedWide.Expm1),
	loop.Log:     emitWide(emittedWide.Log),
	loop.Log1p:   emitWide(emittedWide.Log1p),
	loop.Tanh:    emitWide(emittedWide.Tanh),
	loop.Sigmoid: emitWide(emittedWide.Sigmoid),
}

// emittedWide is emitted for lanes of 64 bits.
type emittedWide = mathematics.WideFunctions[asm.Reg, asm.Reg]

// emitWide is emit for lanes of 64 bits.
func emitWide(f func(m emittedWide, x asm.Reg) asm.Reg) func(b *builder, x asm.Reg) asm.Reg {
	return func(b *builder, x asm.Reg) asm.Reg { return f(emittedWide{WideAlgebra: wideBuilder{b}}, x) }
}

// mathPredicates are the predicates of package mathematics in the encoding of instructions.
var mathPredicates = [...]predicate{mathematics.Equal: equal, mathematics.Less: less,
	mathematics.LessOrEqual: lessOrEqual, mathematics.Unordered: unordered,
	mathematics.NotEqual: notEqual, mathematics.NotLess: notLess, mathematics.GreaterOrEqual: greaterOrEqual,
	mathematics.Greater: greater}

// vectors is a builder's arithmetic in lanes of 32 bits, over which the functions are written.
type vectors struct{ *builder }

func (b vectors) Float(c float32) asm.Reg                        { return b.float(c) }
func (b vectors) Integer(c int32) asm.Reg                        { return b.integer32(c) }
func (b vectors) Add(x, y asm.Reg) asm.Reg                       { return b.add(x, y) }
func (b vectors) Sub(x, y asm.Reg) asm.Reg                       { return b.sub(x, y) }
func (b vectors) Mul(x, y asm.Reg) asm.Reg                       { return b.mul(x, y) }
func (b vectors) Div(x, y asm.Reg) asm.Reg                       { return b.div(x, y) }
func (b vectors) Min(x, y asm.Reg) asm.Reg                       { return b.min(x, y) }
func (b vectors) Max(x, y asm.Reg) asm.Reg                       { return b.max(x, y) }
func (b vectors) And(x, y asm.Reg) asm.Reg                       { return b.and(x, y) }
func (b vectors) Or(x, y asm.Reg) asm.Reg                        { return b.or(x, y) }
func (b vectors) Xor(x, y asm.Reg) asm.Reg                       { return b.xor(x, y) }
func (b vectors) AndNot(x, y asm.Reg) asm.Reg                    { return b.andNot(x, y) }
func (b vectors) AddInt(x, y asm.Reg) asm.Reg                    { return b.addInt(x, y) }
func (b vectors) SubInt(x, y asm.Reg) asm.Reg                    { return b.subInt(x, y) }
func (b vectors) MulInt(x, y asm.Reg) asm.Reg                    { return b.mulInt(x, y) }
func (b vectors) ShiftLeftBy(x, y asm.Reg) asm.Reg               { return b.shiftLeftBy(x, y) }
func (b vectors) ShiftRightBy(x, y asm.Reg) asm.Reg              { return b.shiftRightBy(x, y) }
func (b vectors) EqualInt(x, y asm.Reg) asm.Reg                  { return b.equalInt(x, y) }
func (b vectors) GreaterInt(x, y asm.Reg) asm.Reg                { return b.greaterInt(x, y) }
func (b vectors) MaskAnd(x, y asm.Reg) asm.Reg                   { return b.maskAnd(x, y) }
func (b vectors) MaskOr(x, y asm.Reg) asm.Reg                    { return b.maskOr(x, y) }
func (b vectors) Sqrt(x asm.Reg) asm.Reg                         { return b.sqrt(x) }
func (b vectors) ToInt(x asm.Reg) asm.Reg                        { return b.toInt(x) }
func (b vectors) ToFloat(x asm.Reg) asm.Reg                      { return b.toFloat(x) }
func (b vectors) ShiftLeft(x asm.Reg, n int64) asm.Reg           { return b.shiftLeft(x, n) }
func (b vectors) ShiftRight(x asm.Reg, n int64) asm.Reg          { return b.shiftRight(x, n) }
func (b vectors) ShiftRightSigned(x asm.Reg, n int64) asm.Reg    { return b.shiftRightSigned(x, n) }
func (b vectors) Fma(x, y, z asm.Reg) asm.Reg                    { return b.fma(x, y, z) }
func (b vectors) Fnma(x, y, z asm.Reg) asm.Reg                   { return b.fnma(x, y, z) }
func (b vectors) Fms(x, y, z asm.Reg) asm.Reg                    { return b.fms(x, y, z) }
func (b vectors) Near(x, y, z asm.Reg) asm.Reg                   { return b.fma(x, y, z) }
func (b vectors) Trunc(x asm.Reg) asm.Reg                        { return b.round(x, towardZero) }
func (b vectors) MulWhere(m, x, y asm.Reg) asm.Reg               { return b.mulWhere(m, x, y) }
func (b vectors) SelectLanes(m, x, y asm.Reg) asm.Reg            { return b.selectLanes(m, x, y) }
func (b vectors) Lookup(table *[8]uint32, index asm.Reg) asm.Reg { return b.lookup(table, index) }
func (b vectors) Compare(p mathematics.Predicate, x, y asm.Reg) asm.Reg {
	return b.compare(mathPredicates[p], x, y)
}
func (b vectors) Rarely(m asm.Reg, usual []asm.Reg, otherwise func() []asm.Reg) []asm.Reg {
	return b.rarely(m, usual, otherwise)
}

// wideBuilder is a builder's arithmetic in lanes of 64 bits.
type wideBuilder struct{ *builder }

func (b wideBuilder) Float(c float64) asm.Reg               { return b.double(c) }
func (b wideBuilder) Integer(c int64) asm.Reg               { return b.repeated64(uint64(c)) }
func (b wideBuilder) Add(x, y asm.Reg) asm.Reg              { return b.three(asm.VADDPD, x, y) }
func (b wideBuilder) Sub(x, y asm.Reg) asm.Reg              { return b.three(asm.VSUBPD, x, y) }
func (b wideBuilder) Mul(x, y asm.Reg) asm.Reg              { return b.three(asm.VMULPD, x, y) }
func (b wideBuilder) MulWhere(m, x, y asm.Reg) asm.Reg      { return b.mulMasked(asm.VMULPD, m, x, y) }
func (b wideBuilder) Div(x, y asm.Reg) asm.Reg              { return b.three(asm.VDIVPD, x, y) }
func (b wideBuilder) Min(x, y asm.Reg) asm.Reg              { return b.three(asm.VMINPD, x, y) }
func (b wideBuilder) Max(x, y asm.Reg) asm.Reg              { return b.three(asm.VMAXPD, x, y) }
func (b wideBuilder) Fma(x, y, z asm.Reg) asm.Reg           { return b.fused(asm.VFMADD231PD, x, y, z) }
func (b wideBuilder) Fnma(x, y, z asm.Reg) asm.Reg          { return b.fused(asm.VFNMADD231PD, x, y, z) }
func (b wideBuilder) Fms(x, y, z asm.Reg) asm.Reg           { return b.fused(asm.VFMSUB231PD, x, y, z) }
func (b wideBuilder) Near(x, y, z asm.Reg) asm.Reg          { return b.Fma(x, y, z) }
func (b wideBuilder) And(x, y asm.Reg) asm.Reg              { return b.and(x, y) }
func (b wideBuilder) Or(x, y asm.Reg) asm.Reg               { return b.or(x, y) }
func (b wideBuilder) AndNot(x, y asm.Reg) asm.Reg           { return b.andNot(x, y) }
func (b wideBuilder) AddInt(x, y asm.Reg) asm.Reg           { return b.three(asm.VPADDQ, x, y) }
func (b wideBuilder) SubInt(x, y asm.Reg) asm.Reg           { return b.three(asm.VPSUBQ, x, y) }
func (b wideBuilder) ShiftLeft(x asm.Reg, n int64) asm.Reg  { return b.twoImm(asm.VPSLLQ, x, n) }
func (b wideBuilder) ShiftRight(x asm.Reg, n int64) asm.Reg { return b.twoImm(asm.VPSRLQ, x, n) }
func (b wideBuilder) SelectLanes(m, x, y asm.Reg) asm.Reg   { return b.selectWide(m, x, y) }
func (b wideBuilder) Compare(p mathematics.Predicate, x, y asm.Reg) asm.Reg {
	return b.compareWith(asm.VCMPPD, int64(mathPredicates[p]), x, y)
}

// lookup returns the table's entry that the low three bits of each lane name.
func (b *builder) lookup(table *[8]uint32, index asm.Reg) asm.Reg {
	return b.lookupIn(table[:], index)
}

// lookupIn returns the table's entry that the low bits of each lane name. The table has a power of two of entries, and
// at most as many as there are lanes.
func (b *builder) lookupIn(table []uint32, index asm.Reg) asm.Reg {
	var bytes []byte
	for i := range b.isa.lanes {
		bytes = binary.LittleEndian.AppendUint32(bytes, table[i%len(table)])
	}
	return b.three(asm.VPERMPS, index, b.poolVector(bytes))
}

// shiftLeftBy and shiftRightBy shift each lane by its own number of bits; 32 or more gives 0.
func (b *builder) shiftLeftBy(x, n asm.Reg) asm.Reg  { return b.three(asm.VPSLLVD, x, n) }
func (b *builder) shiftRightBy(x, n asm.Reg) asm.Reg { return b.three(asm.VPSRLVD, x, n) }

// rarely returns usual, with otherwise's values in the lanes of the mask; the code of otherwise is skipped if the mask
// has no lane.
func (b *builder) rarely(mask asm.Reg, usual []asm.Reg, otherwise func() []asm.Reg) []asm.Reg {
	result := make([]asm.Reg, len(usual))
	for i, r := range usual {
		result[i] = b.CopyOf(r)
	}
	lanes, over := b.bitsOf(mask), b.Label()
	b.Emit(asm.Inst{Op: asm.TEST, Bits: 32, Args: [4]asm.Reg{lanes, lanes}})
	b.jump(asm.JE, over)
	for i, r := range otherwise() {
		b.Assign(result[i], b.selectLanes(mask, r, result[i]))
	}
	b.Bind(over)
	return result
}
