// Package call enters machine code that was written at run time, from Go and without cgo.
//
// # The convention
//
// Emitted code is a leaf: it calls nothing. It begins at an address in a page of kind Code (mem.MapCode) and ends by
// RET.
//
//	X0  the frame: the address of the words that the caller prepared in its worker's scratch
//	X1  the first tile
//	X2  the tile after the last
//	X0  on return: the status, 0 if all is well
//
// It may change X0 … X17, X19 … X27, all vector registers and the flags. It never changes the others, not even for a
// moment:
//
//	X18  belongs to the system on macOS and Windows
//	X28  is Go's g: a signal's handler takes it from there, whatever code the signal has interrupted
//	X29  is Go's frame pointer
//	X30  is the address to which the code returns
//	SP   is the goroutine's stack
//
// It leaves FPCR, which has the mode of rounding, as it found it: zero.
//
// # The stack
//
// Emitted code never touches the stack: values that do not fit its registers are in the frame. The stub is an ordinary
// function of Go's with a frame of its own, so that the stack is grown, where it must be, before the code is entered.
//
// # New code
//
// The stub begins with a barrier, ISB. MapCode makes all processors' caches coherent with the code; the barrier makes
// this processor drop what it fetched before from addresses that were in use for other code. It takes some ten
// nanoseconds.
//
// # Go's runtime
//
// Signals find a program counter that belongs to no function: the runtime then neither preempts the goroutine nor walks
// its stack, and a profile counts the time as external code. Until the code returns the collector waits for it, so a
// call should take a millisecond at most. The collector does not see memory that the code reaches by addresses in the
// frame: it must lie outside Go's heap, or be kept alive by the caller.
package call
