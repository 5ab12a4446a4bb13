//go:build !linux

package mem

// machineBytes reports false: the machine's memory is not read on this system.
func machineBytes() (total int64, ok bool) { return 0, false }
