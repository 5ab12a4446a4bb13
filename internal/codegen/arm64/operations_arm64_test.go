package arm64

import (
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/codegen/arm64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/lanes/lanestest"
	"github.com/weirml/weir/internal/dtype"
)

// TestOperations compares the operations of vectors with their meaning, with the instructions of every processor and,
// if this one has them, with all.
func TestOperations(t *testing.T) {
	const words = 512
	x, y := lanestest.Operands(1, words), lanestest.Operands(2, words)
	for name, i := range map[string]*isa{"neon": {registers: 32}, "all": every} {
		if name == "all" && (skips("dotprod") || skips("i8mm")) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			for _, o := range lanestest.Operations(newMachine(i), vectorLanes) {
				got, want := applied(t, i, o, x, y), o.Run(vectorLanes, x, y)
				if at, differ := o.Differ(got, want); differ {
					t.Errorf("%s, word %d: of %#x and %#x it is %#x, not %#x", o.Name, at, x[at], y[at], got[at], want[at])
				}
			}
		})
	}
}

// newMachine returns a machine that emits no kernel.
func newMachine(i *isa) *machine { return &machine{newBuilder(i)} }

// applied returns the results of an operation, by a loop over the frame's arrays of operands.
func applied(t *testing.T, i *isa, o lanestest.Operation, x, y []uint32) []uint32 {
	e, f := newMachine(i), aligned()
	at, again := e.Number(0), e.Label()
	place := func(n int) asm.Mem {
		return asm.Mem{Base: frameRegister, Index: at, Scale: 1, Disp: int32(n * len(x) * 4)}
	}
	e.Bind(again)
	r := o.Emit(e, e.Load(dtype.I32, place(0), asm.NoReg), e.Load(dtype.I32, place(1), asm.NoReg))
	e.Store(dtype.I32, place(2), r, asm.NoReg)
	e.IntegerNumber(lanes.Add, at, vectorBytes)
	e.CompareNumber(at, int64(len(x)*4))
	e.JumpIf(lanes.Less, again)
	array := func(n int) []uint32 { return unsafe.Slice(wordOf(f, n*len(x)), len(x)) }
	copy(array(0), x)
	copy(array(1), y)
	execute(t, e.builder, f)
	return array(2)
}
