package batch

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Stats are a batcher's counters, for metrics. All but those of the present only grow. Each call of Run that has
// returned is counted once: in Answered, Failed, Left, or a field of Refused.
type Stats struct {
	// The present: requests in the queue, their rows, and requests that wait for room since too many rows are in flight.
	Queued, QueuedRows, Blocked int
	InFlight                    int // rows that wait, run, or are in results that are not closed
	Room                        int // the most that InFlight may be: Options.InFlight

	Answered int64 // requests that got results
	Failed   int64 // requests whose run returned an error
	Left     int64 // requests whose context ended before they had results
	Refused  Refused

	Waits  int64 // requests that found no room; Waited is the sum of their waits for it
	Waited time.Duration

	RunRows      Histogram // the rows of each run that succeeded
	Retries      int64     // joined runs that failed, whose requests were run again by themselves
	QueueSeconds Histogram // the time that each request was in the queue before its run
	Seconds      Histogram // the time from the call of Run to the results, of each request that got results
}

// Refused counts the requests that were refused before they came into the queue, by reason.
type Refused struct {
	Rows   int64 // a RowsError: no rows, or more than a run may have
	Input  int64 // other inputs that the program does not accept
	Room   int64 // the context ended while too many rows were in flight
	Closed int64 // the batcher was closed
}

// Histogram counts values by size.
type Histogram struct {
	Count  int64
	Sum    float64
	Bounds []float64 // in ascending order
	AtMost []int64   // by bound: the number of values that are at most the bound
}

// Mean returns the mean of the values, 0 if there are none.
func (h Histogram) Mean() float64 { return h.Sum / float64(max(1, h.Count)) }

// Stats returns the batcher's counters. Any goroutine may call it at any time, also after Close.
func (b *Batcher) Stats() Stats {
	c := &b.counts
	s := Stats{Answered: c.ends[answered].Load(), Failed: c.ends[failed].Load(), Left: c.ends[departed].Load(),
		Refused: Refused{Rows: c.ends[wrongRows].Load(), Input: c.ends[wrongInput].Load(), Room: c.ends[noRoom].Load(),
			Closed: c.ends[tooLate].Load()},
		RunRows: c.rows.read(1, 1, bits.Len(uint(b.rows-1))+1), Retries: c.retries.Load(),
		QueueSeconds: c.queued.read(shortest, int64(time.Second), bounds),
		Seconds:      c.took.read(shortest, int64(time.Second), bounds)}
	b.mu.Lock()
	s.Queued = len(b.queue)
	for _, r := range b.queue {
		s.QueuedRows += r.rows
	}
	b.mu.Unlock()
	b.room.mu.Lock()
	defer b.room.mu.Unlock()
	s.Blocked, s.InFlight, s.Room = len(b.room.line), b.room.most-b.room.left, b.room.most
	s.Waits, s.Waited = b.room.waits, b.room.waited
	return s
}

// end is the way in which a call of Run ends.
type end uint8

const (
	answered end = iota
	failed
	departed
	wrongRows
	wrongInput
	noRoom
	tooLate
	ends // the number of ends
)

// counts are the counters that no lock guards.
type counts struct {
	ends               [ends]atomic.Int64
	retries            atomic.Int64
	rows, queued, took tally // the durations are in nanoseconds
}

// The bounds of a histogram of times are 0.1 ms, doubled up to 13 s.
const (
	shortest = int64(100 * time.Microsecond)
	bounds   = 18
)

// tally counts values in buckets: bucket i has the values of at most unit<<i that no earlier one has, the last one all
// larger values too.
type tally struct {
	sum     atomic.Int64
	buckets [33]atomic.Int64
}

// add counts a value, in multiples of unit. A negative value counts as 0.
func (t *tally) add(value, unit int64) {
	value = max(0, value)
	t.sum.Add(value)
	t.buckets[min(len(t.buckets)-1, bits.Len64(uint64(max(0, value-1)/unit)))].Add(1)
}

// read returns the values in a unit as a histogram with so many bounds, in which the value one is 1.
func (t *tally) read(unit, one int64, bounds int) Histogram {
	h := Histogram{Sum: float64(t.sum.Load()) / float64(one)}
	for i := range t.buckets {
		if h.Count += t.buckets[i].Load(); i < bounds {
			h.Bounds = append(h.Bounds, float64(unit<<i)/float64(one))
			h.AtMost = append(h.AtMost, h.Count)
		}
	}
	return h
}
