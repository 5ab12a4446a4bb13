// Package metrics exports the work of weir's programs to monitoring systems: a Prometheus collector of the process's
// memory and of programs' counters, OpenTelemetry spans of runs, and for both histograms of their durations and the
// counters of batchers.
//
// It is a module of its own, so that only those who import it depend on Prometheus and OpenTelemetry.
package metrics

import (
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirml/weir"
	"github.com/weirml/weir/batch"
)

// Collector is a prometheus.Collector of the counters of weir.Usage, of the programs and batchers that were added, and
// of the durations of timed runs. Any goroutine may use it.
type Collector struct {
	mu       sync.Mutex
	programs map[string]*collected
	batchers map[string]*batch.Batcher
	seconds  *prometheus.HistogramVec // of the runs that Time times
}

// collected is an added program. Its certificate does not change.
type collected struct {
	program     *weir.Program
	certificate int64
	bounded     bool // certificate is known
}

// NewCollector returns a collector without programs and batchers.
func NewCollector() *Collector {
	return &Collector{programs: map[string]*collected{}, batchers: map[string]*batch.Batcher{}, seconds: newSeconds()}
}

// Add collects a program's counters under a name, the label program. The program replaces another one of this name. Its
// certificate is the bytes of all its calls at the upper bounds of the dimensions; a program with an unbounded
// dimension does not have this metric. The collector does not close the program.
func (c *Collector) Add(name string, p *weir.Program) error {
	if p == nil {
		return fmt.Errorf("program %q is nil: %w", name, weir.ErrInput)
	}
	added := &collected{program: p}
	most, err := p.Memory().Max(p.Stats().Calls)
	switch {
	case err == nil:
		added.certificate, added.bounded = most, true
	case !errors.Is(err, weir.ErrInput):
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.programs[name] = added
	return nil
}

// Remove ends the collection of the program and the batcher of this name, and forgets the durations of the program's
// runs. Call it before the program is closed for good.
func (c *Collector) Remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.programs, name)
	delete(c.batchers, name)
	c.seconds.DeletePartialMatch(prometheus.Labels{"program": name})
}

// usage are the metrics of the process.
var usage = []struct {
	metric *prometheus.Desc
	kind   string // the label of memoryBytes; empty for other metrics
	value  func(u weir.Totals) int64
}{
	{memoryBytes, "weights", func(u weir.Totals) int64 { return u.Weights }},
	{memoryBytes, "arena", func(u weir.Totals) int64 { return u.Arenas }},
	{memoryBytes, "outputs", func(u weir.Totals) int64 { return u.Outputs }},
	{memoryBytes, "scratch", func(u weir.Totals) int64 { return u.Scratch }},
	{memoryBytes, "code", func(u weir.Totals) int64 { return u.Code }},
	{memoryBytes, "tensors", func(u weir.Totals) int64 { return u.Tensors }},
	{memoryBytes, "files", func(u weir.Totals) int64 { return u.Files }},
	{describe("memory_current_bytes", "Memory that weir holds outside Go's heap, all kinds together."), "",
		func(u weir.Totals) int64 { return u.Current }},
	{describe("memory_peak_bytes", "The most memory so far, in the bytes that weir.SetLimit counts."), "",
		func(u weir.Totals) int64 { return u.Peak }},
	{describe("memory_limit_bytes", "The limit that weir.SetLimit set; 0 is none."), "",
		func(u weir.Totals) int64 { return u.Limit }},
	{describe("memory_cached_bytes", "Free memory that the pool of small tensors keeps."), "",
		func(u weir.Totals) int64 { return u.Cached }},
	{describe("memory_fragmented_bytes", "The part of memory_cached_bytes that weir.Trim cannot give back."), "",
		func(u weir.Totals) int64 { return u.Fragmented }},
	{describe("memory_foreign_bytes", "Memory of other code that tensors of weir.Foreign use."), "",
		func(u weir.Totals) int64 { return u.Foreign }},
}

var memoryBytes = describe("memory_bytes", "Memory that weir holds outside Go's heap, by kind.", "kind")

var certificate = describe("program_certificate_bytes",
	"The most memory that the program takes: all its calls, at the upper bounds of the dimensions.", "program")

// counters are the metrics of a program.
var counters = []struct {
	metric *prometheus.Desc
	kind   prometheus.ValueType
	value  func(s weir.Stats) float64
}{
	{describe("program_bytes", "Memory that the program holds.", "program"), prometheus.GaugeValue,
		func(s weir.Stats) float64 { return float64(s.Bytes) }},
	{describe("program_calls", "The most calls that may be active at once.", "program"), prometheus.GaugeValue,
		func(s weir.Stats) float64 { return float64(s.Calls) }},
	{describe("program_calls_active", "Calls that run, are bound, or have results that are not closed.", "program"),
		prometheus.GaugeValue, func(s weir.Stats) float64 { return float64(s.Active) }},
	{describe("program_runs_total", "Runs that gave results.", "program"), prometheus.CounterValue,
		func(s weir.Stats) float64 { return float64(s.Runs) }},
	{describe("program_errors_total", "Runs that returned an error.", "program"), prometheus.CounterValue,
		func(s weir.Stats) float64 { return float64(s.Errors) }},
	{describe("program_waits_total", "Runs that found all calls taken.", "program"), prometheus.CounterValue,
		func(s weir.Stats) float64 { return float64(s.Waits) }},
	{describe("program_wait_seconds_total", "Time that runs waited for a call.", "program"), prometheus.CounterValue,
		func(s weir.Stats) float64 { return s.Waited.Seconds() }},
	{describe("program_busy_seconds_total", "Time that runs took, without their waits.", "program"),
		prometheus.CounterValue, func(s weir.Stats) float64 { return s.Busy.Seconds() }},
}

// describe returns the description of the metric weir_NAME.
func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("weir_"+name, help, labels, nil)
}

// Describe sends the descriptions of all metrics.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for i, m := range usage {
		if i == 0 || m.metric != usage[i-1].metric {
			to <- m.metric
		}
	}
	to <- certificate
	for _, m := range counters {
		to <- m.metric
	}
	for _, d := range batchDescriptions {
		to <- d
	}
	c.seconds.Describe(to)
}

// Collect sends the present values.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	c.seconds.Collect(to)
	totals := weir.Usage()
	for _, m := range usage {
		var labels []string
		if m.kind != "" {
			labels = []string{m.kind}
		}
		to <- prometheus.MustNewConstMetric(m.metric, prometheus.GaugeValue, float64(m.value(totals)), labels...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, p := range c.programs {
		if p.bounded {
			to <- prometheus.MustNewConstMetric(certificate, prometheus.GaugeValue, float64(p.certificate), name)
		}
		stats := p.program.Stats()
		for _, m := range counters {
			to <- prometheus.MustNewConstMetric(m.metric, m.kind, m.value(stats), name)
		}
	}
	for name, b := range c.batchers {
		collectBatcher(to, name, b)
	}
}
