package mem

import "os"

// Folder returns where SpillFile and MapPages put their files if they are given this folder, and whether the system
// holds files there in memory, as far as it tells. "" stands for the folder for temporary files (TMPDIR).
func Folder(folder string) (path string, inMemory bool) {
	if path = folder; path == "" {
		path = os.TempDir()
	}
	return path, heldInMemory(path)
}
