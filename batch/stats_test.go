package batch_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/batch"
)

// TestStats: each way in which a request ends is counted once, in the field of its own.
func TestStats(t *testing.T) {
	bad := inputs(t, 0, 1, 2)
	bad["ids"] = tensor(t, []int64{99}, 1)
	for name, row := range map[string]struct {
		before func(*testing.T, *batch.Batcher)
		wait   time.Duration
		leave  time.Duration // after which the context ends; 0 is never
		in     weir.Inputs
		count  func(*batch.Stats) *int64
	}{
		"answered": {in: inputs(t, 0, 3, 2), count: func(s *batch.Stats) *int64 { return &s.Answered }},
		"failed":   {in: bad, count: func(s *batch.Stats) *int64 { return &s.Failed }},
		"left before": {in: inputs(t, 0, 3, 2), leave: -1,
			count: func(s *batch.Stats) *int64 { return &s.Left }},
		"left the queue": {in: inputs(t, 0, 3, 2), wait: time.Hour, leave: 10 * time.Millisecond,
			count: func(s *batch.Stats) *int64 { return &s.Left }},
		"no rows":  {in: inputs(t, 0, 0, 2), count: func(s *batch.Stats) *int64 { return &s.Refused.Rows }},
		"too many": {in: inputs(t, 0, 9, 2), count: func(s *batch.Stats) *int64 { return &s.Refused.Rows }},
		"missing":  {in: nil, count: func(s *batch.Stats) *int64 { return &s.Refused.Input }},
		"columns":  {in: inputs(t, 0, 3, 9), count: func(s *batch.Stats) *int64 { return &s.Failed }},
		"closed": {in: inputs(t, 0, 3, 2), before: func(t *testing.T, b *batch.Batcher) { b.Close() },
			count: func(s *batch.Stats) *int64 { return &s.Refused.Closed }},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, compile(t, table, weir.Options{}), batch.Options{Wait: row.wait})
			if row.before != nil {
				row.before(t, b)
			}
			ctx, before := t.Context(), b.Stats()
			if row.leave != 0 {
				ended, cancel := context.WithTimeout(ctx, row.leave)
				defer cancel()
				ctx = ended
			}
			r, err := b.Run(ctx, row.in)
			got := b.Stats()
			want := before
			*row.count(&want)++
			if (err == nil) != (want.Answered == 1) {
				t.Fatal(err)
			}
			if err == nil {
				want.InFlight = 3
				r.Close()
			}
			want.RunRows, want.QueueSeconds, want.Seconds = got.RunRows, got.QueueSeconds, got.Seconds
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%+v,\nwant %+v", got, want)
			}
			ran := got.Answered + got.Failed
			if got.RunRows.Count != got.Answered || got.QueueSeconds.Count != ran || got.Seconds.Count != got.Answered {
				t.Errorf("%+v", got)
			}
			if left := b.Stats().InFlight; left != 0 {
				t.Errorf("%d rows are in flight after all ended", left)
			}
		})
	}
}

// until waits until a batcher's counters are as they should be.
func until(t *testing.T, b *batch.Batcher, right func(batch.Stats) bool) {
	t.Helper()
	for begin := time.Now(); !right(b.Stats()); time.Sleep(time.Millisecond) {
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("%+v", b.Stats())
		}
	}
}

// TestStatsWhileWaiting: the counters tell the queue, the requests that wait for room, and the waits of both.
func TestStatsWhileWaiting(t *testing.T) {
	b := start(t, compile(t, table, weir.Options{}), batch.Options{Wait: time.Hour, InFlight: 8})
	var all sync.WaitGroup
	ask := func(ctx context.Context, rows int) {
		all.Go(func() {
			if r, err := b.Run(ctx, inputs(t, 0, rows, 2)); err == nil {
				r.Close()
			}
		})
	}
	ask(t.Context(), 2)
	ask(t.Context(), 3)
	until(t, b, func(s batch.Stats) bool { return s.Queued == 2 && s.QueuedRows == 5 && s.InFlight == 5 && s.Room == 8 })
	blocked, leave := context.WithCancel(t.Context())
	ask(blocked, 4)
	until(t, b, func(s batch.Stats) bool { return s.Blocked == 1 && s.Waits == 1 && s.Waited == 0 })
	time.Sleep(20 * time.Millisecond)
	leave()
	until(t, b, func(s batch.Stats) bool {
		return s.Blocked == 0 && s.Waited >= 20*time.Millisecond && s.Refused.Room == 1
	})
	ask(t.Context(), 3) // fills the run
	all.Wait()
	s := b.Stats()
	if s.Answered != 3 || s.Queued != 0 || s.QueuedRows != 0 || s.InFlight != 0 || s.Refused != (batch.Refused{Room: 1}) {
		t.Errorf("%+v", s)
	}
	if !slices.Equal(s.RunRows.Bounds, []float64{1, 2, 4, 8}) || !slices.Equal(s.RunRows.AtMost, []int64{0, 0, 0, 1}) ||
		s.RunRows.Count != 1 || s.RunRows.Sum != 8 || s.RunRows.Mean() != 8 {
		t.Errorf("runs of %+v", s.RunRows)
	}
	if q := s.QueueSeconds; q.Count != 3 || q.Sum < 0.04 || q.Mean() != q.Sum/3 || s.Seconds.Sum < q.Sum ||
		q.AtMost[len(q.AtMost)-1] != 3 || q.AtMost[7] > 1 || math.Abs(q.Bounds[7]-0.0128) > 1e-12 {
		t.Errorf("waits of %+v", q)
	}
	if empty := (batch.Histogram{}).Mean(); empty != 0 {
		t.Errorf("the mean of nothing is %v", empty)
	}
}

// TestStatsOfMany: whatever many goroutines do, each call of Run is counted once, and each run's rows.
func TestStatsOfMany(t *testing.T) {
	p := compile(t, table, weir.Options{Calls: 2})
	b := start(t, p, batch.Options{Wait: 200 * time.Microsecond, InFlight: 9})
	before := p.Stats()
	var all sync.WaitGroup
	var mu sync.Mutex
	calls, answered, rows, left := int64(0), int64(0), int64(0), int64(0)
	for g := range 8 {
		all.Go(func() {
			for i := range 40 {
				count := (g + i) % 10 // 0 and 9 are refused
				in := inputs(t, int64(g), count, 1+i%4)
				if count > 0 && (g+i)%7 == 0 {
					in["ids"] = tensor(t, slices.Repeat([]int64{5}, count), count)
				}
				ctx, cancel := context.WithCancel(t.Context())
				if i%5 == 0 {
					ctx, cancel = context.WithTimeout(t.Context(), time.Duration(i)*20*time.Microsecond)
				}
				r, err := b.Run(ctx, in)
				cancel()
				mu.Lock()
				calls++
				switch {
				case err == nil:
					answered, rows = answered+1, rows+int64(count)
				case errors.Is(err, context.DeadlineExceeded):
					left++
				}
				mu.Unlock()
				if err == nil {
					r.Close()
				}
			}
		})
	}
	all.Wait()
	b.Close()
	s, after := b.Stats(), p.Stats()
	if sum := s.Answered + s.Failed + s.Left + s.Refused.Rows + s.Refused.Input + s.Refused.Room +
		s.Refused.Closed; sum != calls {
		t.Errorf("%d calls, counted are %d: %+v", calls, sum, s)
	}
	if s.Answered != answered || s.Left+s.Refused.Room != left || s.Seconds.Count != answered || s.Refused.Closed != 0 {
		t.Errorf("%d have results and %d left: %+v", answered, left, s)
	}
	if s.RunRows.Count != after.Runs-before.Runs || s.RunRows.Sum < float64(rows) || s.InFlight != 0 || s.Queued != 0 {
		t.Errorf("%d runs, %d rows with results: %+v", after.Runs-before.Runs, rows, s)
	}
}

// TestRetries: a joined run that fails is counted, and the runs of its requests are counted by themselves.
func TestRetries(t *testing.T) {
	b := start(t, compile(t, table, weir.Options{}), batch.Options{Wait: time.Hour, Rows: 4})
	bad := inputs(t, 0, 2, 2)
	bad["ids"] = tensor(t, []int64{1, 99}, 2)
	var all sync.WaitGroup
	for _, in := range []weir.Inputs{inputs(t, 0, 2, 2), bad} {
		all.Go(func() {
			if r, err := b.Run(t.Context(), in); err == nil {
				r.Close()
			}
		})
	}
	all.Wait()
	if s := b.Stats(); s.Retries != 1 || s.Answered != 1 || s.Failed != 1 || s.RunRows.Count != 1 || s.RunRows.Sum != 2 ||
		s.QueueSeconds.Count != 2 {
		t.Errorf("%+v", s)
	}
}

// TestOutputs: one function reads the outputs of a program and of a batcher, and they are equal.
func TestOutputs(t *testing.T) {
	p := compile(t, table, weir.Options{Calls: 2})
	b := start(t, p, batch.Options{})
	read := func(o weir.Outputs, err error) map[string][]float32 {
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		all := map[string][]float32{}
		for name, y := range o.All() {
			if y != o.Get(name) || y != o.At(len(all)) || o.Sequence(name) != nil {
				t.Errorf("%T has two outputs %s", o, name)
			}
			data, err := weir.Copy[float32](y)
			if err != nil {
				t.Error(err)
			}
			all[name] = data
		}
		for range o.All() {
			break
		}
		if o.Get("z") != nil || o.Sequence("z") != nil {
			t.Errorf("%T has an output that the program does not", o)
		}
		return all
	}
	in := inputs(t, 1, 3, 2)
	alone := read(p.Run(t.Context(), in))
	joined := read(b.Run(t.Context(), in))
	if want := []float32{10, 10.125, 20.25, 20.375, 30.5, 30.625}; len(alone) != 1 || !slices.Equal(alone["y"], want) ||
		!reflect.DeepEqual(alone, joined) {
		t.Errorf("%v, %v", alone, joined)
	}
}
