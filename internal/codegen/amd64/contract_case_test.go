package amd64

import (
	"fmt"
	"math"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// productCase is a product in the form of scheduled kernels: panels of columns, each a contraction group.
type productCase struct {
	m, n, k int64
	windows []int64        // serial loops around the product
	width   int64          // of a panel
	rows    int64          // of a tile; 0: all
	dt      dtype.DType    // of the sums
	from    [2]dtype.DType // of the operands; Invalid: dt
	dynamic bool           // m, n and k are dimensions; with dot, only m and n
	dot     int64          // steps of a group, adjacent for a column of the right operand; 0: no groups
	extreme bool           // all integers of the operands are the least or the greatest of their type
	wraps   bool           // with extreme: the greatest on the left, the least on the right: sums exceed their type
	packed  bool           // the right operand is stored in panels
	turned  bool           // the left operand is stored by columns
	across  bool           // the result is stored by columns
	first   string         // the initial value of the sums: zero, bias
	last    string         // the expression of a sum that is stored: see made and quantised
	to      dtype.DType    // of a quantised result, and of its residual; Invalid: the result is not quantised
	block   int64          // steps that are added at a time; between blocks the sums are in memory; 0: all
	panels  int64          // the panels whose sums are in memory together
}

func (c productCase) String() string {
	return fmt.Sprintf("%dx%dx%d%v/%d/%d %s%v %s %s%v dynamic=%v dot=%d packed=%v turned=%v across=%v", c.m, c.n, c.k,
		c.windows, c.width, c.rows, c.dt, c.from, c.first, c.last, c.to, c.dynamic, c.dot, c.packed, c.turned, c.across)
}

// constants returns integers as expressions.
func constants(list ...int64) []sym.Expr {
	out := make([]sym.Expr, len(list))
	for i, n := range list {
		out[i] = sym.Const(n)
	}
	return out
}

// kernel returns the kernel of the case, and the values of its dimensions.
func (c productCase) kernel() (*loop.Kernel, map[sym.Name]int64) {
	dims := map[sym.Name]int64{}
	size := func(name string, n int64) sym.Expr {
		if !c.dynamic {
			return sym.Const(n)
		}
		dims[sym.User(name)] = n
		return sym.Dim(name)
	}
	m, n, k := size("m", c.m), size("n", c.n), size("k", c.k)
	if c.dot > 0 {
		k = sym.Const(c.k)
	}
	width := sym.Const(c.width)
	panels := n.CeilDiv(width)
	b := loop.NewBuilder("product")
	window := constants(c.windows...)
	shapeA, shapeB := c.shapes(m, n, k)
	c.from = c.operandTypes()
	x, w := b.Param("x", loop.Read, c.from[0], shapeA), b.Param("w", loop.Read, c.from[1], shapeB)
	result, other := c.dt, c.dt
	if c.last == "bf16" {
		result = dtype.BF16
	} else if c.to != dtype.Invalid {
		result, other = c.to, c.to
	}
	bias, residual := b.Param("bias", loop.Read, c.dt, []sym.Expr{n}),
		b.Param("residual", loop.Read, other, []sym.Expr{m, n})
	shapeY := []sym.Expr{m, n}
	if c.across {
		shapeY = []sym.Expr{n, m}
	}
	y := b.Param("y", loop.Write, result, shapeY)
	tile, tiles := m, sym.Const(1)
	if c.rows > 0 {
		tile, tiles = sym.Const(c.rows), m.CeilDiv(sym.Const(c.rows))
	}
	if c.block > 0 {
		c.blocked(b, x, w, y)
		b.Finish()
		return b.Kernel, dims
	}
	b.For(loop.Parallel, "t", tiles, func(t sym.Expr) {
		b.Each("p", panels, func(p sym.Expr) {
			row, column := t.Mul(tile), p.Mul(width)
			height, cols := tile.Min(m.Sub(row)), width.Min(n.Sub(column))
			acc := b.Local("acc", c.dt, tile, width)
			nest := func(body func(i, j sym.Expr)) {
				b.Each("i", height, func(i sym.Expr) { b.For(loop.Vector, "j", cols, func(j sym.Expr) { body(i, j) }) })
			}
			nest(func(i, j sym.Expr) {
				var first loop.Expr = loop.Number(c.dt, 0)
				if c.first == "bias" {
					first = bias.Load(column.Add(j))
				}
				b.Store(acc, []sym.Expr{i, j}, first)
			})
			var index []sym.Expr
			rest := false
			var descend func(axis int)
			descend = func(axis int) {
				if axis < len(window) {
					b.Serial("h", window[axis], func(h sym.Expr) {
						index = append(index, h)
						descend(axis + 1)
						index = index[:len(index)-1]
					})
					return
				}
				operands, at := [3]*loop.Memory{acc, x, w}, [3]sym.Expr{row, p, column}
				if c.dot > 0 {
					c.groups(b, index, rest, operands, at, height, cols)
					return
				}
				c.term(b, index, operands, at, height, cols, k)
			}
			if c.dot == 0 || c.k >= c.dot {
				descend(0)
			}
			if rest = true; c.dot > 0 && c.k%c.dot > 0 {
				descend(0)
			}
			nest(func(i, j sym.Expr) {
				var v loop.Expr = acc.Load(i, j)
				at := []sym.Expr{row.Add(i), column.Add(j)}
				if c.to != dtype.Invalid {
					v = c.quantised(b, v, bias.Load(column.Add(j)), residual.Load(at...))
				} else {
					v = c.made(b, v, bias.Load(column.Add(j)), residual.Load(at...))
				}
				if c.across {
					at[0], at[1] = at[1], at[0]
				}
				b.Store(y, at, v)
			})
		})
	})
	b.Finish()
	return b.Kernel, dims
}

// term adds the product at one index of the windows to the sums. memory is the sums and the left and right operands; at
// is the first row, the panel and the first column.
func (c productCase) term(b *loop.Builder, index []sym.Expr, memory [3]*loop.Memory, at [3]sym.Expr, height, cols,
	k sym.Expr) {
	zero, rank := sym.Const(0), len(index)+2
	acc, x, w := memory[0], memory[1], memory[2]
	row, p, column := at[0], at[1], at[2]
	unit := lanes.UnitIndex
	left := x.Tile(append(append([]sym.Expr{row}, index...), zero), unit(rank, 0), unit(rank, rank-1))
	if c.turned {
		left = x.Tile(append(append([]sym.Expr{}, index...), zero, row), unit(rank, rank-1), unit(rank, rank-2))
	}
	right := w.Tile(append(append([]sym.Expr{}, index...), zero, column), unit(rank, rank-2), unit(rank, rank-1))
	if c.packed {
		right = w.Tile(append(append([]sym.Expr{p}, index...), zero, zero), lanes.UnitIndex(rank+1, rank-1),
			lanes.UnitIndex(rank+1, rank))
	}
	b.Contract(height, cols, k, acc.Tile([]sym.Expr{zero, zero}, unit(2, 0), unit(2, 1)), left, right)
}

// made returns the expression that the last nest stores for a sum v, if the result is not quantised.
func (c productCase) made(b *loop.Builder, v, bias, residual loop.Expr) loop.Expr {
	switch c.last {
	case "relu":
		v = loop.Apply2(loop.Max, loop.Number(c.dt, 0), loop.Apply2(loop.Add, v, bias))
	case "residual":
		r := b.Let("r", loop.Apply2(loop.Add, v, residual))
		v = loop.Apply2(loop.Mul, loop.Apply2(loop.Min, r, loop.Number(c.dt, 6)), loop.Apply(loop.Neg, r))
	case "slope":
		r := b.Let("r", loop.Apply2(loop.Add, v, bias))
		v = loop.Choose(loop.Apply2(loop.Lt, r, loop.Number(c.dt, 0)), loop.Apply2(loop.Mul, r, bias), r)
	case "choice":
		v = loop.Choose(loop.Apply2(loop.Ge, residual, v), loop.Apply(loop.Neg, residual),
			loop.Apply2(loop.Add, v, loop.Number(c.dt, 1)))
	case "bf16":
		v = loop.Convert(dtype.BF16, loop.Apply2(loop.Add, v, residual))
	case "tanh":
		v = loop.Apply2(loop.Div, v, loop.Apply2(loop.Add, loop.Number(c.dt, 1),
			loop.Apply(loop.Abs, loop.Apply(loop.Sign, v))))
	}
	return v
}

// operandTypes returns the element types of the operands.
func (c productCase) operandTypes() [2]dtype.DType {
	for i := range c.from {
		if c.from[i] == dtype.Invalid {
			c.from[i] = c.dt
		}
	}
	return c.from
}

// shapes returns the shapes of the operands.
func (c productCase) shapes(m, n, k sym.Expr) (x, w []sym.Expr) {
	width := sym.Const(c.width)
	window := constants(c.windows...)
	depth := append(append([]sym.Expr{}, window...), k)
	x, w = append([]sym.Expr{m}, depth...), append(append([]sym.Expr{}, depth...), n)
	if c.turned {
		x = append(append([]sym.Expr{}, depth...), m)
	}
	if c.dot > 0 {
		w = append(append(append([]sym.Expr{}, window...), k.CeilDiv(sym.Const(c.dot))), n)
	}
	if c.packed {
		w = append(append([]sym.Expr{n.CeilDiv(width)}, w[:len(depth)]...), width)
	}
	if c.dot > 0 {
		w = append(w, sym.Const(c.dot))
	}
	return x, w
}

// quantised returns the quantised expression that the last nest stores for a sum v: it adds the bias, and then applies
// an activation or adds a quantised residual.
func (c productCase) quantised(b *loop.Builder, v, bias, residual loop.Expr) loop.Expr {
	real := func(x float64) loop.Expr { return loop.Number(dtype.F32, x) }
	scale := []float64{0.0123, 0.25, 3.7e-3}[(c.m+c.n)%3] // of the result
	if c.dt != dtype.F32 {                                // sums of whole ranges
		v = loop.Apply2(loop.Mul, loop.Convert(dtype.F32, loop.Apply2(loop.Sub, v, bias)), real(scale*0x1p-24))
		bias = loop.Apply2(loop.Mul, loop.Convert(dtype.F32, bias), real(scale*0x1p-25))
	}
	v = loop.Apply2(loop.Add, v, bias)
	dequantised := func(q loop.Expr, zero int64) loop.Expr {
		return loop.Apply2(loop.Mul, loop.Convert(dtype.F32, loop.Apply2(loop.Sub, loop.Convert(dtype.I32, q),
			loop.Integer(dtype.I32, zero))), real(scale))
	}
	switch c.last {
	case "relu":
		v = loop.Apply2(loop.Max, real(0), v)
	case "leaky":
		r := b.Let("r", v)
		v = loop.Choose(loop.Apply2(loop.Lt, r, real(0)), loop.Apply2(loop.Mul, r, real(0.1)), r)
	case "hardswish":
		r := b.Let("r", v)
		gate := loop.Apply2(loop.Max, real(0), loop.Apply2(loop.Min, real(1),
			loop.Apply2(loop.Add, loop.Apply2(loop.Mul, r, real(1.0/6)), real(0.5))))
		v = loop.Apply2(loop.Mul, r, gate)
	case "residual":
		v = loop.Apply2(loop.Add, dequantised(c.rounded(v, scale, 1), 1), dequantised(residual, 0))
	case "beside":
		v = loop.Apply2(loop.Add, dequantised(residual, 3), v)
	}
	return c.rounded(v, scale*1.1, int64(c.n%4))
}

// rounded returns v as a quantised number of type c.to, within the type's range or a part of it.
func (c productCase) rounded(v loop.Expr, scale float64, zero int64) loop.Expr {
	real := func(x float64) loop.Expr { return loop.Number(dtype.F32, x) }
	v = loop.Apply(loop.Round, loop.Apply2(loop.Div, v, real(scale)))
	if zero != 0 {
		v = loop.Apply2(loop.Add, v, real(float64(zero)))
	}
	low, high := float64(c.to.MinInt()), float64(c.to.MaxInt())
	if c.m%3 == 0 {
		high = 100
	}
	return loop.Convert(c.to, loop.Apply2(loop.Max, real(low), loop.Apply2(loop.Min, real(high), v)))
}

// groups adds the product at one index of the windows to the sums, group by group: the full groups in a loop, or, with
// rest, the last group, which is shorter. memory and at are as in term.
func (c productCase) groups(b *loop.Builder, index []sym.Expr, rest bool, memory [3]*loop.Memory, at [3]sym.Expr,
	height, cols sym.Expr) {
	acc, x, w := memory[0], memory[1], memory[2]
	zero, rank := sym.Const(0), len(index)+2
	one := func(group sym.Expr, count int64) {
		first := group.Mul(sym.Const(c.dot))
		unit := lanes.UnitIndex
		a := x.Tile(append(append([]sym.Expr{at[0]}, index...), first), unit(rank, 0), unit(rank, rank-1))
		if c.turned {
			a = x.Tile(append(append([]sym.Expr{}, index...), first, at[0]), unit(rank, rank-1), unit(rank, rank-2))
		}
		right := w.Tile(append(append([]sym.Expr{}, index...), group, at[2], zero), lanes.UnitIndex(rank+1, rank),
			lanes.UnitIndex(rank+1, rank-1))
		if c.packed {
			right = w.Tile(append(append([]sym.Expr{at[1]}, index...), group, zero, zero), lanes.UnitIndex(rank+2, rank+1),
				lanes.UnitIndex(rank+2, rank))
		}
		b.Contract(height, cols, sym.Const(count), acc.Tile([]sym.Expr{zero, zero}, unit(2, 0), unit(2, 1)), a,
			right)
	}
	if rest {
		one(sym.Const(c.k/c.dot), c.k%c.dot)
		return
	}
	b.Serial("g", sym.Const(c.k/c.dot), func(g sym.Expr) { one(g, c.dot) })
}

// blocked builds the product of a packed right operand, in which sums get a block of steps at a time.
func (c productCase) blocked(b *loop.Builder, x, w, y *loop.Memory) {
	zero := sym.Const(0)
	height, count := c.rows, c.panels*c.width
	b.For(loop.Parallel, "t", sym.Const((c.m+height-1)/height), func(t sym.Expr) {
		b.Each("p", sym.Const((c.n+count-1)/count), func(p sym.Expr) {
			row, column := t.Mul(sym.Const(height)), p.Mul(sym.Const(count))
			rows := sym.Const(height)
			if c.m%height != 0 {
				rows = rows.Min(sym.Const(c.m).Sub(row))
			}
			acc := b.Local("acc", c.dt, sym.Const(height), sym.Const(count))
			nest := func(body func(i, j sym.Expr)) {
				b.Each("i", rows, func(i sym.Expr) {
					b.For(loop.Vector, "j", sym.Const(count), func(j sym.Expr) { body(i, j) })
				})
			}
			nest(func(i, j sym.Expr) { b.Store(acc, []sym.Expr{i, j}, loop.Number(c.dt, 0)) })
			b.Serial("d", sym.Const((c.k+c.block-1)/c.block), func(d sym.Expr) {
				b.Each("q", sym.Const(c.panels), func(q sym.Expr) {
					first := d.Mul(sym.Const(c.block))
					b.Contract(rows, sym.Const(c.width), sym.Const(c.block).Min(sym.Const(c.k).Sub(first)),
						acc.Tile([]sym.Expr{zero, q.Mul(sym.Const(c.width))}, lanes.UnitIndex(2, 0), lanes.UnitIndex(2, 1)),
						x.Tile([]sym.Expr{row, first}, lanes.UnitIndex(2, 0), lanes.UnitIndex(2, 1)),
						w.Tile([]sym.Expr{p.Mul(sym.Const(c.panels)).Add(q), first, zero}, lanes.UnitIndex(3, 1), lanes.UnitIndex(3, 2)))
				})
			})
			nest(func(i, j sym.Expr) { b.Store(y, []sym.Expr{row.Add(i), column.Add(j)}, acc.Load(i, j)) })
		})
	})
}

// productCases returns random products, in panels of the given widths and tiles of the given rows (0: all).
func productCases(count int, rows, widths []int64) (cases []productCase) {
	r := rand.New(rand.NewSource(1))
	pick := func(list ...int64) int64 { return list[r.Intn(len(list))] }
	for range count {
		c := productCase{m: pick(1, 2, 3, 5, 6, 7, 11, 13, 20, 49), n: pick(1, 3, 8, 13, 16, 17, 40, 64),
			k: pick(1, 3, 4, 9, 32), width: pick(widths...),
			dt: []dtype.DType{dtype.F32, dtype.F32, dtype.F64}[r.Intn(3)], dynamic: r.Intn(2) == 0, packed: r.Intn(2) == 0,
			turned: r.Intn(4) == 0,
			first:  []string{"zero", "bias"}[r.Intn(2)], last: []string{"", "relu", "residual", "tanh", "slope",
				"choice"}[r.Intn(6)], rows: pick(rows...)}
		if r.Intn(3) == 0 {
			c.windows = []int64{pick(1, 2, 3), pick(1, 3)}[:1+r.Intn(2)]
		}
		c.across = len(cases)%4 == 3 && c.m > 1 && c.dt == dtype.F32
		if c.dt == dtype.F64 && c.width > 32 {
			c.width = 32
		}
		cases = append(cases, c)
	}
	return cases
}

// agree compares a product with the interpreter, on numbers that make every sum exact. It fails if the kernel has no
// machine code, or if a part of the code is slower than scheduled, with the exceptions below.
func (c productCase) agree(t *testing.T, h kerneltest.Harness) {
	t.Helper()
	k, dims := c.kernel()
	var slow []target.Left
	compile := h.Compile
	h.Compile = func(m *loop.Module, machine target.Machine) (*target.Code, error) {
		code, err := compile(m, machine)
		if err == nil {
			slow = slices.Concat(slow, code.Left, code.Slower)
		}
		return code, err
	}
	in := operandsOf(t, k, dims, 2)
	for i := 0; i < 2 && c.extreme; i++ {
		dt := in[i].DType()
		for at := range in[i].Len() {
			which := (at/3 + at/50) % 3 % 2
			if c.wraps {
				which = int64(1 - i)
			}
			in[i].SetInt(at, []int64{dt.MinInt(), int64(dt.MaxInt())}[which])
		}
	}
	for i := int64(0); i < in[2].Len() && c.to != dtype.Invalid && c.dt.IsFloat(); i += 5 {
		in[2].SetFloat(i, []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1)}[i%4])
	}
	for i := int64(0); i < in[3].Len() && c.last == "choice" && c.dt.IsFloat(); i += 3 {
		in[3].SetFloat(i, []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1)}[i%4])
	}
	h.Agree(t, k, dims, in, 1e-6, 0)
	if c.dynamic { // without tile registers, since the number of columns is not known
		slow = slices.DeleteFunc(slow, func(l target.Left) bool { return strings.Contains(l.Reason, "number of columns") })
	}
	if c.dot > 0 && (c.turned || c.k%c.dot != 0) { // vector registers compute these
		slow = slices.DeleteFunc(slow, func(l target.Left) bool {
			return strings.Contains(l.Reason, "does not use tile registers")
		})
	}
	if len(slow) > 0 && c.last != "tanh" {
		t.Error(slow)
	}
}

// narrowCases returns random products of narrow operands: of floats, or a float and bytes, to f32; of u32 and u8 to
// u32; and of integers to i32.
func narrowCases(count int, rows, widths []int64) []productCase {
	r := rand.New(rand.NewSource(3))
	floats, whole := []dtype.DType{dtype.F16, dtype.BF16, dtype.F32},
		[]dtype.DType{dtype.I8, dtype.U8, dtype.I16, dtype.U16, dtype.I32}
	cases := productCases(count, rows, widths)
	for i := range cases {
		c := &cases[i]
		switch r.Intn(3) {
		case 0:
			c.dt, c.from = dtype.F32, [2]dtype.DType{floats[r.Intn(2)], floats[r.Intn(3)]}
			if side := r.Intn(4); side < 2 {
				c.from[side] = whole[r.Intn(2)]
			}
			continue
		case 1:
			c.dt, c.from = dtype.U32, [2]dtype.DType{dtype.U32, dtype.U8}
		default:
			c.dt, c.from = dtype.I32, [2]dtype.DType{whole[r.Intn(len(whole))], whole[r.Intn(len(whole))]}
		}
		if c.last != "" {
			c.last = "relu"
		}
	}
	return cases
}
