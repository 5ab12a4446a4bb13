package serve

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/procfs"
)

var (
	cpuUtilization = describe("nv_cpu_utilization", "The machine's processors' use since the last scrape, from 0 to 1.")
	cpuMemory      = describe("nv_cpu_memory_total_bytes", "The machine's memory.")
	cpuMemoryUsed  = describe("nv_cpu_memory_used_bytes", "The machine's memory that is in use, by all processes.")
)

// machine has the processors' times of the last scrape.
var machine struct {
	mu         sync.Mutex
	busy, idle float64 // seconds
	use        float64
}

// collectMachine sends the values of the machine, as far as the system tells them.
func collectMachine(to chan<- prometheus.Metric) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return
	}
	if stat, err := fs.Stat(); err == nil {
		t := stat.CPUTotal
		idle := t.Idle + t.Iowait
		busy := t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ + t.Steal
		machine.mu.Lock()
		if b, i := busy-machine.busy, idle-machine.idle; b+i > 0 {
			machine.use = min(max(b/(b+i), 0), 1)
		}
		machine.busy, machine.idle = busy, idle
		use := machine.use
		machine.mu.Unlock()
		to <- prometheus.MustNewConstMetric(cpuUtilization, prometheus.GaugeValue, use)
	}
	m, err := fs.Meminfo()
	if err != nil || m.MemTotalBytes == nil || m.MemAvailableBytes == nil {
		return
	}
	to <- prometheus.MustNewConstMetric(cpuMemory, prometheus.GaugeValue, float64(*m.MemTotalBytes))
	to <- prometheus.MustNewConstMetric(cpuMemoryUsed, prometheus.GaugeValue,
		float64(*m.MemTotalBytes-*m.MemAvailableBytes))
}
