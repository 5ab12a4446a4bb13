//go:build unix && !solaris && !illumos && !aix

package mem

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// locks reports whether the system locks files.
const locks = true

// lock locks an open file until it is closed, if the file system has locks. busy reports that someone else has it
// locked.
func lock(f *os.File) (locked, busy bool) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	return err == nil, errors.Is(err, unix.EWOULDBLOCK)
}
