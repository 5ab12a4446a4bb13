package mem

import (
	"os"

	"golang.org/x/sys/unix"
)

// heldInMemory reports whether a folder is in a file system that lies in memory (tmpfs, ramfs).
func heldInMemory(path string) bool {
	var s unix.Statfs_t
	return unix.Statfs(path, &s) == nil && memoryIs(&s)
}

// inMemory reports whether a file is in a file system that lies in memory.
func inMemory(f *os.File) bool {
	var s unix.Statfs_t
	return unix.Fstatfs(int(f.Fd()), &s) == nil && memoryIs(&s)
}

// memoryIs reports whether a file system lies in memory.
func memoryIs(s *unix.Statfs_t) bool {
	return uint32(s.Type) == unix.TMPFS_MAGIC || uint32(s.Type) == unix.RAMFS_MAGIC
}
