package amd64

import (
	"sync"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/diag"
)

// Testing tests a counter, by a provisional mask.
func (i *isa) Testing(counter asm.Reg) asm.Inst {
	return asm.Inst{Op: asm.TEST, Bits: 64, Args: [4]asm.Reg{counter}, Imm: turnTest}
}

// turnTest is a provisional mask of a counter's test, until the interval of counting down the budget is known.
const turnTest = 0x3A5A5A00

// Tests reports whether an instruction is a counter's test with the provisional mask.
func (i *isa) Tests(in *asm.Inst) bool { return in.Op == asm.TEST && in.Imm == turnTest }

// Cost returns the cost of an instruction.
func (i *isa) Cost(in *asm.Inst) int64 {
	switch in.Op {
	case asm.LABEL, asm.ALIGN:
		return 0
	case asm.TEST:
		if in.Imm == turnTest {
			return 0
		}
	case asm.DIV, asm.IDIV, asm.VDIVPS, asm.VDIVPD, asm.VSQRTPS, asm.VSQRTPD:
		return 20
	case asm.TILELOADD, asm.TILESTORED, asm.LDTILECFG:
		return squareReadCost
	case asm.TDPBUSD, asm.TDPBUUD, asm.TDPBSUD, asm.TDPBSSD, asm.TDPBF16PS:
		return squareProductCost
	}
	if in.Mem.Index.Class() == asm.Vector {
		return 32
	}
	if in.Mem.Pool == 0 && in.Mem.Base != asm.NoReg && in.Mem.Base != frameRegister {
		return 3
	}
	return 1
}

// Poll appends a poll; see lanes.Poller.
func (i *isa) Poll(list, aside []asm.Inst, cost int64, out, back asm.Label) (longer, longerAside []asm.Inst) {
	list = append(list, charge(cost), asm.Inst{Op: asm.JS, To: out}, asm.Inst{Op: asm.LABEL, To: back})
	return list, append(aside, asm.Inst{Op: asm.LABEL, To: out}, pause, asm.Inst{Op: asm.JMP, To: back})
}

// PollSometimes appends a poll of a loop that counts several iterations at once.
func (i *isa) PollSometimes(list, aside []asm.Inst, test asm.Inst, mask, cost int64, count, back asm.Label) (longer,
	longerAside []asm.Inst) {
	test.Imm = mask
	list = append(list, test, asm.Inst{Op: asm.JE, To: count}, asm.Inst{Op: asm.LABEL, To: back})
	return list, append(aside, asm.Inst{Op: asm.LABEL, To: count}, charge(cost), asm.Inst{Op: asm.JNS, To: back},
		pause, asm.Inst{Op: asm.JMP, To: back})
}

// charge counts down the budget.
func charge(cost int64) asm.Inst {
	return asm.Inst{Op: asm.SUB, Bits: 64, Args: [4]asm.Reg{asm.Memory}, Mem: header(lanes.BudgetWord),
		Imm: min(cost, 1<<30)}
}

// pause leaves the code, which later continues after it.
var pause = asm.Inst{Op: asm.CALL, Args: [4]asm.Reg{asm.Memory}, Mem: header(lanes.PauseWord)}

// header returns the address of a word of the header.
func header(word int32) asm.Mem { return asm.Mem{Base: frameRegister, Disp: word} }

// HeaderBytes returns the bytes before the frame of code that pauses: the header's words, and room for all registers.
func (i *isa) HeaderBytes() int64 {
	bytes := int64(-lanes.ResumeWord) + 8*int64(len(savedGeneral)) + int64(i.registers*i.bits/8)
	if i.masks {
		bytes += 8 * 8
	}
	return (bytes + pauseAlign - 1) &^ (pauseAlign - 1)
}

// pauseAlign is the alignment of vectors in the header.
const pauseAlign = 64

// savedGeneral are the registers that code may change, except the frame's.
var savedGeneral = []asm.Reg{asm.RAX, asm.RCX, asm.RDX, asm.RBX, asm.RSI, asm.R8, asm.R9, asm.R10, asm.R11, asm.R12,
	asm.R13, asm.R14, asm.R15}

// PauseCode returns the routine that saves all registers and returns, and, from the offset resume on, the one that
// loads them and continues. Callers do not change it.
func (i *isa) PauseCode() (code []byte, resume int) {
	of := pauseOf{i.bits, i.registers, i.masks}
	if made, ok := pauses.Load(of); ok {
		p := made.(pauseRoutine)
		return p.code, p.resume
	}
	code, resume = i.pauseCode()
	pauses.Store(of, pauseRoutine{code, resume})
	return code, resume
}

// pauses has the results of PauseCode, which depend on the registers alone.
var pauses sync.Map // of pauseOf to pauseRoutine

// pauseOf is the registers that a pause saves.
type pauseOf struct {
	bits, registers int
	masks           bool
}

// pauseRoutine is a result of PauseCode.
type pauseRoutine struct {
	code   []byte
	resume int
}

// pauseCode is PauseCode without its cache.
func (i *isa) pauseCode() (code []byte, resume int) {
	b := newBuilder(i)
	type place struct {
		register asm.Reg
		at       asm.Mem
	}
	var places []place
	at := -int32(i.HeaderBytes())
	for n := range i.registers {
		places = append(places, place{asm.V(n), header(at)})
		at += int32(i.bits / 8)
	}
	if i.masks {
		for n := 1; n < 8; n++ {
			places = append(places, place{asm.K(n), header(at)})
			at += 8
		}
		at += 8
	}
	for _, r := range savedGeneral {
		places = append(places, place{r, header(at)})
		at += 8
	}
	accumulator := places[len(places)-len(savedGeneral)]
	for _, p := range places {
		b.Emit(i.Store(p.at, p.register))
	}
	b.Emit(asm.Inst{Op: asm.POP, Args: [4]asm.Reg{asm.RAX}})
	b.StoreWord(header(lanes.ResumeWord), asm.RAX)
	b.SetNumber(asm.RAX, lanes.Paused)
	b.Emit(asm.Inst{Op: asm.RET})
	for _, in := range b.Insts {
		b.Pool.Emit(in)
	}
	resume, b.Insts = b.Pool.Len(), b.Insts[:0]
	for _, p := range places {
		if p.register != asm.RAX {
			b.Emit(i.Load(p.register, p.at))
		}
	}
	b.Emit(asm.Inst{Op: asm.MOV, Bits: 64, Args: [4]asm.Reg{asm.RAX, asm.Memory}, Mem: header(lanes.ResumeWord)})
	b.Emit(asm.Inst{Op: asm.PUSH, Args: [4]asm.Reg{asm.RAX}})
	b.Emit(i.Load(asm.RAX, accumulator.at))
	b.Emit(asm.Inst{Op: asm.RET})
	for _, in := range b.Insts {
		b.Pool.Emit(in)
	}
	code, err := b.Pool.Finish()
	if err != nil {
		panic(diag.Internalf("amd64: %v", err))
	}
	return code, resume
}
