package hostop

import (
	"math/bits"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// philox is the generator as its paper describes it: four random words from a counter and a key.
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

// TestPhilox compares with the known answers that its authors publish.
func TestPhilox(t *testing.T) {
	for _, c := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{[4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, [2]uint32{0xffffffff, 0xffffffff},
			[4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := philox(c.counter, c.key); got != c.want {
			t.Errorf("%x %x: %x, want %x", c.counter, c.key, got, c.want)
		}
	}
}

// TestRandomWords compares words computed four at a time with those of one counter after another, for lists of any
// length.
func TestRandomWords(t *testing.T) {
	for length := range 23 {
		for _, first := range []uint64{0, 1<<32 - 3, 1<<63 + 5} {
			draw, seed := uint64(0x9e3779b97f4a7c15), uint64(length)<<40+11
			got := make([]uint64, length)
			randomWords(got, first, draw, seed)
			for i, x := range got {
				block := first + uint64(i)/2
				four := philox([4]uint32{uint32(block), uint32(block >> 32), uint32(draw), uint32(draw >> 32)},
					[2]uint32{uint32(seed), uint32(seed >> 32)})
				if want := uint64(four[2*(i%2)])<<32 | uint64(four[2*(i%2)+1]); x != want {
					t.Fatalf("word %d of %d from %d: %x, want %x", i, length, first, x, want)
				}
			}
		}
	}
}

// TestRandomUniform checks that numbers are in the range and evenly distributed, and differ between draws and between
// seeds.
func TestRandomUniform(t *testing.T) {
	draw := func(dt dtype.DType, seed, number uint64) (*tensor.Tensor, *tensor.Tensor) {
		key := tensor.Must(tensor.FromSlice([]uint64{seed, number}, 2))
		out, err := Apply("random_uniform", map[string]any{"shape": []int64{40, 50}, "low": -1.0, "high": 3.0},
			[]*tensor.Tensor{key}, []dtype.DType{dt, dtype.U64})
		if err != nil {
			t.Fatal(err)
		}
		return out[0], out[1]
	}
	for dt := range precision {
		x, next := draw(dt, 7, 1<<33)
		var bins [8]int
		for i := range x.Len() {
			v := x.Float(i)
			if v < -1 || v > 3 {
				t.Fatalf("%s: %v", dt, v)
			}
			bins[min(7, int((v+1)*2))]++
		}
		for _, n := range bins {
			if n < 190 || n > 310 { // 250 expected; more than 4 standard deviations
				t.Errorf("%s: 2000 numbers fall into eight bins as %v", dt, bins)
			}
		}
		if next.Int(0) != 7 || next.Int(1) != 1<<33+1 {
			t.Errorf("next key %v", next)
		}
		again, _ := draw(dt, 7, 1<<33)
		later, _ := draw(dt, 7, 1<<33+1)
		other, _ := draw(dt, 8, 1<<33)
		if !x.Equal(again) || x.Equal(later) || x.Equal(other) {
			t.Errorf("%s: equal keys give different draws, or different keys equal ones", dt)
		}
	}
}
