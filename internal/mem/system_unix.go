//go:build unix

package mem

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const outsideHeap = true

var protections = [...]int{noAccess: unix.PROT_NONE, readOnly: unix.PROT_READ,
	readWrite: unix.PROT_READ | unix.PROT_WRITE, readExecute: unix.PROT_READ | unix.PROT_EXEC}

// mapPages reserves the pages and a guard page at both ends, then opens the pages between.
func mapPages(bytes int, name string) (mapping, error) {
	payload, guard := int(roundUp(int64(bytes))), int(pageSize)
	reserved, err := unix.Mmap(-1, 0, payload+2*guard, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return mapping{}, err
	}
	m := mapping{pages: reserved[guard : guard+payload : guard+payload], reserved: reserved}
	if err := m.protect(readWrite); err != nil {
		_ = m.release()
		return mapping{}, err
	}
	nameMapping(m.pages, name)
	return m, nil
}

// tooMany reports whether the system has no room for another open file.
func tooMany(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// mapFile maps a regular file's bytes, shared, read-only or writable.
func mapFile(f *os.File, bytes int, writable bool) (mapping, error) {
	access := readOnly
	if writable {
		access = readWrite
	}
	connection, err := f.SyscallConn()
	if err != nil {
		return mapping{}, err
	}
	var data []byte
	var mapError error
	err = connection.Control(func(fd uintptr) {
		data, mapError = unix.Mmap(int(fd), 0, int(roundUp(int64(bytes))), protections[access], unix.MAP_SHARED)
	})
	if err == nil {
		err = mapError
	}
	if err != nil {
		return mapping{}, err
	}
	return mapping{pages: data, reserved: data, file: true}, nil
}

// release gives the addresses back.
func (m mapping) release() error { return unix.Munmap(m.reserved) }

// protect changes the access that the pages allow.
func (m mapping) protect(a access) error { return unix.Mprotect(m.pages, protections[a]) }

// drop gives back the pages of bytes [first, last) of a file.
func (m mapping) drop(first, last int) {
	_ = unix.Madvise(m.pages[first:last], unix.MADV_DONTNEED)
}

// retire gives the pages back and leaves their addresses reserved and inaccessible.
func (m mapping) retire() error {
	if err := m.protect(noAccess); err != nil {
		return err
	}
	if unix.Madvise(m.pages, unix.MADV_DONTNEED) == nil {
		nameMapping(m.pages, retiredName)
	}
	return nil
}
