package pass

import (
	"strings"
	"testing"
)

// TestHalves shows that products of f16 with weights read their other operand as f32, widened once for all readers.
// Weights of matrix products stay f16, and weights of convolutions do not. Products of other types, convolutions in
// groups, and products of two results stay as they are.
func TestHalves(t *testing.T) {
	text := runCase(t, "halves", `main @main(%x: f16[2, 2], %p: f16[1, 2, 3, 3], %f: f32[2, 2]) {
  const %a: f16[2, 2] = [1, 2, 3, 1]
  const %b: f16[2, 2] = [1, 2, 3, 4]
  const %c: f32[2, 2] = [1, 2, 3, 4]
  const %bias: f16[2] = [5, 7]
  const %each: f16[2, 1, 1, 1] = [1, 2]
  const %all: f16[2, 2, 1, 1] = [1, 2, 3, 4]
  %v1: f16[2, 2] = matmul(%x, %a)
  %v2: f16[2, 2] = matmul(%x, %b)
  %v3: f32[2, 2] = matmul(%f, %c)
  %v4: f16[2, 2] = matmul(%v1, %v2)
  %v5: f16[1, 2, 3, 3] = convolution(%p, %each) {begin = syms [0, 0], dilations = ints [1, 1], end = syms [0, 0], groups = int 2, kernel = ints [1, 1], strides = ints [1, 1]}
  %v6: f16[1, 2, 3, 3] = convolution(%p, %all, %bias) {begin = syms [0, 0], dilations = ints [1, 1], end = syms [0, 0], groups = int 1, kernel = ints [1, 1], strides = ints [1, 1]}
  return %v3, %v4, %v5, %v6
}`)
	for want, count := range map[string]int{"to = dtype f32": 2, "to = dtype f16": 3, "dtype = dtype f32": 3,
		": f16[2, 2] = [": 2, ": f32[2] = [5, 7]": 1, ": f32[2, 2, 1, 1] = [1, 2, 3, 4]": 1} {
		if n := strings.Count(text, want); n != count {
			t.Errorf("%q occurs %d times, not %d:\n%s", want, n, count, text)
		}
	}
}
