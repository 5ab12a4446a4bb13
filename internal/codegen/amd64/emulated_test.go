package amd64

import (
	"encoding/binary"
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/amd64/emulatetest"
	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/portable"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

// emulator makes kernels of AVX-512 that run in an emulated processor.
type emulator struct {
	machine *emulatetest.Machine
	sync.Mutex
	runs int
}

// emulated is a kernel whose routines run in the emulator.
type emulated struct {
	*lanes.Kernel
	on     *emulator
	params []*loop.Param
}

// compile compiles a kernel. reason says why there is no machine code for it; it is empty if there is.
func (e *emulator) compile(k *loop.Kernel) (*emulated, string) {
	c, reason := lanes.CompileKernel(k, &loop.Module{}, lanes.CompilerOf(avx512))
	if c != nil && gathersByHigh(c) {
		low := *avx512
		low.registers = 16
		c, reason = lanes.CompileKernel(k, &loop.Module{}, lanes.CompilerOf(&low))
	}
	return &emulated{c, e, k.Params}, reason
}

// gathersByHigh reports whether a kernel's code may have a gather whose indices are in vector register 16 or above: the
// emulator does not know such an instruction.
func gathersByHigh(k *lanes.Kernel) bool {
	for _, n := range k.Nests {
		for at := 0; at+5 < len(n.Code); at++ {
			c := n.Code[at:]
			if c[0] == 0x62 && c[1]&7 == 2 && c[2]&3 == 1 && c[3]&8 == 0 && c[4]&0xfc == 0x90 && c[5]&7 == 4 {
				return true
			}
		}
	}
	return false
}

// harness returns a harness that compiles kernels for the emulated processor. Kernels without machine code become
// portable code.
func (e *emulator) harness(t testing.TB) kerneltest.Harness {
	machine, err := target.For("avx512", 1)
	if err != nil {
		t.Fatal(err)
	}
	return kerneltest.Harness{Machine: machine, Compile: func(m *loop.Module, machine target.Machine) (*target.Code,
		error) {
		code, err := portable.Compile(m, machine)
		if err != nil {
			return nil, err
		}
		for i, k := range m.Kernels {
			if c, reason := e.compile(k); reason == "" {
				code.Kernels[i] = c
			}
		}
		return code, nil
	}}
}

// Run copies operands and scratch to pages of the emulated memory and back. Every second operand begins where a page
// does, the others end where a page does, and the next run exchanges the two. An access to a page beside an operand's
// faults, and so does a write to an operand that the kernel only reads.
func (k *emulated) Run(a *target.Args, begin, end int64, scratch []byte) error {
	k.on.Lock()
	defer k.on.Unlock()
	k.on.runs++
	frame := &emulatetest.Region{Bytes: scratch}
	regions := []*emulatetest.Region{frame}
	for i, o := range a.Operands {
		regions = append(regions, &emulatetest.Region{Bytes: unsafe.Slice((*byte)(o.Base), o.Bytes),
			ReadOnly: k.params[i].Access == loop.Read})
	}
	emulatetest.Place(1, regions...)
	frame.Address &^= loop.ScratchAlign - 1
	words := unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(scratch[k.Header:]))), k.Fixed/8)
	at := frame.Address + uint64(k.Header)
	for i, r := range regions[1:] {
		if (i+k.on.runs)%2 == 0 {
			r.Address &^= 4095
		}
		words[k.First+i] = int64(r.Address)
	}
	var fault error
	err := k.RunBy(words, int64(at), a, begin, end, nil, func(_ unsafe.Pointer, _ *lanes.Kernel, n *lanes.Nest, begin,
		end int64, resume bool) (status int64) {
		if k.Header > 0 {
			*(*int64)(unsafe.Add(unsafe.Pointer(&words[0]), lanes.BudgetWord)) = lanes.Budget()
		}
		code := n.Code
		if k.Header > 0 {
			code = k.withPause(n.Code, unsafe.Pointer(&words[0]), resume)
		}
		rax, err := k.on.machine.Run(code, map[asm.Reg]uint64{asm.RDI: at, asm.RSI: uint64(begin), asm.RDX: uint64(end)},
			regions...)
		if err != nil {
			fault = err
		}
		return int64(rax)
	})
	if fault != nil {
		return fmt.Errorf("kernel @%s: %w", k.Name(), fault)
	}
	return err
}

// withPause returns a jump, then a routine, then the code by which the routine pauses. The jump leads to the routine
// or, if resume is true, to the code that continues a paused routine.
func (k *emulated) withPause(routine []byte, frame unsafe.Pointer, resume bool) []byte {
	save, from := k.Processor.PauseCode()
	to := 0
	if resume {
		to = len(routine) + from
	}
	code := append(slices.Grow([]byte(nil), 64+len(routine)+len(save)), 0xE9)
	code = binary.LittleEndian.AppendUint32(code, uint32(lanes.RoutineAlign-5+to))
	code = append(code, make([]byte, lanes.RoutineAlign-len(code))...)
	*(*uint64)(unsafe.Add(frame, lanes.PauseWord)) = emulatetest.CodeAddress + lanes.RoutineAlign + uint64(len(routine))
	return append(append(code, routine...), save...)
}

var all = flag.Bool("all", false, "emulate all kernels, not only some: half a minute")

// some returns a harness that runs one of each `one` cases, or, with -all, every case.
func (e *emulator) some(t testing.TB, one int) kerneltest.Harness {
	if *all {
		one = 1
	}
	return e.harness(t).One(one)
}

// TestEmulated runs kernels of package kerneltest, and random products, compiled for AVX-512, in an emulated processor.
func TestEmulated(t *testing.T) {
	e := &emulator{machine: emulatetest.New(t)}
	t.Cleanup(func() { t.Logf("%d runs", e.runs) })
	seeds := int64(40)
	if *all {
		seeds = 500
	}
	t.Run("functions", func(t *testing.T) { e.some(t, 101).Functions(t) })
	t.Run("conversions", func(t *testing.T) { e.some(t, 23).Conversions(t) })
	t.Run("specials", func(t *testing.T) { e.some(t, 43).Specials(t) })
	t.Run("powers", func(t *testing.T) { e.some(t, 5).Powers(t) })
	t.Run("checks", func(t *testing.T) { e.some(t, 1).Checks(t) })
	t.Run("contractions", func(t *testing.T) { e.some(t, 11).Contractions(t) })
	t.Run("empty contractions", func(t *testing.T) { e.some(t, 3).EmptyContractions(t) })
	t.Run("tiles", func(t *testing.T) { e.some(t, 1).TilesAtOnce(t) })
	t.Run("courses", func(t *testing.T) { e.some(t, 9).Courses(t) })
	t.Run("random", func(t *testing.T) {
		for seed := range seeds {
			e.harness(t).Random(t, seed, seed%2 == 1)
		}
	})
	t.Run("few registers", func(t *testing.T) {
		defer func(n int) { avx512.registers = n }(avx512.registers)
		avx512.registers = 6
		for seed := range seeds {
			e.harness(t).Random(t, 1000+seed, seed%2 == 1)
		}
	})
	// The tiles that machines with AVX-512 have are 14×32 and 8×48.
	t.Run("products", func(t *testing.T) {
		for i, c := range kerneltest.Products(500, []int64{0, 0, 8, 14, 28}, []int64{32, 48, 32, 48, 16, 40, 64, 128}) {
			if !*all && i%10 != 0 {
				continue
			}
			t.Run(c.String(), func(t *testing.T) { c.Agree(t, e.harness(t)) })
		}
	})
}
