// Package arm64 is the place of machine code for arm64. There is no generator yet: Try shows whether the system would
// run its code.
package arm64

import (
	"unsafe"

	"github.com/weirml/weir/internal/codegen/arm64/asm"
	"github.com/weirml/weir/internal/codegen/arm64/call"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
)

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
