package arm64

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/weirml/weir/internal/codegen/arm64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/diag"
)

// isa is the properties of an instruction set that emission uses.
type isa struct {
	registers int  // vector registers
	dot       bool // adds up four products of bytes in a lane at once
	matrix    bool // multiplies rows and columns of eight bytes
	bf16      bool // multiplies rows and columns of four bf16
}

// The sizes of a vector register.
const (
	vectorBytes = 16
	vectorLanes = 4 // of 32 bits
)

// builder collects the instructions of a routine over virtual registers, and the constants that they read.
type builder struct {
	regalloc.Routine[asm.Inst]
	isa     *isa
	code    *asm.Code // of the routine: its labels and its pool
	budgets lanes.Budgets[asm.Inst]
	work    *workspace
}

// newBuilder returns a builder with a workspace of its own.
func newBuilder(i *isa) *builder { return new(workspace).builder(i) }

// workspace is memory that a goroutine reuses from one compilation to the next. Its zero value is ready.
type workspace struct {
	regalloc.Workspace[asm.Inst]
	paused, legal []asm.Inst

	told func(routine string) // if not nil, given the instructions of each routine as lines
}

// builder returns an empty builder that shares the workspace's memory.
func (w *workspace) builder(i *isa) *builder {
	return &builder{Routine: w.Routine(), isa: i, code: new(asm.Code), work: w}
}

// Code returns the instructions so far. SetCode replaces them, by those that come before the next one.
func (b *builder) Code() lanes.Code {
	if b.Insts == nil {
		return nil
	}
	return b.Insts
}
func (b *builder) SetCode(c lanes.Code) { b.Insts, _ = c.([]asm.Inst) }

// AppendCode emits instructions; their list must not be used after it.
func (b *builder) AppendCode(c lanes.Code) {
	list, _ := c.([]asm.Inst)
	b.Append(list)
}

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

// NewVector returns a new vector register.
func (b *builder) NewVector() asm.Reg { return b.Register(asm.Vector) }

// Constants.

// Vector returns a register for a constant that fills a vector; the allocator decides whether it is kept in one or
// read from memory where it is used.
func (b *builder) Vector(bytes []byte) asm.Reg { return b.Constant(asm.Vector, bytes, b.code.Constant) }

// Bytes returns the bytes of a constant's register; nil for a register that is not a constant.
func (b *builder) Bytes(r asm.Reg) []byte { return b.Contents(r) }

// repeated32 returns a vector with a number in all lanes of 32 bits; repeated64 in all lanes of 64 bits.
func (b *builder) repeated32(v uint32) asm.Reg {
	return b.Vector(slices.Repeat(binary.LittleEndian.AppendUint32(nil, v), vectorLanes))
}

func (b *builder) repeated64(v uint64) asm.Reg {
	return b.Vector(slices.Repeat(binary.LittleEndian.AppendUint64(nil, v), vectorLanes/2))
}

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

// allocate returns the routine's instructions with machine registers, and the bytes of the frame in use: those from
// spill on are free for spilled values.
func (b *builder) allocate(spill int32) (insts []asm.Inst, frame int32) {
	b.direct()
	return b.Allocate(b.isa, spill)
}

// finish turns the routine into machine code. spill is the frame's first byte that is free for spilled values; the
// bytes of the frame in use come with the code.
func (b *builder) finish(spill int32) (code []byte, frame int32) {
	insts, frame := b.allocate(spill)
	return b.encode(insts), frame
}

// bytesOfInst is the length of an instruction.
const bytesOfInst = 4

// encode turns instructions with machine registers into machine code. It refuses routines that are so long that a jump,
// or a constant, is out of reach.
func (b *builder) encode(insts []asm.Inst) []byte {
	insts = b.work.legalise(insts)
	if b.work.told != nil {
		b.work.told(lanes.Lines(insts, b.isa.Text))
	}
	b.Free(b.Insts)
	b.Insts = nil
	b.code.Grow(bytesOfInst*len(insts) + vectorBytes*len(b.Constants))
	for i := range insts {
		b.code.Emit(insts[i])
	}
	if more := b.code.Features() &^ b.isa.features(); more != 0 {
		panic(diag.Internalf("arm64: the code needs features %04b that the level does not have", more))
	}
	code, err := b.code.Finish()
	if err != nil {
		lanes.Refuse("%v", err)
	}
	return code
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
