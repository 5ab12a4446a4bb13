package kerneltest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// HostileCount counts what became of hostile kernels.
type HostileCount struct {
	Kernels    int64            // written
	Guarded    int64            // of them, with accesses that got a check in the code
	Bindings   int64            // values of a kernel's dimensions that were tried
	Executions int64            // calls of a compiled kernel, each compared with the interpreter
	Stopped    int64            // of them, ended by a check, as in the interpreter
	Loose      int64            // of them, not ended, in code that was scheduled before its guards were put
	Refused    map[string]int64 // kernels, code and bindings that were not run, by reason
	Reached    map[string]int64 // statements, expressions, functions and element types of kernels that ran
}

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

// String is one line for a log.
func (c *HostileCount) String() string {
	return fmt.Sprintf("%d kernels, %d with guards; %d bindings; %d executions, %d stopped by a check (%d only when "+
		"interpreted); refused: %s",
		c.Kernels, c.Guarded, c.Bindings, c.Executions, c.Stopped, c.Loose, Counted(c.Refused))
}

// Counted is a list of names with their counts.
func Counted(counts map[string]int64) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(list, ", ")
}
