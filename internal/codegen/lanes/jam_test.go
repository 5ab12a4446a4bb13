package lanes_test

import (
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// TestJammable checks how many strips are computed together: for sums of columns by the numbers of sums and of
// registers, and one for other loops.
func TestJammable(t *testing.T) {
	rows, cols := sym.Var(sym.User("n")), sym.Const(256)
	for _, test := range []struct {
		name   string
		kernel *loop.Kernel
		most   int64
		want   int64
	}{
		{"a sum", kerneltest.ColumnSumsKernel(false, false, rows, cols), 8, 8},
		{"two reductions", kerneltest.ColumnSumsKernel(true, false, rows, cols), 8, 4},
		{"two loops", kerneltest.ColumnSumsKernel(false, true, rows, cols), 8, 8},
		{"a sum with fewer registers", kerneltest.ColumnSumsKernel(false, false, rows, cols), 4, 4},
		{"a sum that is written out", kerneltest.ColumnSumsKernel(false, false, sym.Const(3), cols), 8, 1},
		{"a sum of all", kerneltest.SumOfAllKernel(dtype.F32, loop.Add, rows, cols), 8, 1},
		{"sums along rows", kerneltest.RowSumsKernel(dtype.F32, sym.Const(40), cols, 1), 8, 1},
	} {
		e := &lanes.Emitter{MostSums: test.most}
		var f *loop.For
		for _, stmt := range test.kernel.Body {
			if found, ok := stmt.(*loop.For); ok {
				f = found
			}
		}
		if got := e.Jammable(f); got != test.want {
			t.Errorf("%s: %d strips are done together, want %d", test.name, got, test.want)
		}
	}
	for _, test := range [][3]int64{{64, 8, 8}, {3, 8, 3}, {9, 8, 8}, {10, 8, 5}, {12, 8, 6}, {1, 8, 1}, {7, 4, 3}} {
		if got := lanes.Together(test[0], test[1]); got != test[2] {
			t.Errorf("of %d strips, %d at most, %d are done together, want %d", test[0], test[1], got, test[2])
		}
	}
}
