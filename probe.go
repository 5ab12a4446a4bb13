package weir

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/probe"
)

// Roofline is the measured limits of this machine, of arithmetic and of memory, to compare a program's speed with.
type Roofline struct {
	CPU     string     `json:"cpu"` // the level of instructions: "avx512", "avx2", "neon", or "portable"
	Threads int        `json:"threads"`
	Core    float64    `json:"core_gflops"` // f32 multiply-adds in registers, GFLOP/s, on one core
	All     float64    `json:"all_gflops"`  // the same on Threads threads
	Memory  []ReadRate `json:"memory"`      // by the caches of levels 1 to 3, and main memory
}

// ReadRate is the speed of repeated reads from a level of the memory, with a range for each thread.
type ReadRate struct {
	Holds int64   `json:"holds_bytes"` // the capacity of the level; the last level holds everything
	Range int64   `json:"range_bytes"` // the bytes that each thread reads
	Core  float64 `json:"core_gb_per_s"`
	All   float64 `json:"all_gb_per_s"` // by all threads together
}

// Probe measures the machine, which takes about half a second. cpu is a level of instructions as in Options.CPU; "" is
// the best level here.
func Probe(cpu string, threads int) (peak Roofline, err error) {
	defer diag.Recover(&err, "probing")
	kind := probe.Best()
	if cpu != "" {
		var ok bool
		if kind, ok = probe.Named(cpu); !ok {
			return Roofline{}, diag.Unsupportedf("a probe in the instructions of %q on this machine", cpu)
		}
	}
	threads = max(1, threads)
	peak = Roofline{CPU: kind.Name, Threads: threads, Core: kind.Arithmetic(1)}
	if peak.All = peak.Core; threads > 1 {
		peak.All = kind.Arithmetic(threads)
	}
	for _, level := range probe.Levels() {
		r := ReadRate{Holds: level.Holds, Range: level.Range}
		if r.Core, err = kind.Read(level.Range, 1); err != nil {
			return peak, err
		}
		if r.All = r.Core; threads > 1 {
			if r.All, err = kind.Read(level.Range, threads); err != nil {
				return peak, err
			}
		}
		peak.Memory = append(peak.Memory, r)
	}
	return peak, nil
}

// ReadAll returns the speed at which all threads together read a working set of bytes, in 10⁹ bytes a second: that of
// the smallest level that holds it.
func (p Roofline) ReadAll(bytes int64) float64 {
	for _, r := range p.Memory {
		if bytes <= r.Holds {
			return r.All
		}
	}
	return 0
}
