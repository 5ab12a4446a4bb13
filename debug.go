package weir

import (
	"os"
	"strings"

	"github.com/weirml/weir/internal/mem"
)

// poisoned is whether closed results lose their pages.
var poisoned bool

// The words of the environment variable WEIR_DEBUG, separated by commas. poison takes the pages of closed tensors, results and calls away, so that what still
// points at them faults at once; guard is what memory always has: pages around each block that fault.
var debugWords = map[string]func(){
	"poison": func() { poisoned = true; mem.SetPoison(true) },
	"guard":  func() {},
}

func init() {
	for _, word := range strings.Split(os.Getenv("WEIR_DEBUG"), ",") {
		if do := debugWords[strings.TrimSpace(word)]; do != nil {
			do()
		}
	}
}
