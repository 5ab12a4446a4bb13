package amd64

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/codegen/amd64/call"
	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// compiled makes a kernel's code executable until the test ends.
func compiled(t testing.TB, k *loop.Kernel, i *isa) *lanes.Kernel {
	t.Helper()
	if !call.Supported || !target.Host(1).Has("avx2") {
		t.Skip("the processor has no AVX2")
	}
	c, reason := lanes.CompileKernel(k, &loop.Module{}, &compiler{new(workspace), i})
	if c == nil {
		t.Fatalf("%s\n%s", reason, k)
	}
	r := &lanes.Routines{}
	r.Add(c)
	r.Seal()
	block, err := r.Load("test")
	if err != nil {
		t.Skip("the system gives no executable pages: ", err)
	}
	t.Cleanup(func() { block.Close() })
	return c
}

// TestBF16Sums stores sums as bf16, and compares them with conversions of the sums, to the bit: subnormal numbers,
// ties, infinities and NaN. No part of the code may be slower than scheduled.
func TestBF16Sums(t *testing.T) {
	for _, level := range []string{"avx512", "avx512bf16", "avx512amx"} {
		t.Run(level, func(t *testing.T) {
			h := harness(t, level)
			for _, c := range []productCase{
				{m: 37, n: 40, k: 6, width: 32, dt: dtype.F32, last: "bf16", first: "zero"},
				{m: 37, n: 40, k: 6, width: 48, dt: dtype.F32, last: "bf16", first: "bias", dynamic: true},
				{m: 37, n: 40, k: 64, width: 64, dt: dtype.F32, from: [2]dtype.DType{dtype.BF16, dtype.BF16}, dot: 2, packed: true,
					last: "bf16", first: "zero"},
			} {
				if c.dot > 0 && isaOf(h.Machine).bf16 == 0 {
					continue
				}
				k, dims := c.kernel()
				code := compiled(t, k, isaOf(h.Machine))
				if len(code.Slower) > 0 {
					t.Error(code.Slower)
				}
				list := operandsOf(t, k, dims, 3)
				for _, x := range list[:3] { // all sums are 0, so that the results are the residuals
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
					dtype.ConvertSlice(dtype.BF16, want, dtype.F32, binary.LittleEndian.AppendUint32(nil, math.Float32bits(x)), 1,
						false)
					if got := y.Bytes()[2*i:][:2]; !bytes.Equal(got, want) && !(x != x && math.IsNaN(y.Float(i))) {
						t.Fatalf("%v: %x of %08x, %g, not %x", c, got, math.Float32bits(x), x, want)
					}
				}
			}
		})
	}
}

// operandsOf returns operands for a kernel with random elements: multiples of 1/4 from −2 to 2 for floats, and any
// values for integers.
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
				x.SetInt(i, r.Int63()) // the type's entire range; sums may wrap
				continue
			}
			x.SetFloat(i, float64(r.Intn(17)-8)/4)
		}
		list = append(list, x)
	}
	return list
}

// bound returns a function that runs a kernel on the given tensors.
func bound(t testing.TB, c *lanes.Kernel, k *loop.Kernel, list []*tensor.Tensor, dims map[sym.Name]int64) func() {
	t.Helper()
	args := &target.Args{}
	for _, x := range list {
		args.Operands = append(args.Operands, target.Operand{Base: unsafe.Pointer(unsafe.SliceData(x.Bytes())),
			Bytes: int64(len(x.Bytes()))})
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

// TestNarrowProducts compares products of operands narrower than their sums, and of integers, with the interpreter.
func TestNarrowProducts(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) {
		for _, c := range narrowCases(200, []int64{0, 0, 6, 13}, []int64{16, 16, 24, 8, 64}) {
			t.Run(c.String(), func(t *testing.T) { c.agree(t, h) })
		}
	})
}

// TestGroups compares products whose right operands lie in groups of steps with the interpreter: of signed and unsigned
// bytes, and of bf16.
func TestGroups(t *testing.T) {
	test := func(t *testing.T, h kerneltest.Harness) {
		r, widths := rand.New(rand.NewSource(4)), []int64{16, 16, 24, 8, 64}
		if h.Machine.Dot.Bytes == 4 && h.Machine.VectorBytes == 32 {
			widths = widths[:4] // a row of 64 sums, and another for the sign, need more than all registers
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
			if bf16 := h.Machine.Dot.BF16; bf16 > 0 && r.Intn(2) == 0 {
				c.dt, c.from, c.dot, c.extreme = dtype.F32, [2]dtype.DType{dtype.BF16, dtype.BF16}, bf16, false
			}
			t.Run(c.String(), func(t *testing.T) { c.agree(t, h) })
		}
	}
	levels(t, test)
	// These levels differ from those of levels in products of groups only.
	for _, cpu := range []string{"avxvnni", "avx512vnni", "avx512bf16", "avx512amx"} {
		t.Run(cpu, func(t *testing.T) { test(t, harness(t, cpu)) })
	}
}

// TestQuantisedProducts compares quantised products with the interpreter: the results are quantised while the sums are
// in registers.
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

// TestRaggedBlocks compares a product with the interpreter in which a loop contains only the contraction of a block of
// steps, so that the sums stay in memory between blocks. The last block may be shorter.
func TestRaggedBlocks(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) {
		zero, depth, block := sym.Const(0), sym.Dim("k"), sym.Const(5)
		b := loop.NewBuilder("product")
		x, w := b.Param("x", loop.Read, dtype.F32, []sym.Expr{depth, sym.Const(7)}),
			b.Param("w", loop.Read, dtype.F32, []sym.Expr{depth, sym.Const(19)})
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
				b.Contract(sym.Const(7), sym.Const(19), block.Min(depth.Sub(first)),
					acc.Tile(constants(0, 0), lanes.UnitIndex(2, 0), lanes.UnitIndex(2, 1)),
					x.Tile([]sym.Expr{first, zero}, lanes.UnitIndex(2, 1), lanes.UnitIndex(2, 0)),
					w.Tile([]sym.Expr{first, zero}, lanes.UnitIndex(2, 0), lanes.UnitIndex(2, 1)))
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
