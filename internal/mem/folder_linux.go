package mem

import "golang.org/x/sys/unix"

// heldInMemory reports whether a folder is in a file system that lies in memory (tmpfs, ramfs).
func heldInMemory(path string) bool {
	var s unix.Statfs_t
	return unix.Statfs(path, &s) == nil && (uint32(s.Type) == unix.TMPFS_MAGIC || uint32(s.Type) == unix.RAMFS_MAGIC)
}
