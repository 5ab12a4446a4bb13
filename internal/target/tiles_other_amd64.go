//go:build amd64 && !linux

package target

// allowTiles returns false: how other systems permit the use of tile registers is not known.
func allowTiles() bool { return false }
