package pass

import (
	"fmt"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/tensor"
)

// zeros returns the contents of constants whose elements a text leaves out.
func zeros(_ string, dt dtype.DType, shape []int64, _ int64) (*tensor.Tensor, error) {
	return tensor.New(dt, shape...)
}

// TestIntegersFit rewrites products whose sums just fit in i32; products whose sums may leave i32 stay products of
// floats.
func TestIntegersFit(t *testing.T) {
	for _, c := range []struct {
		depth    int64
		x, w     int64 // zero points
		x8, w8   string
		integers bool
	}{
		{65793, 0, 0, "u8", "i8", true}, // 255·128 for each step
		{65794, 0, 0, "u8", "i8", false},
		{33025, 0, 0, "u8", "u8", true}, // 255·255
		{33026, 0, 0, "u8", "u8", false},
		{33026, 0, 255, "u8", "u8", false},
		{33026, 128, 0, "u8", "u8", true},
		{131071, 128, 128, "u8", "u8", true}, // 128·128
		{131072, 128, 128, "u8", "u8", false},
		{65793, -128, 0, "i8", "i8", true},
		{65794, -128, 0, "i8", "i8", false},
	} {
		source := fmt.Sprintf(`weir 1
ir @m {
  main @main(%%x: %s[2, %d]) {
    const %%s: f32[] = [0.5]
    const %%z: %s[] = [%d]
    const %%w: %s[%d, 1] data %d
    const %%v: %s[] = [%d]
    %%d: f32[2, %d] = dequantize(%%x, %%s, %%z) {axis = int 1, block = int 0, to = dtype f32}
    %%e: f32[%d, 1] = dequantize(%%w, %%s, %%v) {axis = int 1, block = int 0, to = dtype f32}
    %%m: f32[2, 1] = matmul(%%d, %%e) {transpose_a = bool false, transpose_b = bool false}
    return %%m
  }
}
`, c.x8, c.depth, c.x8, c.x, c.w8, c.depth, c.depth, c.w8, c.w, c.depth, c.depth)
		m, err := ir.Parse(source, ir.ParseOptions{Data: zeros})
		if err != nil {
			t.Fatal(err)
		}
		fires := 0
		fired = func(string) { fires++ }
		err = Integers(m)
		fired = nil
		if err != nil || (fires == 1) != c.integers {
			t.Errorf("%+v: %d rules fire, %v", c, fires, err)
		}
	}
}
