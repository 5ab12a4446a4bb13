package amd64

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/codegen/amd64/call"
	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// productCase is a product as scheduling leaves it: panels of columns, each a contraction group.
type productCase struct {
	m, n, k int64
	windows []int64        // serial loops around the product
	width   int64          // of a panel
	rows    int64          // of a tile; 0: all
	dt      dtype.DType    // of the sums
	from    [2]dtype.DType // of the operands; Invalid: dt
	dynamic bool
	dot     int64       // bytes of a group, the steps of one column side by side; 0: steps lie as rows
	extreme bool        // all integers of the operands are the least or the greatest of their type
	wraps   bool        // with extreme: the greatest on the left and the least on the right, whose sums leave their type
	packed  bool        // the right operand lies in panels
	turned  bool        // the left operand lies by columns
	across  bool        // the result lies by columns
	first   string      // what the sums begin with: zero, bias
	last    string      // what becomes of them
	to      dtype.DType // with quantised: of the result, and of the residual
	block   int64       // steps of a sum at a time, where sums stay in memory meanwhile; 0: all
	panels  int64       // whose sums are in memory together
}

func (c productCase) String() string {
	return fmt.Sprintf("%dx%dx%d%v/%d/%d %s%v %s %s%v dynamic=%v dot=%d packed=%v turned=%v across=%v", c.m, c.n, c.k, c.windows, c.width, c.rows, c.dt, c.from, c.first, c.last, c.to, c.dynamic, c.dot, c.packed, c.turned, c.across)
}

func constants(list ...int64) []sym.Expr {
	out := make([]sym.Expr, len(list))
	for i, n := range list {
		out[i] = sym.Const(n)
	}
	return out
}

// kernel builds the case, and the dimensions' values.
func (c productCase) kernel() (*loop.Kernel, map[sym.Name]int64) {
	dims := map[sym.Name]int64{}
	size := func(name string, n int64) sym.Expr {
		if !c.dynamic {
			return sym.Const(n)
		}
		dims[sym.User(name)] = n
		return sym.Dim(name)
	}
	zero, one := sym.Const(0), sym.Const(1)
	m, n, k := size("m", c.m), size("n", c.n), size("k", c.k)
	if c.dot > 0 {
		k = sym.Const(c.k)
	}
	width := sym.Const(c.width)
	panels := n.CeilDiv(width)
	b := loop.NewBuilder("product")
	window := constants(c.windows...)
	depth := append(append([]sym.Expr{}, window...), k)
	shapeA, shapeB := append([]sym.Expr{m}, depth...), append(append([]sym.Expr{}, depth...), n)
	if c.turned {
		shapeA = append(append([]sym.Expr{}, depth...), m)
	}
	if c.dot > 0 {
		shapeB = append(append(append([]sym.Expr{}, window...), k.CeilDiv(sym.Const(c.dot))), n)
	}
	if c.packed {
		shapeB = append(append([]sym.Expr{panels}, shapeB[:len(depth)]...), width)
	}
	if c.dot > 0 {
		shapeB = append(shapeB, sym.Const(c.dot))
	}
	for i := range c.from {
		if c.from[i] == dtype.Invalid {
			c.from[i] = c.dt
		}
	}
	x, w := b.Param("x", loop.Read, c.from[0], shapeA), b.Param("w", loop.Read, c.from[1], shapeB)
	result, other := c.dt, c.dt
	if c.last == "brain" {
		result = dtype.BF16
	} else if c.to != dtype.Invalid {
		result, other = c.to, c.to
	}
	bias, residual := b.Param("bias", loop.Read, c.dt, []sym.Expr{n}), b.Param("residual", loop.Read, other, []sym.Expr{m, n})
	shapeY := []sym.Expr{m, n}
	if c.across {
		shapeY = []sym.Expr{n, m}
	}
	y := b.Param("y", loop.Write, result, shapeY)
	tile := m
	tiles := one
	if c.rows > 0 {
		tile, tiles = sym.Const(c.rows), m.CeilDiv(sym.Const(c.rows))
	}
	unit := func(rank, axis int) []sym.Expr { return unitIndex(rank, axis) }
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
				rank := len(depth) + 1
				if c.dot > 0 {
					c.groups(b, index, rest, [3]*loop.Memory{acc, x, w}, [3]sym.Expr{row, p, column}, height, cols)
					return
				}
				a := x.Tile(append(append([]sym.Expr{row}, index...), zero), unit(rank, 0), unit(rank, rank-1))
				if c.turned {
					a = x.Tile(append(append([]sym.Expr{}, index...), zero, row), unit(rank, rank-1), unit(rank, rank-2))
				}
				right := w.Tile(append(append([]sym.Expr{}, index...), zero, column), unit(rank, rank-2), unit(rank, rank-1))
				if c.packed {
					right = w.Tile(append(append([]sym.Expr{p}, index...), zero, zero), unit(rank+1, rank-1), unit(rank+1, rank))
				}
				b.Contract(height, cols, k, acc.Tile([]sym.Expr{zero, zero}, unit(2, 0), unit(2, 1)), a, right)
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
				last := c.last
				if c.to != dtype.Invalid {
					last = ""
					v = c.quantised(b, v, bias.Load(column.Add(j)), residual.Load(at...))
				}
				switch last {
				case "relu":
					v = loop.Apply2(loop.Max, loop.Number(c.dt, 0), loop.Apply2(loop.Add, v, bias.Load(column.Add(j))))
				case "residual":
					r := b.Let("r", loop.Apply2(loop.Add, v, residual.Load(at...)))
					v = loop.Apply2(loop.Mul, loop.Apply2(loop.Min, r, loop.Number(c.dt, 6)), loop.Apply(loop.Neg, r))
				case "slope":
					r := b.Let("r", loop.Apply2(loop.Add, v, bias.Load(column.Add(j))))
					v = loop.Choose(loop.Apply2(loop.Lt, r, loop.Number(c.dt, 0)), loop.Apply2(loop.Mul, r, bias.Load(column.Add(j))), r)
				case "choice":
					other := residual.Load(at...)
					v = loop.Choose(loop.Apply2(loop.Ge, other, v), loop.Apply(loop.Neg, other), loop.Apply2(loop.Add, v, loop.Number(c.dt, 1)))
				case "brain":
					v = loop.Convert(dtype.BF16, loop.Apply2(loop.Add, v, residual.Load(at...)))
				case "tanh":
					v = loop.Apply2(loop.Div, v, loop.Apply2(loop.Add, loop.Number(c.dt, 1), loop.Apply(loop.Abs, loop.Apply(loop.Sign, v))))
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

// quantised is what the last nest makes of a sum for a quantised result: v, by way of bias and activation, or beside a
// quantised residual.
func (c productCase) quantised(b *loop.Builder, v, bias, residual loop.Expr) loop.Expr {
	real := func(x float64) loop.Expr { return loop.Number(dtype.F32, x) }
	scale := []float64{0.0123, 0.25, 3.7e-3}[(c.m+c.n)%3] // of the result
	if c.dt != dtype.F32 {                                // sums of whole ranges
		v = loop.Apply2(loop.Mul, loop.Convert(dtype.F32, loop.Apply2(loop.Sub, v, bias)), real(scale*0x1p-24))
		bias = loop.Apply2(loop.Mul, loop.Convert(dtype.F32, bias), real(scale*0x1p-25))
	}
	v = loop.Apply2(loop.Add, v, bias)
	dequantised := func(q loop.Expr, zero int64) loop.Expr {
		return loop.Apply2(loop.Mul, loop.Convert(dtype.F32, loop.Apply2(loop.Sub, loop.Convert(dtype.I32, q), loop.Integer(dtype.I32, zero))), real(scale))
	}
	switch c.last {
	case "relu":
		v = loop.Apply2(loop.Max, real(0), v)
	case "leaky":
		r := b.Let("r", v)
		v = loop.Choose(loop.Apply2(loop.Lt, r, real(0)), loop.Apply2(loop.Mul, r, real(0.1)), r)
	case "hardswish":
		r := b.Let("r", v)
		gate := loop.Apply2(loop.Max, real(0), loop.Apply2(loop.Min, real(1), loop.Apply2(loop.Add, loop.Apply2(loop.Mul, r, real(1.0/6)), real(0.5))))
		v = loop.Apply2(loop.Mul, r, gate)
	case "residual":
		v = loop.Apply2(loop.Add, dequantised(c.rounded(v, scale, 1), 1), dequantised(residual, 0))
	case "beside":
		v = loop.Apply2(loop.Add, dequantised(residual, 3), v)
	}
	return c.rounded(v, scale*1.1, int64(c.n%4))
}

// rounded is a number quantised: of 8 bits within the range of the type, or a part of it.
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

// groups is a product of bytes by groups: a loop over the whole ones, or what is left over. memory is the sums, A and B, at is the row, the panel and the column.
func (c productCase) groups(b *loop.Builder, index []sym.Expr, rest bool, memory [3]*loop.Memory, at [3]sym.Expr, height, cols sym.Expr) {
	acc, x, w := memory[0], memory[1], memory[2]
	zero, rank := sym.Const(0), len(index)+2
	one := func(group sym.Expr, count int64) {
		first := group.Mul(sym.Const(c.dot))
		a := x.Tile(append(append([]sym.Expr{at[0]}, index...), first), unitIndex(rank, 0), unitIndex(rank, rank-1))
		if c.turned {
			a = x.Tile(append(append([]sym.Expr{}, index...), first, at[0]), unitIndex(rank, rank-1), unitIndex(rank, rank-2))
		}
		right := w.Tile(append(append([]sym.Expr{}, index...), group, at[2], zero), unitIndex(rank+1, rank), unitIndex(rank+1, rank-1))
		if c.packed {
			right = w.Tile(append(append([]sym.Expr{at[1]}, index...), group, zero, zero), unitIndex(rank+2, rank+1), unitIndex(rank+2, rank))
		}
		b.Contract(height, cols, sym.Const(count), acc.Tile([]sym.Expr{zero, zero}, unitIndex(2, 0), unitIndex(2, 1)), a, right)
	}
	if rest {
		one(sym.Const(c.k/c.dot), c.k%c.dot)
		return
	}
	b.Serial("g", sym.Const(c.k/c.dot), func(g sym.Expr) { one(g, c.dot) })
}

// blocked is the product of a packed right operand, block by block of the sums' steps.
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
					b.Contract(rows, sym.Const(c.width), sym.Const(c.block).Min(sym.Const(c.k).Sub(first)), acc.Tile([]sym.Expr{zero, q.Mul(sym.Const(c.width))}, unitIndex(2, 0), unitIndex(2, 1)),
						x.Tile([]sym.Expr{row, first}, unitIndex(2, 0), unitIndex(2, 1)), w.Tile([]sym.Expr{p.Mul(sym.Const(c.panels)).Add(q), first, zero}, unitIndex(3, 1), unitIndex(3, 2)))
				})
			})
			nest(func(i, j sym.Expr) { b.Store(y, []sym.Expr{row.Add(i), column.Add(j)}, acc.Load(i, j)) })
		})
	})
}

// compiled makes a kernel's code executable until the test ends.
func compiled(t testing.TB, k *loop.Kernel, i *isa) *kernel {
	t.Helper()
	if !call.Supported || !target.Host(1).Has("avx2") {
		t.Skip("the processor has no AVX2")
	}
	c, reason := compile(k, i)
	if c == nil {
		t.Fatalf("%s\n%s", reason, k)
	}
	r := &routines{}
	r.add(c)
	block, err := r.place("test")
	if err != nil {
		t.Skip("the system gives no executable pages: ", err)
	}
	t.Cleanup(func() { block.Close() })
	return c
}

// TestBrainSums: sums that are stored as bf16 are rounded as conversions are, whatever they are, and in registers.
func TestBrainSums(t *testing.T) {
	for _, level := range []string{"avx512", "avx512bf16", "avx512amx"} {
		t.Run(level, func(t *testing.T) {
			h := harness(t, level)
			for _, c := range []productCase{
				{m: 37, n: 40, k: 6, width: 32, dt: dtype.F32, last: "brain", first: "zero"},
				{m: 37, n: 40, k: 6, width: 48, dt: dtype.F32, last: "brain", first: "bias", dynamic: true},
				{m: 37, n: 40, k: 64, width: 64, dt: dtype.F32, from: [2]dtype.DType{dtype.BF16, dtype.BF16}, dot: 2, packed: true, last: "brain", first: "zero"},
			} {
				if c.dot > 0 && isaOf(h.Machine).brains == 0 {
					continue
				}
				k, dims := c.kernel()
				code := compiled(t, k, isaOf(h.Machine))
				if len(code.slower) > 0 {
					t.Error(code.slower)
				}
				list := operandsOf(t, k, dims, 3)
				for _, x := range list[:3] { // sums are 0
					clear(x.Bytes())
				}
				residual, y, r := list[3], list[4], rand.New(rand.NewSource(5))
				for i := range residual.Len() {
					bits := r.Uint32()
					switch i % 4 {
					case 0: // a subnormal number
						bits &= 0x807fffff
					case 1: // a tie, or next to one
						bits = bits&0xffff0000 | 0x8000 + uint32(r.Intn(3)) - 1
					case 2: // an infinity or NaN
						bits |= 0x7f800000
					}
					binary.LittleEndian.PutUint32(residual.Bytes()[4*i:], bits)
				}
				bound(t, code, k, list, dims)()
				for i := range y.Len() {
					x := math.Float32frombits(binary.LittleEndian.Uint32(residual.Bytes()[4*i:])) + 0
					want := make([]byte, 2)
					dtype.ConvertSlice(dtype.BF16, want, dtype.F32, binary.LittleEndian.AppendUint32(nil, math.Float32bits(x)), 1, false)
					if got := y.Bytes()[2*i:][:2]; !bytes.Equal(got, want) && !(x != x && math.IsNaN(y.Float(i))) {
						t.Fatalf("%v: %x of %08x, %g, not %x", c, got, math.Float32bits(x), x, want)
					}
				}
			}
		})
	}
}

// operandsOf makes a kernel's memory, with small numbers.
func operandsOf(t testing.TB, k *loop.Kernel, dims map[sym.Name]int64, seed int64) (list []*tensor.Tensor) {
	t.Helper()
	r := rand.New(rand.NewSource(seed))
	for _, p := range k.Params {
		shape := make([]int64, len(p.Shape))
		for i, e := range p.Shape {
			v, err := e.Eval(func(name sym.Name) (int64, bool) { v, ok := dims[name]; return v, ok })
			if err != nil {
				t.Fatal(err)
			}
			shape[i] = v
		}
		x := tensor.Must(tensor.New(p.DType, shape...))
		for i := range x.Len() {
			if p.DType.IsInt() {
				x.SetInt(i, r.Int63()) // whole ranges, and sums that wrap
				continue
			}
			x.SetFloat(i, float64(r.Intn(17)-8)/4)
		}
		list = append(list, x)
	}
	return list
}

// bound is a call of a kernel on certain memory.
func bound(t testing.TB, c *kernel, k *loop.Kernel, list []*tensor.Tensor, dims map[sym.Name]int64) func() {
	t.Helper()
	args := &target.Args{}
	for _, x := range list {
		args.Operands = append(args.Operands, target.Operand{Base: unsafe.Pointer(unsafe.SliceData(x.Bytes())), Bytes: int64(len(x.Bytes()))})
	}
	for _, name := range k.Dims {
		args.Dims = append(args.Dims, dims[name])
	}
	tiles, err := c.Tiles(args.Dims)
	if err != nil {
		t.Fatal(err)
	}
	scratch, err := c.Scratch(args.Dims)
	if err != nil {
		t.Fatal(err)
	}
	words := make([]uint64, scratch/8+16)
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(bytes))) & 63
	return func() {
		if err := c.Run(args, 0, tiles, bytes[skip:][:scratch]); err != nil {
			t.Fatal(err)
		}
	}
}

// productCases is random products, in panels of the given widths and tiles of the given rows (0: all).
func productCases(count int, rows, widths []int64) (cases []productCase) {
	r := rand.New(rand.NewSource(1))
	pick := func(list ...int64) int64 { return list[r.Intn(len(list))] }
	for range count {
		c := productCase{m: pick(1, 2, 3, 5, 6, 7, 11, 13, 20, 49), n: pick(1, 3, 8, 13, 16, 17, 40, 64), k: pick(1, 3, 4, 9, 32), width: pick(widths...),
			dt: []dtype.DType{dtype.F32, dtype.F32, dtype.F64}[r.Intn(3)], dynamic: r.Intn(2) == 0, packed: r.Intn(2) == 0, turned: r.Intn(4) == 0,
			first: []string{"zero", "bias"}[r.Intn(2)], last: []string{"", "relu", "residual", "tanh", "slope", "choice"}[r.Intn(6)], rows: pick(rows...)}
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

// agree compares a product with the interpreter. The numbers are such that every sum is exact.
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
	if c.dynamic { // of several columns, most often
		slow = slices.DeleteFunc(slow, func(l target.Left) bool { return strings.Contains(l.Reason, "how many columns") })
	}
	if c.dot > 0 && (c.turned || c.k%c.dot != 0) { // vectors do these
		slow = slices.DeleteFunc(slow, func(l target.Left) bool { return strings.Contains(l.Reason, "does not use tile registers") })
	}
	if len(slow) > 0 && c.last != "tanh" {
		t.Error(slow)
	}
}

// narrowCases is random products of narrow operands, of the types that can be.
func narrowCases(count int, rows, widths []int64) []productCase {
	r := rand.New(rand.NewSource(3))
	floats, whole := []dtype.DType{dtype.F16, dtype.BF16, dtype.F32}, []dtype.DType{dtype.I8, dtype.U8, dtype.I16, dtype.U16, dtype.I32}
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

// TestNarrowProducts compares products of operands narrower than their sums, and of integers, with the interpreter.
func TestNarrowProducts(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) {
		for _, c := range narrowCases(200, []int64{0, 0, 6, 13}, []int64{16, 16, 24, 8, 64}) {
			t.Run(c.String(), func(t *testing.T) { c.agree(t, h) })
		}
	})
}

// TestGroups compares products of bytes, of all kinds of sign, and of bf16, whose right operands lie by groups, with the interpreter.
func TestGroups(t *testing.T) {
	test := func(t *testing.T, h kerneltest.Harness) {
		r, widths := rand.New(rand.NewSource(4)), []int64{16, 16, 24, 8, 64}
		if h.Machine.Dot.Bytes == 4 && h.Machine.VectorBytes == 32 {
			widths = widths[:4] // a row of 64 sums, and one beside them for the sign, are more than all registers hold
		}
		for _, c := range productCases(200, []int64{0, 0, 6, 13}, widths) {
			kinds := []dtype.DType{dtype.I8, dtype.U8}
			c.dt, c.from, c.dot = dtype.I32, [2]dtype.DType{kinds[r.Intn(2)], kinds[r.Intn(2)]}, h.Machine.Dot.Bytes
			if c.k += r.Int63n(70); c.last != "" {
				c.last = "relu"
			}
			c.turned, c.extreme = c.turned && !c.dynamic, r.Intn(2) == 0
			if r.Intn(40) == 0 {
				c.m, c.n, c.k, c.windows, c.width = 2, 16, 70001, nil, 16 // sums that wrap
			}
			if brains := h.Machine.Dot.Brains; brains > 0 && r.Intn(2) == 0 {
				c.dt, c.from, c.dot, c.extreme = dtype.F32, [2]dtype.DType{dtype.BF16, dtype.BF16}, brains, false
			}
			t.Run(c.String(), func(t *testing.T) { c.agree(t, h) })
		}
	}
	levels(t, test)
	for _, cpu := range []string{"avxvnni", "avx512vnni", "avx512bf16", "avx512amx"} { // they differ from others in nothing else
		t.Run(cpu, func(t *testing.T) { test(t, harness(t, cpu)) })
	}
}

// TestQuantisedProducts compares products whose results are quantised while their sums are in registers with the
// interpreter.
func TestQuantisedProducts(t *testing.T) {
	test := func(t *testing.T, h kerneltest.Harness) {
		r := rand.New(rand.NewSource(6))
		for i, c := range productCases(240, []int64{0, 0, 6, 13}, []int64{16, 16, 24, 8, 32}) {
			bytes := []dtype.DType{dtype.I8, dtype.U8}
			c.to, c.across = []dtype.DType{dtype.U8, dtype.I8, dtype.U8, dtype.I8, dtype.U16, dtype.I16}[i%6], false
			c.last = []string{"", "relu", "leaky", "hardswish", "residual", "beside"}[i/6%6]
			if c.dt = dtype.F32; r.Intn(4) > 0 {
				c.dt, c.from, c.dot = dtype.I32, [2]dtype.DType{bytes[r.Intn(2)], bytes[r.Intn(2)]}, h.Machine.Dot.Bytes
				c.k, c.turned = c.k+r.Int63n(70), false
			}
			t.Run(c.String(), func(t *testing.T) { c.agree(t, h) })
		}
	}
	levels(t, test)
	for _, cpu := range []string{"avxvnni", "avx512vnni"} {
		t.Run(cpu, func(t *testing.T) { test(t, harness(t, cpu)) })
	}
}

// TestProducts compares products of all forms with the interpreter.
func TestProducts(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) {
		for _, c := range productCases(200, []int64{0, 0, 6, 13}, []int64{16, 16, 24, 8, 64, 32, 40, 48}) {
			t.Run(c.String(), func(t *testing.T) { c.agree(t, h) })
		}
	})
}

// TestRaggedBlocks: sums in blocks of steps, the last of which is shorter, are added up in memory if one loop goes through
// the blocks and does nothing else.
func TestRaggedBlocks(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) {
		zero, depth, block := sym.Const(0), sym.Dim("k"), sym.Const(5)
		b := loop.NewBuilder("product")
		x, w := b.Param("x", loop.Read, dtype.F32, []sym.Expr{depth, sym.Const(7)}), b.Param("w", loop.Read, dtype.F32, []sym.Expr{depth, sym.Const(19)})
		y := b.Param("y", loop.Write, dtype.F32, constants(7, 19))
		b.For(loop.Parallel, "t", sym.Const(1), func(sym.Expr) {
			acc := b.Local("acc", dtype.F32, constants(7, 19)...)
			nest := func(body func(i, j sym.Expr)) {
				b.Each("i", sym.Const(7), func(i sym.Expr) {
					b.For(loop.Vector, "j", sym.Const(19), func(j sym.Expr) { body(i, j) })
				})
			}
			nest(func(i, j sym.Expr) { b.Store(acc, []sym.Expr{i, j}, loop.Number(dtype.F32, 0)) })
			b.Serial("d", depth.CeilDiv(block), func(d sym.Expr) {
				first := d.Mul(block)
				b.Contract(sym.Const(7), sym.Const(19), block.Min(depth.Sub(first)), acc.Tile(constants(0, 0), unitIndex(2, 0), unitIndex(2, 1)),
					x.Tile([]sym.Expr{first, zero}, unitIndex(2, 1), unitIndex(2, 0)), w.Tile([]sym.Expr{first, zero}, unitIndex(2, 0), unitIndex(2, 1)))
			})
			nest(func(i, j sym.Expr) { b.Store(y, []sym.Expr{i, j}, acc.Load(i, j)) })
		})
		b.Finish()
		for _, k := range []int64{0, 1, 4, 5, 6, 23, 25} {
			dims := map[sym.Name]int64{sym.User("k"): k}
			h.Agree(t, b.Kernel, dims, operandsOf(t, b.Kernel, dims, 2), 0, 0)
		}
	})
}
