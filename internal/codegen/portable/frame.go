package portable

import (
	"unsafe"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/target"
)

// number is a type of Go that represents elements.
type number interface {
	integral | real
}

// integral is a type of integers.
type integral interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// real is a type of floats.
type real interface{ float32 | float64 }

// frame is a worker's scratch while a kernel runs: words (integers, addresses and scalars, of eight bytes each), then
// packed panels if the kernel has contractions, then strips, then locals, whose addresses are in words.
type frame struct{ words, strips unsafe.Pointer }

// word returns the address of a word as one of a T.
func word[T number | uintptr | leftPanels](f frame, slot int) *T {
	return (*T)(unsafe.Add(f.words, slot*8))
}

// strip returns n elements at an offset in bytes from the beginning of the panels.
func strip[T number](f frame, offset, n int) []T {
	return unsafe.Slice((*T)(unsafe.Add(f.strips, offset)), n)
}

// address returns the address in a word. Words hold addresses as integers: the garbage collector does not see a frame's
// memory; the arguments of Run keep alive the memory to which they point.
func address(f frame, slot int) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Add(f.words, slot*8))
}

// budget is the approximate number of operations on an element between two checks whether a run is stopped.
const budget = 1 << 16

// spend subtracts work from the budget, which is the word left. When the budget is used up, it checks whether the run
// is stopped. Go's collector needs no such check: it can interrupt Go code.
func spend(f frame, left int, work int64) {
	if p := word[int64](f, left); *p > work {
		*p -= work
	} else {
		look(f, left)
	}
}

// effort is the frame and the word of the budget, for the work of a product.
type effort struct {
	f    frame
	left int
}

func (e effort) spend(work int64) { spend(e.f, e.left, work) }

// look renews the budget; it panics with ErrStopped if the run is stopped.
//
//go:noinline
func look(f frame, left int) {
	if (*target.Args)(address(f, left+1)).Stop.Ended() {
		panic(failure{target.ErrStopped})
	}
	*word[int64](f, left) = budget
}

// element returns the address of element i of the memory at base.
func element[T number](base unsafe.Pointer, i int64) *T {
	var x T
	return (*T)(unsafe.Add(base, i*int64(unsafe.Sizeof(x))))
}

// rep is the Go type that represents an element type in computations.
type rep uint8

const (
	noRep rep = iota
	repU8
	repI8
	repU16
	repI16
	repU32
	repI32
	repU64
	repI64
	repF32
	repF64
	reps
)

// represents has the representation of each element type: narrow floats are f32 that hold only values of their type,
// integers of fewer than eight bits are bytes, bool is 0 or 1, and C64 is its bits.
var represents = map[dtype.DType]rep{
	dtype.Bool: repU8, dtype.U2: repU8, dtype.U4: repU8, dtype.U8: repU8, dtype.I2: repI8, dtype.I4: repI8,
	dtype.I8:  repI8,
	dtype.U16: repU16, dtype.I16: repI16, dtype.U32: repU32, dtype.I32: repI32, dtype.U64: repU64, dtype.I64: repI64,
	dtype.F4E2M1: repF32, dtype.F8E4M3FN: repF32, dtype.F8E4M3FNUZ: repF32, dtype.F8E5M2: repF32, dtype.F8E5M2FNUZ: repF32,
	dtype.F8E8M0: repF32,
	dtype.F16:    repF32, dtype.BF16: repF32, dtype.F32: repF32, dtype.F64: repF64, dtype.C64: repU64,
}

// moved has the representation, by the width of an element type in bits, of values that are only copied.
var moved = map[int]rep{2: repU8, 4: repU8, 8: repU8, 16: repU16, 32: repU32, 64: repU64}

// nativeType has the element type whose elements in memory are values of a representation.
var nativeType = [reps]dtype.DType{repU8: dtype.U8, repI8: dtype.I8, repU16: dtype.U16, repI16: dtype.I16,
	repU32: dtype.U32,
	repI32: dtype.I32,
	repU64: dtype.U64, repI64: dtype.I64, repF32: dtype.F32, repF64: dtype.F64}

// width returns a representation's size in bytes.
func (r rep) width() int { return nativeType[r].Bits() / 8 }
