package portable

import "testing"

// TestRandomKernels compares random kernels with the interpreter, with narrow strips so that loops have several.
func TestRandomKernels(t *testing.T) {
	defer func(n int) { mostLanes = n }(mostLanes)
	mostLanes = 16
	for seed := range int64(500) {
		harness.Random(t, seed, seed%2 == 1)
	}
}

func FuzzKernels(f *testing.F) {
	f.Add(int64(1), true)
	f.Fuzz(func(t *testing.T, seed int64, scheduled bool) { harness.Random(t, seed, scheduled) })
}
