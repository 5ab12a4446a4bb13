//go:build ((linux && !android) || (darwin && !ios) || windows) && (amd64 || arm64)

package vulkan

import (
	"context"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/codegen/portable"
	"github.com/weirml/weir/internal/codegen/spirv"
	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// opened is the device that the tests share.
var opened struct {
	sync.Once
	device *Device
	err    error
}

// open returns the first device, with the validation layer if that is installed. If there is no device, it skips the
// test, which the log says. The test fails if the validation layer has messages at its end.
func open(t testing.TB) *Device {
	t.Helper()
	opened.Do(func() {
		if opened.device, opened.err = Open(0, Options{Validate: true}); opened.err != nil {
			t.Logf("WITHOUT THE VALIDATION LAYER (Debian: vulkan-validationlayers): %v", opened.err)
			Messages() // some loaders say that the layer is missing
			opened.device, opened.err = Open(0, Options{})
		}
	})
	if opened.err != nil {
		t.Skipf("THERE IS NO VULKAN DEVICE HERE: the test is skipped: %v", opened.err)
	}
	t.Cleanup(func() {
		for _, m := range Messages() {
			t.Errorf("the validation layer says: %s", m)
		}
	})
	return opened.device
}

// TestMain closes the shared device, and fails if memory was not freed or the validation layer has messages.
func TestMain(m *testing.M) {
	code := m.Run()
	if opened.device != nil {
		if u := opened.device.Usage(); u.Memory != 0 || u.Queues != 0 {
			println("memory of the device was not freed")
			code = 1
		}
		opened.device.Close()
		for _, m := range Messages() {
			println("the validation layer says: " + m)
			code = 1
		}
	}
	os.Exit(code)
}

// onDevice is a kernel whose Run copies its operands to the device, runs it there, and copies them back.
type onDevice struct {
	target.Blocks
	device *Device
	loop   *loop.Kernel
}

// Tiles returns 1 if there is work: the device runs all blocks in one launch.
func (k *onDevice) Tiles(dims []int64) (int64, error) {
	n, err := k.Blocks.Tiles(dims)
	return min(n, 1), err
}

// Scratch returns 0: the host needs none.
func (k *onDevice) Scratch(dims []int64) (int64, error) { return 0, nil }

func (k *onDevice) Run(a *target.Args, begin, end int64, _ []byte) error {
	if begin >= end {
		return nil
	}
	return k.run(a)
}

// run runs the kernel with new device memory, which it frees.
func (k *onDevice) run(a *target.Args) (err error) {
	loaded, err := k.device.Load(k.Blocks)
	if err != nil {
		return err
	}
	defer loaded.Close()
	q, err := k.device.NewQueue()
	if err != nil {
		return err
	}
	defer q.Close()
	need, err := k.Blocks.Scratch(a.Dims)
	if err != nil {
		return err
	}
	scratch, err := k.device.Allocate("scratch", need)
	if err != nil {
		return err
	}
	defer scratch.Close()
	var memories []device.Memory
	var operands []uint64
	for _, o := range a.Operands {
		m, err := k.device.Allocate("an operand", o.Bytes)
		if err != nil {
			return err
		}
		defer m.Close()
		if err := q.Upload(m, 0, unsafe.Slice((*byte)(o.Base), o.Bytes)); err != nil {
			return err
		}
		memories, operands = append(memories, m), append(operands, m.Address())
	}
	if err := q.Launch(loaded, operands, a.Dims, scratch.Address()); err != nil {
		return err
	}
	failed := q.Wait(context.Background())
	for i, o := range a.Operands {
		if k.loop.Params[i].Access == loop.Read {
			continue
		}
		if err := q.Download(unsafe.Slice((*byte)(o.Base), o.Bytes), memories[i], 0); err != nil {
			return err
		}
	}
	return failed
}

// harness returns a harness that compiles for the device without some features, and counts the kernels that the device
// cannot run, by their reasons.
func harness(t testing.TB, refused map[string]int, without ...string) kerneltest.Harness {
	d := open(t)
	have := slices.DeleteFunc(slices.Clone(d.Machine().Features), func(f string) bool {
		return slices.Contains(without, f)
	})
	device := target.Vulkan(d.Machine().Limits, have...)
	return kerneltest.Harness{Machine: device, Compile: func(m *loop.Module, machine target.Machine) (*target.Code,
		error) {
		bound(m, device)
		code, err := spirv.Compile(m, device)
		var e *diag.Error
		if errors.As(err, &e) && errors.Is(err, diag.ErrUnsupported) {
			refused[e.Detail]++
			return portable.Compile(m, target.Portable(1))
		}
		if err != nil {
			return nil, err
		}
		for i, k := range code.Kernels {
			code.Kernels[i] = &onDevice{k.(target.Blocks), d, m.Kernels[i]}
		}
		return code, nil
	}}
}

// bound gives dimensions without ranges a greatest value, if the device has no integers of 64 bits.
func bound(m *loop.Module, device target.Machine) {
	if m.Dims != nil || device.Has(target.Int64) {
		return
	}
	m.Dims = sym.NewDims()
	for _, k := range m.Kernels {
		for _, name := range k.Dims {
			m.Dims.Set(name, sym.Range{Max: 2000})
		}
	}
}

var all = flag.Bool("all", false,
	"run every kernel of the suites on the device, which takes minutes: a driver compiles each of them")

// TestKernels runs the suites of package kerneltest on the device; of the long ones a sample, unless -all is given.
func TestKernels(t *testing.T) {
	refused := map[string]int{}
	for _, c := range []struct {
		name  string
		suite func(h kerneltest.Harness, t *testing.T)
		every int // two of so many kernels run: Lanes asks twice for each
	}{
		{"functions", kerneltest.Harness.Functions, 131}, {"conversions", kerneltest.Harness.Conversions, 23},
		{"specials", kerneltest.Harness.Specials, 307},
		{"powers", kerneltest.Harness.Powers, 1}, {"quantisations", kerneltest.Harness.Quantisations, 17},
		{"few bits", kerneltest.Harness.FewBits, 17},
		{"checks", kerneltest.Harness.Checks, 1}, {"outside", kerneltest.Harness.Outside, 1},
		{"contractions", kerneltest.Harness.Contractions, 11},
		{"divisions", kerneltest.Harness.Divisions, 23}, {"empty contractions", kerneltest.Harness.EmptyContractions, 1},
		{"courses", kerneltest.Harness.Courses, 1},
		{"wide", kerneltest.Harness.Wide, 1},
		{"lanes", kerneltest.Harness.Lanes, 37}, {"borders", kerneltest.Harness.Borders, 17},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, n := harness(t, refused), 0
			h.Take = func() bool { n++; return *all || n%c.every < 2 }
			c.suite(h, t)
		})
	}
	t.Logf("refused: %v", refused)
}

// TestFewFeatures runs kernels that were compiled for devices with fewer features.
func TestFewFeatures(t *testing.T) {
	for _, without := range [][]string{
		{target.Int64}, {target.Int8, target.Storage8, target.Dot8}, {target.Int16, target.Storage16},
		{target.Int64, target.Float64, target.Int8, target.Int16, target.Storage8, target.Storage16, target.Dot8,
			target.Float16},
	} {
		t.Run(strings.Join(without, " "), func(t *testing.T) {
			refused := map[string]int{}
			for _, k := range kerneltest.BlockKernels(t) {
				runBlocks(t, k, without...)
			}
			for seed := range int64(12) {
				harness(t, refused, without...).Random(t, seed, false)
			}
			h, n := harness(t, refused, without...), 0
			every := 0
			h.Take = func() bool { n++; return *all || n%every < 2 }
			for i, suite := range []func(h kerneltest.Harness, t *testing.T){
				kerneltest.Harness.Functions, kerneltest.Harness.Conversions, kerneltest.Harness.FewBits,
				kerneltest.Harness.Divisions, kerneltest.Harness.Checks,
			} {
				every = []int{1009, 101, 61, 101, 1}[i]
				suite(h, t)
			}
			t.Logf("refused: %v", refused)
		})
	}
}

// TestRandomKernels compares random kernels with the interpreter.
func TestRandomKernels(t *testing.T) {
	refused := map[string]int{}
	seeds := int64(100)
	if *all {
		seeds = 1000
	}
	for seed := range seeds {
		harness(t, refused).Random(t, seed, false)
	}
	t.Logf("refused: %v", refused)
}
