//go:build ((linux && !android) || (darwin && !ios) || windows) && (amd64 || arm64)

package vulkan

import (
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/codegen/spirv"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// TestMatrices runs products that the device's cooperative matrices compute: of each kind that the driver reports, for
// tiles of several sizes, whole, ragged and empty operands, and with infinities and NaN. Without such a driver it says
// so; the same kernels then run without matrices.
func TestMatrices(t *testing.T) {
	machine := open(t).Machine()
	var kinds []target.Matrix
	for _, dt := range []dtype.DType{dtype.F16, dtype.BF16, dtype.I8} {
		kinds = append(kinds, machine.Matrices(dt)...)
	}
	if len(kinds) == 0 {
		t.Log("THE DRIVER REPORTS NO COOPERATIVE MATRICES: their kernels run without them")
		kinds = []target.Matrix{{DType: dtype.F16, Rows: 8, Columns: 8, Steps: 8}}
	}
	refused, sizes := map[string]int{}, [][2]int64{{2, 2}, {1, 1}, {2, 4}, {4, 1}}
	for i, x := range kinds {
		for j, size := range sizes {
			if i%len(sizes) != j && len(kinds) != 2 { // some drivers report dozens
				continue
			}
			others := slices.DeleteFunc(slices.Clone(machine.Features), func(f string) bool {
				return !strings.HasPrefix(f, "matrix-") || f == x.Feature()
			})
			for _, k := range kerneltest.MatrixKernels(t, x, size[0], size[1]) {
				h := harness(t, refused, others...)
				code, err := spirv.Compile(&loop.Module{Kernels: []*loop.Kernel{k.Kernel}}, h.Machine)
				must(t, err)
				if e := code.Kernels[0].(target.Blocks).Binary().Entries[0]; (e.Subgroup > 0) != h.Machine.HasMatrices() {
					t.Errorf("@%s has subgroups of %d for %s", k.Name, e.Subgroup, x.Feature())
				}
				runMatrices(t, h, k)
			}
		}
	}
	if len(refused) > 0 {
		t.Errorf("kernels are refused: %v", refused)
	}
	t.Logf("ran with %v", kinds)
}

// runMatrices runs a kernel of matrices with each binding, for ordinary and for odd elements. Floats of few bits have
// sums that are exact in any order.
func runMatrices(t *testing.T, h kerneltest.Harness, k kerneltest.BlockKernel) {
	r := rand.New(rand.NewSource(9))
	for i := range k.Dims["n"] {
		dims := map[sym.Name]int64{}
		for name, list := range k.Dims {
			dims[sym.User(name)] = list[i]
		}
		operands := make([]*tensor.Tensor, len(k.Params))
		for j, p := range k.Params {
			operands[j] = kerneltest.Operand(t, p, dims)
			kerneltest.FillMatrices(r, operands[j], i%2 == 1)
		}
		h.Agree(t, k.Kernel, dims, operands, 0, 0)
	}
}
