// Package cpu runs kernels on the machine's processors.
//
// All runs of the process share one pool. It has as many slots as GOMAXPROCS, and each goroutine that computes holds
// one: a run holds a slot for its own goroutine, and one for each of its helpers. If all are taken, the next run
// waits. Then runs give up their helpers, a run whose turn is over goes to the end of the queue, and the run that has
// waited longest gets the next free slot. So the process never has more goroutines that compute than processors, and
// other goroutines soon get a processor.
//
// A helper waits for work by spinning, for a bounded time, in Go code that the collector can stop; then it parks. A
// spinning helper takes work within a microsecond. A launch goes to helpers only if that is expected to pay, by its
// earlier times.
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

// The times by which the pool decides.
const (
	spin  = 50 * time.Microsecond  // a helper spins so long before it parks
	slice = time.Millisecond       // a run computes about so long before it yields its processor
	turn  = 10 * time.Millisecond  // a run keeps its slot so long while others wait
	worth = target.LeastShared     // the least time of a launch that is divided among workers
	waken = 60 * time.Microsecond  // the least time of a launch for which helpers are woken
	small = 5 * time.Microsecond   // the least time of a piece of work
	large = 500 * time.Microsecond // the most time of a piece of several tiles
)

// Host is the machine's processors, for the executor.
type Host struct{}

// NewTeam returns the workers of a call.
func (Host) NewTeam() device.Team { return new(Team) }

// job is a launch, with the times of its earlier runs.
type job struct {
	*device.Job
	pace
	stages []pace        // of a course
	soon   time.Duration // last time, from the end of this launch to the next for which helpers are woken; 0: none
}

// known returns the job of a launch, which is a new one at first.
func known(j *device.Job) *job {
	k, _ := j.Known.(*job)
	if k == nil || k.Job != j {
		k = &job{Job: j}
		j.Known = k
	}
	return k
}

// pace is the estimated nanoseconds of a tile, as the bits of a float64; 0 is unknown.
type pace struct{ atomic.Uint64 }

// learn records the time of some tiles. Longer times than before may come from a disturbance, and count less.
func (p *pace) learn(tiles int64, took time.Duration) {
	now, before := max(float64(took)/float64(tiles), 1e-3), p.tile()
	if before > 0 && now > before {
		now = before + (now-before)/4
	}
	if math.Abs(now-before) > before/16 { // small changes are not worth a write that other processors see
		p.Store(math.Float64bits(now))
	}
}

// tile returns the estimated nanoseconds of a tile; 0 if unknown.
func (p *pace) tile() float64 { return math.Float64frombits(p.Load()) }

// piece returns the number of tiles to take at once of those left in a range: half of them if others may take some, but
// neither too few nor too many.
func (j *job) piece(left int64, shared bool) int64 {
	tile, share := j.tile(), float64(left)
	if tile == 0 {
		return 1 // to learn its time
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

// tileRange is the tiles that a worker runs, unless others finish theirs earlier and take some. Worker i has the i-th
// range in each launch, so that results of the launch before are in its processor's caches.
type tileRange struct {
	next atomic.Int64 // the first tile that is not taken
	end  int64
	_    [48]byte // the next range is in another cache line
}

// Team is the workers of one run: worker 0 is the goroutine that entered.
type Team struct {
	stop    target.Stop // ends a wait for a slot, and a launch between two pieces of work
	width   int         // the most workers
	helpers []*helper   // each with a slot
	inside  bool        // it has a slot
	since   time.Time   // when the turn began; zero if no slice of it is over
	ran     time.Duration
	queue               // for waiting for a slot
	job     *job        // the present one, or else the last one
	shared  time.Time   // when helpers last had work
	scratch [][]byte    // of each worker
	ranges  []tileRange // of each worker
	quotas  []quota     // of each worker, for a stage
	staged  bool        // helpers are offered a quota
	wake    bool        // parked helpers are woken for it

	failed sync.Mutex
	err    error
	errAt  int64
}

// Enter takes a slot in the pool for a run of at most width workers. If all slots are taken, it waits until one is
// free, or returns ErrStopped at stop. Helpers join when there is work for them, as far as there are slots.
func (t *Team) Enter(width int, stop target.Stop) error {
	t.stop, t.width, t.job, t.ran = stop, width, nil, 0
	return t.enter()
}

// Leave gives up the team's slots. The team may enter again.
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
	total := waken // the first time, helpers are woken: a tile may take long
	if tile := j.tile(); tile > 0 {
		total = time.Duration(min(tile*float64(j.Tiles), 1e18))
		if t.width > 1 {
			t.foresee(before, total)
		}
	}
	if total < worth {
		t.ran += total
		return j.run(0, j.Tiles, scratch[0])
	}
	t.scratch, t.err = scratch, nil
	if t.width > 1 && j.Tiles > 1 {
		t.gather()
	}
	t.divide(j.Tiles)
	if workers := len(t.ranges); workers > 1 {
		wake := total >= waken || time.Since(t.shared) < spin
		for _, h := range t.helpers {
			h.offer(t, wake)
		}
	}
	t.do(0)
	if len(t.ranges) > 1 {
		for _, h := range t.helpers {
			h.finish()
		}
		t.shared = time.Now()
	}
	return t.err
}

// foresee records with the launch before this one the time until the next launch for which helpers are woken. It wakes
// helpers early if this launch is not such a one, but the next is soon. total is the launch's estimated time.
func (t *Team) foresee(before *job, total time.Duration) {
	j := t.job
	wide := total >= waken && j.Tiles > 1
	if before != nil {
		switch {
		case wide:
			before.soon = 1
		case j.soon > 0:
			before.soon = j.soon + total
		default:
			before.soon = 0
		}
	}
	if !wide && j.soon > 0 && j.soon+total < waken+spin {
		t.gather()
		for _, h := range t.helpers {
			h.rouse()
		}
	}
}

// divide divides the tiles into ranges, one for each worker.
func (t *Team) divide(tiles int64) {
	workers := 1
	if tiles > 1 {
		workers += len(t.helpers)
	}
	if cap(t.ranges) < workers {
		t.ranges = make([]tileRange, workers, max(workers, t.width))
	}
	t.ranges = t.ranges[:workers]
	first, each, more := int64(0), tiles/int64(workers), tiles%int64(workers)
	for i := range t.ranges {
		t.ranges[i].next.Store(first)
		if first += each; int64(i) < more {
			first++
		}
		t.ranges[i].end = first
	}
}

// run runs tiles [from, to). A panic of the kernel, or a memory fault, is returned as an error, so that the workers of
// a launch end it together.
func (j *job) run(from, to int64, scratch []byte) (err error) {
	defer diag.Recover(&err, "running a kernel")
	return j.Kernel.Run(&j.Args, from, to, scratch)
}

// do is work that never panics: the team can then always wait for its helpers.
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

// take takes tiles of the worker's own range, or else of another's; ok is false if all are taken.
func (t *Team) take(worker int) (from, to int64, ok bool) {
	for i := range t.ranges {
		s := &t.ranges[(worker+i)%len(t.ranges)]
		for at := s.next.Load(); at < s.end; at = s.next.Load() {
			to := at + t.job.piece(s.end-at, len(t.ranges) > 1)
			if s.next.CompareAndSwap(at, to) {
				return at, to, true
			}
		}
	}
	return 0, 0, false
}

// work runs the worker's quota, or takes and runs pieces until no tile is left.
func (t *Team) work(worker int) {
	if t.staged {
		t.runQuota(worker, &t.quotas[worker])
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
			return // other runs wait for the slot
		}
		t.helpers[worker-1].yield(now)
	}
}

// fail records an error of tile at, and ends the job. Of several errors, that of the first tile is returned.
func (t *Team) fail(at int64, err error) {
	t.failed.Lock()
	if t.err == nil || at < t.errAt {
		t.err, t.errAt = err, at
	}
	t.failed.Unlock()
	for i := range t.ranges {
		t.ranges[i].next.Store(t.ranges[i].end)
	}
}
