package weir

import (
	"os"
	"strings"

	"github.com/weirml/weir/internal/mem"
)

// poisoned is whether closed results lose their pages, guarded whether operands end at pages that fault, tight whether kernels have little room.
var poisoned, guarded, tight bool

// The words of the environment variable WEIR_DEBUG, separated by commas. poison takes the pages of closed tensors, results and calls away, so that what still
// points at them faults at once, and fills what a step of a run releases. guard gives every operand of a kernel, and its scratch, memory of its own that ends at a page which faults, so that code which reads or writes beyond them is an
// ErrInternal there, which names the node; what a program then takes is not what its certificate says. tight makes kernels for a machine with next to no scratch and caches (target.Tight): they are slow, and right.
var debugWords = map[string]func(){
	"poison": func() { poisoned = true; mem.SetPoison(true) },
	"guard":  func() { guarded = true },
	"tight":  func() { tight = true },
}

func init() {
	for _, word := range strings.Split(os.Getenv("WEIR_DEBUG"), ",") {
		if do := debugWords[strings.TrimSpace(word)]; do != nil {
			do()
		}
	}
}
