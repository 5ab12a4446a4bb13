package lanes_test

import (
	"fmt"
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// toys are machines that differ in all that products ask of a machine.
var toys = []toyKind{
	{bytes: 16, registers: 32, rowsOfBase: 1, mostRows: 8, bytesGroup: 4, bf16Group: 4, description: "few lanes"},
	{bytes: 32, registers: 16, second: true, rowsOfBase: 3, mostRows: 14, bytesGroup: 2, bf16Group: 2,
		description: "few registers"},
	{bytes: 32, registers: 40, masks: true, second: true, half: true, rowsOfBase: 100, mostRows: 6, bytesGroup: 4,
		bf16Group: 2, shifts: true, description: "masks and halves"},
	{bytes: 64, registers: 64, masks: true, rowsOfBase: 2, mostRows: 6, bytesGroup: 8, together: 2, shifts: true,
		description: "many registers"},
}

// harness returns a harness of a toy; a kernel that it refuses is an error.
func (kind toyKind) harness() kerneltest.Harness {
	machine := target.Portable(1)
	machine.Dot = target.Dot{Bytes: kind.bytesGroup, BF16: kind.bf16Group}
	compile := func(m *loop.Module, machine target.Machine) (*target.Code, error) {
		code := &target.Code{Machine: machine}
		for _, k := range m.Kernels {
			c := &toyCompiler{toyKind: kind}
			compiled, reason := lanes.CompileKernel(k, m, c)
			if compiled == nil {
				return nil, fmt.Errorf("kernel @%s is refused: %s\n%s", k.Name, reason, k)
			}
			code.Kernels = append(code.Kernels, &toyKernel{compiled, c, k.Params})
			for _, reason := range compiled.Slower {
				code.Slower = append(code.Slower, target.Left{Kernel: k.Name, Reason: reason})
			}
		}
		return code, nil
	}
	return kerneltest.Harness{Machine: machine, Compile: compile}
}

// TestProducts compares products with the interpreter, on toys: of all forms, of narrow operands, by groups, and with
// quantised results.
func TestProducts(t *testing.T) {
	for _, kind := range toys {
		t.Run(kind.description, func(t *testing.T) {
			h, rows := kind.harness(), []int64{0, 0, 6, 13}
			perVector := kind.bytes / 4
			widths := []int64{perVector, perVector, perVector * 3 / 2, perVector / 2, perVector * 2, perVector * 3}
			for suite, cases := range map[string][]kerneltest.Product{
				"plain":     kerneltest.Products(80, rows, widths),
				"narrow":    kerneltest.NarrowProducts(60, rows, widths),
				"groups":    h.GroupedProducts(60, rows, widths[:4]),
				"quantised": h.QuantisedProducts(72, rows, widths[:4]),
			} {
				for _, c := range cases {
					if suite == "plain" && c.Last == "residual" && !kind.second {
						c.Last = "greater"
					}
					if c.Last == "tanh" || c.K > 1000 { // values outside tiles, or too slow
						continue
					}
					t.Run(suite+" "+c.String(), func(t *testing.T) { c.Agree(t, h) })
				}
			}
		})
	}
}

// TestNextPanels: while the tiles of a packed panel are computed, nearly all lines of the next one are fetched, and few
// others, whether the number of rows is a constant or a run decides it.
func TestNextPanels(t *testing.T) {
	const depth, columns, panels, line = 64, 16, 5, 64
	for _, rows := range []int64{48, 72, 100, 341, 1000} {
		for _, named := range []bool{false, true} {
			fetched := map[int64]bool{}
			kind := toys[3]
			kind.fetched = func(at int64) { fetched[at/line] = true }
			b := loop.NewBuilder("product")
			m, dims := sym.Const(rows), map[sym.Name]int64{}
			if named {
				m, dims[sym.User("m")] = sym.Dim("m"), rows
			}
			x := b.Param("x", loop.Read, dtype.F32, []sym.Expr{m, sym.Const(depth)})
			w := b.Param("w", loop.Read, dtype.F32, kerneltest.Fixed(panels, depth, columns))
			y := b.Param("y", loop.Write, dtype.F32, []sym.Expr{m, sym.Const(panels * columns)})
			height := m.Min(sym.Const(1000))
			b.For(loop.Parallel, "p", sym.Const(panels), func(p sym.Expr) {
				acc := b.Local("acc", dtype.F32, height, sym.Const(columns))
				nest := func(body func(i, j sym.Expr)) {
					b.Each("i", height, func(i sym.Expr) {
						b.For(loop.Vector, "j", sym.Const(columns), func(j sym.Expr) { body(i, j) })
					})
				}
				nest(func(i, j sym.Expr) { b.Store(acc, []sym.Expr{i, j}, loop.Number(dtype.F32, 0)) })
				zero, one := sym.Const(0), sym.Const(1)
				b.Contract(height, sym.Const(columns), sym.Const(depth),
					acc.Tile([]sym.Expr{zero, zero}, []sym.Expr{one, zero}, []sym.Expr{zero, one}),
					x.Tile([]sym.Expr{zero, zero}, []sym.Expr{one, zero}, []sym.Expr{zero, one}),
					w.Tile([]sym.Expr{p, zero, zero}, []sym.Expr{zero, one, zero}, []sym.Expr{zero, zero, one}))
				nest(func(i, j sym.Expr) {
					b.Store(y, []sym.Expr{i, p.Mul(sym.Const(columns)).Add(j)}, acc.Load(i, j))
				})
			})
			k := b.Finish()
			kind.harness().Agree(t, k, dims, kerneltest.Operands(t, k, dims, 2), 1e-6, 0)
			lines := panels * depth * columns * 4 / line
			if len(fetched) < lines*9/10 || len(fetched) > lines*6/5 {
				t.Errorf("%d rows, named %v: %d lines are fetched, of %d", rows, named, len(fetched), lines)
			}
		}
	}
}

// TestProductsInMemory compares products that are added to sums in memory, which are read and written tile by tile.
func TestProductsInMemory(t *testing.T) {
	for _, kind := range toys {
		t.Run(kind.description, func(t *testing.T) {
			for _, size := range [][3]int64{{7, 13, 9}, {1, 3, 5}, {17, kind.bytes / 2, 4}, {5, 1, 6}, {0, 4, 4}, {3, 4, 0}} {
				for _, dynamic := range []bool{size[0]*size[2] == 0, true} {
					b, dims, extents := loop.NewBuilder("product"), map[sym.Name]int64{}, kerneltest.Fixed(size[:]...)
					if dynamic {
						extents[0], extents[2] = sym.Dim("m"), sym.Dim("k")
						dims[sym.User("m")], dims[sym.User("k")] = size[0], size[2]
					}
					m, n, k := extents[0], extents[1], extents[2]
					x, w := b.Param("x", loop.Read, dtype.F32, []sym.Expr{m, k}), b.Param("w", loop.Read, dtype.F32, []sym.Expr{k, n})
					y := b.Param("y", loop.Update, dtype.F32, []sym.Expr{m, n})
					down, across := kerneltest.Fixed(1, 0), kerneltest.Fixed(0, 1)
					b.For(loop.Parallel, "t", sym.Const(1), func(zero sym.Expr) {
						at := []sym.Expr{zero, zero}
						b.Contract(m, n, k, y.Tile(at, down, across), x.Tile(at, down, across), w.Tile(at, down, across))
					})
					b.Finish()
					h := kind.harness()
					h.Agree(t, b.Kernel, dims, kerneltest.Operands(t, b.Kernel, dims, 3), 1e-6, 0)
				}
			}
		})
	}
}
