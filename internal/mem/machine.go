package mem

import (
	"math"
	"sync"
)

// Machine returns the most memory that the process can have, in bytes: the least of the machine's memory, its
// container's limit and its address space. If the system does not tell, it is the largest int.
func Machine() int64 { return machineOnce() }

var machineOnce = sync.OnceValue(func() int64 {
	if bytes, ok := machineBytes(); ok && bytes > 0 {
		return min(bytes, math.MaxInt)
	}
	return math.MaxInt
})
