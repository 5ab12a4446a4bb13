package spirv

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// TestNarrow: a kernel with dimensions of any size stays on a device without integers of 64 bits, and wherever its
// conditions hold, the kernel compiled for these sizes alone proves that its integers fit 32 bits.
func TestNarrow(t *testing.T) {
	machine, err := target.ParseLimits("mobile,-int64")
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	kernels, stayed, tried := 0, 0, 0
	for _, k := range kerneltest.BlockKernels(t) {
		m := &loop.Module{Kernels: []*loop.Kernel{k.Kernel}, Dims: sym.NewDims()}
		for _, name := range k.Kernel.Dims {
			m.Dims.Set(name, sym.Range{Max: 1})
		}
		if _, err := Refuses(k.Kernel, m, machine); err != nil || len(k.Kernel.Dims) == 0 {
			continue // for other reasons
		}
		kernels++
		for _, name := range k.Kernel.Dims {
			m.Dims.Set(name, sym.Range{Max: sym.NoMax})
		}
		conditions, err := Refuses(k.Kernel, m, machine)
		if err != nil {
			t.Logf("@%s: %v", k.Kernel.Name, err)
			continue
		}
		if stayed++; len(conditions) == 0 {
			t.Errorf("@%s has no conditions", k.Kernel.Name)
		}
		for range 100 {
			sizes := map[sym.Name]int64{}
			for _, name := range k.Kernel.Dims {
				sizes[name] = r.Int64N(1 << r.IntN(33))
				m.Dims.Set(name, sym.Range{Min: sizes[name], Max: sizes[name]})
			}
			holds := !slices.Contains(slices.Collect(maps.Values(sizes)), 0) // which hides how large another is
			for _, c := range conditions {
				ok, err := c.Eval(func(name sym.Name) (int64, bool) { v, known := sizes[name]; return v, known })
				holds = holds && err == nil && ok
			}
			if !holds {
				continue
			}
			tried++
			if left, err := Refuses(k.Kernel, m, machine); err != nil || len(left) > 0 {
				t.Errorf("@%s of %v: %v, %v", k.Kernel.Name, sizes, left, err)
			}
		}
	}
	if stayed*2 < kernels || tried < 100 {
		t.Errorf("of %d kernels %d stay on the device; %d sizes tried", kernels, stayed, tried)
	}
}
