//go:build !darwin && !windows

#include "textflag.h"

// func cacheType() uint64
TEXT ·cacheType(SB), NOSPLIT, $0-8
	MRS  CTR_EL0, R0
	MOVD R0, ret+0(FP)
	RET

// func synchronize(begin, end, data, instructions uintptr)
TEXT ·synchronize(SB), NOSPLIT, $0-32
	MOVD begin+0(FP), R0
	MOVD end+8(FP), R1
	MOVD data+16(FP), R2
	MOVD instructions+24(FP), R3
	CBZ  R2, written
	SUB  $1, R2, R4
	BIC  R4, R0, R5
clean:
	DC   CVAU, R5
	ADD  R2, R5, R5
	CMP  R1, R5
	BLO  clean
written:
	DSB  $11             // of all processors: ISH
	CBZ  R3, forgotten
	SUB  $1, R3, R4
	BIC  R4, R0, R5
forget:
	WORD $0xD50B7525     // IC IVAU, R5
	ADD  R3, R5, R5
	CMP  R1, R5
	BLO  forget
	DSB  $11
forgotten:
	ISB  $15
	RET
