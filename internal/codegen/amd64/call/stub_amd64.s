#include "textflag.h"

// func Call(code uintptr, frame unsafe.Pointer, begin, end int64) (status int64)
TEXT ·Call(SB), 0, $16-40
	MOVQ code+0(FP), AX
	MOVQ frame+8(FP), DI
	MOVQ begin+16(FP), SI
	MOVQ end+24(FP), DX
	CALL AX
	VZEROUPPER
	MOVQ AX, status+32(FP)
	RET
