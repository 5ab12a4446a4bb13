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

// pool is what the runs of the process share.
var pool struct {
	sync.Mutex
	taken       int          // places
	runs        atomic.Int32 // teams that have a place
	free        []*helper    // those without a team; the last one was busy most recently
	first, last *Team        // runs that wait for a place, in their order
	waiting     atomic.Int32 // how many
	awake       atomic.Int64 // until then no worker rests, in nanoseconds since start
	resting     atomic.Int64 // since when one rests; 0 if none does, −1 if it is about to go on
	rest        chan struct{}
	alarm       *time.Timer // of the one that rests
}

var start = time.Now()

// places is how many workers may compute at once.
func places() int { return runtime.GOMAXPROCS(0) }

// queue is a team's place in the line of those that wait for a place.
type queue struct {
	turn   chan struct{} // has an entry once there is a place
	behind *Team
}

// enter takes a place.
func (t *Team) enter() error {
	t.since = time.Time{}
	pool.Lock()
	admit()
	if pool.taken < places() {
		pool.taken++
		pool.runs.Add(1)
		t.inside = true
		pool.Unlock()
		return nil
	}
	return t.line()
}

// line waits at the end of the line for a place. The pool is locked; it is not on return.
func (t *Team) line() error {
	if t.turn == nil {
		t.turn = make(chan struct{}, 1)
	}
	if pool.last == nil {
		pool.first = t
	} else {
		pool.last.behind = t
	}
	pool.last = t
	pool.waiting.Add(1)
	pool.Unlock()
	select {
	case <-t.turn:
	case <-t.stop.Done:
		pool.Lock()
		if !t.unline() { // it was given a place at the same time
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

// unline takes the team out of the line; false if it is in it no more. The pool is locked.
func (t *Team) unline() bool {
	var before *Team
	for at := pool.first; at != nil; before, at = at, at.behind {
		if at != t {
			continue
		}
		if before == nil {
			pool.first = t.behind
		} else {
			before.behind = t.behind
		}
		if pool.last == t {
			pool.last = before
		}
		t.behind = nil
		pool.waiting.Add(-1)
		return true
	}
	return false
}

// admit gives free places to those that wait. The pool is locked.
func admit() {
	for pool.first != nil && pool.taken < places() {
		t := pool.first
		t.unline()
		pool.taken++
		pool.runs.Add(1)
		t.turn <- struct{}{}
	}
}

// leave gives up the team's places, if it has any.
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

// dismiss gives up the helpers, none of which has work, and their places. The pool is locked.
func (t *Team) dismiss() {
	for _, h := range t.helpers {
		h.team = nil
	}
	pool.taken -= len(t.helpers)
	pool.free = append(pool.free, t.helpers...)
	t.helpers = t.helpers[:0]
}

// gather gets the team as many helpers as there are places for. With fewer, even none, it does all work itself.
func (t *Team) gather() {
	if len(t.helpers) >= t.width-1 {
		return
	}
	pool.Lock()
	for len(t.helpers) < t.width-1 && pool.taken < places() && pool.first == nil && !mem.Failing(mem.Worker) {
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

// pause is where a run, between two pieces of work, ends if it must and lets others compute.
func (t *Team) pause() error {
	if t.stop.Ended() {
		return target.ErrStopped
	}
	arouse()
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
			return t.line()
		}
		pool.Unlock()
	}
	yield()
	return nil
}

// While runs wait for places, so that all processors compute all the time, one of the workers rests for a moment now
// and then: Go's scheduler looks for events of the network only when a processor has nothing to do, or else every ten
// milliseconds. The rest is long enough for what it finds to be done. Another run's worker ends it, since a sleep of
// Go's takes a millisecond on a processor that has nothing else to do: without another run that has a place, nobody
// rests. The alarm is for when that run leaves, or does not look for long; then the next rest is far off, so that rests
// cost little of the time in any case.
const (
	breath = time.Millisecond
	nap    = 150 * time.Microsecond
	seldom = 16 // a rest that the alarm ended takes at most one part of so many
)

// nextRest is the time until which no worker rests, after a rest that began and ended at these times.
func nextRest(began, ended int64, alarm bool) int64 {
	next := began + int64(breath)
	if alarm {
		next = max(next, ended+(seldom-1)*(ended-began))
	}
	return next
}

// init creates the alarm stopped.
func init() {
	pool.rest, pool.alarm = make(chan struct{}, 1), time.NewTimer(0)
	<-pool.alarm.C
}

// yield lets goroutines run that wait for a processor.
func yield() {
	if pool.waiting.Load() > 0 && pool.runs.Load() > 1 {
		now, alarm := int64(time.Since(start)), false
		if now > pool.awake.Load() && pool.resting.CompareAndSwap(0, now) {
			pool.alarm.Reset(nap)
			select {
			case <-pool.rest:
				pool.alarm.Stop()
			case <-pool.alarm.C:
				if alarm = pool.resting.CompareAndSwap(now, -1); !alarm {
					<-pool.rest // somebody was about to end it
				}
			}
			pool.awake.Store(nextRest(now, int64(time.Since(start)), alarm))
			pool.resting.Store(0)
			return
		}
	}
	runtime.Gosched()
}

// arouse ends the rest of another worker when it has been long enough.
func arouse() {
	if at := pool.resting.Load(); at > 0 && int64(time.Since(start))-at > int64(nap) &&
		pool.resting.CompareAndSwap(at, -1) {
		pool.rest <- struct{}{}
	}
}

// helper is a goroutine that works for one team at a time.
type helper struct {
	state  atomic.Int32
	parked atomic.Bool
	team   *Team        // whose job is offered
	labels pprof.Labels // of who offers it, in CPU profiles
	worker int          // its number there
	wake   chan struct{}
	since  time.Time // since when it has computed, launch after launch, without letting others do something
}

// The states of a helper. The team offers work; the helper takes it and is idle again when it has done it; the team
// takes an offer back that was not taken.
const (
	idle int32 = iota
	offered
	working
)

// offer offers the team's job. A parked helper is woken for it or left alone: then nothing is offered.
func (h *helper) offer(t *Team, wake bool) bool {
	if !wake && h.parked.Load() {
		return false
	}
	h.team, h.labels = t, pprof.Current()
	h.state.Store(offered)
	h.rouse()
	return true
}

// yield lets goroutines run that wait for a processor, timers' among them, if the helper has computed for long.
func (h *helper) yield(now time.Time) {
	if now.Sub(h.since) > slice {
		yield()
		h.since = time.Now()
	}
}

// finish waits until what was offered is done; or it takes it back, where the helper has not begun, and returns false.
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

// begin starts the helper's goroutine. If that should end, which only a bug of the pool's can make it do, another one
// takes its place: a team may be waiting for it.
func (h *helper) begin() {
	diag.Go("a worker", func() error { h.serve(); return nil }, func(error) {
		h.state.Store(idle)
		h.begin()
	})
}

// serve takes what is offered, for ever.
func (h *helper) serve() {
	pprof.Labels{}.Set() // those of the goroutine that began it are a run's
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

// park sleeps until somebody rouses the helper.
func (h *helper) park() {
	h.parked.Store(true)
	if h.state.Load() == offered && h.parked.CompareAndSwap(true, false) {
		return // it was offered before it was seen to be parked
	}
	<-h.wake
}
