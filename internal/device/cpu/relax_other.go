//go:build !amd64

package cpu

// relax does nothing: the processor is not told that the code around it waits in a loop.
func relax() {}
