// Package reference runs loop kernels by interpreting them: the simple and slow target with which all others are
// compared.
package reference

import (
	"runtime"
	"unsafe"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// Machine returns the machine of this target: one worker, without limits or features.
func Machine() target.Machine {
	return target.Machine{Name: "reference", Arch: runtime.GOARCH, Threads: 1}
}

// Compile returns interpreters of kernels. It panics, with the kernel's text, if one is not well formed.
func Compile(kernels []*loop.Kernel) *target.Code {
	code := &target.Code{Machine: Machine()}
	for _, k := range kernels {
		code.Kernels = append(code.Kernels, &kernel{k, loop.NewInterpreter(k), loop.WidthOf(k)})
	}
	return code
}

// kernel is one interpreted kernel: a single tile, whose locals have the offsets of loop.Locals in the worker's
// scratch.
type kernel struct {
	loop  *loop.Kernel
	code  *loop.Interpreter
	width *loop.Width
}

// Name returns the loop kernel's name.
func (k *kernel) Name() string { return k.loop.Name }

// Tiles returns 1: the interpreter runs everything in order.
func (k *kernel) Tiles(dims []int64) (int64, error) { return 1, k.width.Check(dims) }

// Needs sets bytes to the size that each operand must have.
func (k *kernel) Needs(dims, bytes []int64) error { return k.width.Needs(dims, bytes) }

// TilesFormula returns 1.
func (k *kernel) TilesFormula() sym.Expr { return sym.Const(1) }

// ScratchFormula returns the bytes of the kernel's locals.
func (k *kernel) ScratchFormula() sym.Expr { return loop.Scratch(k.loop) }

// Scratch returns ScratchFormula's value for some dimensions.
func (k *kernel) Scratch(dims []int64) (int64, error) { return k.code.Scratch(dims) }

// Run interprets the kernel on the operands' memory.
func (k *kernel) Run(a *target.Args, begin, end int64, scratch []byte) error {
	if begin >= end {
		return nil
	}
	operands := make([]loop.Data, len(a.Operands))
	for i, o := range a.Operands {
		operands[i] = loop.Data{DType: k.loop.Params[i].DType, Bytes: unsafe.Slice((*byte)(o.Base), o.Bytes)}
	}
	return k.code.Run(operands, a.Dims, scratch)
}
