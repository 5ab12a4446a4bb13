package mem

import "golang.org/x/sys/unix"

// fetch reads pages [first, last), in bytes, of a file at once, instead of by a fault for each. It is advice: what the kernel does not do
// now, faults do later.
func (m mapping) fetch(first, last int) {
	_ = unix.Madvise(m.pages[first:last], unix.MADV_POPULATE_READ)
}

// large asks for large pages under memory that will be touched from end to end.
func (m mapping) large() {
	_ = unix.Madvise(m.pages, unix.MADV_HUGEPAGE)
}

// populate makes all pages present and writable at once. It is advice, as fetch is.
func (m mapping) populate() {
	_ = unix.Madvise(m.pages, unix.MADV_POPULATE_WRITE)
}
