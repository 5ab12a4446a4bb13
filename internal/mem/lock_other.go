//go:build !unix || solaris || illumos || aix

package mem

import "os"

// locks is false: files are not locked on this system. One that keeps open files from being removed, as Windows does,
// needs no locks.
const locks = false

// lock does nothing.
func lock(f *os.File) (locked, busy bool) { return false, false }
