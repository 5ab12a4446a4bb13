package amd64

import (
	"encoding/binary"
	"math"
	"strings"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/loop"
)

// emitted is mathematics as instructions.
type emitted = mathematics[asm.Reg, asm.Reg]

// functions and functions2 are the functions of f32 that take more than an instruction.
var (
	functions = map[loop.UnaryOp]func(b *builder, x asm.Reg) asm.Reg{
		loop.Exp:     emit(emitted.exp),
		loop.Expm1:   emit(emitted.expm1),
		loop.Log:     emit(emitted.log),
		loop.Log1p:   emit(emitted.log1p),
		loop.Sin:     emit(emitted.sin),
		loop.Cos:     emit(emitted.cos),
		loop.Tan:     emit(emitted.tan),
		loop.Asin:    emit(emitted.asin),
		loop.Acos:    emit(emitted.acos),
		loop.Atan:    emit(emitted.atan),
		loop.Sinh:    emit(emitted.sinh),
		loop.Cosh:    emit(emitted.cosh),
		loop.Tanh:    emit(emitted.tanh),
		loop.Asinh:   emit(emitted.asinh),
		loop.Acosh:   emit(emitted.acosh),
		loop.Atanh:   emit(emitted.atanh),
		loop.Erf:     emit(emitted.erf),
		loop.Sigmoid: emit(emitted.sigmoid),
	}
	functions2 = map[loop.BinaryOp]func(b *builder, x, y asm.Reg) asm.Reg{
		loop.Atan2: func(b *builder, y, x asm.Reg) asm.Reg { return emitted{b}.atan2(y, x) },
		loop.Pow: func(b *builder, x, y asm.Reg) asm.Reg {
			if c, ok := b.constantFloat(y); ok {
				if power, ok := (emitted{b}).powConstant(x, c); ok {
					return power
				}
			}
			return emitted{b}.pow(x, y)
		},
	}
)

func emit(f func(m emitted, x asm.Reg) asm.Reg) func(b *builder, x asm.Reg) asm.Reg {
	return func(b *builder, x asm.Reg) asm.Reg { return f(emitted{b}, x) }
}

// constantFloat is the f32 that a register has in all lanes, where it is a constant.
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
	loop.Exp:     emitWide(emittedWide.exp),
	loop.Expm1:   emitWide(emittedWide.expm1),
	loop.Log:     emitWide(emittedWide.log),
	loop.Log1p:   emitWide(emittedWide.log1p),
	loop.Tanh:    emitWide(emittedWide.tanh),
	loop.Sigmoid: emitWide(emittedWide.sigmoid),
}

type emittedWide = wideMathematics[asm.Reg, asm.Reg]

func emitWide(f func(m emittedWide, x asm.Reg) asm.Reg) func(b *builder, x asm.Reg) asm.Reg {
	return func(b *builder, x asm.Reg) asm.Reg { return f(emittedWide{wideBuilder{b}}, x) }
}

// wideBuilder is a builder's arithmetic in lanes of 64 bits.
type wideBuilder struct{ *builder }

func (b wideBuilder) float(c float64) asm.Reg               { return b.double(c) }
func (b wideBuilder) integer(c int64) asm.Reg               { return b.repeated64(uint64(c)) }
func (b wideBuilder) add(x, y asm.Reg) asm.Reg              { return b.three(asm.VADDPD, x, y) }
func (b wideBuilder) sub(x, y asm.Reg) asm.Reg              { return b.three(asm.VSUBPD, x, y) }
func (b wideBuilder) mul(x, y asm.Reg) asm.Reg              { return b.three(asm.VMULPD, x, y) }
func (b wideBuilder) mulWhere(m, x, y asm.Reg) asm.Reg      { return b.mulMasked(asm.VMULPD, m, x, y) }
func (b wideBuilder) div(x, y asm.Reg) asm.Reg              { return b.three(asm.VDIVPD, x, y) }
func (b wideBuilder) min(x, y asm.Reg) asm.Reg              { return b.three(asm.VMINPD, x, y) }
func (b wideBuilder) max(x, y asm.Reg) asm.Reg              { return b.three(asm.VMAXPD, x, y) }
func (b wideBuilder) fma(x, y, z asm.Reg) asm.Reg           { return b.fused(asm.VFMADD231PD, x, y, z) }
func (b wideBuilder) fnma(x, y, z asm.Reg) asm.Reg          { return b.fused(asm.VFNMADD231PD, x, y, z) }
func (b wideBuilder) fms(x, y, z asm.Reg) asm.Reg           { return b.fused(asm.VFMSUB231PD, x, y, z) }
func (b wideBuilder) addInt(x, y asm.Reg) asm.Reg           { return b.three(asm.VPADDQ, x, y) }
func (b wideBuilder) subInt(x, y asm.Reg) asm.Reg           { return b.three(asm.VPSUBQ, x, y) }
func (b wideBuilder) shiftLeft(x asm.Reg, n int64) asm.Reg  { return b.twoImm(asm.VPSLLQ, x, n) }
func (b wideBuilder) shiftRight(x asm.Reg, n int64) asm.Reg { return b.twoImm(asm.VPSRLQ, x, n) }
func (b wideBuilder) selectLanes(m, x, y asm.Reg) asm.Reg   { return b.selectWide(m, x, y) }
func (b wideBuilder) compare(p predicate, x, y asm.Reg) asm.Reg {
	return b.compareWith(asm.VCMPPD, int64(p), x, y)
}

// lookup is the table's entry that the low three bits of each lane name.
func (b *builder) lookup(table *[8]uint32, index asm.Reg) asm.Reg {
	return b.lookupIn(table[:], index)
}

// lookupIn is the table's entry that the low bits of each lane name. The table has a power of two of entries, and at
// most as many as there are lanes.
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

// rarely is usual, but otherwise's values in the lanes of the mask; what computes them is jumped over where there is no such lane.
func (b *builder) rarely(mask asm.Reg, usual []asm.Reg, otherwise func() []asm.Reg) []asm.Reg {
	result := make([]asm.Reg, len(usual))
	for i, r := range usual {
		result[i] = b.copyOf(r)
	}
	lanes, over := b.bitsOf(mask), b.label()
	b.emit(asm.Inst{Op: asm.TEST, Bits: 32, Args: [4]asm.Reg{lanes, lanes}})
	b.jump(asm.JE, over)
	for i, r := range otherwise() {
		b.assign(result[i], b.selectLanes(mask, r, result[i]))
	}
	b.bind(over)
	return result
}
