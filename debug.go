package weir

import (
	"os"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
)

// unknownWords are the words of WEIR_DEBUG without a meaning.
var unknownWords []string

// poisoned, guarded and tight are the words of WEIR_DEBUG that are set: see debugWords.
var poisoned, guarded, tight bool

// debugWords are the words of the environment variable WEIR_DEBUG, separated by commas. poison unmaps the pages of
// closed tensors, results and calls, so that an access faults at once, and overwrites buffers that a step of a run
// releases. guard gives every operand and scratch of a kernel separate memory that ends at an inaccessible page, so
// that an access beyond it is an ErrInternal that names the node; the certificate does not hold then. tight makes
// kernels for a machine with almost no scratch and caches (target.Tight): they are slow and correct. without:STEP, any
// number of times, skips an optional pass of the compiler or step of its schedule: `weir dump --after` lists the names.
// An unknown word is refused when a model is compiled.
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

// checkDebug returns an error if WEIR_DEBUG has unknown words.
func checkDebug() error {
	if len(unknownWords) == 0 {
		return nil
	}
	return diag.Inputf("WEIR_DEBUG has the unknown words %q", strings.Join(unknownWords, ",")).
		WithFix("its words are poison, guard, tight, and without:STEP for a step that weir dump --after knows and that can " +
			"be left out")
}
