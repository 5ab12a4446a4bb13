//go:build !unix && !windows

package mem

import (
	"errors"
	"os"
	"unsafe"
)

const outsideHeap = false

// heapAlignment is the alignment of blocks of Go's heap, in bytes.
const heapAlignment = 64

// maxHeapBlock is the largest block: a larger request to Go's heap might end the process, and cannot be caught.
const maxHeapBlock = 3 << 30

// mapPages takes an aligned piece of Go's heap.
func mapPages(bytes int, name string) (m mapping, err error) {
	if int64(bytes) > maxHeapBlock {
		return mapping{}, errAddressSpace
	}
	defer func() {
		if recover() != nil { // make panics at a length beyond the address space
			err = errAddressSpace
		}
	}()
	whole := make([]byte, bytes+heapAlignment-1)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(whole))) % heapAlignment)
	return mapping{pages: whole[skip : skip+bytes : skip+bytes], reserved: whole}, nil
}

// tooMany reports whether the system has no room for another open file, which is not known here.
func tooMany(err error) bool { return false }

// mapFile is not supported on this system.
func mapFile(f *os.File, bytes int, writable bool) (mapping, error) {
	return mapping{}, errors.ErrUnsupported
}

// release leaves the memory to Go's collector.
func (m mapping) release() error { return nil }

// protect does nothing: Go's heap has no protection.
func (m mapping) protect(a access) error { return nil }

// drop does nothing.
func (m mapping) drop(first, last int) {}

// retire overwrites the memory, since it cannot be made inaccessible.
func (m mapping) retire() error {
	FillBytes(m.pages, closedPattern)
	return nil
}
