package asm

import (
	"math/rand/v2"
	"slices"
)

// RandomVEX draws count instructions of every form that is not EVEX and does more than move the flow of control or
// change the machine's state. They read and write no general register but those given, and memory at base only.
func RandomVEX(random *rand.Rand, count int, general []Reg, base Reg) []Inst {
	var insts []Inst
	apart := []Op{LEA, PUSH, POP, RET, DIV, IDIV, UD2}
	for _, f := range allForms() {
		if f.prefix == evex || f.flags&gathers != 0 || f.op.Jumps() || slices.Contains(apart, f.op) {
			continue
		}
		for range count {
			i := randomInst(random, f)
			if i.Args != ([4]Reg{}) && slices.Contains(i.Args[:], Memory) {
				i.Mem = Mem{Base: base, Disp: 64 * random.Int32N(2)}
			}
			for n, r := range i.Args {
				if r.Class() == General && f.operands[n].place != 'A' {
					i.Args[n] = general[random.IntN(len(general))]
				}
			}
			insts = append(insts, i)
		}
	}
	return insts
}
