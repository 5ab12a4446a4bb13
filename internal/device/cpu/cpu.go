// Package cpu runs kernels on the machine's processors: one pool of workers a process, as wide as GOMAXPROCS.
//
// A run enters the pool and gets a Team: its own goroutine and the helpers that are free at that moment, at most as many as
// it asks for. Within a run helpers wait for the next launch by spinning, for a bounded time, in Go code that the collector can stop;
// then they park. Nothing spins between runs.
package cpu

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirml/weir/internal/target"
)

// spin is how long a helper waits for work before it parks.
const spin = 50 * time.Microsecond

// pool is the process's helpers that no run has.
var pool struct {
	sync.Mutex
	free  []*helper
	total int
}

// helper is a goroutine that works for one team at a time.
type helper struct {
	team  chan *Team // a run that takes it on; buffered, so that entering never waits
	index int        // its number in the team
	wake  chan struct{}
	idle  atomic.Bool // parked, or about to
}

// slice is about how long a kernel runs before it is asked again whether to stop.
const slice = time.Millisecond

// ErrStopped is Launch's error when Stop was closed before the last tile was begun.
var ErrStopped = errors.New("the launch was stopped")

// Team is the workers of one run: worker 0 is the goroutine that entered.
type Team struct {
	// Stop, where not nil, ends a launch between two tiles once it is closed. It is set between Enter and Leave, before a launch.
	Stop <-chan struct{}

	helpers []*helper
	inside  atomic.Int32  // helpers that may be looking at the job
	epoch   atomic.Uint64 // odd while a job is open
	leaving atomic.Bool
	left    sync.WaitGroup

	kernel  target.Kernel
	args    *target.Args
	tiles   int64
	next    atomic.Int64
	scratch [][]byte

	failed sync.Mutex
	err    error
	errAt  int64
}

// Enter takes on helpers for a run of at most width workers; it never waits for one.
func (t *Team) Enter(width int) {
	t.leaving.Store(false)
	t.helpers = t.helpers[:0]
	if width <= 1 {
		return
	}
	pool.Lock()
	for limit := runtime.GOMAXPROCS(0) - 1; len(pool.free) == 0 && pool.total < limit || pool.total < min(limit, width-1) && len(pool.free) < width-1; {
		h := &helper{team: make(chan *Team, 1), wake: make(chan struct{}, 1)}
		pool.total++
		pool.free = append(pool.free, h)
		go h.serve()
	}
	for len(t.helpers) < width-1 && len(pool.free) > 0 {
		h := pool.free[len(pool.free)-1]
		pool.free = pool.free[:len(pool.free)-1]
		t.helpers = append(t.helpers, h)
	}
	pool.Unlock()
	t.left.Add(len(t.helpers))
	for i, h := range t.helpers {
		h.index = i + 1
		h.team <- t
	}
}

// Leave gives the helpers back. The team may enter again.
func (t *Team) Leave() {
	if len(t.helpers) == 0 {
		return
	}
	t.leaving.Store(true)
	for _, h := range t.helpers {
		h.rouse()
	}
	t.left.Wait()
	pool.Lock()
	pool.free = append(pool.free, t.helpers...)
	pool.Unlock()
	t.helpers = t.helpers[:0]
}

// Width is the number of workers that the team has now.
func (t *Team) Width() int { return 1 + len(t.helpers) }

// Launch runs a kernel's tiles on the team and returns when all are done. scratch has an entry for each worker. The error is
// that of the first tile, in order, that failed, or ErrStopped.
func (t *Team) Launch(k target.Kernel, a *target.Args, tiles int64, scratch [][]byte) error {
	if tiles <= 1 || len(t.helpers) == 0 && t.Stop == nil {
		return k.Run(a, 0, tiles, scratch[0])
	}
	if len(t.helpers) == 0 {
		return t.alone(k, a, tiles, scratch[0])
	}
	t.kernel, t.args, t.tiles, t.scratch, t.err = k, a, tiles, scratch, nil
	t.next.Store(0)
	t.epoch.Add(1)
	for _, h := range t.helpers {
		h.rouse()
	}
	t.work(0)
	t.epoch.Add(1)
	for t.inside.Load() != 0 {
		runtime.Gosched()
	}
	return t.err
}

// alone runs all tiles on one worker, in pieces that take about a slice.
func (t *Team) alone(k target.Kernel, a *target.Args, tiles int64, scratch []byte) error {
	count := int64(1)
	for from := int64(0); from < tiles; {
		if t.stopped() {
			return ErrStopped
		}
		begin := time.Now()
		to := from + min(count, tiles-from)
		if err := k.Run(a, from, to, scratch); err != nil {
			return err
		}
		from = to
		switch took := time.Since(begin); {
		case took < slice/8 && count < tiles:
			count *= 4
		case took > slice:
			count = max(1, count/2)
		}
	}
	return nil
}

func (t *Team) stopped() bool {
	select {
	case <-t.Stop: // never, where it is nil
		return true
	default:
		return false
	}
}

// fail ends the job; of several errors that of the first tile counts.
func (t *Team) fail(at int64, err error) {
	t.failed.Lock()
	if t.err == nil || at < t.errAt {
		t.err, t.errAt = err, at
	}
	t.failed.Unlock()
	t.next.Store(t.tiles)
}

// work takes tiles until none is left.
func (t *Team) work(worker int) {
	for {
		at := t.next.Add(1) - 1
		if at >= t.tiles {
			return
		}
		if t.Stop != nil && t.stopped() {
			t.fail(at, ErrStopped)
		} else if err := t.kernel.Run(t.args, at, at+1, t.scratch[worker]); err != nil {
			t.fail(at, err)
		}
	}
}

// rouse wakes a parked helper.
func (h *helper) rouse() {
	if h.idle.Load() {
		select {
		case h.wake <- struct{}{}:
		default:
		}
	}
}

func (h *helper) serve() {
	for t := range h.team {
		h.assist(t)
		t.left.Done()
	}
}

// assist works on a team's jobs until the run leaves.
func (h *helper) assist(t *Team) {
	seen := uint64(0)
	begin := time.Now()
	for turn := 0; !t.leaving.Load(); turn++ {
		epoch := t.epoch.Load()
		if epoch&1 == 1 && epoch != seen {
			t.inside.Add(1)
			if t.epoch.Load() == epoch {
				t.work(h.index)
			}
			t.inside.Add(-1)
			seen = epoch
			begin = time.Now()
			continue
		}
		if turn&15 == 15 {
			runtime.Gosched()
			if time.Since(begin) > spin {
				h.park(t, seen)
				begin = time.Now()
			}
		}
	}
}

// park sleeps until there is something to look at.
func (h *helper) park(t *Team, seen uint64) {
	h.idle.Store(true)
	// What was announced before idle was seen must not be missed.
	if epoch := t.epoch.Load(); !t.leaving.Load() && (epoch&1 == 0 || epoch == seen) {
		<-h.wake
	} else {
		select {
		case <-h.wake:
		default:
		}
	}
	h.idle.Store(false)
}
