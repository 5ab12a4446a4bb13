package amd64

import (
	"math"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/amd64/call"
	"github.com/weirml/weir/internal/codegen/amd64/emulatetest"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/mathematics"
)

type wideModel = mathematics.WideFunctions[uint64, bool]

var wideCases = []struct {
	name   string
	model  func(m wideModel, x uint64) uint64
	instrs func(m lanes.WideFunctions, x asm.Reg) asm.Reg
}{
	{"exp", wideModel.Exp, lanes.WideFunctions.Exp},
	{"expm1", wideModel.Expm1, lanes.WideFunctions.Expm1},
	{"log", wideModel.Log, lanes.WideFunctions.Log},
	{"log1p", wideModel.Log1p, lanes.WideFunctions.Log1p},
	{"tanh", wideModel.Tanh, lanes.WideFunctions.Tanh},
	{"sigmoid", wideModel.Sigmoid, lanes.WideFunctions.Sigmoid},
}

// wideAgrees compares the functions of f64 with the model, bit for bit. run applies a function to many numbers, each as
// two words.
func wideAgrees(t *testing.T, run func(t *testing.T, f emits, x []uint32) []uint32) {
	var xs []uint64
	mathematics.WideArguments(func(x float64) { xs = append(xs, math.Float64bits(x)) })
	xs = xs[:len(xs)&^7]
	for _, c := range wideCases {
		t.Run(c.name, func(t *testing.T) {
			instrs := func(e *lanes.Emitter, x, _ asm.Reg) asm.Reg {
				return c.instrs(e.WideFunctions(), x)
			}
			result := run(t, instrs, unsafe.Slice((*uint32)(unsafe.Pointer(&xs[0])), 2*len(xs)))
			for i, got := range unsafe.Slice((*uint64)(unsafe.Pointer(&result[0])), len(xs)) {
				want := c.model(wideModel{WideAlgebra: mathematics.WideLane{}}, xs[i])
				if got != want && !(math.Float64frombits(want) != math.Float64frombits(want) &&
					math.Float64frombits(got) != math.Float64frombits(got)) {
					t.Fatalf("%s(%g) = %g, the model has %g", c.name, math.Float64frombits(xs[i]), math.Float64frombits(got),
						math.Float64frombits(want))
				}
			}
		})
	}
}

// TestWideEmitted checks that the functions of f64 for AVX2 equal the model bit for bit, on this processor.
func TestWideEmitted(t *testing.T) {
	wideAgrees(t, func(t *testing.T, f emits, x []uint32) []uint32 {
		code, frame := program(avx2, f)
		entry := native(t, code)
		a := newArrays(t, len(x), frame)
		copy(a.x, x)
		call.Call(entry, a.frame, 0, int64(len(x)/avx2.lanes))
		return a.result
	})
}

// TestWideEmulated checks the same for AVX-512, in the emulated processor.
func TestWideEmulated(t *testing.T) {
	machine := emulatetest.New(t)
	wideAgrees(t, func(t *testing.T, f emits, x []uint32) []uint32 {
		return runEmulated(t, machine, f, x, x)
	})
}
