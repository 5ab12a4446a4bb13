// Package arm64 generates machine code for arm64, whose vectors have 128 bits.
//
// Package lanes emits the kernels. This package gives it the instructions, multiplies tiles in registers, and encodes
// the code.
package arm64

import (
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
	code, err := lanes.Generate(m, machine, lanes.Opening(&workspaces, isaOf(machine)))
	if err == nil && code.Place != nil && !call.Supported {
		code.Place = func() error { return diag.Unsupportedf("machine code for arm64 on another processor") }
	}
	return code, err
}

// workspaces are the unused memory of compilers.
var workspaces lanes.Workspaces[asm.Inst]

// Compile is Generate, and places the code.
func Compile(m *loop.Module, machine target.Machine) (*target.Code, error) {
	return lanes.Placed(Generate(m, machine))
}

// Text returns the machine code of a module's kernels as instructions, for a processor with the machine's features, as
// lanes.TextOf describes. X0 is the address of the kernel's frame; X1 and X2 are the first tile and the one after
// the last, and later are for the length of an instruction.
func Text(m *loop.Module, machine target.Machine) string { return lanes.Text(m, isaOf(machine)) }

// vectorRegisters is the number of vector registers; tests make it smaller.
var vectorRegisters = 32

// isaOf returns the instruction set for a machine.
func isaOf(machine target.Machine) *isa {
	return &isa{registers: vectorRegisters, dot: machine.Dot.Bytes >= 4, matrix: machine.Dot.Bytes == groupBytes,
		bf16: machine.Dot.BF16 > 1}
}

// machine emits a nest.
type machine struct{ *builder }

// Machine returns what emits a nest.
func (i *isa) Machine(b *lanes.Builder[asm.Inst, *asm.Code], _ *lanes.Emitter) lanes.Machine {
	return &machine{&builder{b, i}}
}

// Tiles returns the registers of the first tile and of the one after the last.
func (i *isa) Tiles() (begin, end asm.Reg) { return beginRegister, endRegister }

// VectorBytes is the size of a vector register.
func (i *isa) VectorBytes() int64 { return vectorBytes }

// Call calls code.
func (i *isa) Call(entry uintptr, frame unsafe.Pointer, begin, end int64) (status int64) {
	return call.Call(entry, frame, begin, end)
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
