package amd64

import (
	"flag"
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected results in testdata")

// TestText runs the cases of testdata/*.txt (see kerneltest.Texts), each for a level of processors. The result is the
// kernel's scratch, the parts that are slower than scheduled, and each routine: its tiles and its instructions. RDI is
// the frame's address, RSI is the first tile, and RDX the tile after the last.
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
	}, func(t *testing.T, h kerneltest.Harness, m *loop.Module) string {
		return lanes.TextOf(m.Kernels[0], m, isaOf(h.Machine))
	})
}
