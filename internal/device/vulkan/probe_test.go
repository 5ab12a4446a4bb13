//go:build ((linux && !android) || (darwin && !ios) || windows) && (amd64 || arm64)

package vulkan

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"os"
	"slices"
	"testing"

	"github.com/weirml/weir/internal/codegen/spirv"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the words of the kernel that probes a device")

// TestProbe: probeWords are the words that the code generator writes for the features that every device has.
func TestProbe(t *testing.T) {
	k, err := loop.ParseKernel(`kernel @probe(%x: f32[2, 1] read, %y: f32[1, 1] update) dims() {
	  contract %y[r, c] += %x[k, r] * %x[1 - k, c] for r < 1, c < 1, k < 1
	}`)
	if err != nil {
		t.Fatal(err)
	}
	machine, err := target.ParseLimits("minimum")
	if err != nil {
		t.Fatal(err)
	}
	code, err := spirv.Compile(&loop.Module{Kernels: []*loop.Kernel{k}}, machine)
	if err != nil {
		t.Fatal(err)
	}
	words := code.Kernels[0].(target.Blocks).Binary().Words
	if slices.Equal(words, probeWords) {
		return
	}
	if !*rewrite {
		t.Fatal("the code generator writes other words: run go test ./internal/device/vulkan -run TestProbe -rewrite")
	}
	var out bytes.Buffer
	fmt.Fprint(&out, "//go:build ((linux && !android) || (darwin && !ios) || windows) && (amd64 || arm64)\n\npackage "+
		"vulkan\n\n// probeWords is the module of probe; TestProbe writes it.\nvar probeWords = []uint32{")
	for i, w := range words {
		if i%16 == 0 {
			fmt.Fprint(&out, "\n\t")
		}
		fmt.Fprintf(&out, "%d, ", w)
	}
	fmt.Fprint(&out, "\n}\n")
	source, err := format.Source(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("probe_words.go", source, 0o644); err != nil {
		t.Fatal(err)
	}
}
