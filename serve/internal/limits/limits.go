// Package limits finds how much memory the process may have.
package limits

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

// Container returns the memory limit of the process's cgroup in bytes, 0 if there is none.
func Container() int64 {
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err == nil && n > 0 && n < math.MaxInt64/2 {
			return n
		}
	}
	return 0
}

// Usable returns what a server takes without a limit: the container's memory, or three quarters of the machine's; 1 GiB
// if neither is known.
func Usable() int64 {
	machine := int64(1 << 30)
	if file, err := os.Open("/proc/meminfo"); err == nil {
		defer file.Close()
		for lines := bufio.NewScanner(file); lines.Scan(); {
			if f := strings.Fields(lines.Text()); len(f) == 3 && f[0] == "MemTotal:" {
				if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
					machine = n << 10
				}
			}
		}
	}
	if n := Container(); n > 0 {
		return min(n, machine)
	}
	return machine / 4 * 3
}

// Parse reads a size as Go's GOMEMLIMIT writes it, such as 8GiB.
func Parse(text string) (int64, error) {
	units := map[string]int64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
	digits := strings.TrimRight(text, "BKMGTi")
	n, err := strconv.ParseInt(digits, 10, 64)
	unit, ok := units[text[len(digits):]]
	if err != nil || !ok || n < 0 || n > (1<<62)/unit {
		return 0, fmt.Errorf("%q is no size; write a number and B, KiB, MiB, GiB or TiB", text)
	}
	return n * unit, nil
}
