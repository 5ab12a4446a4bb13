package beamweir

import (
	"context"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

// Namespace is that of the metrics. The counters are elements and failures of the collection, and runs and rows of the
// programs. The distributions are run_rows, the mean rows of the runs between two updates; element_microseconds, the
// time from an element's arrival to its result; and load_milliseconds, the times in which processes loaded models. The
// gauge model_bytes is the certificate of the model that was loaded last: the most bytes that it and its inputs take.
const Namespace = "beamweir"

var (
	elements = beam.NewCounter(Namespace, "elements")
	failed   = beam.NewCounter(Namespace, "failures")
	runs     = beam.NewCounter(Namespace, "runs")
	rows     = beam.NewCounter(Namespace, "rows")
	runRows  = beam.NewDistribution(Namespace, "run_rows")
	took     = beam.NewDistribution(Namespace, "element_microseconds")
	loading  = beam.NewDistribution(Namespace, "load_milliseconds")
	bytes    = beam.NewGauge(Namespace, "model_bytes")
)

// often is the number of elements after which a DoFn updates the metrics of runs.
const often = 32

// tally updates the metrics for a DoFn.
type tally struct{ since int }

// element counts an element that has a result.
func (t *tally) element(ctx context.Context, l *loaded, duration time.Duration) {
	elements.Inc(ctx, 1)
	took.Update(ctx, duration.Microseconds())
	if t.since++; t.since == often {
		t.runs(ctx, l)
	}
}

// failure counts a failure.
func (t *tally) failure(ctx context.Context) { failed.Inc(ctx, 1) }

// loaded reports the loading of a model, once in the process.
func (t *tally) loaded(ctx context.Context, l *loaded) {
	l.reported.Lock()
	defer l.reported.Unlock()
	if l.isNew {
		l.isNew = false
		loading.Update(ctx, l.took.Milliseconds())
		bytes.Set(ctx, l.bytes())
	}
}

// runs reports the runs of a model that no DoFn has reported.
func (t *tally) runs(ctx context.Context, l *loaded) {
	t.since = 0
	l.reported.Lock()
	defer l.reported.Unlock()
	count, sum := l.resource.runs()
	newRuns, newRows := count-l.count, sum-l.rows
	l.count, l.rows = count, sum
	if newRuns <= 0 {
		return
	}
	runs.Inc(ctx, newRuns)
	if newRows > 0 {
		rows.Inc(ctx, int64(newRows))
		runRows.Update(ctx, int64(newRows)/newRuns)
	}
}
