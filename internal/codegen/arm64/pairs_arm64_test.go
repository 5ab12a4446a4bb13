package arm64

import (
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/dtype"
)

// TestPairs compares products by matrix instructions with the interpreter: of all combinations of types, with even and
// odd numbers of rows, incomplete vectors and groups, and sums that do not begin with zeros.
func TestPairs(t *testing.T) {
	types := [][2]dtype.DType{{dtype.I8, dtype.I8}, {dtype.U8, dtype.U8}, {dtype.U8, dtype.I8}, {dtype.I8, dtype.U8},
		{dtype.BF16, dtype.BF16}}
	levels(t, func(t *testing.T, h kerneltest.Harness) {
		if !isaOf(h.Machine).matrix {
			return // TestProducts has the groups of other levels
		}
		for n, c := range pairCases() {
			c.From = types[n%len(types)]
			if c.DType, c.Dot = dtype.I32, h.Machine.Dot.Bytes; c.From[0] == dtype.BF16 {
				if c.DType, c.Dot, c.Extreme = dtype.F32, h.Machine.Dot.BF16, false; c.Dot == 0 {
					continue
				}
			}
			t.Run(c.String(), func(t *testing.T) { c.Agree(t, h) })
		}
	})
}

// pairCases returns the forms of TestPairs.
func pairCases() (cases []kerneltest.Product) {
	for rows := int64(1); rows <= 17; rows++ {
		for n, width := range []int64{4, 8, 12, 16, 20, 28, 32} {
			c := kerneltest.Product{M: rows, N: 2*width + rows%4 - 1, K: 8*(1+rows%6) + (rows*3+int64(n))%8, Width: width,
				First: []string{"zero", "bias"}[rows%2], Packed: rows%3 > 0, Extreme: rows%4 == 1, Dynamic: rows%5 == 2,
				Turned: rows%7 == 6}
			c.Wraps = c.Extreme && n%2 == 0
			if n%3 == 2 {
				c.Windows = []int64{2}
			}
			if testing.Short() && n != int(rows)%7 && n != int(rows+3)%7 {
				continue
			}
			cases = append(cases, c)
		}
	}
	return cases
}
