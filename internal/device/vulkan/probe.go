//go:build ((linux && !android) || (darwin && !ios) || windows) && (amd64 || arm64)

package vulkan

import (
	"context"
	"math"
	"unsafe"

	"github.com/weirml/weir/internal/target"
)

// probe is the kernel that fuses runs: it adds x[0]·x[1] to y[0].
type probe struct {
	target.Blocks // nil: a launch calls only the methods below
}

func (probe) Name() string                 { return "probe" }
func (probe) Failed(target.Report) error   { return nil }
func (probe) Grid(_, blocks []int64) error { blocks[0] = 1; return nil }
func (probe) Binary() *target.Binary {
	return &target.Binary{Words: probeWords, Entries: []target.Entry{{Name: "part0", Threads: 1}}}
}

// fuses reports whether the device's instruction for a product and a sum rounds once, which Vulkan leaves open and does
// not report. It runs the instruction on numbers whose rounded product is the negated summand: the result is 0 if it
// rounds twice.
func (d *Device) fuses() (fused bool, err error) {
	loaded, err := d.Load(probe{})
	if err != nil {
		return false, err
	}
	defer loaded.Close()
	memory, err := d.Allocate("probe", 128)
	if err != nil {
		return false, err
	}
	defer memory.Close()
	q, err := d.NewQueue()
	if err != nil {
		return false, err
	}
	defer q.Close()
	const factor = 1 + 0x1p-12
	x := [2]float32{factor, factor}
	y := [1]float32{-(1 + 0x1p-11)}
	if err := q.Upload(memory, 0, unsafe.Slice((*byte)(unsafe.Pointer(&x)), 8)); err != nil {
		return false, err
	}
	if err := q.Upload(memory, 64, unsafe.Slice((*byte)(unsafe.Pointer(&y)), 4)); err != nil {
		return false, err
	}
	if err := q.Launch(loaded, []uint64{memory.Address(), memory.Address() + 64}, nil, 0); err != nil {
		return false, err
	}
	if err := q.Wait(context.Background()); err != nil {
		return false, err
	}
	if err := q.Download(unsafe.Slice((*byte)(unsafe.Pointer(&y)), 4), memory, 64); err != nil {
		return false, err
	}
	return math.Float32bits(y[0]) == math.Float32bits(0x1p-24), nil
}
