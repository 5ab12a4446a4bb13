package pass

import (
	"fmt"
	"strings"
	"testing"
)

// TestBlocks lays out the weights of few bits of several products: each product computes the same as before, and
// weights that cannot be laid out stay as they are.
func TestBlocks(t *testing.T) {
	numbers := func(n, from, step, count int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprint(from + i*step%count)
		}
		return strings.Join(list, ", ")
	}
	scales := func(n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprint(float64(i%7+1) / 64)
		}
		return strings.Join(list, ", ")
	}
	for _, c := range []struct {
		name               string
		weights            string // with its type
		scale, zero        string
		axis, block        int
		cut, turned, taken bool
	}{
		{"blocks of a turned weight", "u4[20, 32] = [" + numbers(640, 0, 7, 16) + "]", "f32[20, 2] = [" + scales(40) + "]",
			"u4[20, 2] = [" + numbers(40, 0, 3, 16) + "]", 1, 16, false, true, true},
		{"one zero point for all", "u4[3, 32] = [" + numbers(96, 0, 7, 16) + "]", "f32[3, 2] = [" + scales(6) + "]",
			"u4[3, 2] = [8, 8, 8, 8, 8, 8]", 1, 16, false, true, true},
		{"signed, without zero points", "i4[20, 29] = [" + numbers(580, -8, 5, 16) + "]", "f32[20, 4] = [" + scales(80) + "]",
			"", 1, 8, false, true, true},
		{"blocks along rows", "i4[21, 17] = [" + numbers(357, -8, 5, 16) + "]", "f32[3, 17] = [" + scales(51) + "]",
			"i4[3, 17] = [" + numbers(51, -8, 3, 16) + "]", 0, 8, false, false, true},
		{"the first steps of a weight", "u4[5, 32] = [" + numbers(160, 0, 7, 16) + "]", "f32[5, 2] = [" + scales(10) + "]",
			"", 1, 16, true, true, true},
		{"a scale for each column", "i8[13, 40] = [" + numbers(520, -128, 5, 256) + "]", "f32[40] = [" + scales(40) + "]",
			"i8[40] = [" + numbers(40, -3, 1, 7) + "]", 1, 0, false, false, true},
		{"one scale", "u8[13, 4] = [" + numbers(52, 0, 5, 256) + "]", "f32[1] = [0.5]", "u8[1] = [3]", 1, 0, false, false,
			true},
		{"two bits", "u2[9, 16] = [" + numbers(144, 0, 5, 4) + "]", "f32[9, 1] = [" + scales(9) + "]", "", 1, 16, false, true,
			true},
		{"a scale for each step", "i8[13, 4] = [" + numbers(52, -128, 5, 256) + "]", "f32[13] = [" + scales(13) + "]", "", 0,
			0, false, false, false},
		{"blocks that words do not divide", "u4[4, 12] = [" + numbers(48, 0, 5, 16) + "]", "f32[4, 3] = [" + scales(12) + "]",
			"", 1, 4, false, true, false},
		{"a scale that is infinite", "i8[13, 2] = [" + numbers(26, -128, 5, 256) + "]", "f32[2] = [1, inf]", "", 1, 0, false,
			false, false},
	} {
		var rows, columns int
		if _, err := fmt.Sscanf(c.weights[strings.Index(c.weights, "["):], "[%d, %d]", &rows, &columns); err != nil {
			t.Fatal(err)
		}
		depth, width := rows, columns
		if c.turned {
			depth, width = columns, rows
		}
		zero, with, cut, w := "", "", "", "%d"
		if c.zero != "" {
			zero, with = "\n  const %z: "+c.zero, ", %z"
		}
		if c.cut {
			depth, w = depth-3, "%t"
			cut = fmt.Sprintf("\n  %%t: f32[%d, %d] = slice(%%d) {begin = syms [0, 0], extent = syms [%d, %d], step = ints "+
				"[1, 1]}", rows, depth, rows, depth)
		}
		source := fmt.Sprintf(`dim n in [0, 12]
main @main(%%x: f32[n, %d]) {
  const %%w: %s
  const %%s: %s%s
  %%d: f32[%d, %d] = dequantize(%%w, %%s%s) {axis = int %d, block = int %d, to = dtype f32}%s
  %%y: f32[n, %d] = matmul(%%x, %s) {transpose_a = bool false, transpose_b = bool %v}
  return %%y
}`, depth, c.weights, c.scale, zero, rows, columns, with, c.axis, c.block, cut, width, w, c.turned)
		if text := runCase(t, "blocks "+c.name, source); strings.Contains(text, "matmul_blocks") != c.taken {
			t.Errorf("%s: taken %v:\n%s", c.name, !c.taken, text)
		}
	}
}
