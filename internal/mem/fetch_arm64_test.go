//go:build !darwin && !windows

package mem

import "testing"

// TestLines: the sizes of lines are those of the register, unless the processor needs no instructions.
func TestLines(t *testing.T) {
	const both = 1<<28 | 1<<29
	for register, want := range map[uint64][2]uintptr{
		0x8444C004: {64, 64}, 0x80038003: {32, 32}, 0x84448003: {64, 32},
		0x8444C004 | 1<<28: {0, 64}, 0x8444C004 | 1<<29: {64, 0}, 0x8444C004 | both: {},
	} {
		if data, instructions := lines(register); [2]uintptr{data, instructions} != want {
			t.Errorf("%#x: lines of %d and %d bytes, want %d", register, data, instructions, want)
		}
	}
	if data, instructions := lines(cacheType()); data > 2048 || instructions > 2048 {
		t.Errorf("this processor's lines have %d and %d bytes", data, instructions)
	}
}
