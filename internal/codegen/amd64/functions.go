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

// lookup is the table's entry that the low three bits of each lane name.
func (b *builder) lookup(table *[8]uint32, index asm.Reg) asm.Reg {
	var bytes []byte
	for i := range b.isa.lanes {
		bytes = binary.LittleEndian.AppendUint32(bytes, table[i%8])
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
