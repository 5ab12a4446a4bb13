package mem

import (
	"bytes"
	"os"
)

// ProcessBytes reads the process's resident size, its peak, and the bytes that are not backed by a file (VmRSS, VmHWM,
// RssAnon and RssShmem of /proc/self/status).
func ProcessBytes() (p Process, ok bool) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return p, false
	}
	fields := 0
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		n, err := int64(0), error(nil)
		switch string(name) {
		case "VmRSS":
			n, err = kilobytes(value)
			p.Resident = n
		case "VmHWM":
			n, err = kilobytes(value)
			p.Peak = n
		case "RssAnon", "RssShmem":
			n, err = kilobytes(value)
			p.Anonymous += n
			fields-- // not one of the two that every system has
		default:
			continue
		}
		if err != nil {
			return Process{}, false
		}
		fields++
	}
	return p, fields == 2
}

// ResetProcessPeak sets the process's peak to its resident size and reports whether the system allowed it; if it did
// not, take the peak before as the baseline.
func ResetProcessPeak() bool {
	return os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) == nil
}
