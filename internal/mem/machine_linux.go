package mem

import (
	"bytes"
	"os"
	"strconv"
)

// machineBytes returns the machine's memory and swap (/proc/meminfo), or what the control group leaves of it.
func machineBytes() (total int64, ok bool) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		if string(name) == "MemTotal" || string(name) == "SwapTotal" {
			n, err := kilobytes(value)
			if err != nil {
				return 0, false
			}
			total += n
		}
	}
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if text, err := os.ReadFile(path); err == nil {
			if n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64); err == nil && n > 0 {
				total = min(total, n)
			}
		}
	}
	return total, total > 0
}
