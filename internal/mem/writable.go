package mem

import "runtime/debug"

// Writable reports whether the first and the last byte of data may be written, as those of memory that is mapped
// read-only may not. It writes them as they are: nobody else may meanwhile.
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

// write is not compiled away.
//
//go:noinline
func write(at *byte, value byte) { *at = value }
