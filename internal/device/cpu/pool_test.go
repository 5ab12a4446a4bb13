package cpu

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/target"
)

// busy is a kernel whose tiles compute for a time. It counts the runs of each tile, and the most concurrent workers.
type busy struct {
	target.Kernel
	tile  time.Duration
	done  []atomic.Int32
	now   *atomic.Int32
	most  *atomic.Int32
	stamp func(scratch []byte) // at the beginning of each piece
}

func (k *busy) Run(_ *target.Args, begin, end int64, scratch []byte) error {
	if k.stamp != nil {
		k.stamp(scratch)
	}
	if k.now != nil {
		n := k.now.Add(1)
		for most := k.most.Load(); n > most && !k.most.CompareAndSwap(most, n); most = k.most.Load() {
		}
		defer k.now.Add(-1)
	}
	for i := begin; i < end; i++ {
		compute(k.tile)
		if k.done != nil {
			k.done[i].Add(1)
		}
	}
	return nil
}

// compute keeps a processor busy.
func compute(d time.Duration) {
	if d > 0 {
		for begin := time.Now(); time.Since(begin) < d; {
		}
	}
}

// scratches returns the scratch of n workers; the length of each is the worker's number.
func scratches(n int) [][]byte {
	list := make([][]byte, n)
	for i := range list {
		list[i] = make([]byte, i)
	}
	return list
}

// TestEachTileOnce: for random numbers and times of tiles and widths, in concurrent runs, each tile runs once, and no
// more workers compute at once than there are slots.
func TestEachTileOnce(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	var now, most atomic.Int32
	var runs sync.WaitGroup
	for g := range 12 {
		random := rand.New(rand.NewPCG(uint64(g), 1))
		runs.Go(func() {
			var team Team
			jobs := make([]device.Job, 5)
			for i := range jobs {
				jobs[i].Tiles = 1 + random.Int64N(300)
				jobs[i].Kernel = &busy{tile: time.Duration(random.IntN(3)) * time.Microsecond,
					done: make([]atomic.Int32, jobs[i].Tiles), now: &now, most: &most}
			}
			for range 20 {
				if err := team.Enter(1+random.IntN(4), target.Stop{}); err != nil {
					t.Error(err)
					return
				}
				for i := range jobs {
					if err := team.Launch(&jobs[i], scratches(4)); err != nil {
						t.Error(err)
					}
				}
				team.Leave()
			}
			for i := range jobs {
				k := jobs[i].Kernel.(*busy)
				for tile := range k.done {
					if n := k.done[tile].Load(); n != 20 {
						t.Errorf("tile %d of %d was done %d times in 20 runs", tile, jobs[i].Tiles, n)
						return
					}
				}
			}
		})
	}
	runs.Wait()
	if most.Load() > 4 {
		t.Errorf("%d workers computed at once in 4 slots", most.Load())
	}
	if pool.taken != 0 || pool.first != nil || pool.last != nil || pool.waiting.Load() != 0 {
		t.Errorf("left behind: %d slots taken, %d wait", pool.taken, pool.waiting.Load())
	}
}

// TestTurns: a short run does not wait for the end of earlier long ones, although these take all slots; and a run that
// is stopped while it waits leaves the queue.
func TestTurns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	stop := make(chan struct{})
	var long sync.WaitGroup
	for range 4 {
		long.Go(func() {
			var team Team
			if err := team.Enter(2, target.Stop{Done: stop}); err != nil {
				t.Error(err)
				return
			}
			defer team.Leave()
			if err := team.Launch(&device.Job{Kernel: &busy{tile: 50 * time.Microsecond}, Tiles: 1 << 40},
				scratches(2)); err != target.ErrStopped {
				t.Error(err)
			}
		})
	}
	for pool.waiting.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	var waited []time.Duration
	for range 5 {
		var team Team
		begin := time.Now()
		if err := team.Enter(2, target.Stop{}); err != nil {
			t.Fatal(err)
		}
		waited = append(waited, time.Since(begin))
		team.Leave()
	}
	// Two slots change hands every turn, for three that wait; anything below a second is a turn and not an end.
	if slices.Max(waited) > time.Second {
		t.Errorf("short runs waited %v", waited)
	}
	t.Logf("short runs waited %v", waited)

	cancelled := make(chan struct{})
	close(cancelled)
	for range 3 { // a run that is stopped while it waits leaves the queue
		var team Team
		if err := team.Enter(1, target.Stop{Done: cancelled}); err != nil && err != target.ErrStopped {
			t.Error(err)
		}
		team.Leave()
	}
	close(stop)
	long.Wait()
	if pool.taken != 0 || pool.first != nil || pool.waiting.Load() != 0 {
		t.Errorf("left behind: %d slots taken, %d wait", pool.taken, pool.waiting.Load())
	}
}

// TestIdleHelpersPark: soon after a run all helpers are parked.
func TestIdleHelpersPark(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	var team Team
	job := device.Job{Kernel: &busy{tile: 20 * time.Microsecond}, Tiles: 64}
	for range 3 {
		if err := team.Enter(4, target.Stop{}); err != nil {
			t.Fatal(err)
		}
		if err := team.Launch(&job, scratches(4)); err != nil {
			t.Fatal(err)
		}
		team.Leave()
	}
	parked := func() bool {
		pool.Lock()
		defer pool.Unlock()
		for _, h := range pool.free {
			if !h.parked.Load() {
				return false
			}
		}
		return len(pool.free) > 0
	}
	for end := time.Now().Add(5 * time.Second); !parked(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("helpers are still awake")
		}
	}
}

// BenchmarkHandOver measures the time from a launch to the first tile of a spinning helper.
func BenchmarkHandOver(b *testing.B) {
	if runtime.GOMAXPROCS(0) < 2 {
		b.Skip("one processor")
	}
	var begin time.Time
	var took []time.Duration
	job := device.Job{Kernel: &busy{tile: 15 * time.Microsecond, stamp: func(scratch []byte) {
		if len(scratch) == 1 {
			took = append(took, time.Since(begin))
		}
	}}, Tiles: 2}
	var team Team
	if err := team.Enter(2, target.Stop{}); err != nil {
		b.Fatal(err)
	}
	defer team.Leave()
	for b.Loop() {
		begin = time.Now()
		if err := team.Launch(&job, scratches(2)); err != nil {
			b.Fatal(err)
		}
	}
	if len(took) > 0 {
		slices.Sort(took)
		b.ReportMetric(float64(took[0]), "min-ns")
		b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
		b.ReportMetric(float64(len(took))/float64(b.N), "share")
	}
}

// TestNoRestAlone: with one processor, no other worker could end a rest, so none rests, however many runs wait.
func TestNoRestAlone(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	before := pool.awake.Load()
	var runs sync.WaitGroup
	for range 4 {
		runs.Go(func() {
			var team Team
			job := device.Job{Kernel: &busy{tile: 200 * time.Microsecond}, Tiles: 100}
			for range 3 {
				if err := team.Enter(2, target.Stop{}); err != nil {
					t.Error(err)
					return
				}
				if err := team.Launch(&job, scratches(2)); err != nil {
					t.Error(err)
				}
				team.Leave()
			}
		})
	}
	runs.Wait()
	if pool.awake.Load() != before {
		t.Error("a worker rested, though there was none to wake it")
	}
	if n := pool.runs.Load(); n != 0 {
		t.Errorf("%d runs are left behind", n)
	}
}

// TestNextRest: rests that other workers end begin a millisecond apart; rests that the alarm ends take a small part of
// the time, however long they are.
func TestNextRest(t *testing.T) {
	ms := int64(time.Millisecond)
	for _, c := range []struct {
		began, ended int64
		alarm        bool
		want         int64
	}{
		{5 * ms, 5*ms + ms/5, false, 6 * ms},
		{5 * ms, 6 * ms, true, 21 * ms},
		{5 * ms, 15 * ms, true, 165 * ms},
		{5 * ms, 5*ms + ms/100, true, 6 * ms},
	} {
		if got := nextRest(c.began, c.ended, c.alarm); got != c.want {
			t.Errorf("after a rest from %d to %d the next is at %d, want %d", c.began, c.ended, got, c.want)
		}
	}
}
