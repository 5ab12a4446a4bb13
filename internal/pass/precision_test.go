package pass

import (
	"strings"
	"testing"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ir/irtest"
)

// TestBF16 shows which products are rounded to bf16: an operand of two products is rounded once, and not at all by
// BF16Weights; weights that another node reads, products of two results and convolutions in groups stay in f32.
func TestBF16(t *testing.T) {
	for _, c := range []struct {
		pass  func(*ir.Module) error
		casts int
	}{{weighed(BF16), 2}, {weighed(BF16Weights), 0}} {
		m := irtest.Parse(t, "bf16", `main @main(%x: f32[2, 2], %p: f32[1, 2, 3, 3]) {
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
}`, nil)
		if err := c.pass(m); err != nil {
			t.Fatal(err)
		}
		text := m.String()
		for want, count := range map[string]int{"= cast(": c.casts, "dtype = dtype f32": 3,
			": bf16[2, 2] = [1, 2, 3, 1]": 1} {
			if n := strings.Count(text, want); n != count {
				t.Errorf("%q occurs %d times, not %d:\n%s", want, n, count, text)
			}
		}
	}
}

// TestBF16Channels shows that an odd number of channels, which are last, becomes even, and that an image is padded once
// for all its convolutions.
func TestBF16Channels(t *testing.T) {
	m := irtest.Parse(t, "channels", `main @main(%x: f32[1, 5, 5, 3], %y: f32[1, 5, 5, 6]) {
  const %a: f32[1, 1, 3, 2] = [1, 2, 3, 4, 5, 6]
  const %b: f32[1, 1, 3, 1] = [7, 8, 9]
  const %c: f32[1, 1, 6, 1] = [1, 2, 3, 4, 5, 6]
  %v1: f32[1, 5, 5, 2] = convolution(%x, %a) {begin = syms [0, 0], dilations = ints [1, 1], end = syms [0, 0], groups = int 1, kernel = ints [1, 1], last = bool true, strides = ints [1, 1]}
  %v2: f32[1, 5, 5, 1] = convolution(%x, %b) {begin = syms [0, 0], dilations = ints [1, 1], end = syms [0, 0], groups = int 1, kernel = ints [1, 1], last = bool true, strides = ints [1, 1]}
  %v3: f32[1, 5, 5, 1] = convolution(%y, %c) {begin = syms [0, 0], dilations = ints [1, 1], end = syms [0, 0], groups = int 1, kernel = ints [1, 1], last = bool true, strides = ints [1, 1]}
  return %v1, %v2, %v3
}`, nil)
	if err := BF16(m, onCPU); err != nil {
		t.Fatal(err)
	}
	text := m.String()
	for want, count := range map[string]int{"= pad(": 1, "= cast(": 2, "bf16[1, 1, 4, 2] = [1, 2, 3, 4, 5, 6, 0, 0]": 1,
		"bf16[1, 1, 4, 1] = [7, 8, 9, 0]": 1,
		"bf16[1, 1, 6, 1]":                1} {
		if n := strings.Count(text, want); n != count {
			t.Errorf("%q occurs %d times, not %d:\n%s", want, n, count, text)
		}
	}
}

// TestWinogradBesideBF16: a convolution that is faster in tiles of f32 than in f32 is left to bf16, if products of
// that are fast enough.
func TestWinogradBesideBF16(t *testing.T) {
	for _, c := range []struct {
		bf16Speed float64
		tiles     bool
	}{{1, true}, {2, true}, {4, false}} {
		m, err := ir.Parse("weir 1\nir @m {\n"+`main @main(%x: f32[1, 56, 56, 256]) {
  const %a: f32[3, 3, 256, 256] data 2359296
  %v1: f32[1, 56, 56, 256] = convolution(%x, %a) {begin = syms [1, 1], dilations = ints [1, 1], end = syms [1, 1], groups = int 1, kernel = ints [3, 3], last = bool true, strides = ints [1, 1]}
  return %v1
}
}`, ir.ParseOptions{Data: zeros})
		if err == nil {
			err = WinogradBy(m, onCPU, c.bf16Speed, func(string) int64 { return 0 })
		}
		if err != nil {
			t.Fatal(err)
		}
		if tiles := strings.Contains(m.String(), "= winograd("); tiles != c.tiles {
			t.Errorf("bf16 %v times as fast: in tiles is %v", c.bf16Speed, tiles)
		}
	}
}

// TestTied: an embedding that is the weights of a product is narrowed once, for both; one that something else reads, or
// whose rows are no channels of the product, stays.
func TestTied(t *testing.T) {
	for _, c := range []struct {
		name   string
		pass   func(*ir.Module) error
		narrow string
	}{{"bf16", weighed(BF16Weights), ": bf16[64, 32]"}, {"bytes", weighed(Bytes), ": i8[64, 32]"}} {
		m, err := ir.Parse("weir 1\nir @m {\n"+`main @main(%i: i64[2], %h: f32[2, 64]) {
  const %tied: f32[64, 32] data 8192
  const %added: f32[64, 32] data 8192
  const %upright: f32[64, 32] data 8192
  %a: f32[2, 32] = gather(%tied, %i) {axis = int 0}
  %b: f32[2, 64] = matmul(%a, %tied) {transpose_a = bool false, transpose_b = bool true}
  %c: f32[2, 32] = gather(%added, %i) {axis = int 0}
  %d: f32[2, 64] = matmul(%c, %added) {transpose_a = bool false, transpose_b = bool true}
  %e: f32[64, 32] = relu(%added)
  %f: f32[2, 32] = gather(%upright, %i) {axis = int 0}
  %g: f32[2, 32] = matmul(%h, %upright) {transpose_a = bool false, transpose_b = bool false}
  return %b, %d, %e, %f, %g
}
}`, ir.ParseOptions{Data: zeros})
		if err == nil {
			err = c.pass(m)
		}
		if err == nil {
			err = ir.Verify(m)
		}
		if err != nil {
			t.Fatal(err)
		}
		text := m.String()
		for want, count := range map[string]int{c.narrow: 1, "matmul(": 3, "matmul(%c, %added)": 1, "matmul(%h, %upright)": 1,
			"gather(": 3 + strings.Count(c.narrow, "i8")} {
			if n := strings.Count(text, want); n != count {
				t.Errorf("%s: %q occurs %d times, not %d:\n%s", c.name, want, n, count, text)
			}
		}
	}
}
