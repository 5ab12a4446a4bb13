package kerneltest

import (
	"fmt"
	"math"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// Product is a product in the form of scheduled kernels: panels of columns, each a contraction group.
type Product struct {
	M, N, K int64
	Windows []int64        // serial loops around the product
	Width   int64          // of a panel
	Rows    int64          // of a tile; 0: all
	DType   dtype.DType    // of the sums
	From    [2]dtype.DType // of the operands; Invalid: DType
	Dynamic bool           // M, N and K are dimensions; with Dot, only M and N
	Named   bool           // M is a dimension
	Sides   [2]int64       // quotients of named sizes, whose product M is; 0: M is no product
	Dot     int64          // steps of a group, adjacent for a column of the right operand; 0: no groups
	Extreme bool           // all integers of the operands are the least or the greatest of their type
	Wraps   bool           // with Extreme: the greatest on the left, the least on the right: sums exceed their type
	Packed  bool           // the right operand is stored in panels
	Turned  bool           // the left operand is stored by columns
	Across  bool           // the result is stored by columns
	First   string         // the initial value of the sums: zero, bias
	Last    string         // the expression of a sum that is stored: see made and quantised
	To      dtype.DType    // of a quantised result, and of its residual; Invalid: the result is not quantised
	Block   int64          // steps that are added at a time; between blocks the sums are in memory; 0: all
	Panels  int64          // the panels whose sums are in memory together
}

func (c Product) String() string {
	return fmt.Sprintf("%dx%dx%d%v/%d/%d %s%v %s %s%v dynamic=%v/%v%v dot=%d packed=%v turned=%v across=%v", c.M, c.N, c.K,
		c.Windows, c.Width, c.Rows, c.DType, c.From, c.First, c.Last, c.To, c.Dynamic, c.Named, c.Sides, c.Dot, c.Packed,
		c.Turned, c.Across)
}

// unit returns an index that is 1 along an axis and 0 along all others.
func unit(rank, axis int) []sym.Expr {
	index := slices.Repeat([]sym.Expr{sym.Const(0)}, rank)
	index[axis] = sym.Const(1)
	return index
}

// extents returns the rows, columns and steps of the product, and sets the values of their dimensions.
func (c Product) extents(dims map[sym.Name]int64) (m, n, k sym.Expr) {
	size := func(name string, n int64) sym.Expr {
		if !c.Dynamic && !(c.Named && name == "m") {
			return sym.Const(n)
		}
		dims[sym.User(name)] = n
		return sym.Dim(name)
	}
	m, n, k = size("m", c.M), size("n", c.N), size("k", c.K)
	if c.Sides[0] > 0 {
		m = sym.Const(1)
		for i, name := range []string{"h", "w"} {
			dims[sym.User(name)] = c.Sides[i]*32 - int64(7*i)
			m = m.Mul(sym.Dim(name).Add(sym.Const(31)).FloorDiv(sym.Const(32)))
		}
	}
	if c.Dot > 0 {
		k = sym.Const(c.K)
	}
	return m, n, k
}

// Kernel returns the kernel of the case, and the values of its dimensions.
func (c Product) Kernel() (*loop.Kernel, map[sym.Name]int64) {
	dims := map[sym.Name]int64{}
	m, n, k := c.extents(dims)
	width := sym.Const(c.Width)
	panels := n.CeilDiv(width)
	b := loop.NewBuilder("product")
	window := Fixed(c.Windows...)
	shapeA, shapeB := c.shapes(m, n, k)
	c.From = c.operandTypes()
	x, w := b.Param("x", loop.Read, c.From[0], shapeA), b.Param("w", loop.Read, c.From[1], shapeB)
	result, other := c.DType, c.DType
	if c.Last == "bf16" {
		result = dtype.BF16
	} else if c.To != dtype.Invalid {
		result, other = c.To, c.To
	}
	bias, residual := b.Param("bias", loop.Read, c.DType, []sym.Expr{n}),
		b.Param("residual", loop.Read, other, []sym.Expr{m, n})
	shapeY := []sym.Expr{m, n}
	if c.Across {
		shapeY = []sym.Expr{n, m}
	}
	y := b.Param("y", loop.Write, result, shapeY)
	tile, tiles := m, sym.Const(1)
	if c.Rows > 0 {
		tile, tiles = sym.Const(c.Rows), m.CeilDiv(sym.Const(c.Rows))
	}
	if c.Block > 0 {
		c.blocked(b, x, w, y)
		b.Finish()
		return b.Kernel, dims
	}
	b.For(loop.Parallel, "t", tiles, func(t sym.Expr) {
		b.Each("p", panels, func(p sym.Expr) {
			row, column := t.Mul(tile), p.Mul(width)
			height, cols := tile.Min(m.Sub(row)), width.Min(n.Sub(column))
			acc := b.Local("acc", c.DType, tile, width)
			nest := func(body func(i, j sym.Expr)) {
				b.Each("i", height, func(i sym.Expr) { b.For(loop.Vector, "j", cols, func(j sym.Expr) { body(i, j) }) })
			}
			nest(func(i, j sym.Expr) {
				var first loop.Expr = loop.Number(c.DType, 0)
				if c.First == "bias" {
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
				if c.Dot > 0 {
					c.groups(b, index, rest, operands, at, height, cols)
					return
				}
				c.term(b, index, operands, at, height, cols, k)
			}
			if c.Dot == 0 || c.K >= c.Dot {
				descend(0)
			}
			if rest = true; c.Dot > 0 && c.K%c.Dot > 0 {
				descend(0)
			}
			nest(func(i, j sym.Expr) {
				var v loop.Expr = acc.Load(i, j)
				at := []sym.Expr{row.Add(i), column.Add(j)}
				if c.To != dtype.Invalid {
					v = c.quantised(b, v, bias.Load(column.Add(j)), residual.Load(at...))
				} else {
					v = c.made(b, v, bias.Load(column.Add(j)), residual.Load(at...))
				}
				if c.Across {
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
func (c Product) term(b *loop.Builder, index []sym.Expr, memory [3]*loop.Memory, at [3]sym.Expr, height, cols,
	k sym.Expr) {
	zero, rank := sym.Const(0), len(index)+2
	acc, x, w := memory[0], memory[1], memory[2]
	row, p, column := at[0], at[1], at[2]
	left := x.Tile(append(append([]sym.Expr{row}, index...), zero), unit(rank, 0), unit(rank, rank-1))
	if c.Turned {
		left = x.Tile(append(append([]sym.Expr{}, index...), zero, row), unit(rank, rank-1), unit(rank, rank-2))
	}
	right := w.Tile(append(append([]sym.Expr{}, index...), zero, column), unit(rank, rank-2), unit(rank, rank-1))
	if c.Packed {
		right = w.Tile(append(append([]sym.Expr{p}, index...), zero, zero), unit(rank+1, rank-1),
			unit(rank+1, rank))
	}
	b.Contract(height, cols, k, acc.Tile([]sym.Expr{zero, zero}, unit(2, 0), unit(2, 1)), left, right)
}

// made returns the expression that the last nest stores for a sum v, if the result is not quantised.
func (c Product) made(b *loop.Builder, v, bias, residual loop.Expr) loop.Expr {
	switch c.Last {
	case "relu":
		v = loop.Apply2(loop.Max, loop.Number(c.DType, 0), loop.Apply2(loop.Add, v, bias))
	case "residual":
		r := b.Let("r", loop.Apply2(loop.Add, v, residual))
		v = loop.Apply2(loop.Mul, loop.Apply2(loop.Min, r, loop.Number(c.DType, 6)), loop.Apply(loop.Neg, r))
	case "greater": // not among random cases: some machines have no code for it
		v = loop.Apply2(loop.Max, v, loop.Apply2(loop.Min, residual, v))
	case "slope":
		r := b.Let("r", loop.Apply2(loop.Add, v, bias))
		v = loop.Choose(loop.Apply2(loop.Lt, r, loop.Number(c.DType, 0)), loop.Apply2(loop.Mul, r, bias), r)
	case "choice":
		v = loop.Choose(loop.Apply2(loop.Ge, residual, v), loop.Apply(loop.Neg, residual),
			loop.Apply2(loop.Add, v, loop.Number(c.DType, 1)))
	case "bf16":
		v = loop.Convert(dtype.BF16, loop.Apply2(loop.Add, v, residual))
	case "tanh":
		v = loop.Apply2(loop.Div, v, loop.Apply2(loop.Add, loop.Number(c.DType, 1),
			loop.Apply(loop.Abs, loop.Apply(loop.Sign, v))))
	}
	return v
}

// operandTypes returns the element types of the operands.
func (c Product) operandTypes() [2]dtype.DType {
	for i := range c.From {
		if c.From[i] == dtype.Invalid {
			c.From[i] = c.DType
		}
	}
	return c.From
}

// shapes returns the shapes of the operands.
func (c Product) shapes(m, n, k sym.Expr) (x, w []sym.Expr) {
	width := sym.Const(c.Width)
	window := Fixed(c.Windows...)
	depth := append(append([]sym.Expr{}, window...), k)
	x, w = append([]sym.Expr{m}, depth...), append(append([]sym.Expr{}, depth...), n)
	if c.Turned {
		x = append(append([]sym.Expr{}, depth...), m)
	}
	if c.Dot > 0 {
		w = append(append(append([]sym.Expr{}, window...), k.CeilDiv(sym.Const(c.Dot))), n)
	}
	if c.Packed {
		w = append(append([]sym.Expr{n.CeilDiv(width)}, w[:len(depth)]...), width)
	}
	if c.Dot > 0 {
		w = append(w, sym.Const(c.Dot))
	}
	return x, w
}

// quantised returns the quantised expression that the last nest stores for a sum v: it adds the bias, and then applies
// an activation or adds a quantised residual.
func (c Product) quantised(b *loop.Builder, v, bias, residual loop.Expr) loop.Expr {
	real := func(x float64) loop.Expr { return loop.Number(dtype.F32, x) }
	scale := []float64{0.0123, 0.25, 3.7e-3}[(c.M+c.N)%3] // of the result
	if c.DType != dtype.F32 {                             // sums of whole ranges
		v = loop.Apply2(loop.Mul, loop.Convert(dtype.F32, loop.Apply2(loop.Sub, v, bias)), real(scale*0x1p-24))
		bias = loop.Apply2(loop.Mul, loop.Convert(dtype.F32, bias), real(scale*0x1p-25))
	}
	v = loop.Apply2(loop.Add, v, bias)
	dequantised := func(q loop.Expr, zero int64) loop.Expr {
		return loop.Apply2(loop.Mul, loop.Convert(dtype.F32, loop.Apply2(loop.Sub, loop.Convert(dtype.I32, q),
			loop.Integer(dtype.I32, zero))), real(scale))
	}
	switch c.Last {
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
	return c.rounded(v, scale*1.1, int64(c.N%4))
}

// rounded returns v as a quantised number of type c.To, within the type's range or a part of it.
func (c Product) rounded(v loop.Expr, scale float64, zero int64) loop.Expr {
	real := func(x float64) loop.Expr { return loop.Number(dtype.F32, x) }
	v = loop.Apply(loop.Round, loop.Apply2(loop.Div, v, real(scale)))
	if zero != 0 {
		v = loop.Apply2(loop.Add, v, real(float64(zero)))
	}
	low, high := float64(c.To.MinInt()), float64(c.To.MaxInt())
	if c.M%3 == 0 {
		high = 100
	}
	return loop.Convert(c.To, loop.Apply2(loop.Max, real(low), loop.Apply2(loop.Min, real(high), v)))
}

// groups adds the product at one index of the windows to the sums, group by group: the full groups in a loop, or, with
// rest, the last group, which is shorter. memory and at are as in term.
func (c Product) groups(b *loop.Builder, index []sym.Expr, rest bool, memory [3]*loop.Memory, at [3]sym.Expr,
	height, cols sym.Expr) {
	acc, x, w := memory[0], memory[1], memory[2]
	zero, rank := sym.Const(0), len(index)+2
	one := func(group sym.Expr, count int64) {
		first := group.Mul(sym.Const(c.Dot))
		a := x.Tile(append(append([]sym.Expr{at[0]}, index...), first), unit(rank, 0), unit(rank, rank-1))
		if c.Turned {
			a = x.Tile(append(append([]sym.Expr{}, index...), first, at[0]), unit(rank, rank-1), unit(rank, rank-2))
		}
		right := w.Tile(append(append([]sym.Expr{}, index...), group, at[2], zero), unit(rank+1, rank),
			unit(rank+1, rank-1))
		if c.Packed {
			right = w.Tile(append(append([]sym.Expr{at[1]}, index...), group, zero, zero), unit(rank+2, rank+1),
				unit(rank+2, rank))
		}
		b.Contract(height, cols, sym.Const(count), acc.Tile([]sym.Expr{zero, zero}, unit(2, 0), unit(2, 1)), a,
			right)
	}
	if rest {
		one(sym.Const(c.K/c.Dot), c.K%c.Dot)
		return
	}
	b.Serial("g", sym.Const(c.K/c.Dot), func(g sym.Expr) { one(g, c.Dot) })
}

// blocked builds the product of a packed right operand, in which sums get a block of steps at a time.
func (c Product) blocked(b *loop.Builder, x, w, y *loop.Memory) {
	zero := sym.Const(0)
	height, count := c.Rows, c.Panels*c.Width
	b.For(loop.Parallel, "t", sym.Const((c.M+height-1)/height), func(t sym.Expr) {
		b.Each("p", sym.Const((c.N+count-1)/count), func(p sym.Expr) {
			row, column := t.Mul(sym.Const(height)), p.Mul(sym.Const(count))
			rows := sym.Const(height)
			if c.M%height != 0 {
				rows = rows.Min(sym.Const(c.M).Sub(row))
			}
			acc := b.Local("acc", c.DType, sym.Const(height), sym.Const(count))
			nest := func(body func(i, j sym.Expr)) {
				b.Each("i", rows, func(i sym.Expr) {
					b.For(loop.Vector, "j", sym.Const(count), func(j sym.Expr) { body(i, j) })
				})
			}
			nest(func(i, j sym.Expr) { b.Store(acc, []sym.Expr{i, j}, loop.Number(c.DType, 0)) })
			b.Serial("d", sym.Const((c.K+c.Block-1)/c.Block), func(d sym.Expr) {
				b.Each("q", sym.Const(c.Panels), func(q sym.Expr) {
					first := d.Mul(sym.Const(c.Block))
					b.Contract(rows, sym.Const(c.Width), sym.Const(c.Block).Min(sym.Const(c.K).Sub(first)),
						acc.Tile([]sym.Expr{zero, q.Mul(sym.Const(c.Width))}, unit(2, 0), unit(2, 1)),
						x.Tile([]sym.Expr{row, first}, unit(2, 0), unit(2, 1)),
						w.Tile([]sym.Expr{p.Mul(sym.Const(c.Panels)).Add(q), first, zero}, unit(3, 1), unit(3, 2)))
				})
			})
			nest(func(i, j sym.Expr) { b.Store(y, []sym.Expr{row.Add(i), column.Add(j)}, acc.Load(i, j)) })
		})
	})
}

// Products returns random products, in panels of the given widths and tiles of the given rows (0: all), and for each
// width one whose number of rows is a name, and one whose number of rows is a product of quotients of names.
func Products(count int, rows, widths []int64) (cases []Product) {
	r := rand.New(rand.NewSource(1))
	pick := func(list ...int64) int64 { return list[r.Intn(len(list))] }
	for range count {
		c := Product{M: pick(1, 2, 3, 5, 6, 7, 11, 13, 20, 49), N: pick(1, 3, 8, 13, 16, 17, 40, 64),
			K: pick(1, 3, 4, 9, 32), Width: pick(widths...),
			DType: []dtype.DType{dtype.F32, dtype.F32, dtype.F64}[r.Intn(3)], Dynamic: r.Intn(2) == 0, Packed: r.Intn(2) == 0,
			Turned: r.Intn(4) == 0,
			First:  []string{"zero", "bias"}[r.Intn(2)], Last: []string{"", "relu", "residual", "tanh", "slope",
				"choice"}[r.Intn(6)], Rows: pick(rows...)}
		if r.Intn(3) == 0 {
			c.Windows = []int64{pick(1, 2, 3), pick(1, 3)}[:1+r.Intn(2)]
		}
		c.Across = len(cases)%4 == 3 && c.M > 1 && c.DType == dtype.F32
		if c.DType == dtype.F64 && c.Width > 32 {
			c.Width = 32
		}
		cases = append(cases, c)
	}
	for _, width := range widths { // in many tiles, whose number a run decides, and with a ragged panel
		c := Product{M: 100, N: width*2 + width/2, K: 32, Width: width, Rows: 98, DType: dtype.F32, Named: true, Packed: true,
			First: "zero", Last: "relu"}
		cases = append(cases, c)
		c.Named, c.Sides = false, [2]int64{20, 5}
		cases = append(cases, c)
	}
	return cases
}

// Agree compares a product with the interpreter, on numbers that make every sum exact. It fails if the kernel has no
// machine code, or if a part of the code is slower than scheduled, with the exceptions below.
func (c Product) Agree(t *testing.T, h Harness) {
	t.Helper()
	k, dims := c.Kernel()
	var slow []target.Left
	compile := h.Compile
	h.Compile = func(m *loop.Module, machine target.Machine) (*target.Code, error) {
		code, err := compile(m, machine)
		if err == nil {
			slow = slices.Concat(slow, code.Left, code.Slower)
		}
		return code, err
	}
	in := Operands(t, k, dims, 2)
	for i := 0; i < 2 && c.Extreme; i++ {
		dt := in[i].DType()
		for at := range in[i].Len() {
			which := (at/3 + at/50) % 3 % 2
			if c.Wraps {
				which = int64(1 - i)
			}
			in[i].SetInt(at, []int64{dt.MinInt(), int64(dt.MaxInt())}[which])
		}
	}
	for i := int64(0); i < in[2].Len() && c.To != dtype.Invalid && c.DType.IsFloat(); i += 5 {
		in[2].SetFloat(i, []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1)}[i%4])
	}
	for i := int64(0); i < in[3].Len() && (c.Last == "choice" || c.Last == "greater") && c.DType.IsFloat(); i += 3 {
		in[3].SetFloat(i, []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1)}[i%4])
	}
	h.Agree(t, k, dims, in, 1e-6, 0)
	if c.Dynamic { // without tile registers, since the number of columns is not known
		slow = slices.DeleteFunc(slow, func(l target.Left) bool { return strings.Contains(l.Reason, "number of columns") })
	}
	if c.Dot > 0 && (c.Turned || c.K%c.Dot != 0) { // vector registers compute these
		slow = slices.DeleteFunc(slow, func(l target.Left) bool {
			return strings.Contains(l.Reason, "does not use tile registers")
		})
	}
	if len(slow) > 0 && c.Last != "tanh" {
		t.Error(slow)
	}
}

// NarrowProducts returns random products of narrow operands: of floats, or a float and bytes, to f32; of u32 and u8 to
// u32; and of integers to i32.
func NarrowProducts(count int, rows, widths []int64) []Product {
	r := rand.New(rand.NewSource(3))
	floats, whole := []dtype.DType{dtype.F16, dtype.BF16, dtype.F32},
		[]dtype.DType{dtype.I8, dtype.U8, dtype.I16, dtype.U16, dtype.I32}
	cases := Products(count, rows, widths)
	for i := range cases {
		c := &cases[i]
		switch r.Intn(3) {
		case 0:
			c.DType, c.From = dtype.F32, [2]dtype.DType{floats[r.Intn(2)], floats[r.Intn(3)]}
			if side := r.Intn(4); side < 2 {
				c.From[side] = whole[r.Intn(2)]
			}
			continue
		case 1:
			c.DType, c.From = dtype.U32, [2]dtype.DType{dtype.U32, dtype.U8}
		default:
			c.DType, c.From = dtype.I32, [2]dtype.DType{whole[r.Intn(len(whole))], whole[r.Intn(len(whole))]}
		}
		if c.Last != "" {
			c.Last = "relu"
		}
	}
	return cases
}

// GroupedProducts returns random products whose right operands lie in the machine's groups of steps: of signed and
// unsigned bytes, and of bf16.
func (h Harness) GroupedProducts(count int, rows, widths []int64) []Product {
	r, kinds := rand.New(rand.NewSource(4)), []dtype.DType{dtype.I8, dtype.U8}
	cases := Products(count, rows, widths)
	for i := range cases {
		c := &cases[i]
		c.DType, c.From, c.Dot = dtype.I32, [2]dtype.DType{kinds[r.Intn(2)], kinds[r.Intn(2)]}, h.Machine.Dot.Bytes
		if c.K += r.Int63n(70); c.Last != "" {
			c.Last = "relu"
		}
		c.Turned, c.Extreme = c.Turned && !c.Dynamic, r.Intn(2) == 0
		if r.Intn(40) == 0 {
			c.M, c.N, c.K, c.Windows, c.Width = 2, 16, 70001, nil, 16 // sums that wrap
		}
		if bf16 := h.Machine.Dot.BF16; bf16 > 0 && r.Intn(2) == 0 {
			c.DType, c.From, c.Dot, c.Extreme = dtype.F32, [2]dtype.DType{dtype.BF16, dtype.BF16}, bf16, false
		}
	}
	return cases
}

// QuantisedProducts returns random products with quantised results, most of them of bytes in the machine's groups.
func (h Harness) QuantisedProducts(count int, rows, widths []int64) []Product {
	r, bytes := rand.New(rand.NewSource(6)), []dtype.DType{dtype.I8, dtype.U8}
	cases := Products(count, rows, widths)
	for i := range cases {
		c := &cases[i]
		c.To = []dtype.DType{dtype.U8, dtype.I8, dtype.U8, dtype.I8, dtype.U16, dtype.I16}[i%6]
		c.Last, c.Across = []string{"", "relu", "leaky", "hardswish", "residual", "beside"}[i/6%6], false
		if c.DType = dtype.F32; r.Intn(4) > 0 {
			c.DType, c.From, c.Dot = dtype.I32, [2]dtype.DType{bytes[r.Intn(2)], bytes[r.Intn(2)]}, h.Machine.Dot.Bytes
			c.K, c.Turned = c.K+r.Int63n(70), false
		}
	}
	return cases
}

// Operands returns operands for a kernel with random elements: multiples of 1/4 from −2 to 2 for floats, and any
// values for integers.
func Operands(t testing.TB, k *loop.Kernel, dims map[sym.Name]int64, seed int64) (list []*tensor.Tensor) {
	t.Helper()
	r := rand.New(rand.NewSource(seed))
	for _, p := range k.Params {
		x := Operand(t, p, dims)
		for i := range x.Len() {
			if p.DType.IsInt() {
				x.SetInt(i, r.Int63()) // the type's entire range; sums may wrap
				continue
			}
			x.SetFloat(i, float64(r.Intn(17)-8)/4)
		}
		list = append(list, x)
	}
	return list
}

// RaggedBlocks compares a product with the interpreter in which a loop contains only the contraction of a block of
// steps, so that the sums stay in memory between blocks. The last block may be shorter.
func (h Harness) RaggedBlocks(t *testing.T) {
	zero, depth, block := sym.Const(0), sym.Dim("k"), sym.Const(5)
	b := loop.NewBuilder("product")
	x, w := b.Param("x", loop.Read, dtype.F32, []sym.Expr{depth, sym.Const(7)}),
		b.Param("w", loop.Read, dtype.F32, []sym.Expr{depth, sym.Const(19)})
	y := b.Param("y", loop.Write, dtype.F32, Fixed(7, 19))
	b.For(loop.Parallel, "t", sym.Const(1), func(sym.Expr) {
		acc := b.Local("acc", dtype.F32, Fixed(7, 19)...)
		nest := func(body func(i, j sym.Expr)) {
			b.Each("i", sym.Const(7), func(i sym.Expr) {
				b.For(loop.Vector, "j", sym.Const(19), func(j sym.Expr) { body(i, j) })
			})
		}
		nest(func(i, j sym.Expr) { b.Store(acc, []sym.Expr{i, j}, loop.Number(dtype.F32, 0)) })
		b.Serial("d", depth.CeilDiv(block), func(d sym.Expr) {
			first := d.Mul(block)
			b.Contract(sym.Const(7), sym.Const(19), block.Min(depth.Sub(first)),
				acc.Tile(Fixed(0, 0), unit(2, 0), unit(2, 1)),
				x.Tile([]sym.Expr{first, zero}, unit(2, 1), unit(2, 0)),
				w.Tile([]sym.Expr{first, zero}, unit(2, 0), unit(2, 1)))
		})
		nest(func(i, j sym.Expr) { b.Store(y, []sym.Expr{i, j}, acc.Load(i, j)) })
	})
	b.Finish()
	for _, k := range []int64{0, 1, 4, 5, 6, 23, 25} {
		dims := map[sym.Name]int64{sym.User("k"): k}
		h.Agree(t, b.Kernel, dims, Operands(t, b.Kernel, dims, 2), 0, 0)
	}
}
