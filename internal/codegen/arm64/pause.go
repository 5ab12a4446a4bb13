package arm64

import (
	"slices"

	"github.com/weirml/weir/internal/codegen/arm64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/diag"
)

// Testing tests a counter, by a provisional mask.
func (i *isa) Testing(counter asm.Reg) asm.Inst {
	return asm.Inst{Op: asm.TST, Shape: asm.X64, Args: [6]asm.Reg{counter}, Imm: 1, Lane: provisional}
}

// provisional marks a counter's test until the interval of counting down the budget is known. The instruction has no
// element, so that the number means nothing else.
const provisional = 1

// Tests reports whether an instruction is a counter's test with a provisional mask.
func (i *isa) Tests(in *asm.Inst) bool { return in.Op == asm.TST && in.Lane == provisional }

// Cost returns the cost of an instruction.
func (i *isa) Cost(in *asm.Inst) int64 {
	switch in.Op {
	case asm.LABEL, asm.ALIGN:
		return 0
	case asm.TST:
		if in.Lane == provisional {
			return 0
		}
	case asm.SDIV, asm.UDIV, asm.FDIV, asm.FSQRT:
		return 20
	}
	if in.Mem.Base != asm.NoReg && in.Mem.Base != frameRegister {
		return 4 // with the address's computation
	}
	return 1
}

// Poll appends a poll; see lanes.Poller.
func (i *isa) Poll(list, aside []asm.Inst, cost int64, out, back asm.Label) (longer, longerAside []asm.Inst) {
	list = append(charge(list, cost), asm.Inst{Op: asm.BRANCHIF, If: asm.MI, To: out}, asm.Inst{Op: asm.LABEL, To: back})
	return list, pause(append(aside, asm.Inst{Op: asm.LABEL, To: out}), back)
}

// PollSometimes appends a poll of a loop that counts several iterations at once.
func (i *isa) PollSometimes(list, aside []asm.Inst, test asm.Inst, mask, cost int64, count, back asm.Label) (longer,
	longerAside []asm.Inst) {
	test.Imm, test.Lane = mask, 0
	list = append(list, test, asm.Inst{Op: asm.BRANCHIF, If: asm.EQ, To: count}, asm.Inst{Op: asm.LABEL, To: back})
	aside = charge(append(aside, asm.Inst{Op: asm.LABEL, To: count}), cost)
	return list, pause(append(aside, asm.Inst{Op: asm.BRANCHIF, If: asm.PL, To: back}), back)
}

// charge appends code that counts down the budget; the flags have the rest's sign.
func charge(list []asm.Inst, cost int64) []asm.Inst {
	left, budget := addressScratch, header(lanes.BudgetWord)
	list = append(list, asm.Inst{Op: asm.LDR, Shape: asm.X64, Args: [6]asm.Reg{left, asm.Memory}, Mem: budget})
	cost = min(cost, 1<<30)
	in := asm.Inst{Op: asm.SUBS, Shape: asm.X64, Args: [6]asm.Reg{left, left}, Imm: cost}
	if !in.Encodes() {
		list = appendNumber(list, numberScratch, cost)
		in.Imm, in.Args[2] = 0, numberScratch
	}
	return append(list, in, asm.Inst{Op: asm.STR, Shape: asm.X64, Args: [6]asm.Reg{left, asm.Memory}, Mem: budget})
}

// pause appends code that leaves the routine, which later continues at a label: the routine by which kernels pause gets
// the label's address in numberScratch.
func pause(list []asm.Inst, back asm.Label) []asm.Inst {
	return append(list, asm.Inst{Op: asm.ADR, Args: [6]asm.Reg{numberScratch}, To: back},
		asm.Inst{Op: asm.LDR, Shape: asm.X64, Args: [6]asm.Reg{addressScratch, asm.Memory}, Mem: header(lanes.PauseWord)},
		asm.Inst{Op: asm.BR, Args: [6]asm.Reg{addressScratch}})
}

// header returns the address of a word of the header.
func header(word int32) asm.Mem { return asm.Mem{Base: frameRegister, Disp: word} }

// HeaderBytes returns the bytes before the frame of code that pauses: the header's words, and room for all registers.
func (i *isa) HeaderBytes() int64 {
	bytes := int64(-lanes.ResumeWord) + 8*int64(len(generalFree)) + vectorBytes*int64(i.registers)
	return (bytes + pauseAlign - 1) &^ (pauseAlign - 1)
}

// pauseAlign is the alignment of the header.
const pauseAlign = 64

// PauseCode returns the routine that saves all registers and returns, and, from the offset resume on, the one that
// loads them and continues. No code has a value in the two registers of a poll while it pauses.
func (i *isa) PauseCode() (code []byte, resume int) {
	var c asm.Code
	emit := func(list ...asm.Inst) {
		for _, in := range list {
			c.Emit(in)
		}
	}
	base := addNumber(nil, addressScratch, frameRegister, -i.HeaderBytes())
	resumeWord := header(lanes.ResumeWord)
	at := asm.Mem{Base: addressScratch}
	var saves, loads []asm.Inst
	place := func(r asm.Reg, bytes int32) {
		saves, loads = append(saves, i.Store(at, r)), append(loads, i.Load(r, at))
		at.Disp += bytes
	}
	for n := range i.registers {
		place(asm.V(n), vectorBytes)
	}
	for _, r := range generalFree {
		place(r, 8)
	}
	emit(i.Store(resumeWord, numberScratch))
	emit(slices.Concat(base, saves, appendNumber(nil, frameRegister, lanes.Paused), []asm.Inst{{Op: asm.RET}})...)
	resume = c.Len()
	emit(slices.Concat(base, loads)...)
	emit(i.Load(numberScratch, resumeWord), asm.Inst{Op: asm.BR, Args: [6]asm.Reg{numberScratch}})
	code, err := c.Finish()
	if err != nil {
		panic(diag.Internalf("arm64: %v", err))
	}
	return code, resume
}
