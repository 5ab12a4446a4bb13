package pass

import (
	"strings"
	"testing"
)

// TestBrain: what is rounded to bf16, and what stays: an operand of two products is rounded once; weights that something else reads, products of two results and convolutions in groups stay in f32.
func TestBrain(t *testing.T) {
	m := parsed(t, "brain", `main @main(%x: f32[2, 2], %p: f32[1, 2, 3, 3]) {
  const %a: f32[2, 2] = [1, 2, 3, 1.001]
  const %b: f32[2, 2] = [1, 2, 3, 4]
  const %tied: f32[2, 2] = [1, 2, 3, 4]
  const %each: f32[2, 1, 1, 1] = [1, 2]
  const %all: f32[2, 2, 1, 1] = [1, 2, 3, 4]
  %v1: f32[2, 2] = matmul(%x, %a)
  %v2: f32[2, 2] = matmul(%x, %b)
  %v3: f32[2, 2] = matmul(%x, %tied)
  %v4: f32[2, 2] = add(%v3, %tied)
  %v5: f32[2, 2] = matmul(%v1, %v2)
  %v6: f32[1, 2, 3, 3] = convolution(%p, %each) {begin = syms [0, 0], dilations = ints [1, 1], end = syms [0, 0], groups = int 2, kernel = ints [1, 1], strides = ints [1, 1]}
  %v7: f32[1, 2, 3, 3] = convolution(%p, %all) {begin = syms [0, 0], dilations = ints [1, 1], end = syms [0, 0], groups = int 1, kernel = ints [1, 1], strides = ints [1, 1]}
  return %v4, %v5, %v6, %v7
}`)
	if err := Brain(m); err != nil {
		t.Fatal(err)
	}
	text := m.String()
	for part, count := range map[string]int{"= cast(": 2, "dtype = dtype f32": 3, ": bf16[2, 2] = [1, 2, 3, 1]": 1} {
		if n := strings.Count(text, part); n != count {
			t.Errorf("%q occurs %d times, not %d:\n%s", part, n, count, text)
		}
	}
}
