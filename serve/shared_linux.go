package serve

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// mapShared maps a POSIX shared memory, which Linux has as a file in /dev/shm. name has no slash.
func mapShared(name string, offset, size int64) (data []byte, unmap func([]byte) error, err error) {
	file, err := os.OpenFile(filepath.Join("/dev/shm", name), os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, errors.Unwrap(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, errors.New("it is no shared memory")
	}
	if info.Size() < offset+size {
		return nil, nil, fmt.Errorf("it has %d bytes; offset %d and size %d exceed it", info.Size(), offset, size)
	}
	page := int64(os.Getpagesize())
	extra := offset % page
	whole, err := syscall.Mmap(int(file.Fd()), offset-extra, int(size+extra), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, err
	}
	return whole[extra:], func([]byte) error { return syscall.Munmap(whole) }, nil
}
