// Package limits finds how much memory the process may have.
package limits

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Container returns the memory limit of the process's cgroup, or of one around it, in bytes; 0 if there is none.
func Container() int64 {
	least := int64(math.MaxInt64)
	look := func(root, group, file string) {
		for ; ; group = filepath.Dir(group) {
			if text, err := os.ReadFile(filepath.Join(root, group, file)); err == nil {
				if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
					least = min(least, n)
				}
			}
			if group == "/" || group == "." {
				return
			}
		}
	}
	groups, _ := os.ReadFile("/proc/self/cgroup") // lines of number:controllers:path
	for line := range strings.Lines(string(groups) + "0::/\n0:memory:/\n") {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(f) != 3:
		case f[1] == "":
			look("/sys/fs/cgroup", f[2], "memory.max")
		case slices.Contains(strings.Split(f[1], ","), "memory"):
			look("/sys/fs/cgroup/memory", f[2], "memory.limit_in_bytes")
		}
	}
	if least > math.MaxInt64/2 {
		return 0
	}
	return least
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
