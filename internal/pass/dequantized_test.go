package pass

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ir/irtest"
	"github.com/weirml/weir/internal/tensor"
)

// numbersOf lists n integers in [first, last], as text.
func numbersOf(n, first, last int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprint(first + i*7%(last-first+1))
	}
	return strings.Join(words, ", ")
}

// TestDequantized compares the dequantized weights with the operator's result, all at once and in slabs along each
// axis.
func TestDequantized(t *testing.T) {
	for _, c := range []struct {
		name, weights, scale, zero string
		axis, block                int
		to                         string
		taken                      bool
	}{
		{"a scale for all", "i8[3, 4, 5] = [" + numbersOf(60, -128, 127) + "]", "f32[] = [0.3]", "", 1, 0, "f32", true},
		{"a scale for each index, a negative axis", "u8[3, 4, 5] = [" + numbersOf(60, 0, 255) + "]",
			"f32[4] = [0.3, 2, 1e-30, 7]",
			"u8[4] = [0, 128, 255, 3]", -2, 0, "f32", true},
		{"blocks of rows", "i8[4, 3, 2] = [" + numbersOf(24, -9, 9) + "]", "f32[2, 3, 2] = [" + numbersOf(12, 1, 5) + "]",
			"i8[2, 3, 2] = [" + numbersOf(12, -3, 3) + "]",
			0, 2, "f32", true},
		{"blocks along the last axis, of four bits", "u4[3, 2, 6] = [" + numbersOf(36, 0, 15) + "]",
			"f32[3, 2, 2] = [" + numbersOf(12, 1, 5) + "]",
			"u4[3, 2, 2] = [" + numbersOf(12, 0, 15) + "]", 2, 3, "f32", true},
		{"halves", "i16[2, 3] = [-32768, 32767, 5, -77, 0, 1]", "f16[] = [0.0301]", "", 1, 0, "f16", true},
		{"wide integers", "i32[2, 3] = [" + numbersOf(6, 0, 9) + "]", "f32[] = [0.3]", "", 1, 0, "f32", false},
		{"one number", "i8[] = [5]", "f32[] = [0.3]", "", 1, 0, "f32", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			zero, with := "", ""
			if c.zero != "" {
				zero, with = "\n  const %z: "+c.zero, ", %z"
			}
			shape := c.weights[strings.Index(c.weights, "["):strings.Index(c.weights, " =")]
			source := fmt.Sprintf(`main @main() {
  const %%w: %s
  const %%s: %s%s
  %%d: %s%s = dequantize(%%w, %%s%s) {axis = int %d, block = int %d, to = dtype %s}
  return %%d
}`, c.weights, c.scale, zero, c.to, shape, with, c.axis, c.block, c.to)
			if text := runCase(t, "dequantized", source); strings.Contains(text, "= dequantize(") == c.taken {
				t.Fatalf("taken %v:\n%s", !c.taken, text)
			}
			if !c.taken {
				return
			}
			m := irtest.Parse(t, c.name, source, nil)
			want, err := ir.Evaluate(m, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			d, err := dequantizedOf(m.Main.Body.Nodes[0]).tensor()
			if err != nil {
				t.Fatal(err)
			}
			for axis, extent := range d.Shape() {
				for begin := range extent {
					sameSlab(t, d, want[0], axis, begin, extent)
				}
			}
			if !d.Equal(want[0]) {
				t.Errorf("%v, not %v", d, want[0])
			}
		})
	}
}

// sameSlab compares the elements of two tensors whose index along an axis is in [begin, end).
func sameSlab(t *testing.T, got, want *tensor.Tensor, axis int, begin, end int64) {
	t.Helper()
	shape := append([]int64{}, got.Shape()...)
	shape[axis] = end - begin
	a, b := tensor.Must(tensor.New(got.DType(), shape...)), tensor.Must(tensor.New(got.DType(), shape...))
	got.Fill(a, axis, begin, end)
	want.Fill(b, axis, begin, end)
	if !a.Equal(b) {
		t.Errorf("from %d to %d along axis %d: %v, not %v", begin, end, axis, a, b)
	}
}

// TestDequantizedRows shows that weights from which rows are gathered stay as they are stored.
func TestDequantizedRows(t *testing.T) {
	text := runCase(t, "dequantized", `main @main(%i: i64[2]) {
  const %w: i8[3, 2] = [1, 2, 3, 4, 5, 6]
  const %s: f32[] = [0.5]
  %d: f32[3, 2] = dequantize(%w, %s) {axis = int 1, block = int 0, to = dtype f32}
  %y: f32[2, 2] = gather(%d, %i) {axis = int 0}
  return %y
}`)
	if !strings.Contains(text, "= dequantize(") {
		t.Error(text)
	}
}
