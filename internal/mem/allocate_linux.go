package mem

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// The errors of a folder that is read-only, and of a path that is a file.
const (
	errReadOnly = unix.EROFS
	errNoFolder = unix.ENOTDIR
)

// allocate gives a file its room on the disk, or in a tmpfs; errors.ErrUnsupported if the file system cannot.
func allocate(f *os.File, bytes int64) error {
	return controlled(f, func(fd int) error { return unix.Fallocate(fd, 0, 0, bytes) })
}

// punch gives back the room of a range of a file's bytes. A refusal is ignored.
func punch(f *os.File, from, bytes int64) {
	_ = controlled(f, func(fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, bytes)
	})
}

// controlled calls the system for an open file, again when a signal interrupts the call.
func controlled(f *os.File, do func(fd int) error) (err error) {
	connection, err := f.SyscallConn()
	if err != nil {
		return err
	}
	fault := connection.Control(func(fd uintptr) {
		for err = do(int(fd)); err == unix.EINTR; {
			err = do(int(fd))
		}
	})
	return errors.Join(fault, err)
}

// isUnsupported reports whether an error means that the file system has no such call.
func isUnsupported(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS)
}
