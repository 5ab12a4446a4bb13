package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/pprof"
	"github.com/weirml/weir/internal/target"
)

// pool is the state that all runs of the process share.
var pool struct {
	sync.Mutex
	taken       int          // slots
	runs        atomic.Int32 // teams that have a slot
	free        []*helper    // helpers without a team; the last one was busy most recently
	first, last *Team        // the queue of runs that wait for a slot
	waiting     atomic.Int32 // number of runs in the queue
	awake       atomic.Int64 // no worker rests before this time, in nanoseconds since start
	resting     atomic.Int64 // when the present rest began; 0 if no worker rests, −1 if the rest is about to end
	rest        chan struct{}
	alarm       *time.Timer // ends the present rest
}

var start = time.Now()

// slots returns the number of workers that may compute at once.
func slots() int { return runtime.GOMAXPROCS(0) }

// queue is a team's entry in the queue of runs that wait for a slot.
type queue struct {
	turn chan struct{} // has an entry once the team has a slot
	next *Team
}

// enter takes a slot; if none is free, it waits for one.
func (t *Team) enter() error {
	t.since = time.Time{}
	pool.Lock()
	admit()
	if pool.taken < slots() {
		pool.taken++
		pool.runs.Add(1)
		t.inside = true
		pool.Unlock()
		return nil
	}
	return t.await()
}

// await waits for a slot at the end of the queue. The pool is locked before the call, and unlocked after it.
func (t *Team) await() error {
	if t.turn == nil {
		t.turn = make(chan struct{}, 1)
	}
	if pool.last == nil {
		pool.first = t
	} else {
		pool.last.next = t
	}
	pool.last = t
	pool.waiting.Add(1)
	pool.Unlock()
	select {
	case <-t.turn:
	case <-t.stop.Done:
		pool.Lock()
		if !t.dequeue() { // it got a slot at the same time
			<-t.turn
			pool.taken--
			pool.runs.Add(-1)
			admit()
		}
		pool.Unlock()
		return target.ErrStopped
	}
	t.inside = true
	return nil
}

// dequeue removes the team from the queue, and reports whether it was in it. The pool is locked.
func (t *Team) dequeue() bool {
	var before *Team
	for at := pool.first; at != nil; before, at = at, at.next {
		if at != t {
			continue
		}
		if before == nil {
			pool.first = t.next
		} else {
			before.next = t.next
		}
		if pool.last == t {
			pool.last = before
		}
		t.next = nil
		pool.waiting.Add(-1)
		return true
	}
	return false
}

// admit gives free slots to the first teams in the queue. The pool is locked.
func admit() {
	for pool.first != nil && pool.taken < slots() {
		t := pool.first
		t.dequeue()
		pool.taken++
		pool.runs.Add(1)
		t.turn <- struct{}{}
	}
}

// leave gives up the team's slots, if it has any.
func (t *Team) leave() {
	if !t.inside {
		return
	}
	t.inside = false
	pool.Lock()
	t.dismiss()
	pool.taken--
	pool.runs.Add(-1)
	admit()
	pool.Unlock()
}

// dismiss gives up the helpers, which must have no work, and their slots. The pool is locked.
func (t *Team) dismiss() {
	for _, h := range t.helpers {
		h.team = nil
	}
	pool.taken -= len(t.helpers)
	pool.free = append(pool.free, t.helpers...)
	t.helpers = t.helpers[:0]
}

// gather adds helpers to the team, up to its width, as far as slots are free and no run waits.
func (t *Team) gather() {
	if len(t.helpers) >= t.width-1 {
		return
	}
	pool.Lock()
	for len(t.helpers) < t.width-1 && pool.taken < slots() && pool.first == nil && !mem.Failing(mem.Worker) {
		var h *helper
		if last := len(pool.free) - 1; last >= 0 {
			h, pool.free = pool.free[last], pool.free[:last]
			h.rouse()
		} else {
			h = &helper{wake: make(chan struct{}, 1)}
			h.begin()
		}
		t.helpers = append(t.helpers, h)
		h.worker = len(t.helpers)
		pool.taken++
	}
	pool.Unlock()
}

// pause returns ErrStopped if a run must end, and otherwise lets others compute, between two pieces of work: the team
// gives up its helpers if runs wait, and its slot if its turn is over.
func (t *Team) pause() error {
	if t.stop.Ended() {
		return target.ErrStopped
	}
	endRest()
	if pool.waiting.Load() > 0 && len(t.helpers) > 0 {
		for _, h := range t.helpers {
			h.finish()
		}
		pool.Lock()
		t.dismiss()
		admit()
		pool.Unlock()
	}
	if t.ran < slice {
		return nil
	}
	t.ran = 0
	now := time.Now()
	if t.since.IsZero() {
		t.since = now
	}
	if pool.waiting.Load() > 0 && now.Sub(t.since) > turn {
		t.since = time.Time{}
		pool.Lock()
		if pool.first != nil {
			t.inside = false
			pool.taken--
			pool.runs.Add(-1)
			admit()
			return t.await()
		}
		pool.Unlock()
	}
	yield()
	return nil
}

// While runs wait for slots, all processors compute all the time. Go's scheduler polls the network only if a processor
// is idle, or else every ten milliseconds. One of the workers therefore rests for a moment now and then, long enough
// for goroutines that wait for the network. A worker of another run ends the rest, since Go's own sleep takes a
// millisecond on an idle processor: no worker rests unless another run has a slot. The alarm ends the rest if that run
// leaves or does not check for long; the next rest is then far off, so that rests cost little time in any case.
const (
	restEvery = time.Millisecond
	restTime  = 150 * time.Microsecond
	seldom    = 16 // rests that the alarm ends take at most 1/seldom of the time
)

// nextRest returns the time before which no worker rests, after a rest that began and ended at some times; alarm is
// whether the alarm ended it.
func nextRest(began, ended int64, alarm bool) int64 {
	next := began + int64(restEvery)
	if alarm {
		next = max(next, ended+(seldom-1)*(ended-began))
	}
	return next
}

// init creates the alarm, stopped.
func init() {
	pool.rest, pool.alarm = make(chan struct{}, 1), time.NewTimer(0)
	<-pool.alarm.C
}

// yield lets waiting goroutines run: it rests, if a rest is due and another run can end it, or yields the processor.
func yield() {
	if pool.waiting.Load() > 0 && pool.runs.Load() > 1 {
		now, alarm := int64(time.Since(start)), false
		if now > pool.awake.Load() && pool.resting.CompareAndSwap(0, now) {
			pool.alarm.Reset(restTime)
			select {
			case <-pool.rest:
				pool.alarm.Stop()
			case <-pool.alarm.C:
				if alarm = pool.resting.CompareAndSwap(now, -1); !alarm {
					<-pool.rest // another worker was about to end it
				}
			}
			pool.awake.Store(nextRest(now, int64(time.Since(start)), alarm))
			pool.resting.Store(0)
			return
		}
	}
	runtime.Gosched()
}

// endRest ends another worker's rest if it has been long enough.
func endRest() {
	if at := pool.resting.Load(); at > 0 && int64(time.Since(start))-at > int64(restTime) &&
		pool.resting.CompareAndSwap(at, -1) {
		pool.rest <- struct{}{}
	}
}

// helper is a goroutine that works for one team at a time.
type helper struct {
	state  atomic.Int32
	parked atomic.Bool
	team   *Team        // the team that offers work
	labels pprof.Labels // the team's, in CPU profiles
	worker int          // its number in the team
	wake   chan struct{}
	since  time.Time // since when it has computed without yielding
}

// The states of a helper. The team offers work; the helper takes it, and is idle again after it; the team withdraws an
// offer that was not taken.
const (
	idle int32 = iota
	offered
	working
)

// offer offers the team's job to the helper, and reports whether it did. A parked helper gets the offer only with wake,
// which wakes it.
func (h *helper) offer(t *Team, wake bool) bool {
	if !wake && h.parked.Load() {
		return false
	}
	h.team, h.labels = t, pprof.Current()
	h.state.Store(offered)
	h.rouse()
	return true
}

// yield lets waiting goroutines run if the helper has computed for the time slice.
func (h *helper) yield(now time.Time) {
	if now.Sub(h.since) > slice {
		yield()
		h.since = time.Now()
	}
}

// finish waits until the helper has done its work, or withdraws the offer if the helper has not begun, and returns
// false.
func (h *helper) finish() (done bool) {
	for i := 0; ; i++ {
		switch h.state.Load() {
		case idle:
			return true
		case offered:
			if h.state.CompareAndSwap(offered, idle) {
				return false
			}
		}
		if relax(); i > 500 {
			runtime.Gosched()
		}
	}
}

// rouse wakes a parked helper.
func (h *helper) rouse() {
	if h.parked.Load() && h.parked.CompareAndSwap(true, false) {
		h.wake <- struct{}{}
	}
}

// begin starts the helper's goroutine. If a bug of the pool ends the goroutine, another one replaces it, since a team
// may wait for the helper.
func (h *helper) begin() {
	diag.Go("a worker", func() error { h.serve(); return nil }, func(error) {
		h.state.Store(idle)
		h.begin()
	})
}

// serve takes offers, forever.
func (h *helper) serve() {
	pprof.Labels{}.Set() // a goroutine inherits labels from the one that started it, here a run's
	begin := time.Now()
	h.since = begin
	for i := 1; ; i++ {
		if h.state.Load() == offered && h.state.CompareAndSwap(offered, working) {
			h.labels.Set()
			h.team.do(h.worker)
			pprof.Labels{}.Set()
			h.state.Store(idle)
			begin = time.Now()
			h.yield(begin)
		}
		if relax(); i%16 == 0 && time.Since(begin) > spin {
			h.park()
			begin = time.Now()
			h.since = begin
		}
	}
}

// park sleeps until rouse wakes the helper.
func (h *helper) park() {
	h.parked.Store(true)
	if h.state.Load() == offered && h.parked.CompareAndSwap(true, false) {
		return // a team offered work before it saw that the helper is parked
	}
	<-h.wake
}
