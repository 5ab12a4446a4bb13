// Package amd64 generates machine code for processors with AVX2 and FMA, or with AVX-512.
//
// Package lanes emits the kernels. This package gives it the instructions, multiplies tiles in registers, and encodes
// the code.
package amd64

import (
	"sync"
	"unsafe"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/amd64/call"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

// Generate makes the kernels of a module, as lanes.Generate describes.
func Generate(m *loop.Module, machine target.Machine) (*target.Code, error) {
	if !call.Supported {
		return nil, diag.Unsupportedf("machine code for amd64 on another processor")
	}
	i := isaOf(machine)
	return lanes.Generate(m, machine, func() (lanes.Compiler, func()) {
		work := workspaces.Get().(*workspace)
		return &compiler{work, i}, func() { workspaces.Put(work) }
	})
}

// compiler makes code for an instruction set, with memory that it reuses.
type compiler struct {
	work *workspace
	isa  *isa
}

// Processor returns the instruction set.
func (c *compiler) Processor() lanes.Processor { return c.isa }

// VectorBytes is the size of a vector register.
func (i *isa) VectorBytes() int64 { return int64(i.bits / 8) }

// Call calls code.
func (i *isa) Call(entry uintptr, frame unsafe.Pointer, begin, end int64) (status int64) {
	return call.Call(entry, frame, begin, end)
}

// routine is a nest's instructions, and the label of its loop over tiles.
type routine struct {
	*builder
	tiles asm.Label
}

// Finish turns the routine into machine code.
func (r routine) Finish(spill int32) (code []byte, frame int32, tile, longest int64) {
	insts, frame := r.allocate(spill)
	insts, tile, longest = r.budgets.Finish(r.isa, insts, r.tiles, r.Label, &r.work.paused)
	return r.encode(insts), frame, tile, longest
}

// Compile is Generate, and places the code.
func Compile(m *loop.Module, machine target.Machine) (*target.Code, error) {
	return lanes.Placed(Generate(m, machine))
}

// workspaces are the unused workspaces.
var workspaces = sync.Pool{New: func() any { return &workspace{} }}

// isaOf returns the instruction set for a machine: AVX-512 with vectors of 64 bytes, perhaps in halves, or AVX2.
func isaOf(machine target.Machine) *isa {
	if machine.VectorBytes < 64 {
		i := *avx2
		i.dot = machine.Dot.Bytes
		return &i
	}
	i := *avx512
	i.squares = machine.Has("amxtile") && machine.Has("amxint8") && machine.Has("amxbf16")
	if i.dot, i.bf16 = machine.Dot.Bytes, machine.Dot.BF16; machine.Halves() {
		return i.inHalves()
	}
	return &i
}

// Routine emits a nest: a loop over the tiles from RSI to RDX.
func (c *compiler) Routine(k *lanes.KernelEmitter, n loop.Nest) lanes.Routine {
	e := &machine{builder: c.work.builder(c.isa)}
	e.Emitter = lanes.NewEmitter(e, k, c.isa.lanes, int64(c.isa.registers)/4)
	e.Open(nil)
	tile, end := e.General(), e.General()
	e.Assign(tile, asm.RSI)
	e.Assign(end, asm.RDX)
	return routine{e.builder, e.Nest(n, tile, end)}
}
