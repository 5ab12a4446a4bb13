//go:build ((linux && !android) || (darwin && !ios) || windows) && (amd64 || arm64)

package vulkan

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// The kernels of these tests are compiled from GLSL, so that failures are not the code generator's fault: see
// testdata/make.sh.
var (
	//go:embed testdata/step.spv
	stepCode []byte
	//go:embed testdata/check.spv
	checkCode []byte
	//go:embed testdata/mirror.spv
	mirrorCode []byte
)

// written is a kernel written by hand. Its dimensions are the number of elements, and a number that each kernel uses
// differently.
type written struct {
	name   string
	binary target.Binary
	steps  int64
}

// write returns a kernel from SPIR-V bytes, with some entries.
func write(name string, code []byte, entries ...string) *written {
	w := &written{name: name}
	for c := range slices.Chunk(code, 4) {
		w.binary.Words = append(w.binary.Words, binary.LittleEndian.Uint32(c))
	}
	for _, e := range entries {
		w.binary.Entries = append(w.binary.Entries, target.Entry{Name: e, Threads: 64})
	}
	return w
}

func stepKernel() *written   { return write("step", stepCode, "step") }               // x = 3x+1, a number of times
func checkKernel() *written  { return write("check", checkCode, "check") }            // each x is less than a number
func mirrorKernel() *written { return write("mirror", mirrorCode, "fill", "spread") } // see testdata

func (w *written) Name() string                                 { return w.name }
func (w *written) Tiles(dims []int64) (int64, error)            { return (dims[0] + 63) / 64, nil }
func (w *written) TilesFormula() sym.Expr                       { return sym.Const(0) }
func (w *written) ScratchFormula() sym.Expr                     { return sym.Const(0) }
func (w *written) Scratch([]int64) (int64, error)               { return 0, nil }
func (w *written) Needs(dims, bytes []int64) error              { return nil }
func (w *written) Binary() *target.Binary                       { return &w.binary }
func (w *written) Steps([]int64) (int64, error)                 { return w.steps, nil }
func (w *written) Run(*target.Args, int64, int64, []byte) error { return errors.New("a device's") }

func (w *written) Grid(dims, blocks []int64) error {
	if dims[0] < 0 {
		return diag.Inputf("%d elements", dims[0])
	}
	for i := range blocks {
		blocks[i] = (dims[0] + 63) / 64
	}
	return nil
}

func (w *written) Failed(r target.Report) error {
	if r[0] == 0 {
		return nil
	}
	return diag.Inputf("check %d: %d is not in [%d, %d]", r[0], r[1], r[2], r[3])
}

// stepped returns the result of the kernel step for a value.
func stepped(v uint32, rounds int) uint32 {
	for range rounds {
		v = 3*v + 1
	}
	return v
}

// words returns n different words.
func words(n int, seed uint32) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(i)*2654435761 + seed
	}
	return out
}

// bytesOfWords returns the memory of words.
func bytesOfWords(w []uint32) []byte {
	if len(w) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&w[0])), 4*len(w))
}

// must fails the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bench has a queue, kernels and memory for a test, all of which are closed when it ends.
type bench struct {
	testing.TB
	device *Device
	queue  device.Queue
}

func newBench(t testing.TB, d *Device) *bench {
	b := &bench{TB: t, device: d}
	b.queue = b.newQueue()
	return b
}

func (b *bench) newQueue() device.Queue {
	b.Helper()
	q, err := b.device.NewQueue()
	must(b, err)
	b.Cleanup(func() { must(b, q.Close()) })
	return q
}

func (b *bench) load(w *written) device.Kernel {
	b.Helper()
	k, err := b.device.Load(w)
	must(b, err)
	b.Cleanup(func() { must(b, k.Close()) })
	return k
}

func (b *bench) allocate(bytes int64) device.Memory {
	b.Helper()
	m, err := b.device.Allocate("a test", bytes)
	must(b, err)
	b.Cleanup(func() { must(b, m.Close()) })
	return m
}

// put returns device memory with some words.
func (b *bench) put(w []uint32) device.Memory {
	b.Helper()
	m := b.allocate(int64(4 * len(w)))
	must(b, b.queue.Upload(m, 0, bytesOfWords(w)))
	return m
}

// get returns the words in device memory.
func (b *bench) get(m device.Memory) []uint32 {
	b.Helper()
	out := make([]uint32, m.Bytes()/4)
	must(b, b.queue.Download(bytesOfWords(out), m, 0))
	return out
}

// wait waits for the queue.
func (b *bench) wait() {
	b.Helper()
	must(b, b.queue.Wait(context.Background()))
}

// same compares words.
func same(t testing.TB, got, want []uint32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d words, not %d", len(got), len(want))
	}
	for i, w := range want {
		if got[i] != w {
			t.Fatalf("word %d is %d, not %d", i, got[i], w)
		}
	}
}

// both runs a test twice: with device memory that the host can access, and without such access.
func both(t *testing.T, test func(t *testing.T, d *Device)) {
	for _, name := range []string{"seen", "hidden"} {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			d.hidden = name == "hidden"
			defer func() { d.hidden = false }()
			test(t, d)
		})
	}
}

// fresh opens the device again, for one test, with the validation layer if it is installed.
func fresh(t testing.TB, o Options) (*Device, error) {
	o.Validate = open(t).messages != nil
	return Open(0, o)
}

// silent fails the test for each message of the validation layer, except those that contain one of but.
func silent(t testing.TB, but ...string) {
	t.Helper()
	for _, m := range Messages() {
		if !slices.ContainsFunc(but, func(s string) bool { return strings.Contains(m, s) }) {
			t.Errorf("the validation layer says: %s", m)
		}
	}
}
