//go:build !unix

package mem

// ProcessBytes reports false: the process's resident size is not read on this system.
func ProcessBytes() (p Process, ok bool) { return p, false }

// ResetProcessPeak reports false: this system cannot set the peak back.
func ResetProcessPeak() bool { return false }
