package call

import "unsafe"

// Supported reports whether Call works on this architecture.
const Supported = true

// Call runs the machine code at an address on tiles [begin, end) and returns its status.
//
//go:noescape
func Call(code uintptr, frame unsafe.Pointer, begin, end int64) (status int64)
