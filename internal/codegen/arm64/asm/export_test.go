package asm

import (
	"math/rand/v2"
	"slices"
)

// RandomHarmless draws count instructions of every form that needs no features but those given, and does not access
// memory, jump or trap. They write no register but those that a routine may change.
func RandomHarmless(random *rand.Rand, count int, has Features) []Inst {
	var insts []Inst
	apart := []Op{BR, RET, UDF, PRFM}
	for _, f := range allForms() {
		if f.distant() || slices.Contains(apart, f.op) || f.count > 0 && f.operands[f.count-1].kind.class == classes {
			continue
		}
		for range count {
			i := randomInst(random, f)
			if i.Features()&^has != 0 {
				continue
			}
			for n, r := range i.Args {
				if r.Class() == General && (r == SP || r.Number() > 17 && r != ZR) {
					i.Args[n] = X(random.IntN(18))
				}
			}
			insts = append(insts, i)
		}
	}
	return insts
}
