package hostop

import (
	"math/bits"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
)

func init() { register("random_uniform", randomUniform) }

// philox is the counter-based generator Philox 4×32 with ten rounds: four random words from a counter and a key, the same on every machine and in any order of
// counters (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3, 2011).
func philox(counter [4]uint32, key [2]uint32) [4]uint32 {
	for range 10 {
		high0, low0 := bits.Mul32(0xd2511f53, counter[0])
		high1, low1 := bits.Mul32(0xcd9e8d57, counter[2])
		counter = [4]uint32{high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0}
		key[0] += 0x9e3779b9
		key[1] += 0xbb67ae85
	}
	return counter
}

// precision is the number of random bits that make an element, at most as many as its significand has, so that none is rounded up to 1.
var precision = map[dtype.DType]int{dtype.F16: 11, dtype.BF16: 8, dtype.F32: 24, dtype.F64: 53}

// randomUniform fills result 0 with numbers u from [0, 1), each as low + u × (high − low), from the u64[2] of input 0: a seed, and the number of the next draw. Result
// 1 is the key of the next draw. Element i comes from the counter (i ÷ 2, draw), whatever the shape and the type.
func randomUniform(c *Call) error {
	key := c.In[0]
	shape, _ := c.Attrs["shape"].([]int64)
	low, _ := c.Attrs["low"].(float64)
	high, _ := c.Attrs["high"].(float64)
	width := precision[c.Types[0]]
	if width == 0 || key.Len() != 2 {
		return diag.Inputf("random numbers of type %s from %d words", c.Types[0], key.Len())
	}
	seed, draw := uint64(key.Int(0)), uint64(key.Int(1))
	out, err := c.Result(0, shape...)
	if err != nil {
		return err
	}
	scale := 1 / float64(uint64(1)<<width)
	for i := range out.Len() {
		c.work(8)
		block := uint64(i) / 2
		words := philox([4]uint32{uint32(block), uint32(block >> 32), uint32(draw), uint32(draw >> 32)}, [2]uint32{uint32(seed), uint32(seed >> 32)})
		random := uint64(words[2*(i%2)])<<32 | uint64(words[2*(i%2)+1])
		out.SetFloat(i, low+float64(random>>(64-width))*scale*(high-low))
	}
	next, err := c.Result(1, 2)
	if err != nil {
		return err
	}
	next.SetInt(0, int64(seed))
	next.SetInt(1, int64(draw+1))
	return nil
}
