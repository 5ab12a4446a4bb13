package amd64

import (
	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/loop"
)

// functions and functions2 are the functions of f32 that take more than an instruction.
var (
	functions  = map[loop.UnaryOp]func(b *builder, x asm.Reg) asm.Reg{}
	functions2 = map[loop.BinaryOp]func(b *builder, x, y asm.Reg) asm.Reg{}
)
