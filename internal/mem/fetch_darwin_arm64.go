package mem

import (
	"runtime"
	"unsafe"
)

// The system documents one function for this, in the library that every Go program is linked with. The instructions for
// it need the size of lines, and whether programs may read the register that has it is not documented.
//
//go:cgo_import_dynamic mem_sys_icache_invalidate sys_icache_invalidate "/usr/lib/libSystem.B.dylib"

// invalidateAddress is the address of sys_icache_invalidate.
var invalidateAddress uintptr

// systemCall calls a function of the system's library.
//
//go:linkname systemCall syscall.syscall
func systemCall(function, first, second, third uintptr) (r1, r2, errno uintptr)

// fetchable makes all processors fetch the instructions in pages that were written.
func fetchable(pages []byte) error {
	// the function returns nothing, so the results mean nothing
	systemCall(invalidateAddress, uintptr(unsafe.Pointer(unsafe.SliceData(pages))), uintptr(len(pages)), 0)
	runtime.KeepAlive(pages)
	return nil
}
