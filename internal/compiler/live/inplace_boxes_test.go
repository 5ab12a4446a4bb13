package live

import (
	"testing"

	"github.com/weirml/weir/internal/loop"
)

// TestInPlaceByBoxes shows that a result may lie in an operand's storage if each iteration reads before it writes, and
// if iterations access disjoint boxes.
func TestInPlaceByBoxes(t *testing.T) {
	for _, c := range []struct {
		name, params, body string
		want               bool
	}{
		{"rows that are turned", "%a: f32[4, 8] read, %b: f32[4, 8] write", `for $s < 4 { local %t: f32[8]
			each $i < 8 { store %t[$i] = load %a[$s, $i] } each $j < 8 { store %b[$s, $j] = load %t[7 - $j] } }`, true},
		{"from the last row on", "%a: f32[4, 8] read, %b: f32[4, 8] write", `for $s < 4 { local %t: f32[8]
			each $i < 8 { store %t[$i] = load %a[3 - $s, $i] } each $j < 8 { store %b[3 - $s, $j] = load %t[7 - $j] } }`, true},
		{"blocks of rows", "%a: f32[n, 8] read, %b: f32[n, 8] write", `parallel $p < (n + 3) // 4 { local %t: f32[4, 8]
			each $r < min(4, n - 4*$p) { each $i < 8 { store %t[$r, $i] = load %a[4*$p + $r, $i] } }
			each $q < min(4, n - 4*$p) { each $j < 8 { store %b[4*$p + $q, $j] = load %t[$q, 7 - $j] } } }`, true},
		{"blocks that overlap", "%a: f32[n, 8] read, %b: f32[n, 8] write", `parallel $p < (n + 2) // 3 { local %t: f32[4, 8]
			each $r < min(4, n - 3*$p) { each $i < 8 { store %t[$r, $i] = load %a[3*$p + $r, $i] } }
			each $q < min(3, n - 3*$p) { each $j < 8 { store %b[3*$p + $q, $j] = load %t[$q, 7 - $j] } } }`, false},
		{"another row", "%a: f32[4, 8] read, %b: f32[4, 8] write", `for $s < 4 { local %t: f32[8]
			each $i < 8 { store %t[$i] = load %a[3 - $s, $i] } each $j < 8 { store %b[$s, $j] = load %t[7 - $j] } }`, false},
		{"all rows", "%a: f32[4, 8] read, %b: f32[4, 8] write", `for $s < 4 { local %t: f32[4, 8]
			each $r < 4 { each $i < 8 { store %t[$r, $i] = load %a[$r, $i] } } each $j < 8 { store %b[$s, $j] = load %t[$s, 7 - $j] } }`, false},
		{"a write before a read", "%a: f32[4, 8] read, %b: f32[4, 8] write", `for $s < 4 { local %t: f32[8]
			each $j < 8 { store %b[$s, $j] = 0 } each $i < 8 { store %t[$i] = load %a[$s, $i] } }`, false},
		{"several workers in an iteration", "%a: f32[4, 8] read, %b: f32[4, 8] write", `for $s < 4 { local %t: f32[8]
			parallel $i < 8 { store %t[$i] = load %a[$s, $i] } parallel $j < 8 { store %b[$s, $j] = load %t[7 - $j] } }`, false},
		{"four parts of a row", "%a: f32[2, 16] read, %b: f32[2, 16] write", `each $s < 2 { each $u < 4 {
			let %x = load %a[$s, $u] let %y = load %a[$s, $u + 12] store %b[$s, $u + 12] = %x store %b[$s, $u] = %y store %b[$s, $u + 4] = %x store %b[$s, $u + 8] = %x } }`, true},
		{"parts that overlap", "%a: f32[2, 16] read, %b: f32[2, 16] write", `each $s < 2 { each $u < 5 {
			let %x = load %a[$s, $u] let %y = load %a[$s, $u + 4] store %b[$s, $u] = %y store %b[$s, $u + 4] = %x } }`, false},
		{"another shape", "%a: f32[4, 8] read, %b: f32[8, 4] write", `for $s < 4 { local %t: f32[4]
			each $i < 4 { store %t[$i] = load %a[$s, $i] } each $j < 4 { store %b[$s, $j] = load %t[$j] } }`, false},
		{"a product", "%a: f32[4, 8] read, %b: f32[4, 8] write", `for $s < 4 { local %t: f32[1, 1] store %t[0, 0] = 0
			contract %t[$r, $c] += %a[$s + $r, $k] * %a[$s + $c, $k] for $r < 1, $c < 1, $k < 8 each $j < 8 { store %b[$s, $j] = load %t[0, 0] } }`, false},
	} {
		m, err := loop.Parse("weir 1 loop @m { dim n in [0, inf] kernel @k("+c.params+") dims (n) { "+c.body+" } body { } }",
			loop.ParseOptions{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := InPlaceByBoxes(m.Kernels[0], m.Dims, 0, 1); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
