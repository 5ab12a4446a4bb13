// Package kerneltest compares the code of generators with the interpreter: every function on every type, checks,
// contractions, concurrent tiles, and random kernels. A generator's tests pass its Compile.
package kerneltest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand"
	"runtime/debug"
	"strings"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// Harness is a code generator under test.
type Harness struct {
	Compile func(m *loop.Module, machine target.Machine) (*target.Code, error)
	Machine target.Machine
	Take    func() bool // if not nil, reports before each case whether to run it
	Guarded bool        // operands end, and then begin, where a page does, beside pages that fault
}

// One returns a harness that runs one of each of cases.
func (h Harness) One(of int) Harness {
	cases := 0
	h.Take = func() bool {
		cases++
		return cases%of == 0
	}
	return h
}

// Fixed returns a shape or an index of numbers.
func Fixed(extents ...int64) []sym.Expr {
	list := make([]sym.Expr, len(extents))
	for i, n := range extents {
		list[i] = sym.Const(n)
	}
	return list
}

// Operand returns a tensor with the memory of a parameter; one axis if the parameter has strides.
func Operand(t testing.TB, p *loop.Param, dims map[sym.Name]int64) *tensor.Tensor {
	t.Helper()
	shape := make([]int64, len(p.Shape))
	for i, e := range p.Shape {
		n, err := e.Eval(func(name sym.Name) (int64, bool) { v, ok := dims[name]; return v, ok })
		if err != nil {
			t.Fatal(err)
		}
		shape[i] = n
	}
	if p.Strides != nil {
		last := int64(1)
		for i, e := range p.Strides {
			n, err := e.Eval(func(name sym.Name) (int64, bool) { v, ok := dims[name]; return v, ok })
			if err != nil {
				t.Fatal(err)
			}
			last += max(shape[i]-1, 0) * n
		}
		shape = []int64{last}
	}
	x, err := tensor.New(p.DType, shape...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// Fill sets a tensor's elements to random values of every kind, mostly small ones.
func Fill(r *rand.Rand, x *tensor.Tensor) {
	odd := []float64{0, math.Copysign(0, -1), 1, -1, math.NaN(), math.Inf(1), math.Inf(-1), 1e-40, 3e38, 65504, 0.5, -2.5}
	for i := range x.Len() {
		switch dt := x.DType(); {
		case dt == dtype.Bool:
			x.SetInt(i, r.Int63n(2))
		case dt.IsInt() && r.Intn(4) > 0:
			x.SetInt(i, r.Int63n(9)-2)
		case dt.IsInt():
			x.SetInt(i, int64(r.Uint64()))
		case dt.IsComplex():
			x.SetComplex(i, complex(r.NormFloat64(), r.NormFloat64()))
		case r.Intn(12) == 0:
			x.SetFloat(i, odd[r.Intn(len(odd))])
		default:
			x.SetFloat(i, r.NormFloat64()*2)
		}
	}
}

// Execute compiles and runs a kernel, with split tiles a call, or all if split is 0. Scratch has exactly the size that
// the kernel asks for.
func (h Harness) Execute(t testing.TB, k *loop.Kernel, operands []*tensor.Tensor, dims map[sym.Name]int64,
	split int64) error {
	t.Helper()
	code, err := h.Compile(&loop.Module{Kernels: []*loop.Kernel{k}}, h.Machine)
	if err != nil {
		t.Fatal(err)
	}
	if h.Guarded {
		return guarded(t, code.Kernels[0], k, operands, dims, split)
	}
	return Launch(t, code.Kernels[0], k, operands, dims, split)
}

// guarded runs a compiled kernel twice: with operands that end where a page does, and with operands that begin where
// one does. Parameters that are only read are in read-only pages. Both runs must give the same bits.
func guarded(t testing.TB, compiled target.Kernel, k *loop.Kernel, operands []*tensor.Tensor, dims map[sym.Name]int64,
	split int64) (err error) {
	t.Helper()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch fault := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }:
			t.Fatalf("the kernel touches %#x, which is not its own, dims %v\n%s", fault.Addr(), dims, k)
		default:
			panic(fault)
		}
	}()
	before := make([][]byte, len(operands))
	for i, x := range operands {
		before[i] = bytes.Clone(x.Bytes())
	}
	for _, atEnd := range []bool{true, false} {
		placed := make([]*tensor.Tensor, len(operands))
		var blocks []*mem.Block
		for i, x := range operands {
			size := int64(len(before[i]))
			block, err := mem.Map(mem.Tensors, "guarded", (size+mem.PageSize()-1)/mem.PageSize()*mem.PageSize())
			if err != nil {
				t.Fatal(err)
			}
			data := block.Bytes()
			if atEnd {
				data = data[block.Size()-size:]
			}
			copy(data, before[i])
			placed[i] = tensor.Must(tensor.Over(x.DType(), x.Shape(), data[:size:size]))
			if k.Params[i].Access == loop.Read {
				if err := block.Protect(true); err != nil {
					t.Fatal(err)
				}
			}
			blocks = append(blocks, block)
		}
		err = Launch(t, compiled, k, placed, dims, split)
		for i, x := range operands {
			if !atEnd && !bytes.Equal(x.Bytes(), placed[i].Bytes()) {
				t.Fatalf("parameter %s, dims %v: other bits at the beginning of a page\n%s", k.Params[i].Name, dims, k)
			}
			copy(x.Bytes(), placed[i].Bytes())
			if err := blocks[i].Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return err
}

// Launch runs a compiled kernel as Execute does, without guards.
func Launch(t testing.TB, compiled target.Kernel, k *loop.Kernel, operands []*tensor.Tensor, dims map[sym.Name]int64,
	split int64) error {
	t.Helper()
	a := &target.Args{}
	for _, name := range k.Dims {
		a.Dims = append(a.Dims, dims[name])
	}
	for _, x := range operands {
		o := target.Operand{Bytes: int64(len(x.Bytes()))}
		if o.Bytes > 0 {
			o.Base = unsafe.Pointer(&x.Bytes()[0])
		}
		a.Operands = append(a.Operands, o)
	}
	bytes, err := compiled.Scratch(a.Dims)
	if err != nil {
		t.Fatal(err)
	}
	tiles, err := compiled.Tiles(a.Dims)
	if err != nil {
		t.Fatal(err)
	}
	scratch, guard := ScratchOf(int(bytes))
	for i := range scratch {
		scratch[i] = 0xA5
	}
	if split < 1 {
		split = max(tiles, 1)
	}
	for begin := int64(0); begin < tiles; begin += split {
		if err := compiled.Run(a, begin, min(begin+split, tiles), scratch); err != nil {
			return err
		}
	}
	for _, b := range guard {
		if b != 0xC3 {
			t.Fatalf("kernel wrote beyond its scratch of %d bytes", bytes)
		}
	}
	return nil
}

// ScratchOf returns n aligned bytes, and the guard bytes after them, each 0xC3.
func ScratchOf(n int) (scratch, guard []byte) {
	block := make([]byte, n+64+256)
	at := int(-uintptr(unsafe.Pointer(&block[0])) & 63)
	guard = block[at+n:]
	for i := range guard {
		guard[i] = 0xC3
	}
	return block[at : at+n : at+n], guard
}

// Agree runs a kernel with the generator and in the interpreter, on the same operands, and compares all parameters and
// the error.
func (h Harness) Agree(t testing.TB, k *loop.Kernel, dims map[sym.Name]int64, operands []*tensor.Tensor,
	tolerance float64, split int64) {
	t.Helper()
	if h.Take != nil && !h.Take() {
		return
	}
	want := make([]*tensor.Tensor, len(operands))
	data := make([]loop.Data, len(operands))
	for i, x := range operands {
		want[i] = x.Clone()
		data[i] = loop.Data{DType: x.DType(), Bytes: want[i].Bytes()}
	}
	wantErr := loop.Interpret(k, data, dims)
	gotErr := h.Execute(t, k, operands, dims, split)
	if !h.sameFailure(k, gotErr, wantErr) {
		t.Fatalf("error %v, want %v\n%s", gotErr, wantErr, k)
	}
	if wantErr != nil {
		return
	}
	for i, x := range operands {
		if err := tensor.Compare(x, want[i], tolerance, tolerance); err != nil {
			t.Fatalf("parameter %s, dims %v: %v\n%s", k.Params[i].Name, dims, err, k)
		}
	}
}

// sameFailure reports whether a kernel failed as the interpreter did. Blocks of threads run concurrently, and report
// any of the checks that fail: for such machines the details of the errors may differ, but nothing else.
func (h Harness) sameFailure(k *loop.Kernel, got, want error) bool {
	if got == nil || want == nil {
		return got == want
	}
	if got.Error() == want.Error() {
		return true
	}
	var g, w *diag.Error
	if !h.Machine.HasBlocks() || !errors.As(got, &g) || !errors.As(want, &w) || !failedCheck(k, g.Detail) ||
		!failedCheck(k, w.Detail) {
		return false
	}
	same := *g
	same.Detail = w.Detail
	return g.Kind == w.Kind && same.Error() == want.Error()
}

// failedCheck reports whether a detail is that of a check of the kernel, with a value outside its limits.
func failedCheck(k *loop.Kernel, detail string) (failed bool) {
	loop.Walk(k.Body, func(s loop.Stmt) bool {
		if check, ok := s.(*loop.Check); ok {
			var value, low, high big.Int
			n, _ := fmt.Sscanf(strings.TrimPrefix(detail, check.What), " is %d, outside [%d, %d]", &value, &low, &high)
			failed = failed || n == 3 && (value.Cmp(&low) < 0 || value.Cmp(&high) > 0)
		}
		return !failed
	})
	return failed
}

// Finish returns the builder's kernel, with its dimensions.
func Finish(b *loop.Builder) *loop.Kernel {
	b.Kernel.Dims = loop.FreeDims(b.Kernel)
	return b.Kernel
}

var (
	n0 = sym.Const(0)
	n1 = sym.Const(1)
)

func dim(name string) sym.Expr { return sym.Dim(name) }

// ElementTypes are the element types that kernels compute with.
var ElementTypes = []dtype.DType{dtype.Bool, dtype.U2, dtype.I2, dtype.U4, dtype.I4, dtype.U8, dtype.I8, dtype.U16,
	dtype.I16, dtype.U32, dtype.I32, dtype.U64, dtype.I64,
	dtype.F4E2M1, dtype.F8E4M3FN, dtype.F8E4M3FNUZ, dtype.F8E5M2, dtype.F8E5M2FNUZ, dtype.F8E8M0, dtype.F16, dtype.BF16,
	dtype.F32, dtype.F64}

// Tolerance returns the tolerance for functions and sums that may round differently in a generator and the interpreter.
func Tolerance(dt dtype.DType) float64 {
	switch {
	case dt == dtype.F64:
		return 1e-12
	case dt == dtype.F32:
		return 3e-6
	case dt == dtype.F16:
		return 2e-3
	case dt == dtype.BF16:
		return 2e-2
	}
	return 0
}
