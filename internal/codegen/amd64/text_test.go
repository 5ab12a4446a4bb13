package amd64

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected results in testdata")

// TestText runs the cases of testdata/*.txt (see kerneltest.Texts) with a level of processor for a machine. The result
// is the kernel's scratch, what it does in a slower way, and each routine: its tiles and its instructions. RDI is the
// frame's address, RSI and RDX are the first tile and the one after the last.
func TestText(t *testing.T) {
	kerneltest.Texts(t, *rewrite, func(t *testing.T, name string) (h kerneltest.Harness, runs bool) {
		machine, err := target.Assumed(name, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(machine.Lacks()) > 0 {
			return kerneltest.Harness{Machine: machine}, false
		}
		h = harness(t, name)
		h.Machine = machine
		return h, true
	}, func(t *testing.T, h kerneltest.Harness, m *loop.Module) string { return assembly(m, h.Machine) })
}

// assembly is the code of a module's only kernel as text, or why there is none.
func assembly(m *loop.Module, machine target.Machine) string {
	var routines []string
	w := &workspace{module: m, told: func(insts []asm.Inst) { routines = append(routines, listing(insts)) }}
	k, why := w.compile(m.Kernels[0], isaOf(machine))
	if k == nil {
		return "no code: " + why
	}
	var text strings.Builder
	fmt.Fprintf(&text, "scratch %s\n", k.ScratchFormula())
	for _, slower := range k.slower {
		fmt.Fprintf(&text, "slower: %s\n", slower)
	}
	for i, routine := range routines {
		fmt.Fprintf(&text, "routine of %s tiles\n%s", k.nests[i].formula, routine)
	}
	return text.String()
}
