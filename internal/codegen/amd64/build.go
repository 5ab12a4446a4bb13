package amd64

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/regalloc"
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
	paused []asm.Inst

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

func (b *builder) General() asm.Reg   { return b.Register(asm.General) }
func (b *builder) NewVector() asm.Reg { return b.Register(asm.Vector) }

// maskRegister returns a new register for a mask of lanes: an opmask, or a vector.
func (b *builder) maskRegister() asm.Reg {
	if b.isa.masks {
		return b.Register(asm.Opmask)
	}
	return b.NewVector()
}

// Label returns a new label that is not bound.
func (b *builder) Label() asm.Label { return b.code.NewLabel() }

// Bind binds a label to the next instruction.
func (b *builder) Bind(l asm.Label) { b.Emit(asm.Inst{Op: asm.LABEL, To: l}) }

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

// Number returns a register with a value.
func (b *builder) Number(v int64) asm.Reg {
	r := b.General()
	b.SetNumber(r, v)
	return r
}

// SetNumber sets a general register to a value of 64 bits.
func (b *builder) SetNumber(r asm.Reg, v int64) {
	if v == 0 {
		b.Emit(asm.Inst{Op: asm.MOV, Bits: 32, Args: [4]asm.Reg{r}, Imm: 0})
		return
	}
	b.Emit(asm.Inst{Op: asm.MOV, Bits: 64, Args: [4]asm.Reg{r}, Imm: v})
}

// CopyOf returns a new register with another's value.
func (b *builder) CopyOf(x asm.Reg) asm.Reg {
	r := b.Register(x.Class())
	b.Assign(r, x)
	return r
}

// Assign makes x the value of a register of the same class.
func (b *builder) Assign(to, x asm.Reg) {
	in := b.isa.mover(x.Class())
	in.Args = [4]asm.Reg{to, x}
	b.Emit(in)
}

// LoadWord returns the integer of 64 bits at an address.
func (b *builder) LoadWord(m asm.Mem) asm.Reg {
	r := b.General()
	b.Emit(asm.Inst{Op: asm.MOV, Bits: 64, Args: [4]asm.Reg{r, asm.Memory}, Mem: m})
	return r
}

// StoreWord stores an integer of 64 bits.
func (b *builder) StoreWord(m asm.Mem, x asm.Reg) {
	b.Emit(asm.Inst{Op: asm.MOV, Bits: 64, Args: [4]asm.Reg{asm.Memory, x}, Mem: m})
}

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

// Vector returns a register for a constant that fills a vector; the allocator decides whether it is kept in one or
// read from memory where it is used.
func (b *builder) Vector(bytes []byte) asm.Reg { return b.Constant(asm.Vector, bytes, b.code.Constant) }

// Bytes returns the bytes of a constant's register; nil for a register that is not a constant.
func (b *builder) Bytes(r asm.Reg) []byte { return b.Contents(r) }

// InPool returns the address of a constant that fills a vector.
func (b *builder) InPool(bytes []byte) asm.Mem { return asm.Mem{Pool: b.code.Constant(bytes)} }

// Repeated returns the low bits of a number in all lanes of a type's size.
func (b *builder) Repeated(dt dtype.DType, bits uint64) asm.Reg {
	if dt.Bits() == 64 {
		return b.repeated64(bits)
	}
	return b.repeated32(uint32(bits))
}

// repeated32 returns a vector with a number in all lanes of 32 bits; repeated64 in all lanes of 64 bits.
func (b *builder) repeated32(v uint32) asm.Reg {
	return b.Vector(slices.Repeat(binary.LittleEndian.AppendUint32(nil, v), b.isa.lanes))
}

func (b *builder) repeated64(v uint64) asm.Reg {
	return b.Vector(slices.Repeat(binary.LittleEndian.AppendUint64(nil, v), b.isa.lanes/2))
}

// float returns an f32 in all lanes.
func (b *builder) float(v float32) asm.Reg { return b.repeated32(math.Float32bits(v)) }

// double returns an f64 in all lanes of 64 bits.
func (b *builder) double(v float64) asm.Reg { return b.repeated64(math.Float64bits(v)) }

// bytesOfInst is the mean length of an instruction, rounded up.
const bytesOfInst = 8

// finish turns the routine into machine code. spill is the frame's first byte that is free for spilled values; the
// bytes of the frame in use come with the code.
func (b *builder) finish(spill int32) (code []byte, frame int32) {
	insts, frame := b.allocate(spill)
	return b.encode(insts), frame
}

// allocate returns the routine's instructions with machine registers, and the bytes of the frame in use: those from
// spill on are free for spilled values.
func (b *builder) allocate(spill int32) (insts []asm.Inst, frame int32) {
	b.foldBroadcasts()
	return b.Allocate(b.isa, spill)
}

// encode turns instructions with machine registers into machine code.
func (b *builder) encode(insts []asm.Inst) []byte {
	if b.work.told != nil {
		b.work.told(lanes.Lines(insts, b.isa.Text))
	}
	b.Free(b.Insts)
	b.Insts = nil
	b.code.Grow(bytesOfInst*len(insts) + 64*len(b.Constants))
	for i := range insts {
		b.code.Emit(insts[i])
	}
	if !b.isa.masks && b.code.Features() >= asm.AVX512F {
		panic(diag.Internalf("amd64: code for AVX2 has instructions of AVX-512"))
	}
	code, err := b.code.Finish()
	if err != nil {
		panic(diag.Internalf("amd64: %v", err))
	}
	return code
}
