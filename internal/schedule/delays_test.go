package schedule

import (
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// TestDelays: for a kernel that is slow in one way, this is the first reason. The size n is a name whose value a run
// knows.
func TestDelays(t *testing.T) {
	wide := target.Machine{Name: "wide", VectorBytes: 64, Tile: target.Tile{Rows: 14, Columns: 32},
		Limits: target.Limits{Scratch: 4 << 20, Registers: 32, L1: 48 << 10, L2: 2 << 20}}
	n, at := sym.Dim("n"), func(e ...sym.Expr) []sym.Expr { return e }
	type expression = func(x *loop.Memory, i, j sym.Expr) loop.Expr
	// elementwise returns the kernel that stores the values of an expression over x, row by row.
	elementwise := func(kind loop.LoopKind, width int64, value expression) *loop.Kernel {
		b := loop.NewBuilder("elementwise")
		x, y := b.Param("x", loop.Read, dtype.F32, at(n, n)), b.Param("y", loop.Write, dtype.F32, at(n, n))
		b.Each("i", n, func(i sym.Expr) {
			b.For(kind, "j", number(width), func(j sym.Expr) { b.Store(y, at(i, j), value(x, i, j)) })
		})
		return b.Finish()
	}
	product := func(rows, columns, depth sym.Expr) *loop.Kernel {
		b := loop.NewBuilder("product")
		x := b.Param("x", loop.Read, dtype.F32, at(rows, depth))
		w := b.Param("w", loop.Read, dtype.F32, at(depth, columns))
		y := b.Param("y", loop.Update, dtype.F32, at(rows, columns))
		zeros, down, across := at(zero, zero), at(one, zero), at(zero, one)
		b.Contract(rows, columns, depth, y.Tile(zeros, down, across), x.Tile(zeros, down, across),
			w.Tile(zeros, down, across))
		return b.Finish()
	}
	load := func(x *loop.Memory, i, j sym.Expr) loop.Expr { return x.Load(i, j) }
	for _, c := range []struct {
		k    *loop.Kernel
		want string
	}{
		{elementwise(loop.Vector, 512, load), "reads, writes and simple operations"},
		{elementwise(loop.Vector, 512, func(x *loop.Memory, i, j sym.Expr) loop.Expr {
			return loop.Apply(loop.Exp, loop.Apply(loop.Tanh, x.Load(i, j)))
		}), "functions of many instructions: exp, tanh"},
		{elementwise(loop.Vector, 512, func(x *loop.Memory, i, j sym.Expr) loop.Expr { return x.Load(j, i) }),
			"elements that are not adjacent"},
		{elementwise(loop.Vector, 512, func(x *loop.Memory, i, j sym.Expr) loop.Expr { return x.Load(i, j.Mul(j)) }),
			"elements at indices that differ irregularly"},
		{elementwise(loop.Vector, 3, load), "rows that do not fill the lanes"},
		{elementwise(loop.Serial, 512, load), "operations outside of lanes"},
		{elementwise(loop.Vector, 512, func(x *loop.Memory, i, j sym.Expr) loop.Expr {
			return x.Load(i, j.FloorDiv(number(7)))
		}), "quotients and remainders of indices"}, // after the gather that they are part of
		{product(n, number(64), number(256)), "products of 640 rows, 64 columns and 256 steps (fast if"},
		{product(one, number(64), number(256)), "products of 1 row, 64 columns and 256 steps (4 vectors of sums"},
		{product(n, number(64), number(4)), "products of 640 rows, 64 columns and 4 steps (their sums are begun"},
	} {
		sizes := sym.NewDims()
		sizes.Set(sym.User("n"), sym.Range{Min: 640, Max: 640})
		reasons := Delays(c.k, wide, sizes)
		at := slices.IndexFunc(reasons, func(why string) bool { return strings.Contains(why, c.want) })
		if gathered := strings.HasPrefix(c.want, "quotients"); at != 0 && !(gathered && at == 1) {
			t.Errorf("%q, want %q first\n%s", reasons, c.want, c.k)
		}
	}
}
