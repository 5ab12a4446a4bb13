package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weirml/weir"
	"github.com/weirml/weir/metrics"
)

// compile returns a program of one input x: f32[batch, 2], of two calls.
func compile(t *testing.T, o weir.Options) *weir.Program {
	t.Helper()
	model, err := weir.LoadBytes([]byte("weir 1\nir @m {\n  dim batch in [1, 32]\n  main @main(%x: f32[batch, 2]) {\n" +
		"    %y: f32[batch, 2] = neg(%x)\n    return %y\n  }\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	program, err := weir.Compile(t.Context(), model, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return program
}

// rows returns inputs whose x has count rows.
func rows(t *testing.T, count int) weir.Inputs {
	t.Helper()
	x, err := weir.FromSlice(make([]float32, 2*count), count, 2)
	if err != nil {
		t.Fatal(err)
	}
	return weir.Inputs{"x": x}
}

// expect fails t unless the samples of a metric are want, each "labels value", in the order of a scrape.
func expect(t *testing.T, from prometheus.Gatherer, name string, want ...string) {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			value := m.GetGauge().GetValue() + m.GetCounter().GetValue()
			got = append(got, fmt.Sprintf("%s %.0f", strings.Join(labels, ","), value))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s is %q, want %q", name, got, want)
	}
}

// TestCollector reads the counters of two programs while one of them has open results.
func TestCollector(t *testing.T) {
	c := metrics.NewCollector()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(c); err != nil {
		t.Fatal(err)
	}
	one, two := compile(t, weir.Options{Calls: 2}), compile(t, weir.Options{Calls: 3})
	for name, p := range map[string]*weir.Program{"one": one, "two": two} {
		if err := c.Add(name, p); err != nil {
			t.Fatal(err)
		}
	}
	results, err := one.Run(t.Context(), rows(t, 4))
	if err != nil {
		t.Fatal(err)
	}
	defer results.Close()
	if _, err := one.Run(t.Context(), weir.Inputs{}); err == nil {
		t.Fatal("a run without its input gave results")
	}
	certificate, err := one.Memory().Max(2)
	if err != nil {
		t.Fatal(err)
	}
	other, err := two.Memory().Max(3)
	if err != nil {
		t.Fatal(err)
	}
	defer weir.SetLimit(weir.SetLimit(1 << 30))

	stats := one.Stats()
	expect(t, registry, "weir_program_certificate_bytes", fmt.Sprint("one ", certificate), fmt.Sprint("two ", other))
	expect(t, registry, "weir_program_calls", "one 2", "two 3")
	expect(t, registry, "weir_program_calls_active", "one 1", "two 0")
	expect(t, registry, "weir_program_runs_total", "one 1", "two 0")
	expect(t, registry, "weir_program_errors_total", "one 1", "two 0")
	expect(t, registry, "weir_program_bytes", fmt.Sprint("one ", stats.Bytes), fmt.Sprint("two ", two.Stats().Bytes))
	expect(t, registry, "weir_memory_limit_bytes", fmt.Sprint(" ", 1<<30))
	u := weir.Usage()
	expect(t, registry, "weir_memory_bytes", fmt.Sprint("arena ", u.Arenas), fmt.Sprint("code ", u.Code),
		fmt.Sprint("files ", u.Files), fmt.Sprint("outputs ", u.Outputs), fmt.Sprint("scratch ", u.Scratch),
		fmt.Sprint("tensors ", u.Tensors), fmt.Sprint("weights ", u.Weights))
	expect(t, registry, "weir_memory_current_bytes", fmt.Sprint(" ", u.Current))
	if u.Outputs == 0 || stats.Bytes == 0 {
		t.Error("nothing is held, and results are open")
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}

	if err := c.Add("one", two); err != nil { // a program that replaces one
		t.Fatal(err)
	}
	c.Remove("two")
	expect(t, registry, "weir_program_calls", "one 3")
	if err := c.Add("none", nil); !errors.Is(err, weir.ErrInput) {
		t.Errorf("a nil program is %v", err)
	}
}

// TestUnbounded adds a program whose dimension has no upper bound: it has counters and no certificate.
func TestUnbounded(t *testing.T) {
	model, err := weir.LoadBytes([]byte("weir 1\nir @m {\n  dim batch in [1, inf]\n  main @main(%x: f32[batch, 2]) {\n" +
		"    %y: f32[batch, 2] = neg(%x)\n    return %y\n  }\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	program, err := weir.Compile(t.Context(), model, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	c := metrics.NewCollector()
	if err := c.Add("free", program); err != nil {
		t.Fatal(err)
	}
	if count := testutil.CollectAndCount(c, "weir_program_certificate_bytes"); count != 0 {
		t.Errorf("%d certificates of a program without bounds", count)
	}
	if count := testutil.CollectAndCount(c, "weir_program_calls"); count != 1 {
		t.Errorf("%d programs are collected", count)
	}
}

// TestTrace makes spans of three runs: one that succeeds, one whose input does not fit, one whose context has ended.
func TestTrace(t *testing.T) {
	program := compile(t, weir.Options{Target: weir.Portable})
	recorder := tracetest.NewSpanRecorder()
	traced := metrics.Trace(program, "negation", sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("test"))
	results, err := traced.Run(t.Context(), rows(t, 4))
	if err != nil {
		t.Fatal(err)
	}
	if err := results.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := traced.Run(t.Context(), rows(t, 33)); !errors.Is(err, weir.ErrInput) {
		t.Errorf("33 rows are %v", err)
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	if _, err := traced.Run(left, rows(t, 4)); !errors.Is(err, context.Canceled) {
		t.Errorf("a run whose context has ended is %v", err)
	}

	peak, err := program.Memory().Peak(1, weir.Dims{"batch": 4})
	if err != nil {
		t.Fatal(err)
	}
	about := []attribute.KeyValue{metrics.ModelKey.String("negation"), metrics.TargetKey.String("portable")}
	sizes := []attribute.KeyValue{attribute.Int64("weir.dim.batch", 4), metrics.BytesKey.Int64(peak)}
	wants := [][]attribute.KeyValue{
		slices.Concat(about, sizes),
		slices.Concat(about, []attribute.KeyValue{attribute.Int64("weir.dim.batch", 33), metrics.ErrorKey.String("input")}),
		slices.Concat(about, sizes, []attribute.KeyValue{metrics.ErrorKey.String("canceled")}),
	}
	spans := recorder.Ended()
	if len(spans) != len(wants) {
		t.Fatalf("%d spans ended, want %d", len(spans), len(wants))
	}
	for i, span := range spans {
		if span.Name() != "weir.run negation" || !slices.Equal(span.Attributes(), wants[i]) {
			t.Errorf("span %d is %s with %v, want %v", i, span.Name(), span.Attributes(), wants[i])
		}
		failed := i > 0
		if (span.Status().Code == codes.Error) != failed || (len(span.Events()) == 1) != failed {
			t.Errorf("span %d has status %v and %d events", i, span.Status(), len(span.Events()))
		}
	}
}

// TestErrorKind names the kinds of errors, also of those that are wrapped.
func TestErrorKind(t *testing.T) {
	for want, err := range map[string]error{
		"input": weir.ErrInput, "unsupported": weir.ErrUnsupported, "budget": weir.ErrBudget, "memory": weir.ErrMemory,
		"closed": weir.ErrClosed, "internal": weir.ErrInternal, "device lost": weir.ErrDeviceLost,
		"canceled": context.Canceled, "deadline": context.DeadlineExceeded, "other": errors.New("else"),
	} {
		if got := metrics.ErrorKind(fmt.Errorf("a run: %w", err)); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
}

// TestTime times runs for Prometheus and OpenTelemetry at once: each histogram has one duration for the run that
// succeeds, which is not longer than the test measures around it, and one for the run that fails.
func TestTime(t *testing.T) {
	program := compile(t, weir.Options{})
	c := metrics.NewCollector()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	meter := &meter{}
	recorded, err := metrics.Time(program, "negation", meter)
	if err != nil {
		t.Fatal(err)
	}
	timed := c.Time("negation", recorded)
	begin := time.Now()
	results, err := timed.Run(t.Context(), rows(t, 4))
	if err != nil {
		t.Fatal(err)
	}
	elapsed := time.Since(begin).Seconds()
	if err := results.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := timed.Run(t.Context(), rows(t, 33)); !errors.Is(err, weir.ErrInput) {
		t.Errorf("33 rows are %v", err)
	}

	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for at < len(families)-1 && families[at].GetName() != "weir_program_run_seconds" {
		at++
	}
	if len(families[at].GetMetric()) != 2 {
		t.Fatalf("the histogram of runs is not one of success and one of failure: %v", families)
	}
	for i, kind := range []string{"", "input"} {
		m := families[at].GetMetric()[i]
		h := m.GetHistogram()
		if m.GetLabel()[0].GetValue() != kind || m.GetLabel()[1].GetValue() != "negation" || h.GetSampleCount() != 1 {
			t.Errorf("sample %d is %v", i, m)
		}
		if sum := h.GetSampleSum(); sum <= 0 || i == 0 && sum > elapsed {
			t.Errorf("a run of at most %v s took %v s", elapsed, sum)
		}
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	name := metrics.ModelKey.String("negation")
	want := []attribute.Set{attribute.NewSet(name), attribute.NewSet(name, metrics.ErrorKey.String("input"))}
	if meter.name != "weir.run.duration" || !slices.Equal(meter.attributes, want) {
		t.Errorf("%s has %v, want %v", meter.name, meter.attributes, want)
	}
	if len(meter.seconds) != 2 || meter.seconds[0] <= 0 || meter.seconds[0] > elapsed {
		t.Errorf("durations are %v, the first run took at most %v s", meter.seconds, elapsed)
	}

	c.Remove("negation")
	if count := testutil.CollectAndCount(c, "weir_program_run_seconds"); count != 0 {
		t.Errorf("%d histograms of a program that was removed", count)
	}
	if _, err := metrics.Time(program, "negation", broken{}); !errors.Is(err, errMeter) {
		t.Errorf("a meter that fails gives %v", err)
	}
}

// meter is an OpenTelemetry meter that keeps the records of its last histogram.
type meter struct {
	noop.Meter
	name string
	histogram
}

// Float64Histogram returns the meter's histogram.
func (m *meter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	m.name = name
	return &m.histogram, nil
}

// histogram keeps what it is given.
type histogram struct {
	noop.Float64Histogram
	seconds    []float64
	attributes []attribute.Set
}

// Record appends a duration and its attributes.
func (h *histogram) Record(_ context.Context, seconds float64, o ...metric.RecordOption) {
	h.seconds = append(h.seconds, seconds)
	h.attributes = append(h.attributes, metric.NewRecordConfig(o).Attributes())
}

// broken is a meter that makes no histograms.
type broken struct{ noop.Meter }

var errMeter = errors.New("no histograms")

// Float64Histogram returns errMeter.
func (broken) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return nil, errMeter
}
