package metrics

import (
	"context"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/weirml/weir"
	"github.com/weirml/weir/batch"
)

// batchMetric is a metric of a batcher: weir_batch_NAME in Prometheus, weir.batch.NAME in OpenTelemetry.
type batchMetric struct {
	name    string // in Prometheus's form, without unit and total
	help    string
	seconds bool // its unit
	gauge   bool // it may fall
	label   string
	values  []batchValue
}

// batchValue is a value of a metric, for one value of the metric's label.
type batchValue struct {
	label string
	of    func(s *batch.Stats) float64
}

// single returns the value of a metric without a label.
func single(of func(s *batch.Stats) float64) []batchValue { return []batchValue{{of: of}} }

var batchMetrics = []batchMetric{
	{name: "queue_requests", gauge: true, help: "Requests that wait for a run.",
		values: single(func(s *batch.Stats) float64 { return float64(s.Queued) })},
	{name: "queue_rows", gauge: true, help: "Rows of the requests that wait for a run.",
		values: single(func(s *batch.Stats) float64 { return float64(s.QueuedRows) })},
	{name: "blocked_requests", gauge: true, help: "Requests that wait since too many rows are in flight.",
		values: single(func(s *batch.Stats) float64 { return float64(s.Blocked) })},
	{name: "rows_active", gauge: true, help: "Rows that wait, run, or are in results that are not closed.",
		values: single(func(s *batch.Stats) float64 { return float64(s.InFlight) })},
	{name: "rows_limit", gauge: true, help: "The most rows that may be active at once.",
		values: single(func(s *batch.Stats) float64 { return float64(s.Room) })},
	{name: "requests", help: "Requests that ended, by outcome, without those that were refused.", label: "outcome",
		values: []batchValue{{"answered", func(s *batch.Stats) float64 { return float64(s.Answered) }},
			{"failed", func(s *batch.Stats) float64 { return float64(s.Failed) }},
			{"left", func(s *batch.Stats) float64 { return float64(s.Left) }}}},
	{name: "refusals", help: "Requests that were refused before they came into the queue, by reason.", label: "reason",
		values: []batchValue{{"rows", func(s *batch.Stats) float64 { return float64(s.Refused.Rows) }},
			{"input", func(s *batch.Stats) float64 { return float64(s.Refused.Input) }},
			{"room", func(s *batch.Stats) float64 { return float64(s.Refused.Room) }},
			{"closed", func(s *batch.Stats) float64 { return float64(s.Refused.Closed) }}}},
	{name: "waits", help: "Requests that found too many rows in flight.",
		values: single(func(s *batch.Stats) float64 { return float64(s.Waits) })},
	{name: "wait", seconds: true, help: "Time that requests waited since too many rows were in flight.",
		values: single(func(s *batch.Stats) float64 { return s.Waited.Seconds() })},
	{name: "retries", help: "Joined runs that failed, whose requests were run again by themselves.",
		values: single(func(s *batch.Stats) float64 { return float64(s.Retries) })},
}

// batchHistograms are a batcher's histograms, under names as in batchMetrics.
var batchHistograms = []struct {
	name, help string
	seconds    bool
	of         func(s *batch.Stats) *batch.Histogram
}{
	{"run_rows", "Rows of each run that gave results.", false,
		func(s *batch.Stats) *batch.Histogram { return &s.RunRows }},
	{"queue", "Time that each request was in the queue before its run.", true,
		func(s *batch.Stats) *batch.Histogram { return &s.QueueSeconds }},
	{"request", "Time from request to results.", true, func(s *batch.Stats) *batch.Histogram { return &s.Seconds }},
}

// batchDescriptions are the descriptions of batchMetrics, then those of batchHistograms.
var batchDescriptions = describeBatches()

// describeBatches returns batchDescriptions.
func describeBatches() (list []*prometheus.Desc) {
	unit := map[bool]string{true: "_seconds"}
	total := map[bool]string{false: "_total"}
	for _, m := range batchMetrics {
		labels := []string{"program"}
		if m.label != "" {
			labels = append(labels, m.label)
		}
		list = append(list, describe("batch_"+m.name+unit[m.seconds]+total[m.gauge], m.help, labels...))
	}
	for _, h := range batchHistograms {
		list = append(list, describe("batch_"+h.name+unit[h.seconds], h.help, "program"))
	}
	return list
}

// AddBatcher collects a batcher's counters under a name, the label program; Add collects those of its program. The
// batcher replaces another one of this name. The collector does not close the batcher.
func (c *Collector) AddBatcher(name string, b *batch.Batcher) error {
	if b == nil {
		return fmt.Errorf("batcher %q is nil: %w", name, weir.ErrInput)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.batchers[name] = b
	return nil
}

// collectBatcher sends a batcher's present values.
func collectBatcher(to chan<- prometheus.Metric, name string, b *batch.Batcher) {
	s := b.Stats()
	for i, m := range batchMetrics {
		kind := prometheus.CounterValue
		if m.gauge {
			kind = prometheus.GaugeValue
		}
		for _, v := range m.values {
			labels := []string{name}
			if m.label != "" {
				labels = append(labels, v.label)
			}
			to <- prometheus.MustNewConstMetric(batchDescriptions[i], kind, v.of(&s), labels...)
		}
	}
	for i, m := range batchHistograms {
		h, atMost := m.of(&s), map[float64]uint64{}
		for k, bound := range h.Bounds {
			atMost[bound] = uint64(h.AtMost[k])
		}
		to <- prometheus.MustNewConstHistogram(batchDescriptions[len(batchMetrics)+i], uint64(h.Count), h.Sum, atMost, name)
	}
}

// ObserveBatcher makes OpenTelemetry instruments of a batcher's counters, which are observed until the registration
// ends: those of Collector.AddBatcher, with dots in their names, such as weir.batch.queue.rows; of each histogram the
// count and the sum, such as weir.batch.run.rows.count. Their attributes are the model's name, and outcome or reason.
// The error is the meter's.
func ObserveBatcher(b *batch.Batcher, model string, meter metric.Meter) (metric.Registration, error) {
	if b == nil {
		return nil, fmt.Errorf("batcher %q is nil: %w", model, weir.ErrInput)
	}
	list := batchMetrics[:len(batchMetrics):len(batchMetrics)]
	for _, h := range batchHistograms {
		list = append(list,
			batchMetric{name: h.name + "_count", help: h.help,
				values: single(func(s *batch.Stats) float64 { return float64(h.of(s).Count) })},
			batchMetric{name: h.name + "_sum", help: h.help, seconds: h.seconds,
				values: single(func(s *batch.Stats) float64 { return h.of(s).Sum })})
	}
	var observed []metric.Float64Observable
	var all []metric.Observable
	for _, m := range list {
		o, err := m.instrument(meter)
		if err != nil {
			return nil, err
		}
		observed, all = append(observed, o), append(all, o)
	}
	return meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		s := b.Stats()
		for i, m := range list {
			for _, v := range m.values {
				attributes := []attribute.KeyValue{ModelKey.String(model)}
				if m.label != "" {
					attributes = append(attributes, attribute.String(m.label, v.label))
				}
				to.ObserveFloat64(observed[i], v.of(&s), metric.WithAttributes(attributes...))
			}
		}
		return nil
	}, all...)
}

// instrument makes the metric's OpenTelemetry instrument.
func (m batchMetric) instrument(meter metric.Meter) (metric.Float64Observable, error) {
	name := "weir.batch." + strings.ReplaceAll(m.name, "_", ".")
	unit, about := "1", metric.WithDescription(m.help)
	if m.seconds {
		unit = "s"
	}
	if m.gauge {
		return meter.Float64ObservableGauge(name, metric.WithUnit(unit), about)
	}
	return meter.Float64ObservableCounter(name, metric.WithUnit(unit), about)
}
