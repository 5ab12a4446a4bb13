package pass

import (
	"math"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ir/irtest"
	"github.com/weirml/weir/internal/tensor"
)

// TestBytes shows which products are computed in bytes: an operand of two products is made bytes once; small products,
// weights that another node reads, convolutions in groups and of pictures, and products of two results stay in f32.
func TestBytes(t *testing.T) {
	m, err := ir.Parse("weir 1\nir @m {\n"+`main @main(%x: f32[2, 32], %p: f32[1, 8, 3, 3], %q: f32[1, 3, 8, 8]) {
  const %a: f32[32, 16] data 2048
  const %b: f32[32, 16] data 2048
  const %tied: f32[32, 16] data 2048
  const %narrow: f32[32, 15] data 1920
  const %shallow: f32[16, 32] data 2048
  const %each: f32[16, 1, 3, 3] data 576
  const %all: f32[16, 8, 3, 3] data 4608
  const %one: f32[16, 8, 1, 1] data 512
  const %picture: f32[16, 3, 5, 5] data 4800
  %v1: f32[2, 16] = matmul(%x, %a)
  %v2: f32[2, 16] = matmul(%x, %b)
  %v3: f32[2, 16] = matmul(%x, %tied)
  %v4: f32[32, 16] = relu(%tied)
  %v5: f32[2, 15] = matmul(%x, %narrow)
  %v6: f32[2, 32] = matmul(%v1, %shallow)
  %v7: f32[2, 2] = matmul(%v1, %v2) {transpose_b = bool true}
  %v8: f32[1, 16, 3, 3] = convolution(%p, %each) {begin = syms [1, 1], dilations = ints [1, 1], end = syms [1, 1], groups = int 8, kernel = ints [3, 3], strides = ints [1, 1]}
  %v9: f32[1, 16, 3, 3] = convolution(%p, %all) {begin = syms [1, 1], dilations = ints [1, 1], end = syms [1, 1], groups = int 1, kernel = ints [3, 3], strides = ints [1, 1]}
  %v10: f32[1, 16, 3, 3] = convolution(%p, %one) {begin = syms [0, 0], dilations = ints [1, 1], end = syms [0, 0], groups = int 1, kernel = ints [1, 1], strides = ints [1, 1]}
  %v11: f32[1, 16, 4, 4] = convolution(%q, %picture) {begin = syms [0, 0], dilations = ints [1, 1], end = syms [0, 0], groups = int 1, kernel = ints [5, 5], strides = ints [1, 1]}
  return %v3, %v4, %v5, %v6, %v7, %v8, %v9, %v10, %v11
}
}`, ir.ParseOptions{Data: zeros})
	if err == nil {
		err = Bytes(m, onCPU)
	}
	if err != nil {
		t.Fatal(err)
	}
	text := m.String()
	// %a, %b, %all; %one is a sum of 8 terms.
	for fragment, count := range map[string]int{"dtype = dtype i32": 3, "to = dtype u8": 2, ": i8[": 3, " pad(": 1} {
		if n := strings.Count(text, fragment); n != count {
			t.Errorf("%q occurs %d times, not %d:\n%s", fragment, n, count, text)
		}
	}
}

// TestBytesOfWeights shows that weights as bytes differ by at most half a step of their channel's scale, for channels
// along any axis and slabs from any index on, and that sums are the sums of the bytes.
func TestBytesOfWeights(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for _, shape := range [][]int64{{7, 5}, {1, 7}, {3, 3, 4, 6}, {6, 4, 1, 1}, {6, 4, 3}} {
		for axis, channels := range shape {
			from := tensor.Must(tensor.New(dtype.F32, shape...))
			strides := tensor.Strides(shape)
			of := func(i int64) int64 { return i / strides[axis] % channels }
			most, sums := make([]float64, channels), make([]int64, channels)
			for i := range from.Len() {
				v := math.Exp(8*r.Float64()) * (r.Float64() - 0.5) * float64(r.Intn(4))
				from.SetFloat(i, v)
				most[of(i)] = max(most[of(i)], math.Abs(from.Float(i)))
			}
			w := bytesOfWeights(from, axis)
			for i := range from.Len() {
				q, scale := float64(w.bytes.Int(i)), float64(w.scales[of(i)])
				sums[of(i)] += w.bytes.Int(i)
				if off := math.Abs(q*scale - from.Float(i)); off > scale*0.50001 || math.Abs(q) > 127 ||
					scale > max(most[of(i)], bytesLeast)/126.9 {
					t.Errorf("%v along %d: element %d, %g, is %g times %g", shape, axis, i, from.Float(i), q, scale)
				}
			}
			if !slices.Equal(w.sums(), sums) {
				t.Errorf("%v along %d: sums %v, not %v", shape, axis, w.sums(), sums)
			}
			for along, extent := range shape {
				begin, rest := extent/2, slices.Clone(shape)
				rest[along] -= begin
				slab := tensor.Must(tensor.New(dtype.I8, rest...))
				w.bytes.Fill(slab, along, begin, extent)
				flat := int64(0)
				tensor.Each(rest, func(at []int64) {
					at = slices.Clone(at)
					at[along] += begin
					if slab.Int(flat) != w.bytes.Int(tensor.Offset(strides, at)) {
						t.Errorf("%v along %d: another element at %v in a slab along %d", shape, axis, at, along)
					}
					flat++
				})
			}
			from.SetFloat(r.Int63n(from.Len()), []float64{math.NaN(), math.Inf(-1)}[r.Intn(2)])
			if bytesOfWeights(from, axis) != nil {
				t.Errorf("%v along %d: a weight that is no number has a byte", shape, axis)
			}
		}
	}
}

// TestNotNegative lists values that are, and are not, known not to be negative.
func TestNotNegative(t *testing.T) {
	m := irtest.Parse(t, "not negative", `main @main(%x: f32[2], %y: f32[2]) {
  const %one: f32[] = [1]
  const %less: f32[] = [-1]
  %a: f32[2] = relu(%x)
  %b: f32[2] = add(%a, %one)
  %c: f32[2] = add(%a, %less)
  %d: f32[2] = mul(%x, %x)
  %e: f32[2] = mul(%x, %y)
  %f: f32[2] = max(%x, %one)
  %g: f32[2] = max(%x, %less)
  %h: f32[2] = sub(%a, %b)
  return %a, %b, %c, %d, %e, %f, %g, %h
}`, nil)
	got := ""
	for _, v := range m.Main.Body.Results {
		got += map[bool]string{true: "+", false: "?"}[notNegative(v, notNegativeDepth)]
	}
	if got != "++?+?+??" {
		t.Error(got)
	}
}
