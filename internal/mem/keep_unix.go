//go:build unix && !aix

package mem

import (
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// again opens an open file once more; nil where the process may open no more files.
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

// stat is what the system says of a file.
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
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(&m.reserved[first]), uintptr(last-first), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_FIXED)
	return err
}

// show maps pages [first, last), in bytes, of a file where they were before hide.
func (m mapping) show(f *os.File, first, last int) error {
	_, err := unix.MmapPtr(int(f.Fd()), int64(first), unsafe.Pointer(&m.reserved[first]), uintptr(last-first), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_FIXED)
	return err
}
