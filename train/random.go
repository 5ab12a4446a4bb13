package train

import (
	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// keySpec is the spec of a step's key.
func keySpec() array.Spec {
	return array.Spec{Name: "key", DType: weir.U64, Shape: []weir.Extent{{Size: 2}}}
}

// fillKey gives the step a key of its own, from the seed and from how many batches there were.
func (t *Trainer) fillKey() {
	x := mixed(t.options.Seed ^ mixed(uint64(t.step)<<16|uint64(t.pending)))
	t.key[0] = x
}

// mixed is a permutation of 64 bits in which each bit depends on all (SplitMix64).
func mixed(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
