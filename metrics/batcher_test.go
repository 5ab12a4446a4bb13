package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/weirml/weir"
	"github.com/weirml/weir/batch"
	"github.com/weirml/weir/metrics"
)

// busy returns a batcher that has run 3 rows, whose results are open, has refused three requests, and has lost one.
func busy(t *testing.T) *batch.Batcher {
	t.Helper()
	b, err := batch.New(compile(t, weir.Options{}), batch.Options{Rows: 8, InFlight: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	results, err := b.Run(t.Context(), rows(t, 3))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { results.Close() })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, bad := range []struct {
		ctx context.Context
		in  weir.Inputs
	}{{t.Context(), rows(t, 9)}, {t.Context(), nil}, {ended, rows(t, 1)}} {
		if _, err := b.Run(bad.ctx, bad.in); err == nil {
			t.Fatal("a bad request has results")
		}
	}
	waiting, leave := context.WithCancel(t.Context())
	go func() {
		for b.Stats().Blocked == 0 {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(5 * time.Millisecond)
		leave()
	}()
	if _, err := b.Run(waiting, rows(t, 6)); !errors.Is(err, context.Canceled) {
		t.Fatalf("a request without room is %v", err)
	}
	return b
}

// TestBatcher reads a batcher's counters from Prometheus.
func TestBatcher(t *testing.T) {
	c := metrics.NewCollector()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	b := busy(t)
	if err := c.AddBatcher("one", b); err != nil {
		t.Fatal(err)
	}
	expect(t, registry, "weir_batch_queue_requests", "one 0")
	expect(t, registry, "weir_batch_queue_rows", "one 0")
	expect(t, registry, "weir_batch_blocked_requests", "one 0")
	expect(t, registry, "weir_batch_rows_active", "one 3")
	expect(t, registry, "weir_batch_rows_limit", "one 8")
	expect(t, registry, "weir_batch_requests_total", "answered,one 1", "failed,one 0", "left,one 1")
	expect(t, registry, "weir_batch_refusals_total", "one,closed 0", "one,input 1", "one,room 1", "one,rows 1")
	expect(t, registry, "weir_batch_waits_total", "one 1")
	expect(t, registry, "weir_batch_retries_total", "one 0")
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	s := b.Stats()
	for _, f := range families {
		want := map[string]float64{"weir_batch_run_rows": 3, "weir_batch_queue_seconds": s.QueueSeconds.Sum,
			"weir_batch_request_seconds": s.Seconds.Sum, "weir_batch_wait_seconds_total": s.Waited.Seconds()}[f.GetName()]
		h := f.GetMetric()[0].GetHistogram()
		if got := h.GetSampleSum() + f.GetMetric()[0].GetCounter().GetValue(); want != 0 && got != want {
			t.Errorf("%s is %v, want %v", f.GetName(), got, want)
		}
		if f.GetName() != "weir_batch_run_rows" {
			continue
		}
		var buckets []string
		for _, bucket := range h.GetBucket() {
			buckets = append(buckets, fmt.Sprintf("%v %v", bucket.GetUpperBound(), bucket.GetCumulativeCount()))
		}
		if !slices.Equal(buckets, []string{"1 0", "2 0", "4 1", "8 1"}) || h.GetSampleCount() != 1 {
			t.Errorf("the runs' rows are %v", h)
		}
	}
	if s.Waited < 4*time.Millisecond || s.Seconds.Sum <= 0 {
		t.Errorf("%+v", s)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	c.Remove("one")
	expect(t, registry, "weir_batch_rows_limit")
	if err := c.AddBatcher("none", nil); !errors.Is(err, weir.ErrInput) {
		t.Errorf("a nil batcher is %v", err)
	}
}

// TestObserveBatcher reads a batcher's counters as an OpenTelemetry reader does.
func TestObserveBatcher(t *testing.T) {
	b, m := busy(t), &observing{values: map[string]float64{}}
	if _, err := metrics.ObserveBatcher(b, "negation", m); err != nil {
		t.Fatal(err)
	}
	if err := m.callback(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	s := b.Stats()
	want := map[string]float64{
		"gauge weir.batch.queue.requests": 0, "gauge weir.batch.queue.rows": 0, "gauge weir.batch.blocked.requests": 0,
		"gauge weir.batch.rows.active": 3, "gauge weir.batch.rows.limit": 8,
		"counter weir.batch.requests outcome=answered": 1, "counter weir.batch.requests outcome=failed": 0,
		"counter weir.batch.requests outcome=left": 1, "counter weir.batch.refusals reason=rows": 1,
		"counter weir.batch.refusals reason=input": 1, "counter weir.batch.refusals reason=room": 1,
		"counter weir.batch.refusals reason=closed": 0, "counter weir.batch.waits": 1,
		"counter weir.batch.wait s": s.Waited.Seconds(), "counter weir.batch.retries": 0,
		"counter weir.batch.run.rows.count": 1, "counter weir.batch.run.rows.sum": 3,
		"counter weir.batch.queue.count": 1, "counter weir.batch.queue.sum s": s.QueueSeconds.Sum,
		"counter weir.batch.request.count": 1, "counter weir.batch.request.sum s": s.Seconds.Sum,
	}
	for name, value := range want {
		if got, ok := m.values[name]; !ok || got != value {
			t.Errorf("%s is %v (%v), want %v", name, got, ok, value)
		}
	}
	if len(m.values) != len(want) {
		t.Errorf("observed are %v", m.values)
	}
	if _, err := metrics.ObserveBatcher(b, "negation", mute{}); !errors.Is(err, errMeter) {
		t.Errorf("a meter that fails gives %v", err)
	}
	if _, err := metrics.ObserveBatcher(nil, "negation", m); !errors.Is(err, weir.ErrInput) {
		t.Errorf("a nil batcher is %v", err)
	}
}

// observing is an OpenTelemetry meter, and the observer of its own instruments.
type observing struct {
	noop.Meter
	noop.Observer
	callback metric.Callback
	values   map[string]float64 // by kind, name, unit of seconds, and attribute besides the model
}

// gauge and counter are instruments that know their names.
type gauge struct {
	noop.Float64ObservableGauge
	name string
}

type counter struct {
	noop.Float64ObservableCounter
	name, unit string
}

func (m *observing) Float64ObservableGauge(name string, _ ...metric.Float64ObservableGaugeOption) (
	metric.Float64ObservableGauge, error) {
	return gauge{name: "gauge " + name}, nil
}

func (m *observing) Float64ObservableCounter(name string, o ...metric.Float64ObservableCounterOption) (
	metric.Float64ObservableCounter, error) {
	c := counter{name: "counter " + name}
	if unit := metric.NewFloat64ObservableCounterConfig(o...).Unit(); unit != "1" {
		c.unit = " " + unit
	}
	return c, nil
}

// RegisterCallback keeps the callback.
func (m *observing) RegisterCallback(f metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	m.callback = f
	return noop.Registration{}, nil
}

// ObserveFloat64 keeps a value.
func (m *observing) ObserveFloat64(of metric.Float64Observable, value float64, o ...metric.ObserveOption) {
	name := ""
	switch of := of.(type) {
	case gauge:
		name = of.name
	case counter:
		name = of.name + of.unit
	}
	attributes := metric.NewObserveConfig(o).Attributes()
	if model, _ := attributes.Value(metrics.ModelKey); model.AsString() != "negation" {
		name += " of no model"
	}
	for _, a := range attributes.ToSlice() {
		if a.Key != metrics.ModelKey {
			name += fmt.Sprintf(" %s=%s", a.Key, a.Value.AsString())
		}
	}
	m.values[name] = value
}

// mute is a meter that makes no instruments.
type mute struct{ noop.Meter }

func (mute) Float64ObservableGauge(string, ...metric.Float64ObservableGaugeOption) (
	metric.Float64ObservableGauge, error) {
	return nil, errMeter
}
