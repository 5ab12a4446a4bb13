package weir

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/probe"
)

// Roofline is what this machine reached in a probe, arithmetic and the reading of memory: the figures that a program's
// speed is to be compared with.
type Roofline struct {
	CPU     string     `json:"cpu"` // in whose instructions: "avx512", "avx2", or "portable", which is plain Go
	Threads int        `json:"threads"`
	Core    float64    `json:"core_gflops"` // f32 multiply-adds in registers, GFLOP/s, on one core
	All     float64    `json:"all_gflops"`  // and on so many threads
	Memory  []ReadRate `json:"memory"`      // of the caches of levels 1 to 3, and of what none of them holds
}

// ReadRate is how fast a level of the memory is read, over and over, each thread a range of its own.
type ReadRate struct {
	Holds int64   `json:"holds_bytes"` // what the level holds, where there are smaller ones; the last holds everything
	Range int64   `json:"range_bytes"` // what each thread read
	Core  float64 `json:"core_gb_per_s"`
	All   float64 `json:"all_gb_per_s"` // by all threads together
}

// Probe measures the machine at this moment, which takes about half a second. cpu is a level of processor, as
// Options.CPU names it; "" is the best that there is.
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

// ReadAll is the rate in 10⁹ bytes a second at which all threads together read what lies in so many bytes: that of the
// smallest level that holds them.
func (p Roofline) ReadAll(bytes int64) float64 {
	for _, r := range p.Memory {
		if bytes <= r.Holds {
			return r.All
		}
	}
	return 0
}
