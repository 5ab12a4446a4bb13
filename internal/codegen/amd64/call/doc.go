// Package call enters machine code that was written at run time, from Go and without cgo.
//
// # The convention
//
// Emitted code is a leaf: it calls nothing. It begins at an address in a page of kind Code (mem.MapCode) and ends by
// RET.
//
//	RDI  the frame: the address of the words that the caller prepared in its worker's scratch
//	RSI  the first tile
//	RDX  the tile after the last
//	RAX  on return: the status, 0 if all is well
//
// It may change every register except RSP and RBP, even R14 and X15, which Go's own code reserves: the stub is
// entered through Go's wrapper for assembly, which restores them. It need not clear the upper halves of vector
// registers: the stub does (VZEROUPPER). It leaves the direction flag clear, and MXCSR as it found it.
//
// # The stack
//
// Emitted code never touches the stack beyond its return address: values that do not fit its registers are in the
// frame. The stub is an ordinary function of Go's with a frame of its own, so that the stack is grown, where it must
// be, before the code is entered.
//
// # Go's runtime
//
// Signals find a program counter that belongs to no function: the runtime then neither preempts the goroutine nor walks
// its stack, and a profile counts the time as external code. Until the code returns the collector waits for it, so a
// call should take a millisecond at most. The collector does not see memory that the code reaches by addresses in the
// frame: it must lie outside Go's heap, or be kept alive by the caller.
package call
