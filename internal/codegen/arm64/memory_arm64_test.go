package arm64

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/codegen/arm64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
)

// The parts of a frame in tests of memory, in bytes: elements that are read and written, results, masks and indices.
const (
	elementsAt = 2048
	resultsAt  = 4096
	masksAt    = 6144
)

// bytesOf returns a frame as bytes.
func bytesOf(f *testFrame) *[16384]byte { return (*[16384]byte)(unsafe.Pointer(f)) }

// laneOf returns what a lane has that holds an element, given by its bits: I8 and I16 extended, F16 as F32.
func laneOf(dt dtype.DType, bits uint64) uint64 {
	switch dt {
	case dtype.I8:
		return low(int64(int8(bits)))
	case dtype.I16:
		return low(int64(int16(bits)))
	case dtype.F16:
		return of32(dtype.F16ToF32(uint16(bits)))
	}
	return bits
}

// readElement returns the bits of an element.
func readElement(f *testFrame, at, bytes int) (bits uint64) {
	for n := range bytes {
		bits |= uint64(bytesOf(f)[at+n]) << (8 * n)
	}
	return bits
}

// elementTypes are the types of lanes.Access.
var elementTypes = []dtype.DType{dtype.I8, dtype.U8, dtype.I16, dtype.U16, dtype.F16, dtype.I32, dtype.I64}

// memoryTest is a frame with elements, and a builder with the address of their middle.
type memoryTest struct {
	*builder
	f      *testFrame
	dt     dtype.DType
	bytes  int // of an element
	middle asm.Mem
	stored int
	want   []uint64 // of the stored results, each of a lane's size
	size   int      // of a lane
}

func newMemoryTest(dt dtype.DType) *memoryTest {
	t := &memoryTest{builder: newBuilder(every), f: aligned(), dt: dt, bytes: dt.Bits() / 8, size: max(4, dt.Bits()/8)}
	for n := range 2048 {
		bytesOf(t.f)[n+elementsAt] = byte(n*37 + n*n/5 + 3)
	}
	if dt == dtype.F16 { // no NaN, whose bits may change
		for n := 1; n < 2048; n += 2 {
			bytesOf(t.f)[n+elementsAt] &^= 0x40
		}
	}
	base := t.CopyOf(frameRegister)
	t.IntegerNumber(lanes.Add, base, elementsAt+1024)
	t.middle = asm.Mem{Base: base}
	return t
}

// at returns the address of an element, counted from the middle.
func (t *memoryTest) at(n int) asm.Mem { return after(t.middle, int64(n*t.bytes)) }

// element returns the bits of an element before the routine.
func (t *memoryTest) element(n int) uint64 {
	return readElement(t.f, elementsAt+1024+n*t.bytes, t.bytes)
}

// keep stores a register, whose lanes are to have elements; −1000 is 0.
func (t *memoryTest) keep(r asm.Reg, elements ...int) {
	t.access(asm.STR, asm.Q, r, asm.Mem{Base: frameRegister, Disp: int32(resultsAt + t.stored)})
	t.stored += vectorBytes
	for _, n := range elements {
		v := uint64(0)
		if n != none {
			v = laneOf(t.dt, t.element(n))
		}
		t.want = append(t.want, v)
	}
}

const none = -1000

// mask returns a mask whose lanes are the bits of a set, which also the test's own code has.
func (t *memoryTest) mask(set, bits int) asm.Reg {
	at := masksAt + 16*set + bits*8
	for n := range 128 / bits {
		for k := range bits / 8 {
			bytesOf(t.f)[at+n*bits/8+k] = byte(-(set >> n & 1))
		}
	}
	return t.read(asm.Q, asm.Mem{Base: frameRegister, Disp: int32(at)})
}

// run executes the routine and compares the results.
func (t *memoryTest) run(test *testing.T, what string) {
	test.Helper()
	execute(test, t.builder, t.f)
	for n, want := range t.want {
		if have := readElement(t.f, resultsAt+n*t.size, t.size); have != want {
			test.Fatalf("%s of %s, lane %d: %#x, want %#x", what, t.dt, n, have, want)
		}
	}
}

// TestReads compares reads of all kinds with loops.
func TestReads(test *testing.T) {
	for _, dt := range elementTypes {
		n := lanesOf(dt)
		count := func(from, step int) (list []int) {
			for k := range n {
				list = append(list, from+k*step)
			}
			return list
		}
		t := newMemoryTest(dt)
		for _, from := range []int{0, 1, -3, 17} {
			t.keep(t.Load(dt, t.at(from), regalloc.NoReg), count(from, 1)...)
			t.keep(t.LoadOne(dt, t.at(from)), count(from, 0)...)
			for _, step := range []int{2, -1, 3, 13} {
				lo, hi := t.LoadApart(dt, t.at(from), int64(step))
				t.keep(lo, count(from, step)...)
				if dt.Bits() == 64 {
					t.keep(hi, count(from+2*step, step)...)
				}
			}
		}
		t.run(test, "reads")
		t = newMemoryTest(dt)
		for set := range 1 << n {
			list := count(5, 1)
			for k := range list {
				if set>>k&1 == 0 {
					list[k] = none
				}
			}
			t.keep(t.Load(dt, t.at(5), t.mask(set, t.size*8)), list...)
		}
		t.run(test, "parts")
	}
}

// TestWrites compares writes of all kinds with loops.
func TestWrites(test *testing.T) {
	for _, dt := range elementTypes {
		n := lanesOf(dt)
		for set := range 1 << n {
			t := newMemoryTest(dt)
			x := t.Load(dt, t.at(-90), regalloc.NoReg)
			want := *bytesOf(t.f)
			set1 := func(to, k int) {
				at := elementsAt + 1024
				copy(want[at+to*t.bytes:][:t.bytes], bytesOf(t.f)[at+(k-90)*t.bytes:])
			}
			t.Store(dt, t.at(1), x, t.mask(set, t.size*8))
			for k := range n {
				if set>>k&1 != 0 {
					set1(1+k, k)
				}
			}
			t.Store(dt, t.at(11), x, regalloc.NoReg)
			t.StoreOne(dt, t.at(40), x)
			set1(40, 0)
			bits := t.bits(dt, x)
			for k := range n {
				set1(11+k, k)
				t.StoreLane(dt, t.at(21+2*k), bits, k)
				set1(21+2*k, k)
			}
			if dt.Bits() < 64 {
				t.StoreApart(dt, t.at(60), -3, x)
				for k := range n {
					set1(60-3*k, k)
				}
			}
			execute(test, t.builder, t.f)
			if have := bytesOf(t.f); !slices.Equal(have[elementsAt:resultsAt], want[elementsAt:resultsAt]) {
				test.Fatalf("writes of %s, set %b: %x, want %x", dt, set, have[elementsAt:resultsAt], want[elementsAt:resultsAt])
			}
		}
	}
}

// TestScattered compares reads and writes at indices with loops.
func TestScattered(test *testing.T) {
	indices := []int{7, -20, 3, 3}
	for _, wide := range []bool{false, true} {
		for _, dt := range []dtype.DType{dtype.I32, dtype.I64} {
			for set := range 17 {
				what := fmt.Sprint("wide indices: ", wide, ", set ", set)
				t := newMemoryTest(dt)
				index := lanes.Value{DType: dtype.I32}
				var bytes []byte
				for _, n := range indices {
					if wide {
						bytes = binary.LittleEndian.AppendUint64(bytes, uint64(n))
					} else {
						bytes = binary.LittleEndian.AppendUint32(bytes, uint32(n))
					}
				}
				if index.Lo = t.Vector(bytes[:16]); wide {
					index.DType, index.Hi = dtype.I64, t.Vector(bytes[16:])
				}
				mask := asm.NoReg
				if set < 16 {
					mask = t.mask(set, 32)
				}
				list := slices.Clone(indices)
				for k := range list {
					if set>>k&1 == 0 && set < 16 {
						list[k] = none
					}
				}
				want := *bytesOf(t.f)
				set1 := func(to, from int) {
					at := elementsAt + 1024
					copy(want[at+to*t.bytes:][:t.bytes], bytesOf(t.f)[at+from*t.bytes:])
				}
				for k, n := range indices {
					if list[k] != none {
						set1(n+40, k)
					}
				}
				if dt == dtype.I32 {
					t.keep(t.Gather(t.middle, index, 4, mask), list...)
					t.Scatter(t.at(40), index, t.Load(dt, t.middle, asm.NoReg), mask)
				} else {
					lo, hi := t.GatherWide(t.middle, index, mask)
					t.keep(lo, list[:2]...)
					t.keep(hi, list[2:]...)
					t.ScatterWide(t.at(40), index, t.Load(dt, t.middle, asm.NoReg), t.Load(dt, t.at(2), asm.NoReg), mask)
				}
				t.run(test, what)
				if have := bytesOf(t.f); !slices.Equal(have[elementsAt:resultsAt], want[elementsAt:resultsAt]) {
					test.Fatalf("%s: writes of %s: %x, want %x", what, dt, have[elementsAt:resultsAt], want[elementsAt:resultsAt])
				}
			}
		}
	}
}

// TestPacked compares writes of few bits with a loop.
func TestPacked(test *testing.T) {
	for _, bits := range []int{2, 4} {
		t := newMemoryTest(dtype.I32)
		want := *bytesOf(t.f)
		t.StorePacked(bits, t.at(40), t.Load(dtype.I32, t.middle, asm.NoReg))
		t.Prefetch(t.at(3))
		packed := 0
		for k := range 4 {
			packed |= int(t.element(k)) & (1<<bits - 1) << (bits * k)
		}
		at := elementsAt + 1024 + 160
		if want[at] = byte(packed); bits == 4 {
			want[at+1] = byte(packed >> 8)
		}
		execute(test, t.builder, t.f)
		if have := bytesOf(t.f); !slices.Equal(have[elementsAt:resultsAt], want[elementsAt:resultsAt]) {
			test.Fatalf("%d bits: %x, want %x", bits, have[at:at+4], want[at:at+4])
		}
	}
}
