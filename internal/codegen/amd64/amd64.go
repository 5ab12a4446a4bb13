// Package amd64 generates machine code for processors with AVX2 and FMA, or with AVX-512.
//
// Package lanes emits the kernels. This package gives it the instructions, multiplies tiles in registers, and encodes
// the code.
package amd64

import (
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
	return lanes.Generate(m, machine, lanes.Opening(&workspaces, isaOf(machine)))
}

// workspaces are the unused memory of compilers.
var workspaces lanes.Workspaces[asm.Inst]

// Compile is Generate, and places the code.
func Compile(m *loop.Module, machine target.Machine) (*target.Code, error) {
	return lanes.Placed(Generate(m, machine))
}

// Text returns the machine code of a module's kernels as instructions, for a processor with the machine's features, as
// lanes.TextOf describes. RDI is the address of the kernel's frame; RSI and RDX are the first tile and the one after
// the last.
func Text(m *loop.Module, machine target.Machine) string { return lanes.Text(m, isaOf(machine)) }

// VectorBytes is the size of a vector register.
func (i *isa) VectorBytes() int64 { return int64(i.bits / 8) }

// Call calls code.
func (i *isa) Call(entry uintptr, frame unsafe.Pointer, begin, end int64) (status int64) {
	return call.Call(entry, frame, begin, end)
}

// Tiles returns the registers of the first tile and of the one after the last.
func (i *isa) Tiles() (begin, end asm.Reg) { return asm.RSI, asm.RDX }

// Machine returns what emits a nest.
func (i *isa) Machine(b *lanes.Builder[asm.Inst, *asm.Code], e *lanes.Emitter) lanes.Machine {
	return &machine{&builder{b, i}, e}
}

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
