//go:build unix && !aix

package mem

import (
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// inParts reports whether a range of reserved memory can be given pages.
const inParts = true

// reserve takes addresses for so many bytes, with a guard page at both ends.
func reserve(bytes int) (mapping, error) {
	payload, guard := int(roundUp(int64(bytes))), int(pageSize)
	reserved, err := unix.Mmap(-1, 0, payload+2*guard, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	return mapping{pages: reserved[min(guard, len(reserved)):min(guard+payload, len(reserved))], reserved: reserved}, err
}

// open gives pages [first, last), in bytes, memory, in large pages if the system has them.
func (m mapping) open(first, last int, name string) error {
	part := m.pages[first:last]
	if err := unix.Mprotect(part, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return err
	}
	mapping{pages: m.pages[:last]}.large()
	nameMapping(m.pages[:last], name)
	return nil
}

// again opens an open file once more; nil if the process may open no more files.
func again(f *os.File) (copied *os.File) {
	connection, err := f.SyscallConn()
	if err != nil {
		return nil
	}
	_ = connection.Control(func(fd uintptr) {
		if other, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			copied = os.NewFile(uintptr(other), f.Name())
		}
	})
	return copied
}

// stat is the system's record of a file.
type stat = unix.Stat_t

// unchanged compares the file with what it was. The caller holds the lock.
func (k *keeper) unchanged() bool {
	if unix.Fstat(int(k.file.Fd()), &k.stat) != nil || k.stat.Size != k.bytes {
		return false
	}
	return k.modified.Equal(time.Unix(k.stat.Mtim.Unix()))
}

// hide gives pages [first, last), in bytes, of a mapped file back, and keeps their addresses reserved and inaccessible.
func (m mapping) hide(first, last int) error {
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(&m.pages[first]), uintptr(last-first), unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_FIXED)
	return err
}

// show maps pages [first, last), in bytes, of a file at their addresses.
func (m mapping) show(f *os.File, first, last int, a access) error {
	_, err := unix.MmapPtr(int(f.Fd()), int64(first), unsafe.Pointer(&m.pages[first]), uintptr(last-first), protections[a],
		unix.MAP_SHARED|unix.MAP_FIXED)
	return err
}
