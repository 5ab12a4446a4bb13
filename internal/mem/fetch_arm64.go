//go:build !darwin && !windows

package mem

import (
	"runtime"
	"unsafe"
)

// fetchable makes all processors fetch the instructions in pages that were written: caches of data write them to where
// caches of instructions read, and these forget what they held of the addresses. Systems other than macOS and Windows
// let programs do both, and know the size of lines; Linux reports the least size among unlike processors.
func fetchable(pages []byte) error {
	data, instructions := lines(cacheType())
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(pages)))
	synchronize(begin, begin+uintptr(len(pages)), data, instructions)
	runtime.KeepAlive(pages)
	return nil
}

// lines returns the sizes in bytes of the lines of data to write and of instructions to forget, by the register
// CTR_EL0; 0 if the processor does that by itself.
func lines(register uint64) (data, instructions uintptr) {
	const wordBytes, dataByItself, instructionsByItself = 4, 1 << 28, 1 << 29
	if register&dataByItself == 0 {
		data = wordBytes << (register >> 16 & 15)
	}
	if register&instructionsByItself == 0 {
		instructions = wordBytes << (register & 15)
	}
	return data, instructions
}

// cacheType returns the register CTR_EL0.
func cacheType() uint64

// synchronize writes the lines of data from begin to end to memory that caches of instructions read, and makes these
// caches forget the lines; lines of 0 bytes need nothing. It ends with barriers, so that what comes after sees both.
//
//go:noescape
func synchronize(begin, end, data, instructions uintptr)
