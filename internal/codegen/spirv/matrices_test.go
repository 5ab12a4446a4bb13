package spirv

import (
	"slices"
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/target"
)

// opcodes counts a module's instructions.
func opcodes(words []uint32) map[opcode]int {
	count := map[opcode]int{}
	for rest := words[5:]; len(rest) > 0; rest = rest[rest[0]>>16:] {
		count[opcode(rest[0])]++
	}
	return count
}

// TestMatrices compiles products for made-up devices with cooperative matrices: the modules are valid, subgroups
// multiply the matrices of all types, and the sums stay in matrices during a loop that does not touch them. Devices
// without matrices of the type have none.
func TestMatrices(t *testing.T) {
	made := 0
	for _, x := range []target.Matrix{{DType: dtype.F16, Rows: 16, Columns: 16, Steps: 16},
		{DType: dtype.BF16, Rows: 16, Columns: 8, Steps: 16}, {DType: dtype.I8, Rows: 8, Columns: 16, Steps: 32},
		{DType: dtype.F16, Rows: 8, Columns: 8, Steps: 8}} {
		for _, limits := range []string{"desktop,shuffle,", "gfx942,shuffle,", "desktop,shuffle,subgroup=8,invocations=64,",
			"desktop,shuffle,-int64,-float64,"} {
			machine, err := target.ParseLimits(limits + x.Feature())
			if err != nil {
				t.Fatal(err)
			}
			for _, size := range [][2]int64{{1, 1}, {2, 4}, {4, 2}, {1, 3}} {
				for _, k := range kerneltest.MatrixKernels(t, x, size[0], size[1]) {
					b := compileFor(t, k.Kernel, machine)
					if b == nil {
						t.Fatalf("@%s is refused for %s", k.Name, limits+x.Feature())
					}
					if made++; made%11 == 1 {
						validate(t, b.Words)
					}
					e, count := b.Entries[0], opcodes(b.Words)
					subgroups := e.Threads / machine.Limits.Subgroup
					if e.Subgroup != machine.Limits.Subgroup || e.Threads != subgroups*e.Subgroup ||
						e.Threads > min(machine.Limits.Invocations, target.ShuffleThreads) {
						t.Errorf("@%s has %d threads in subgroups of %d, for %s", k.Name, e.Threads, e.Subgroup, limits)
					}
					products, sums := int(2*size[0]*size[1]/subgroups), int(size[0]*size[1]/subgroups)
					if k.Name == "twice" {
						products *= 2
					}
					if count[opCooperativeMatrixMulAdd] != products || count[opCooperativeMatrixStore] != sums {
						t.Errorf("@%s has %d products and %d stores of matrices for %s, not %d and %d", k.Name,
							count[opCooperativeMatrixMulAdd], count[opCooperativeMatrixStore], limits, products, sums)
					}
					if stored := slices.Index(b.Words, 5<<16|uint32(opCooperativeMatrixStore)); stored >= 0 {
						t.Errorf("@%s stores a matrix without a flag that others see it", k.Name)
					}
					none := compileFor(t, k.Kernel, machine.WithoutMatrices(x.DType))
					if count := opcodes(none.Words); count[opTypeCooperativeMatrix] > 0 {
						t.Errorf("@%s has matrices on a device without them", k.Name)
					}
				}
			}
		}
	}
}
