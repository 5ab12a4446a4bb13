package amd64

import (
	"testing"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/amd64/call"
	"github.com/weirml/weir/internal/codegen/amd64/emulatetest"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/lanes/lanestest"
	"github.com/weirml/weir/internal/target"
)

// compareOperations compares the operations of vectors with their meaning. run applies an operation to arrays.
func compareOperations(t *testing.T, i *isa, words int, run func(t *testing.T, f emits, x, y []uint32) []uint32) {
	x, y := lanestest.Operands(1, words), lanestest.Operands(2, words)
	for _, o := range lanestest.Operations(&machine{builder: newBuilder(i)}, i.lanes) {
		f := func(e *lanes.Emitter, x, y asm.Reg) asm.Reg { return o.Emit(e.Machine, x, y) }
		got, want := run(t, f, x, y), o.Run(i.lanes, x, y)
		if at, differ := o.Differ(got, want); differ {
			t.Errorf("%s, word %d: of %#x and %#x it is %#x, not %#x", o.Name, at, x[at], y[at], got[at], want[at])
		}
	}
}

// TestOperations compares the operations of AVX2 and, if it has that, of AVX-512 with their meaning, on this processor.
func TestOperations(t *testing.T) {
	for cpu, i := range map[string]*isa{"avx2": avx2, "avx512": avx512} {
		t.Run(cpu, func(t *testing.T) {
			if _, err := target.Select(cpu, 1); err != nil {
				t.Skip(err)
			}
			compareOperations(t, i, 4096, func(t *testing.T, f emits, x, y []uint32) []uint32 {
				code, frame := program(i, f)
				entry := native(t, code)
				a := newArrays(t, len(x), frame)
				copy(a.x, x)
				copy(a.y, y)
				call.Call(entry, a.frame, 0, int64(len(x)/i.lanes))
				return a.result
			})
		})
	}
}

// TestOperationsEmulated compares those of AVX-512, in the emulated processor.
func TestOperationsEmulated(t *testing.T) {
	processor := emulatetest.New(t)
	compareOperations(t, avx512, 512, func(t *testing.T, f emits, x, y []uint32) []uint32 {
		return runEmulated(t, processor, f, x, y)
	})
}
