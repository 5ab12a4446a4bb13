package portable

import (
	command "flag"
	"fmt"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/loop"
)

var rewrite = command.Bool("rewrite", false, "rewrite the expected results in testdata")

// TestText runs the cases of testdata/*.txt (see kerneltest.Texts). Closures cannot be printed: the result is the
// kernel's scratch, the bytes of strips and panels in it, and the number of tiles of each nest.
func TestText(t *testing.T) {
	kerneltest.Texts(t, *rewrite, func(t *testing.T, name string) (h kerneltest.Harness, runs bool) {
		if name != "portable" {
			t.Fatalf("there is no machine %q", name)
		}
		return harness, true
	}, func(t *testing.T, h kerneltest.Harness, m *loop.Module) string {
		code, err := Compile(m, h.Machine)
		if err != nil {
			return err.Error()
		}
		k := code.Kernels[0].(*kernel)
		var text strings.Builder
		fmt.Fprintf(&text, "scratch %s, of which strips and panels %d\n", k.formula, k.fixed-k.strips)
		for _, n := range k.nests {
			fmt.Fprintf(&text, "nest of %s tiles\n", n.count)
		}
		return text.String()
	})
}
