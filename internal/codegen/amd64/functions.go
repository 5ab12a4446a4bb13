package amd64

import (
	"encoding/binary"
	"math"

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
		loop.Tanh:    emit(emitted.tanh),
		loop.Erf:     emit(emitted.erf),
		loop.Sigmoid: emit(emitted.sigmoid),
	}
	functions2 = map[loop.BinaryOp]func(b *builder, x, y asm.Reg) asm.Reg{}
)

func emit(f func(m emitted, x asm.Reg) asm.Reg) func(b *builder, x asm.Reg) asm.Reg {
	return func(b *builder, x asm.Reg) asm.Reg { return f(emitted{b}, x) }
}

// lookup is the table's entry that the low three bits of each lane name.
func (b *builder) lookup(table [8]float32, index asm.Reg) asm.Reg {
	var bytes []byte
	for i := range b.isa.lanes {
		bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(table[i%8]))
	}
	return b.three(asm.VPERMPS, index, b.poolVector(bytes))
}
