package mem

import "unsafe"

// Lent returns a block of memory that other code made: Close calls release, once, instead of giving pages back. Its
// bytes are counted as Foreign and in no sum of kinds, since they add nothing to the process's memory. An empty block
// may have no address, and is released too.
func Lent(label string, data unsafe.Pointer, bytes int64, release func()) *Block {
	b := &Block{kind: Foreign, label: label, size: bytes, callers: callers(), release: release}
	if bytes > 0 {
		b.data.Store((*byte)(data))
	}
	enter(b)
	return b
}
