package arm64

import (
	"encoding/binary"
	"math"

	"github.com/weirml/weir/internal/codegen/arm64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
)

// isa is the properties of an instruction set that emission uses.
type isa struct {
	registers int  // vector registers
	dot       bool // adds up four products of bytes in a lane at once
	matrix    bool // multiplies two rows and two columns of eight bytes
	bf16      bool // likewise of four bf16
}

// The sizes of a vector register.
const (
	vectorBytes = 16
	vectorLanes = 4 // of 32 bits
)

// builder collects the instructions of a routine.
type builder struct {
	*lanes.Builder[asm.Inst, *asm.Code]
	isa *isa
}

// newBuilder returns a builder with memory of its own.
func newBuilder(i *isa) *builder { return &builder{lanes.NewBuilder(i), i} }

// op emits an instruction of a shape.
func (b *builder) op(o asm.Op, s asm.Shape, args ...asm.Reg) {
	in := asm.Inst{Op: o, Shape: s}
	copy(in.Args[:], args)
	b.Emit(in)
}

// opImm emits an instruction of a shape with an immediate.
func (b *builder) opImm(o asm.Op, s asm.Shape, imm int64, args ...asm.Reg) {
	in := asm.Inst{Op: o, Shape: s, Imm: imm}
	copy(in.Args[:], args)
	b.Emit(in)
}

// Constants.

// repeated32 returns a vector with a number in all lanes of 32 bits; repeated64 in all lanes of 64 bits.
func (b *builder) repeated32(v uint32) asm.Reg { return b.Repeated(dtype.I32, uint64(v)) }
func (b *builder) repeated64(v uint64) asm.Reg { return b.Repeated(dtype.I64, v) }

// float returns an f32 in all lanes.
func (b *builder) float(v float32) asm.Reg { return b.repeated32(math.Float32bits(v)) }

// integer32 returns an i32 in all lanes.
func (b *builder) integer32(v int32) asm.Reg { return b.repeated32(uint32(v)) }

// double returns an f64 in all lanes of 64 bits.
func (b *builder) double(v float64) asm.Reg { return b.repeated64(math.Float64bits(v)) }

// iota32 returns 0, 1, 2, … in the lanes.
func (b *builder) iota32() asm.Reg {
	var bytes []byte
	for i := range vectorLanes {
		bytes = binary.LittleEndian.AppendUint32(bytes, uint32(i))
	}
	return b.Vector(bytes)
}

// bytesOfInst is the length of an instruction.
const bytesOfInst = 4

// Assembler returns an assembler's code without instructions.
func (i *isa) Assembler() *asm.Code { return new(asm.Code) }

// Encode turns instructions with machine registers into machine code. It refuses routines that are so long that a jump,
// or a constant, is out of reach.
func (i *isa) Encode(code *asm.Code, insts []asm.Inst) []byte {
	code.Grow(bytesOfInst * len(insts))
	for n := range insts {
		code.Emit(insts[n])
	}
	if more := code.Features() &^ i.features(); more != 0 {
		panic(diag.Internalf("arm64: the code needs features %04b that the level does not have", more))
	}
	bytes, err := code.Finish()
	if err != nil {
		lanes.Refuse("%v", err)
	}
	return bytes
}

// features returns the assembler's features that code may need.
func (i *isa) features() (f asm.Features) {
	if i.dot {
		f |= asm.DotProducts
	}
	if i.matrix {
		f |= asm.Int8Matrix
	}
	if i.bf16 {
		f |= asm.BFloat16
	}
	return f
}
