package weir

import (
	"os"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
)

// unknownWords are those of WEIR_DEBUG that mean nothing.
var unknownWords []string

// poisoned is whether closed results lose their pages, guarded whether operands end at pages that fault, tight whether
// kernels have little room.
var poisoned, guarded, tight bool

// The words of the environment variable WEIR_DEBUG, separated by commas. poison takes the pages of closed tensors,
// results and calls away, so that what still points at them faults at once, and fills what a step of a run releases.
// guard gives every operand of a kernel, and its scratch, memory of its own that ends at a page which faults, so that
// code which reads or writes beyond them is an ErrInternal there, which names the node; what a program then takes is
// not what its certificate says. tight makes kernels for a machine with next to no scratch and caches (target.Tight):
// they are slow, and right. without:STEP, as often as one likes, leaves a pass of the compiler or a step of its
// schedule out, of those without which it can do: `weir dump --after` knows their names. Another word is refused when a
// model is compiled.
var debugWords = map[string]func(){
	"poison": func() { poisoned = true; mem.SetPoison(true) },
	"guard":  func() { guarded = true },
	"tight":  func() { tight = true },
}

func init() {
	for _, word := range strings.Split(os.Getenv("WEIR_DEBUG"), ",") {
		word = strings.TrimSpace(word)
		name, is := strings.CutPrefix(word, "without:")
		switch do := debugWords[word]; {
		case do != nil:
			do()
		case is && slices.Contains(compiler.OptionalSteps(), name):
			compiler.Without = append(compiler.Without, name)
		case word != "":
			unknownWords = append(unknownWords, word)
		}
	}
}

// checkDebug refuses words of WEIR_DEBUG that mean nothing.
func checkDebug() error {
	if len(unknownWords) == 0 {
		return nil
	}
	return diag.Inputf("WEIR_DEBUG has %q, which means nothing", strings.Join(unknownWords, ",")).
		WithFix("its words are poison, guard, tight, and without:STEP for a step that weir dump --after knows and that can " +
			"be left out")
}
