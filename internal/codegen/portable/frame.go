package portable

import (
	"unsafe"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/target"
)

// number is an element type that Go computes with.
type number interface {
	whole | real
}

type whole interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

type real interface{ float32 | float64 }

// frame is a worker's scratch while a kernel runs: words (integers, addresses and scalars, eight bytes each), then
// packed panels if the kernel contracts, then strips. Locals follow; words hold their addresses.
type frame struct{ words, strips unsafe.Pointer }

// word is the place of a word as a T.
func word[T number | uintptr | leftPanels](f frame, slot int) *T {
	return (*T)(unsafe.Add(f.words, slot*8))
}

// strip is n elements at an offset in bytes from the panels' beginning.
func strip[T number](f frame, offset, n int) []T {
	return unsafe.Slice((*T)(unsafe.Add(f.strips, offset)), n)
}

// address is a word as the address that it holds. Addresses are kept as integers: the memory behind a frame is not the
// garbage collector's, and what they point to is kept alive by the arguments of Run.
func address(f frame, slot int) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Add(f.words, slot*8))
}

// budget is what a run does before it looks whether it is stopped: about so many operations on an element.
const budget = 1 << 16

// spend takes note of work: of the word with what is left of the budget. When that is used up, a run that is stopped
// ends. A run needs no more than that for Go's collector, which can interrupt Go's code.
func spend(f frame, left int, work int64) {
	if p := word[int64](f, left); *p > work {
		*p -= work
	} else {
		look(f, left)
	}
}

// effort is where a product's work is noted.
type effort struct {
	f    frame
	left int
}

func (e effort) spend(work int64) { spend(e.f, e.left, work) }

//go:noinline
func look(f frame, left int) {
	if (*target.Args)(address(f, left+1)).Stop.Ended() {
		panic(failure{target.ErrStopped})
	}
	*word[int64](f, left) = budget
}

// element is element i of the memory at base.
func element[T number](base unsafe.Pointer, i int64) *T {
	var x T
	return (*T)(unsafe.Add(base, i*int64(unsafe.Sizeof(x))))
}

// rep is the Go type that stands for an element type while it is computed with.
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

// represents maps element types to what stands for them: narrow floats are f32 holding only values of their type,
// integers below eight bits are bytes, bool is 0 or 1.
var represents = map[dtype.DType]rep{
	dtype.Bool: repU8, dtype.U2: repU8, dtype.U4: repU8, dtype.U8: repU8, dtype.I2: repI8, dtype.I4: repI8,
	dtype.I8:  repI8,
	dtype.U16: repU16, dtype.I16: repI16, dtype.U32: repU32, dtype.I32: repI32, dtype.U64: repU64, dtype.I64: repI64,
	dtype.F4E2M1: repF32, dtype.F8E4M3FN: repF32, dtype.F8E4M3FNUZ: repF32, dtype.F8E5M2: repF32, dtype.F8E5M2FNUZ: repF32,
	dtype.F8E8M0: repF32,
	dtype.F16:    repF32, dtype.BF16: repF32, dtype.F32: repF32, dtype.F64: repF64, dtype.C64: repU64,
}

// moved maps the widths of element types to what stands for them where values are only moved, bit for bit.
var moved = map[int]rep{2: repU8, 4: repU8, 8: repU8, 16: repU16, 32: repU32, 64: repU64}

// plain holds the element types that lie in memory as their representation does.
var plain = [reps]dtype.DType{repU8: dtype.U8, repI8: dtype.I8, repU16: dtype.U16, repI16: dtype.I16, repU32: dtype.U32,
	repI32: dtype.I32,
	repU64: dtype.U64, repI64: dtype.I64, repF32: dtype.F32, repF64: dtype.F64}

// width is a representation's size in bytes.
func (r rep) width() int { return plain[r].Bits() / 8 }
