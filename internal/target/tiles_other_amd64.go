//go:build amd64 && !linux

package target

// allowTiles reports whether tile registers may be used: nothing is known of how other systems permit it.
func allowTiles() bool { return false }
