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
	c, reason := lanes.CompileKernel(k, &loop.Module{}, lanes.CompilerOf(i))
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
			for _, c := range []kerneltest.Product{
				{M: 37, N: 40, K: 6, Width: 32, DType: dtype.F32, Last: "bf16", First: "zero"},
				{M: 37, N: 40, K: 6, Width: 48, DType: dtype.F32, Last: "bf16", First: "bias", Dynamic: true},
				{M: 37, N: 40, K: 64, Width: 64, DType: dtype.F32, From: [2]dtype.DType{dtype.BF16, dtype.BF16}, Dot: 2,
					Packed: true,
					Last:   "bf16", First: "zero"},
			} {
				if c.Dot > 0 && isaOf(h.Machine).bf16 == 0 {
					continue
				}
				k, dims := c.Kernel()
				code := compiled(t, k, isaOf(h.Machine))
				if len(code.Slower) > 0 {
					t.Error(code.Slower)
				}
				list := kerneltest.Operands(t, k, dims, 3)
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
		for _, c := range kerneltest.NarrowProducts(200, []int64{0, 0, 6, 13}, []int64{16, 16, 24, 8, 64}) {
			t.Run(c.String(), func(t *testing.T) { c.Agree(t, h) })
		}
	})
}

// TestGroups compares products whose right operands lie in groups of steps with the interpreter: of signed and unsigned
// bytes, and of bf16.
func TestGroups(t *testing.T) {
	test := func(t *testing.T, h kerneltest.Harness) {
		widths := []int64{16, 16, 24, 8, 64}
		if h.Machine.Dot.Bytes == 4 && h.Machine.VectorBytes == 32 {
			widths = widths[:4] // a row of 64 sums, and another for the sign, need more than all registers
		}
		for _, c := range h.GroupedProducts(200, []int64{0, 0, 6, 13}, widths) {
			t.Run(c.String(), func(t *testing.T) { c.Agree(t, h) })
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
		for _, c := range h.QuantisedProducts(240, []int64{0, 0, 6, 13}, []int64{16, 16, 24, 8, 32}) {
			t.Run(c.String(), func(t *testing.T) { c.Agree(t, h) })
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
		for _, c := range kerneltest.Products(200, []int64{0, 0, 6, 13}, []int64{16, 16, 24, 8, 64, 32, 40, 48}) {
			t.Run(c.String(), func(t *testing.T) { c.Agree(t, h) })
		}
	})
}
