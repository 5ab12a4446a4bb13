//go:build unix && !solaris && !illumos && !aix

package mem

import (
	"os"

	"golang.org/x/sys/unix"
)

// locks reports whether the system locks files.
const locks = true

// lock locks an open file until it is closed, and reports whether it did: another process may have locked it.
func lock(f *os.File) bool {
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}
