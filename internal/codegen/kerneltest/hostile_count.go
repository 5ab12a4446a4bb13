package kerneltest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// HostileCount counts hostile kernels and their executions.
type HostileCount struct {
	Kernels    int64            // kernels written
	Guarded    int64            // kernels with accesses that needed a check in the code
	Bindings   int64            // values of a kernel's dimensions
	Executions int64            // calls of a compiled kernel, each compared with the interpreter
	Stopped    int64            // executions that a check ended in the interpreter
	Loose      int64            // those that no check ended in code that was scheduled before its guards were added
	Refused    map[string]int64 // kernels, code and bindings that did not run, by reason
	Reached    map[string]int64 // statements, expressions, functions and element types of kernels that ran
}

// reset sets all counts to 0.
func (c *HostileCount) reset() {
	*c = HostileCount{Refused: map[string]int64{}, Reached: map[string]int64{}}
}

// Add adds another count.
func (c *HostileCount) Add(o *HostileCount) {
	c.Kernels += o.Kernels
	c.Guarded += o.Guarded
	c.Bindings += o.Bindings
	c.Executions += o.Executions
	c.Stopped += o.Stopped
	c.Loose += o.Loose
	for _, m := range []struct {
		to   *map[string]int64
		from map[string]int64
	}{{&c.Refused, o.Refused}, {&c.Reached, o.Reached}} {
		if *m.to == nil {
			*m.to = map[string]int64{}
		}
		for name, n := range m.from {
			(*m.to)[name] += n
		}
	}
}

// String returns the counts as one line.
func (c *HostileCount) String() string {
	return fmt.Sprintf("%d kernels, %d with guards; %d bindings; %d executions, %d stopped by a check (%d only when "+
		"interpreted); refused: %s",
		c.Kernels, c.Guarded, c.Bindings, c.Executions, c.Stopped, c.Loose, Counted(c.Refused))
}

// Counted returns the names with their counts, sorted, separated by commas.
func Counted(counts map[string]int64) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(list, ", ")
}
