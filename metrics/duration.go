package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/weirml/weir"
)

// Runner runs a program: a weir.Program, a Traced, or what Time returns.
type Runner interface {
	Run(ctx context.Context, in weir.Inputs) (*weir.Results, error)
}

// buckets are the upper bounds of the histograms' buckets in seconds: 0.1 ms, doubled up to 13 s.
var buckets = prometheus.ExponentialBuckets(0.0001, 2, 18)

// newSeconds returns the histogram of runs' durations, by program and kind of error.
func newSeconds() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "weir_program_run_seconds",
		Help: "Time that runs took, with their waits; error is empty for a run that gave results.", Buckets: buckets},
		[]string{"program", "error"})
}

// Time returns a Runner that runs r and adds the duration of each run to the histogram weir_program_run_seconds, under
// the label program. The label error is empty, or the run's ErrorKind. A duration includes the wait for a free call.
func (c *Collector) Time(name string, r Runner) Runner {
	return timed{r, func(_ context.Context, seconds float64, kind string) {
		c.seconds.WithLabelValues(name, kind).Observe(seconds)
	}}
}

// Time returns a Runner that runs r and records the duration of each run in the OpenTelemetry histogram
// weir.run.duration, in seconds. Its attributes are the model's name and, for a run that failed, error.type.
// A duration includes the wait for a free call. The error is the meter's.
func Time(r Runner, model string, meter metric.Meter) (Runner, error) {
	histogram, err := meter.Float64Histogram("weir.run.duration", metric.WithUnit("s"),
		metric.WithDescription("Time that runs took, with their waits."),
		metric.WithExplicitBucketBoundaries(buckets...))
	if err != nil {
		return nil, err
	}
	return timed{r, func(ctx context.Context, seconds float64, kind string) {
		attributes := []attribute.KeyValue{ModelKey.String(model)}
		if kind != "" {
			attributes = append(attributes, ErrorKey.String(kind))
		}
		histogram.Record(ctx, seconds, metric.WithAttributes(attributes...))
	}}, nil
}

// timed is a Runner whose runs' durations are recorded.
type timed struct {
	Runner
	record func(ctx context.Context, seconds float64, kind string) // kind is empty for a run that gave results
}

// Run runs the program and records how long it took.
func (t timed) Run(ctx context.Context, in weir.Inputs) (*weir.Results, error) {
	begin := time.Now()
	results, err := t.Runner.Run(ctx, in)
	kind := ""
	if err != nil {
		kind = ErrorKind(err)
	}
	t.record(ctx, time.Since(begin).Seconds(), kind)
	return results, err
}
