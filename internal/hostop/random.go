package hostop

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

func init() { register("random_uniform", randomUniform) }

// randomBlock is the number of elements that are drawn before they are stored; it is even.
const randomBlock = 512

// randomWords fills a list with the random bits of consecutive elements, two for each counter from first on, by the
// counter-based generator Philox 4×32 with ten rounds: the same bits on every machine and in any order of counters
// (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3, 2011). It computes two counters at once,
// because each round of one counter has to wait for the previous round.
func randomWords(list []uint64, first, draw, seed uint64) {
	low, high := uint32(draw), uint32(draw>>32)
	for i := 0; i < len(list); i += 4 {
		a0, a1, a2, a3 := uint32(first), uint32(first>>32), low, high
		b0, b1, b2, b3 := uint32(first+1), uint32((first+1)>>32), low, high
		k0, k1 := uint32(seed), uint32(seed>>32)
		for range 10 {
			p, q := 0xd2511f53*uint64(a0), 0xcd9e8d57*uint64(a2)
			a0, a1, a2, a3 = uint32(q>>32)^a1^k0, uint32(q), uint32(p>>32)^a3^k1, uint32(p)
			p, q = 0xd2511f53*uint64(b0), 0xcd9e8d57*uint64(b2)
			b0, b1, b2, b3 = uint32(q>>32)^b1^k0, uint32(q), uint32(p>>32)^b3^k1, uint32(p)
			k0 += 0x9e3779b9
			k1 += 0xbb67ae85
		}
		four := [4]uint64{uint64(a0)<<32 | uint64(a1), uint64(a2)<<32 | uint64(a3), uint64(b0)<<32 | uint64(b1),
			uint64(b2)<<32 | uint64(b3)}
		copy(list[i:], four[:])
		first += 2
	}
}

// precision is the number of random bits of an element: at most the bits of the type's significand, so that no element
// rounds up to 1.
var precision = map[dtype.DType]int{dtype.F16: 11, dtype.BF16: 8, dtype.F32: 24, dtype.F64: 53}

// randomUniform fills result 0 with low + u × (high − low) for u in [0, 1), from the key of input 0, u64[2]: a seed
// and the number of the draw. The bounds are inputs 1 and 2, or attributes. Result 1 is the key of the next draw.
// Element i depends only on the counter (i ÷ 2, draw), not on the shape or the type.
func randomUniform(c *Call) error {
	key := c.In[0]
	shape, _ := c.Attrs["shape"].([]int64)
	low, _ := c.Attrs["low"].(float64)
	high, _ := c.Attrs["high"].(float64)
	if len(c.In) == 3 {
		low, high = c.In[1].Float(0), c.In[2].Float(0)
	}
	width := precision[c.Types[0]]
	if width == 0 || key.Len() != 2 {
		return diag.Inputf("random numbers of type %s from %d words", c.Types[0], key.Len())
	}
	seed, draw := uint64(key.Int(0)), uint64(key.Int(1))
	out, err := c.Result(0, shape...)
	if err != nil {
		return err
	}
	scale, difference := 1/float64(uint64(1)<<width), high-low
	number := func(random uint64) float64 { return low + float64(float64(random>>(64-width))*scale*difference) }
	floats, _ := tensor.Data[float32](out)
	var words [randomBlock]uint64
	for first := int64(0); first < out.Len(); first += randomBlock {
		list := words[:min(randomBlock, out.Len()-first)]
		c.work(8 * int64(len(list)))
		randomWords(list, uint64(first)/2, draw, seed)
		if floats != nil {
			for i, random := range list {
				floats[first+int64(i)] = float32(number(random))
			}
			continue
		}
		for i, random := range list {
			out.SetFloat(first+int64(i), number(random))
		}
	}
	next, err := c.Result(1, 2)
	if err != nil {
		return err
	}
	next.SetInt(0, int64(seed))
	next.SetInt(1, int64(draw+1))
	return nil
}
