package train

import (
	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// keySpec returns the spec of a step's random key.
func keySpec() array.Spec {
	return array.Spec{Name: "key", DType: weir.U64, Shape: []weir.Extent{{Size: 2}}}
}

// fillKey sets the step's key from the seed and the number of batches so far.
func (t *Trainer) fillKey() {
	x := mixed(t.options.Seed ^ mixed(uint64(t.step)<<16|uint64(t.pending)))
	t.key[0] = x
}

// mixed is a permutation of the 64-bit numbers in which each result bit depends on all bits of x (SplitMix64).
func mixed(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
