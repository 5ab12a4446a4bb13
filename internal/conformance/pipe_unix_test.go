//go:build unix

package conformance

import (
	"path/filepath"
	"syscall"
)

func pipe(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o666) }
