// Package arm64 generates machine code for arm64, whose vectors have 128 bits.
//
// Package lanes emits the kernels. This package gives it the instructions, multiplies tiles in registers, and encodes
// the code.
package arm64

import (
	"sync"
	"unsafe"

	"github.com/weirml/weir/internal/codegen/arm64/asm"
	"github.com/weirml/weir/internal/codegen/arm64/call"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/target"
)

// Generate makes the kernels of a module, as lanes.Generate describes. On another processor the code cannot be placed.
func Generate(m *loop.Module, machine target.Machine) (*target.Code, error) {
	i := isaOf(machine)
	code, err := lanes.Generate(m, machine, func() (lanes.Compiler, func()) {
		work := workspaces.Get().(*workspace)
		return &compiler{work, i}, func() { workspaces.Put(work) }
	})
	if err == nil && code.Place != nil && !call.Supported {
		code.Place = func() error { return diag.Unsupportedf("machine code for arm64 on another processor") }
	}
	return code, err
}

// workspaces are the unused workspaces.
var workspaces = sync.Pool{New: func() any { return &workspace{} }}

// Compile is Generate, and places the code.
func Compile(m *loop.Module, machine target.Machine) (*target.Code, error) {
	return lanes.Placed(Generate(m, machine))
}

// vectorRegisters is the number of vector registers; tests make it smaller.
var vectorRegisters = 32

// isaOf returns the instruction set for a machine.
func isaOf(machine target.Machine) *isa {
	return &isa{registers: vectorRegisters, dot: machine.Dot.Bytes == 4, matrix: machine.Has("i8mm"),
		bf16: machine.Dot.BF16 > 1}
}

// compiler makes code for an instruction set, with memory that it reuses.
type compiler struct {
	work *workspace
	isa  *isa
}

// Processor returns the instruction set.
func (c *compiler) Processor() lanes.Processor { return c.isa }

// machine emits a nest: what takes instructions of this machine. Its emitter does the rest.
type machine struct {
	*lanes.Emitter
	*builder
}

// Routine emits a nest: a loop over the tiles.
func (c *compiler) Routine(k *lanes.KernelEmitter, n loop.Nest) lanes.Routine {
	e := &machine{builder: c.work.builder(c.isa)}
	e.Emitter = lanes.NewEmitter(e, k, vectorLanes, int64(c.isa.registers)/4)
	e.Open(nil)
	tile, end := e.General(), e.General()
	e.Assign(tile, beginRegister)
	e.Assign(end, endRegister)
	return routine{e.builder, e.Nest(n, tile, end)}
}

// VectorBytes is the size of a vector register.
func (i *isa) VectorBytes() int64 { return vectorBytes }

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

// Try makes a routine of machine code and runs it. The error is that of mem.MapCode: ErrUnsupported if the system, or
// the processor, does not run such code.
func Try() error {
	if !call.Supported {
		return diag.Unsupportedf("machine code for arm64 on another processor")
	}
	var c asm.Code
	frame, begin, end := asm.X(0), asm.X(1), asm.X(2)
	c.Emit(asm.Inst{Op: asm.LDR, Shape: asm.X64, Args: [6]asm.Reg{frame, asm.Memory}, Mem: asm.Mem{Base: frame}})
	c.Emit(asm.Inst{Op: asm.MADD, Shape: asm.X64, Args: [6]asm.Reg{frame, begin, end, frame}})
	c.Emit(asm.Inst{Op: asm.RET})
	code, err := c.Finish()
	if err != nil {
		return err
	}
	block, err := mem.MapCode("try", code)
	if err != nil {
		return err
	}
	word := int64(2)
	have := call.Call(uintptr(block.Pointer()), unsafe.Pointer(&word), 5, 8)
	if err := block.Close(); err != nil {
		return err
	}
	if have != 42 {
		return diag.Internalf("arm64: a routine returned %d instead of 42", have)
	}
	return nil
}
