//go:build ((linux && !android) || (darwin && !ios) || windows) && (amd64 || arm64)

package vulkan

import (
	"errors"
	"math/rand"
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/codegen/spirv"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// TestBlockKernels compares kernels that were written for blocks of threads with the interpreter.
func TestBlockKernels(t *testing.T) {
	for _, k := range kerneltest.BlockKernels(t) {
		t.Run(k.Name, func(t *testing.T) { runBlocks(t, k) })
	}
}

// runBlocks runs a kernel with each binding, compiled without some features.
func runBlocks(t *testing.T, c kerneltest.BlockKernel, without ...string) {
	k, bindings := c.Kernel, c.Dims
	h := harness(t, map[string]int{}, without...)
	m := &loop.Module{Kernels: []*loop.Kernel{k}}
	bound(m, h.Machine)
	if _, err := spirv.Refuses(k, m, h.Machine); err != nil {
		if len(without) == 0 || !errors.Is(err, diag.ErrUnsupported) {
			t.Error(err)
		}
		t.Logf("%s is refused: %v", k.Name, err)
		return
	}
	r := rand.New(rand.NewSource(3))
	count := 1
	for _, list := range bindings {
		count = len(list)
	}
	for i := range count {
		dims := map[sym.Name]int64{}
		for name, list := range bindings {
			dims[sym.User(name)] = list[i]
		}
		operands := make([]*tensor.Tensor, len(k.Params))
		for j, p := range k.Params {
			operands[j] = kerneltest.Operand(t, p, dims)
			kerneltest.Fill(r, operands[j])
		}
		h.Agree(t, k, dims, operands, kerneltest.Tolerance(k.Params[len(k.Params)-1].DType), 0)
	}
}
