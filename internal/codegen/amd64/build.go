package amd64

import (
	"math"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
)

// isa is the properties of an instruction set that emission uses.
type isa struct {
	bits      int // of a vector register
	lanes     int // lanes of 32 bits in a vector register
	registers int // vector registers
	// masks are opmask registers; without them, vectors whose lanes are all ones or all zeros
	masks   bool
	dot     int64 // the number of products of bytes that a lane of 32 bits adds up at once: 4 by VPDPBUSD, 2 by VPMADDWD
	bf16    int64 // the same for bf16: 2 by VDPBF16PS, or 0
	squares bool  // tile registers (AMX) multiply bytes and bf16
	half    *isa  // with vectors half as long, if they take half the time: products choose between the two; else nil
}

var (
	avx2   = &isa{bits: 256, lanes: 8, registers: 16, dot: 2}
	avx512 = &isa{bits: 512, lanes: 16, registers: 32, masks: true, dot: 2}
)

// inHalves returns the instruction set of a machine that does vectors in two halves.
func (i *isa) inHalves() *isa {
	whole, half := *i, *i
	half.bits, half.lanes = i.bits/2, i.lanes/2
	whole.half = &half
	return &whole
}

// builder collects the instructions of a routine.
type builder struct {
	*lanes.Builder[asm.Inst, *asm.Code]
	isa *isa
}

// newBuilder returns a builder with memory of its own.
func newBuilder(i *isa) *builder { return &builder{lanes.NewBuilder(i), i} }

// maskRegister returns a new register for a mask of lanes: an opmask, or a vector.
func (b *builder) maskRegister() asm.Reg {
	if b.isa.masks {
		return b.Register(asm.Opmask)
	}
	return b.NewVector()
}

// jump goes to a label, always (asm.JMP) or on a condition of the flags.
func (b *builder) jump(op asm.Op, to asm.Label) { b.Emit(asm.Inst{Op: op, To: to}) }

// General registers.

// integerOp emits a two-operand instruction of 64 bits: x op= y.
func (b *builder) integerOp(op asm.Op, x, y asm.Reg) {
	b.Emit(asm.Inst{Op: op, Bits: 64, Args: [4]asm.Reg{x, y}})
}

// integerImm is integerOp with a number of 32 bits.
func (b *builder) integerImm(op asm.Op, x asm.Reg, v int64) {
	if v != int64(int32(v)) {
		b.integerOp(op, x, b.Number(v))
		return
	}
	b.Emit(asm.Inst{Op: op, Bits: 64, Args: [4]asm.Reg{x}, Imm: v})
}

// AppendNumber appends an instruction that sets a general register to a value of 64 bits.
func (i *isa) AppendNumber(list []asm.Inst, r asm.Reg, v int64) []asm.Inst {
	in := asm.Inst{Op: asm.MOV, Bits: 64, Args: [4]asm.Reg{r}, Imm: v}
	if v == 0 {
		in.Bits = 32
	}
	return append(list, in)
}

// Copying copies a register to another of its class.
func (i *isa) Copying(to, from asm.Reg) asm.Inst {
	in := i.mover(from.Class())
	in.Args = [4]asm.Reg{to, from}
	return in
}

// Binding binds a label to the next instruction.
func (i *isa) Binding(l asm.Label) asm.Inst { return asm.Inst{Op: asm.LABEL, To: l} }

// CompareNumbers sets the flags to the comparison of x and y, as signed integers.
func (b *builder) CompareNumbers(x, y asm.Reg) { b.integerOp(asm.CMP, x, y) }

// Times returns x·v.
func (b *builder) Times(x asm.Reg, v int64) asm.Reg {
	r := b.General()
	switch {
	case v == 1:
		return x
	case v == 2 || v == 4 || v == 8:
		b.Emit(asm.Inst{Op: asm.LEA, Bits: 64, Args: [4]asm.Reg{r, asm.Memory}, Mem: asm.Mem{Index: x, Scale: uint8(v)}})
	case v > 0 && v&(v-1) == 0:
		b.Assign(r, x)
		b.Emit(asm.Inst{Op: asm.SHL, Bits: 64, Args: [4]asm.Reg{r}, Imm: int64(lanes.Log2(v))})
	case v == int64(int32(v)):
		b.Emit(asm.Inst{Op: asm.IMULI, Bits: 64, Args: [4]asm.Reg{r, x}, Imm: v})
	default:
		b.SetNumber(r, v)
		b.integerOp(asm.IMUL, r, x)
	}
	return r
}

// Constants.

// repeated32 returns a vector with a number in all lanes of 32 bits; repeated64 in all lanes of 64 bits.
func (b *builder) repeated32(v uint32) asm.Reg { return b.Repeated(dtype.I32, uint64(v)) }
func (b *builder) repeated64(v uint64) asm.Reg { return b.Repeated(dtype.I64, v) }

// float returns an f32 in all lanes.
func (b *builder) float(v float32) asm.Reg { return b.repeated32(math.Float32bits(v)) }

// double returns an f64 in all lanes of 64 bits.
func (b *builder) double(v float64) asm.Reg { return b.repeated64(math.Float64bits(v)) }

// bytesOfInst is the mean length of an instruction, rounded up.
const bytesOfInst = 8

// Assembler returns an assembler's code without instructions.
func (i *isa) Assembler() *asm.Code { return new(asm.Code) }

// Legal does nothing: the assembler takes all addresses.
func (i *isa) Legal(_, insts []asm.Inst) []asm.Inst { return insts }

// Encode turns instructions with machine registers into machine code.
func (i *isa) Encode(code *asm.Code, insts []asm.Inst) []byte {
	code.Grow(bytesOfInst * len(insts))
	for n := range insts {
		code.Emit(insts[n])
	}
	if !i.masks && code.Features() >= asm.AVX512F {
		panic(diag.Internalf("amd64: code for AVX2 has instructions of AVX-512"))
	}
	bytes, err := code.Finish()
	if err != nil {
		panic(diag.Internalf("amd64: %v", err))
	}
	return bytes
}
