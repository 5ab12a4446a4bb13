//go:build unix && !linux

package mem

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// ProcessBytes reads the process's peak resident size (getrusage); this system's call does not tell the present one.
func ProcessBytes() (p Process, ok bool) {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return p, false
	}
	p.Peak = int64(usage.Maxrss)
	if runtime.GOOS != "darwin" && runtime.GOOS != "ios" { // these count bytes, the others kilobytes
		p.Peak <<= 10
	}
	return p, p.Peak > 0
}

// ResetProcessPeak reports false: this system cannot set the peak back.
func ResetProcessPeak() bool { return false }
