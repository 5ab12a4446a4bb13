package mem

import "os"

// Folder is where SpillFile and PageFile put their files, and whether the system holds files there in memory, as far as it tells.
func Folder() (path string, inMemory bool) {
	path = os.TempDir()
	return path, heldInMemory(path)
}
