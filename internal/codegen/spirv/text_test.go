package spirv

import (
	"flag"
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected results in testdata")

// TestText runs the cases of testdata/*.txt (see kerneltest.Texts); their machines are devices' limits. The result is
// the text of the module, or the reason why the device cannot run the kernel. Khronos's tools validate the module if
// they are installed.
func TestText(t *testing.T) {
	kerneltest.Texts(t, *rewrite, kerneltest.LimitsOf, func(t *testing.T, h kerneltest.Harness, m *loop.Module) string {
		code, err := Compile(m, h.Machine)
		if err != nil {
			return err.Error()
		}
		validate(t, code.Kernels[0].(target.Blocks).Binary().Words)
		return Texts(code.Kernels)
	})
}
