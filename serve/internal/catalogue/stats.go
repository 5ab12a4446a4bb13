package catalogue

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weirml/weir/serve/internal/oip"
)

// Stats are a version's counters.
type Stats struct {
	mu         sync.Mutex
	success    duration
	fail       duration
	queue      duration
	input      duration
	infer      duration
	output     duration
	rows       uint64 // of requests that succeeded
	executions uint64 // runs of requests that are not joined
	last       time.Time
	within     [len(Bounds) + 1]uint64 // requests that succeeded, by the first of Bounds that is not exceeded
	failures   map[string]uint64       // by the kind of error
}

// Bounds are the upper bounds of the classes of durations that Counters.Within has; the last class has none.
var Bounds = [...]time.Duration{100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second,
	2500 * time.Millisecond, 5 * time.Second, 10 * time.Second}

// duration is a number of times and their sum.
type duration struct {
	count uint64
	sum   time.Duration
}

func (d *duration) add(took time.Duration) {
	d.count++
	d.sum += took
}

func (d *duration) message() *oip.StatisticDuration {
	return &oip.StatisticDuration{Count: d.count, Ns: uint64(d.sum)}
}

// Phases are the times that a request took: from its admission to the turn, for its inputs, for the run, and for the
// outputs.
type Phases struct{ Queue, Input, Infer, Output time.Duration }

// Answered counts a request that got its answer. joined says that it ran in a Batcher, which counts the runs.
func (s *Stats) Answered(rows int, took time.Duration, p Phases, joined bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.success.add(took)
	class, _ := slices.BinarySearch(Bounds[:], took)
	s.within[class]++
	s.queue.add(p.Queue)
	s.input.add(p.Input)
	s.infer.add(p.Infer)
	s.output.add(p.Output)
	s.rows += uint64(rows)
	if !joined {
		s.executions++
	}
	s.last = time.Now()
}

// Failed counts a request that failed, by the kind of its error.
func (s *Stats) Failed(kind string, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail.add(took)
	if s.failures == nil {
		s.failures = map[string]uint64{}
	}
	s.failures[kind]++
}

// Message returns the counters as the protocol has them.
func (v *Version) Message() *oip.ModelStatistics {
	s := &v.Stats
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &oip.ModelStatistics{Name: v.Model, Version: v.Name(), InferenceCount: s.rows, ExecutionCount: s.executions,
		InferenceStats: &oip.InferStatistics{Success: s.success.message(), Fail: s.fail.message(), Queue: s.queue.message(),
			ComputeInput: s.input.message(), ComputeInfer: s.infer.message(), ComputeOutput: s.output.message(),
			CacheHit: &oip.StatisticDuration{}, CacheMiss: &oip.StatisticDuration{}}}
	if !s.last.IsZero() {
		m.LastInference = uint64(s.last.UnixMilli())
	}
	if v.Batcher != nil {
		m.ExecutionCount += uint64(v.Batcher.Stats().RunRows.Count)
	}
	if v.Texts != nil {
		m.ExecutionCount = uint64(v.Program.Stats().Runs)
	}
	fixed, calls := v.Bytes()
	m.MemoryUsage = []*oip.MemoryUsage{{Type: "weights and code", ByteSize: uint64(fixed)},
		{Type: "calls", ByteSize: uint64(calls)}}
	if v.Sequences != nil {
		m.MemoryUsage = append(m.MemoryUsage, &oip.MemoryUsage{Type: "sequences",
			ByteSize: uint64(v.Sequences.Stats().Bytes)})
	}
	return m
}

// Counters are a version's counters, for metrics.
type Counters struct {
	Success, Fail, Rows, Executions                          uint64
	SuccessTime, QueueTime, InputTime, InferTime, OutputTime time.Duration
	Within                                                   [len(Bounds) + 1]uint64 // Success by class of duration
	Failures                                                 map[string]uint64       // by kind of error
}

// Counters returns a copy of the counters.
func (v *Version) Counters() Counters {
	m := v.Message()
	s := &v.Stats
	s.mu.Lock()
	defer s.mu.Unlock()
	c := Counters{Success: s.success.count, Fail: s.fail.count, Rows: s.rows, Executions: m.ExecutionCount,
		SuccessTime: s.success.sum, QueueTime: s.queue.sum, InputTime: s.input.sum, InferTime: s.infer.sum,
		OutputTime: s.output.sum, Within: s.within, Failures: maps.Clone(s.failures)}
	return c
}
