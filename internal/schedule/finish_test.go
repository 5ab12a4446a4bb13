package schedule

import (
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// TestFinishWhereStored: a local disappears if its last nest reads each element once, at the index of one loop variable
// per axis, and the other nests store each element once; otherwise it stays.
func TestFinishWhereStored(t *testing.T) {
	times := func(x, y loop.Expr) loop.Expr { return &loop.Binary{Op: loop.Mul, X: x, Y: y} }
	for _, c := range []struct {
		name   string
		second int64 // the first row of the second nest: 4 is the one after the first nest's rows
		goes   bool  // the local disappears
		read   func(i []sym.Expr) (from, to []sym.Expr)
	}{
		{"same index", 4, true, func(i []sym.Expr) (from, to []sym.Expr) { return i, i }},
		{"transposed", 4, true, func(i []sym.Expr) (from, to []sym.Expr) { return i, shape(i[1], i[0]) }},
		{"stored twice", 0, false, func(i []sym.Expr) (from, to []sym.Expr) { return i, i }},
		{"backwards", 4, false, func(i []sym.Expr) (from, to []sym.Expr) { return shape(number(7).Sub(i[0]), i[1]), i }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := loop.NewBuilder("row")
			x, r := b.Param("x", loop.Read, dtype.F32, constants([]int64{8, 8})),
				b.Param("r", loop.Read, dtype.F32, constants([]int64{8, 8}))
			y := b.Param("y", loop.Write, dtype.F32, constants([]int64{8, 8}))
			b.Each("b", one, func(sym.Expr) {
				made := b.Local("made", dtype.F32, number(8), number(8))
				if c.second != 4 { // give every element a value
					b.Nest(loop.Each, "a", made.Shape, func(i []sym.Expr) { b.Store(made, i, f32(3)) })
				}
				for _, first := range []int64{0, c.second} {
					b.Nest(loop.Each, "i", constants([]int64{4, 8}), func(i []sym.Expr) {
						row := i[0].Add(number(first))
						b.Store(made, shape(row, i[1]), times(x.Load(row, i[1]), f32(float64(first+2))))
					})
				}
				b.Nest(loop.Each, "o", made.Shape, func(i []sym.Expr) {
					from, to := c.read(i)
					b.Store(y, to, times(times(made.Load(from...), made.Load(from...)), r.Load(i...)))
				})
			})
			k := b.Kernel
			want, got := operands(t, k, nil, 1), operands(t, k, nil, 1)
			if err := interpret(k, want, nil); err != nil {
				t.Fatal(err)
			}
			s := &scheduler{module: &loop.Module{Kernels: []*loop.Kernel{k}}, machine: target.Portable(1), dims: sym.NewDims()}
			next := k.Clone()
			if goes := finishWhereStored(s, next); goes != c.goes {
				t.Fatalf("goes: %v\n%s", goes, next)
			}
			if _, err := loop.Verify(next, s.dims); err != nil {
				t.Fatalf("%v\n%s", err, next)
			}
			if err := interpret(next, got, nil); err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if err := tensor.Compare(got[i], want[i], 0, 0); err != nil {
					t.Errorf("%s: %v\n%s", k.Params[i].Name, err, next)
				}
			}
		})
	}
}
