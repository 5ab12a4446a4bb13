package schedule

import (
	"fmt"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// transposed returns a kernel of a product z = w - 0.5 × (x · y), whose left and right operands are stored transposed
// if left and right are set.
func transposed(dt dtype.DType, m, n, k sym.Expr, left, right bool) *loop.Kernel {
	b := loop.NewBuilder("product")
	axes := func(exchange bool, a, b []sym.Expr) ([]sym.Expr, []sym.Expr) {
		if exchange {
			return b, a
		}
		return a, b
	}
	shapeX, shapeY := shape(m, k), shape(k, n)
	if left {
		shapeX = shape(k, m)
	}
	if right {
		shapeY = shape(n, k)
	}
	x, y := b.Param("x", loop.Read, dt, shapeX), b.Param("y", loop.Read, dt, shapeY)
	w, z := b.Param("w", loop.Read, dt, shape(m, n)), b.Param("z", loop.Write, dt, shape(m, n))
	acc := b.Local("acc", dt, m, n)
	b.Nest(loop.Each, "z", acc.Shape, func(i []sym.Expr) { b.Store(acc, i, loop.Number(dt, 0)) })
	down, across := unit(2, 0), unit(2, 1)
	rowX, stepX := axes(left, down, across)
	stepY, columnY := axes(right, down, across)
	b.Contract(m, n, k, acc.Tile(zeros(2), down, across), x.Tile(zeros(2), rowX, stepX), y.Tile(zeros(2), stepY, columnY))
	b.Nest(loop.Each, "o", acc.Shape, func(i []sym.Expr) {
		b.Store(z, i, loop.Apply2(loop.Sub, w.Load(i...), loop.Apply2(loop.Mul, acc.Load(i...), loop.Number(dt, 0.5))))
	})
	b.Kernel.Dims = loop.FreeDims(b.Kernel)
	return b.Kernel
}

// TestBlocks: long sums with a transposed left operand, and even longer ones without, are computed in blocks of steps.
// Blocks copy operands whose steps are pages apart. Results must be equal to the bit, for all sizes. Short sums, and
// sums whose steps are close together, have no blocks.
func TestBlocks(t *testing.T) {
	for _, c := range []struct {
		m, n, k     int64
		most        int64 // the upper bound of a dynamic number of steps; 0 if it is static
		dt          dtype.DType
		blocks      bool
		rows, panel bool // the rows, or the panels, are copied
		rowMajor    bool // the left operand is not stored transposed
		right       bool // the right operand is stored transposed
	}{
		{m: 256, n: 33, k: 512, dt: dtype.F32, blocks: true},
		{m: 48, n: 1026, k: 514, dt: dtype.F32, blocks: true, panel: true},
		{m: 1025, n: 5, k: 515, dt: dtype.F32, blocks: true, rows: true},
		{m: 270, n: 20, k: 513, dt: dtype.F64, blocks: true},
		{m: 50, n: 513, k: 512, dt: dtype.F64, blocks: true, panel: true},
		{m: 256, n: 100, k: 37, most: 1 << 40, dt: dtype.F32, blocks: true},
		{m: 256, n: 300, k: 0, most: 1 << 40, dt: dtype.F32, blocks: true},
		{m: 256, n: 300, k: 1, most: 1 << 40, dt: dtype.F32, blocks: true},
		{m: 256, n: 1024, k: 20, most: 1 << 20, dt: dtype.F32, blocks: true, panel: true},
		{m: 48, n: 257, k: 2048, dt: dtype.F32, blocks: true, rowMajor: true},
		{m: 48, n: 40, k: 2100, dt: dtype.F32, blocks: true, rowMajor: true, panel: true, right: true},
		{m: 48, n: 15, k: 2100, dt: dtype.F32, blocks: true, rowMajor: true, panel: true, right: true},
		{m: 48, n: 257, k: 1000, dt: dtype.F32, rowMajor: true},
		{m: 48, n: 40, k: 2048, dt: dtype.F32, rowMajor: true},
		{m: 256, n: 30, k: 511, most: 511, dt: dtype.F32},
		{m: 256, n: 20, k: 511, dt: dtype.F32},
		{m: 30, n: 260, k: 520, dt: dtype.F32},
		{m: 96, n: 64, k: 520, dt: dtype.F32},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			ranges, dims := sym.NewDims(), map[sym.Name]int64{}
			depth := number(c.k)
			if c.most > 0 {
				depth = dim("k")
				ranges.Set(sym.User("k"), sym.Range{Min: 0, Max: c.most})
				dims[sym.User("k")] = c.k
			}
			k := transposed(c.dt, number(c.m), number(c.n), depth, !c.rowMajor, c.right)
			want, got := operands(t, k, dims, 1), operands(t, k, dims, 1)
			if err := interpret(k, want, dims); err != nil {
				t.Fatal(err)
			}
			scheduled := k.Clone()
			machine := registers
			machine.Limits.L1, machine.Limits.L2 = 8<<10, 256<<10
			s := &scheduler{module: &loop.Module{Kernels: []*loop.Kernel{scheduled}}, machine: machine, dims: ranges}
			if err := s.contractions(); err != nil {
				t.Fatal(err)
			}
			scheduled = s.kernel(scheduled)
			if _, err := loop.Verify(scheduled, ranges); err != nil {
				t.Fatalf("%v\n%s", err, scheduled)
			}
			p := theContraction(scheduled)
			_, most := ranges.Bounds(p.K)
			if blocks := most <= 256; blocks != c.blocks {
				t.Errorf("blocks are %v\n%s", blocks, scheduled)
			}
			if rows, panel := p.A.Buffer != "x", p.B.Buffer != "y"; c.blocks && (rows != c.rows || panel != c.panel) {
				t.Errorf("rows are copied: %v, panels: %v\n%s", rows, panel, scheduled)
			}
			if err := interpret(scheduled, got, dims); err != nil {
				t.Fatalf("%v\n%s", err, scheduled)
			}
			for i := range want {
				if err := tensor.Compare(got[i], want[i], 0, 0); err != nil {
					t.Fatalf("%s: %v\n%s", k.Params[i].Name, err, scheduled)
				}
			}
		})
	}
}

// theContraction returns a kernel's last contraction.
func theContraction(k *loop.Kernel) (c *loop.Contract) {
	loop.Walk(k.Body, func(stmt loop.Stmt) bool {
		if found, ok := stmt.(*loop.Contract); ok {
			c = found
		}
		return true
	})
	return c
}

// TestBlockTiles: the tiles of sums in blocks have nearly equal sizes, and there are several unless that makes them too
// small.
func TestBlockTiles(t *testing.T) {
	machine, err := target.For("avx512", 1)
	if err != nil {
		t.Fatal(err)
	}
	machine.Tile, machine.Limits.L1, machine.Limits.L2 = target.Tile{Rows: 14, Columns: 32}, 48<<10, 1<<20+1<<18
	for _, c := range []struct{ m, n, height, columns int64 }{
		{256, 1024, 128, 256}, {1024, 256, 128, 256}, {1024, 1024, 256, 256}, {192, 768, 96, 256}, {768, 192, 128, 192},
		{320, 320, 160, 192},
		{1000, 1000, 250, 240}, {500, 500, 125, 256},
	} {
		k := transposed(dtype.F32, number(c.m), number(c.n), number(2048), true, false)
		s := &scheduler{module: &loop.Module{Kernels: []*loop.Kernel{k}}, machine: machine, dims: sym.NewDims()}
		if err := s.contractions(); err != nil {
			t.Fatal(err)
		}
		sums := bufferOf(k, theContraction(k).C.Buffer)
		height, _ := sums.Shape[0].Const()
		columns, _ := sums.Shape[1].Const()
		if height != c.height || columns != c.columns {
			t.Errorf("%d × %d: tiles of %d × %d, not of %d × %d", c.m, c.n, height, columns, c.height, c.columns)
		}
	}
}
