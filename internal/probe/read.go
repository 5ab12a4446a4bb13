package probe

import "unsafe"

// read reads bytes, a multiple of 64, from p on.
func read(p *byte, bytes int64) {
	words := unsafe.Slice((*uint64)(unsafe.Pointer(p)), bytes/8)
	var a, b, c, d uint64
	for len(words) >= 8 {
		a |= words[0] | words[4]
		b |= words[1] | words[5]
		c |= words[2] | words[6]
		d |= words[3] | words[7]
		words = words[8:]
	}
	sinkLock.Lock()
	sinkInt = a | b | c | d
	sinkLock.Unlock()
}
