package executor

import (
	"runtime/debug"
	"slices"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/target"
)

// nosy is a kernel that adds the weight's first element to each element of its operand, and then tries to read the byte
// after every operand and after its scratch.
type nosy struct {
	nothing
	faults *int
}

// Run adds the weight, and counts the reads that fault.
func (k *nosy) Run(a *target.Args, _, _ int64, scratch []byte) error {
	floats := func(i int) []float32 {
		return unsafe.Slice((*float32)(a.Operands[i].Base), a.Operands[i].Bytes/4)
	}
	for i, v := range floats(0) {
		floats(2)[i] = v + floats(1)[0]
	}
	for _, o := range a.Operands {
		*k.faults += reads(unsafe.Add(o.Base, o.Bytes))
	}
	*k.faults += reads(unsafe.Add(unsafe.Pointer(unsafe.SliceData(scratch)), len(scratch)))
	return nil
}

// reads returns 1 if reading a byte faults.
func reads(at unsafe.Pointer) (fault int) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			fault = 1
		}
	}()
	seen = *(*byte)(at)
	return 0
}

// seen is assigned by reads, so that the compiler keeps its read.
var seen byte

// TestGuard: with Guard the byte after each operand and after the scratch faults, the results are the same, and all
// memory is given back.
func TestGuard(t *testing.T) {
	if !mem.OutsideHeap() {
		t.Skip("there are no pages here")
	}
	before := mem.Usage()
	faults := 0
	t.Run("run", func(t *testing.T) {
		c := chain(t, 3, Options{Threads: 1, Guard: true}, func(name string) target.Kernel {
			return &nosy{nothing{name, 1}, &faults}
		})
		for range 2 {
			if err := c.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, data, err := c.Output(0)
			if err != nil {
				t.Fatal(err)
			}
			if got := unsafe.Slice((*float32)(unsafe.Pointer(&data[0])), 4); !slices.Equal(got, []float32{4, 5, 6, 7}) {
				t.Errorf("got %v", got)
			}
		}
	})
	if want := 2 * 3 * 4; faults != want {
		t.Errorf("%d of %d bytes after operands and scratch fault", faults, want)
	}
	if after := mem.Usage(); after.Blocks != before.Blocks || after.All != before.All {
		t.Errorf("before %+v, after %+v", before, after)
	}
}
