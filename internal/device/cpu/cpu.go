// Package cpu runs kernels on the machine's processors.
//
// All runs of the process share one pool. It has as many places as GOMAXPROCS, and whoever computes holds one: a run
// holds a place for its own goroutine, and one for each helper that it has besides. When all are taken, the next run
// waits, the one that has waited longest gets the first place that is given up, runs that have helpers give these up,
// and a run that has had its turn goes to the end of the queue. So the process never has more goroutines that compute
// than processors, and other goroutines find theirs free before long.
//
// A helper waits for work by spinning, for a bounded time, in Go code that the collector can stop; then it parks. Work
// is handed over to one that spins in less than a microsecond. A launch goes to helpers only if that is expected to
// pay, by what it took before.
package cpu

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/target"
)

// What the pool goes by.
const (
	spin  = 50 * time.Microsecond  // how long a helper waits for work before it parks
	slice = time.Millisecond       // about how long a run computes before it lets others do something
	turn  = 10 * time.Millisecond  // how long it keeps its place while others wait for one
	worth = 8 * time.Microsecond   // a launch that takes less is not handed over
	waken = 60 * time.Microsecond  // and no helper is woken for one that takes less than this
	small = 10 * time.Microsecond  // pieces of work are no smaller than this
	large = 500 * time.Microsecond // and no larger, unless a single tile is
)

// Host is the machine's processors, as the executor is given them.
type Host struct{}

// NewTeam makes the workers of a call.
func (Host) NewTeam() device.Team { return new(Team) }

// job is a launch, and what is known of it from its earlier runs.
type job struct {
	*device.Job
	pace
	stages []pace        // of a course
	soon   time.Duration // from the end of this launch to one that is worth waking helpers for, last time; 0 is never
}

// known is what the team remembers of a job, which is nothing at first.
func known(j *device.Job) *job {
	k, _ := j.Known.(*job)
	if k == nil || k.Job != j {
		k = &job{Job: j}
		j.Known = k
	}
	return k
}

// pace is the nanoseconds that a tile takes, the bits of a float64; 0 is not known.
type pace struct{ atomic.Uint64 }

// learn takes note of how long some tiles took. What took longer than before may have been disturbed, and counts less.
func (p *pace) learn(tiles int64, took time.Duration) {
	now, before := max(float64(took)/float64(tiles), 1e-3), p.tile()
	if before > 0 && now > before {
		now = before + (now-before)/4
	}
	if math.Abs(now-before) > before/16 { // others read it
		p.Store(math.Float64bits(now))
	}
}

// tile is the nanoseconds that a tile takes; 0 if it is not known.
func (p *pace) tile() float64 { return math.Float64frombits(p.Load()) }

// piece is how many of the tiles that are left in a span should be taken at once: half of them where others may want
// some, but neither too small a piece nor too large a one.
func (j *job) piece(left int64, shared bool) int64 {
	tile, share := j.tile(), float64(left)
	if tile == 0 {
		return 1 // which tells how long one takes
	}
	if shared {
		share = max(share/2, float64(small)/tile)
	}
	most := large
	if pool.waiting.Load() > 0 {
		most /= 2
	}
	share = min(share, float64(most)/tile)
	if share >= float64(left) {
		return left
	}
	return max(1, int64(share))
}

// span is the tiles that a worker does unless others are done before it: with as many spans as workers, in the order of
// both, a worker finds in its processor's caches what it made in the launch before.
type span struct {
	next atomic.Int64 // the first tile that nobody took
	end  int64
	_    [48]byte // the next one lies in another line of the cache
}

// Team is the workers of one run: worker 0 is the goroutine that entered.
type Team struct {
	stop    target.Stop // ends a wait for a place, and a launch between two pieces of work
	width   int         // the most workers
	helpers []*helper   // each with a place
	inside  bool        // it has a place
	since   time.Time   // when the turn began; zero if no slice of it is over
	ran     time.Duration
	queue             // what waiting for a place needs
	job     *job      // being done, or else the last one
	shared  time.Time // when helpers last had work
	scratch [][]byte  // of the workers
	spans   []span    // of the workers
	parts   []part    // of the workers, of a stage
	staged  bool      // what helpers are offered is a part
	wake    bool      // and is worth waking them for

	failed sync.Mutex
	err    error
	errAt  int64
}

// Enter takes a place in the pool for a run of at most width workers; it waits where all are taken, until stop. Helpers
// join, as far as there are places, when there is work for them.
func (t *Team) Enter(width int, stop target.Stop) error {
	t.stop, t.width, t.job, t.ran = stop, width, nil, 0
	return t.enter()
}

// Leave gives up the team's places. The team may enter again.
func (t *Team) Leave() { t.leave() }

// Launch runs a job's tiles on the team and returns when all are done. scratch has an entry for each worker. The error
// is that of the first tile, in order, that failed, or target.ErrStopped.
func (t *Team) Launch(launch *device.Job, scratch [][]byte) error {
	if t.ran > slice {
		if err := t.pause(); err != nil {
			return err
		}
	}
	before, j := t.job, known(launch)
	t.job, j.Args.Stop = j, t.stop
	if j.Course != nil {
		return t.follow(before, scratch)
	}
	whole := waken // a first time is worth waking helpers: a tile may take long
	if tile := j.tile(); tile > 0 {
		whole = time.Duration(min(tile*float64(j.Tiles), 1e18))
		if t.width > 1 {
			t.foresee(before, whole)
		}
	}
	if whole < worth {
		t.ran += whole
		return j.run(0, j.Tiles, scratch[0])
	}
	t.scratch, t.err = scratch, nil
	if t.width > 1 && j.Tiles > 1 {
		t.gather()
	}
	t.divide(j.Tiles)
	if workers := len(t.spans); workers > 1 {
		wake := whole >= waken || time.Since(t.shared) < spin
		for _, h := range t.helpers {
			h.offer(t, wake)
		}
	}
	t.do(0)
	if len(t.spans) > 1 {
		for _, h := range t.helpers {
			h.finish()
		}
		t.shared = time.Now()
	}
	return t.err
}

// foresee remembers, with the launch before this one, how long it is until helpers are worth waking, and wakes them
// where that is soon, so that they are awake by then.
func (t *Team) foresee(before *job, whole time.Duration) {
	j := t.job
	wide := whole >= waken && j.Tiles > 1
	if before != nil {
		switch {
		case wide:
			before.soon = 1
		case j.soon > 0:
			before.soon = j.soon + whole
		default:
			before.soon = 0
		}
	}
	if !wide && j.soon > 0 && j.soon+whole < waken+spin {
		t.gather()
		for _, h := range t.helpers {
			h.rouse()
		}
	}
}

// divide makes spans of the tiles, one for each worker.
func (t *Team) divide(tiles int64) {
	workers := 1
	if tiles > 1 {
		workers += len(t.helpers)
	}
	if cap(t.spans) < workers {
		t.spans = make([]span, workers, max(workers, t.width))
	}
	t.spans = t.spans[:workers]
	first, each, more := int64(0), tiles/int64(workers), tiles%int64(workers)
	for i := range t.spans {
		t.spans[i].next.Store(first)
		if first += each; int64(i) < more {
			first++
		}
		t.spans[i].end = first
	}
}

// run does tiles [from, to). A panic of the kernel's, a fault of memory among them, is an error like its others: the
// workers of a launch end it together.
func (j *job) run(from, to int64, scratch []byte) (err error) {
	defer diag.Recover(&err, "running a kernel")
	return j.Kernel.Run(&j.Args, from, to, scratch)
}

// do is work, after which the team can wait for its helpers whatever happened.
func (t *Team) do(worker int) {
	var err error
	defer func() {
		if err != nil {
			t.fail(math.MaxInt64, err)
		}
	}()
	defer diag.Recover(&err, "sharing a launch")
	t.work(worker)
}

// take takes tiles: of the worker's own span, and else of another's.
func (t *Team) take(worker int) (from, to int64, ok bool) {
	for i := range t.spans {
		s := &t.spans[(worker+i)%len(t.spans)]
		for at := s.next.Load(); at < s.end; at = s.next.Load() {
			to := at + t.job.piece(s.end-at, len(t.spans) > 1)
			if s.next.CompareAndSwap(at, to) {
				return at, to, true
			}
		}
	}
	return 0, 0, false
}

// work takes pieces until no tile is left.
func (t *Team) work(worker int) {
	if t.staged {
		t.part(worker, &t.parts[worker])
		return
	}
	j := t.job
	for begin := time.Now(); ; {
		from, to, ok := t.take(worker)
		if !ok {
			return
		}
		if err := j.run(from, to, t.scratch[worker]); err != nil {
			t.fail(from, err)
			return
		}
		now := time.Now()
		took := now.Sub(begin)
		j.learn(to-from, took)
		begin = now
		if worker == 0 {
			t.ran += took
			if err := t.pause(); err != nil {
				t.fail(to, err)
				return
			}
			continue
		}
		if pool.waiting.Load() > 0 {
			return // others want the place
		}
		t.helpers[worker-1].yield(now)
	}
}

// fail ends the job; of several errors that of the first tile counts.
func (t *Team) fail(at int64, err error) {
	t.failed.Lock()
	if t.err == nil || at < t.errAt {
		t.err, t.errAt = err, at
	}
	t.failed.Unlock()
	for i := range t.spans {
		t.spans[i].next.Store(t.spans[i].end)
	}
}
