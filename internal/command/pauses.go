package command

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
)

// pauses is the output of bench --pauses: the time that other parts of the process wait for runs.
type pauses struct {
	Latency     float64 `json:"latency_ms"`    // of the shortest run
	Collections int     `json:"collections"`   // collections during runs
	Stop        float64 `json:"stop_ms"`       // the longest wait of a collection until all goroutines stopped
	Ended       int     `json:"cancelled"`     // the number of cancelled runs
	Cancel      float64 `json:"cancel_ms"`     // the longest time from the end of a context to the end of its run
	CancelHalf  float64 `json:"cancel_p50_ms"` // the median of these times
}

// stopping is the runtime's histogram of the times in which the collector stops all goroutines.
const stopping = "/sched/pauses/stopping/gc:seconds"

// measurePauses collects garbage during runs, then cancels runs at random times.
func (f *benchFlags) measurePauses(ctx context.Context, p *weir.Program, in weir.Inputs) (m pauses, err error) {
	run := func(ctx context.Context) error {
		r, err := p.Run(ctx, in)
		if err != nil {
			return err
		}
		return r.Close()
	}
	begin := time.Now()
	if err := run(ctx); err != nil {
		return m, err
	}
	least := time.Since(begin)
	length := time.Duration(f.seconds * float64(time.Second))
	m.Stop, m.Collections, err = collecting(func() error {
		var failed error
		for end := time.Now().Add(length); failed == nil && time.Now().Before(end); {
			begin := time.Now()
			failed = run(ctx)
			least = min(least, time.Since(begin))
		}
		return failed
	})
	if err != nil {
		return m, err
	}
	m.Latency = ms(least)
	var late []time.Duration
	for end := time.Now().Add(length); len(late) < 3 || time.Now().Before(end); {
		ending, cancel := context.WithTimeout(ctx, time.Duration(rand.Int64N(int64(least)+1)))
		at, _ := ending.Deadline()
		err := run(ending)
		now := time.Now()
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return m, err
		}
		if err != nil {
			late = append(late, now.Sub(at))
		}
		if time.Now().After(end.Add(length)) {
			break // runs end as soon as they begin
		}
	}
	m.Ended = len(late)
	if len(late) > 0 {
		slices.Sort(late)
		m.Cancel, m.CancelHalf = ms(late[len(late)-1]), ms(late[len(late)/2])
	}
	return m, nil
}

// collecting collects garbage while f runs on another goroutine. It returns the longest time in which a collection
// stopped all goroutines, in milliseconds, and the number of collections.
func collecting(f func() error) (stop float64, collections int, err error) {
	before := histogram()
	done := make(chan struct{})
	var group diag.Group
	group.Go("running", func() error {
		defer close(done) // a panic ends the loop, too
		return f()
	})
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
			runtime.GC()
			collections++
		}
	}
	err = group.Wait()
	return 1000 * worst(before, histogram()), collections, err
}

// histogram reads the runtime's histogram stopping.
func histogram() *metrics.Float64Histogram {
	sample := []metrics.Sample{{Name: stopping}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return &metrics.Float64Histogram{}
	}
	return sample[0].Value.Float64Histogram()
}

// worst returns the upper bound of the highest bucket that grew from before to after, in seconds.
func worst(before, after *metrics.Float64Histogram) float64 {
	for i := len(after.Counts) - 1; i >= 0; i-- {
		if after.Counts[i] > 0 && (i >= len(before.Counts) || after.Counts[i] > before.Counts[i]) {
			if math.IsInf(after.Buckets[i+1], 1) {
				return after.Buckets[i]
			}
			return after.Buckets[i+1]
		}
	}
	return 0
}

// print prints the pauses for a person.
func (m *pauses) print() {
	stdout.Printf("run            %.3f ms at least\n", m.Latency)
	stdout.Printf("collector      waits at most %.3f ms, over %d collections\n", m.Stop, m.Collections)
	stdout.Printf("cancellation   takes effect after at most %.3f ms, half after %.3f, over %d runs\n", m.Cancel,
		m.CancelHalf, m.Ended)
}
