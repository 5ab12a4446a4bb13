package mem

import (
	"math"
	"sync"
)

// Machine returns the memory in bytes that the process can have at most: what the machine has, or the container that it
// runs in, or its addresses reach. If the system does not tell, it is what an int counts.
func Machine() int64 { return machineOnce() }

var machineOnce = sync.OnceValue(func() int64 {
	if bytes, ok := machineBytes(); ok && bytes > 0 {
		return min(bytes, math.MaxInt)
	}
	return math.MaxInt
})
