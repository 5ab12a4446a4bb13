#include "textflag.h"

// func Call(code uintptr, frame unsafe.Pointer, begin, end int64) (status int64)
TEXT ·Call(SB), 0, $16-40
	MOVD code+0(FP), R9
	MOVD frame+8(FP), R0
	MOVD begin+16(FP), R1
	MOVD end+24(FP), R2
	ISB  $15
	CALL (R9)
	MOVD R0, status+32(FP)
	RET
