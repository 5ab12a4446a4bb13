//go:build !linux

package mem

import (
	"errors"
	"io/fs"
	"os"
)

// The errors of a folder that is read-only, and of one that is a file, are known on Linux.
var (
	errReadOnly = fs.ErrPermission
	errNoFolder = fs.ErrNotExist
)

// allocate returns errors.ErrUnsupported: on this system, a file gets room by writing to it.
func allocate(f *os.File, bytes int64) error { return errors.ErrUnsupported }

// punch does nothing.
func punch(f *os.File, from, bytes int64) {}

// isUnsupported reports whether an error means that the system has no such call.
func isUnsupported(err error) bool { return errors.Is(err, errors.ErrUnsupported) }
