package mem

import "runtime/debug"

// Writable reports whether the first and the last byte of data may be written; memory that is mapped read-only may not.
// It writes the bytes that are there, so no other goroutine may write them meanwhile.
func Writable(data []byte) (yes bool) {
	if len(data) == 0 {
		return true
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			yes = false
		}
	}()
	write(&data[0], data[0])
	write(&data[len(data)-1], data[len(data)-1])
	return true
}

// write stores a byte; the compiler must not remove it.
//
//go:noinline
func write(at *byte, value byte) { *at = value }
