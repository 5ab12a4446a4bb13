package cpu

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/target"
)

// ordered is a kernel that counts its tiles, and the tiles that begin before those of the three stages before have
// ended.
type ordered struct {
	target.Kernel
	course *target.Course
	tile   time.Duration
	stage  []int32 // of each tile
	done   []atomic.Int32
	ended  []atomic.Int64 // tiles of each stage
	sizes  []int64
	fail   int64
	wrong  atomic.Int32
}

// newOrdered returns an ordered kernel with a course, each of whose tiles takes a time.
func newOrdered(c *target.Course, tile time.Duration) *ordered {
	k := &ordered{course: c, tile: tile, fail: -1}
	add := func(i int) {
		for range c.Stages[i] {
			k.stage = append(k.stage, int32(len(k.sizes)))
		}
		k.sizes = append(k.sizes, c.Stages[i])
	}
	for i := range c.First {
		add(i)
	}
	for range c.Steps {
		for i := c.First; i < c.End; i++ {
			add(i)
		}
	}
	for i := c.End; i < len(c.Stages); i++ {
		add(i)
	}
	k.done, k.ended = make([]atomic.Int32, len(k.stage)), make([]atomic.Int64, len(k.sizes))
	return k
}

func (k *ordered) Run(_ *target.Args, begin, end int64, _ []byte) error {
	for i := begin; i < end; i++ {
		at := k.stage[i]
		for before := at - 1; before >= 0 && before > at-4; before-- {
			if k.ended[before].Load() != k.sizes[before] {
				k.wrong.Add(1)
			}
		}
		if i == k.fail {
			return errTile
		}
		compute(k.tile)
		k.done[i].Add(1)
		k.ended[at].Add(1)
	}
	return nil
}

// TestCourse: for random stages and widths, in concurrent runs, each tile runs once, and after all tiles of earlier
// stages.
func TestCourse(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	var runs sync.WaitGroup
	for g := range 6 {
		random := rand.New(rand.NewPCG(uint64(g), 2))
		runs.Go(func() {
			var team Team
			for range 4 {
				c := &target.Course{Steps: random.Int64N(25)}
				for range 1 + random.IntN(4) {
					c.Stages = append(c.Stages, random.Int64N(30))
				}
				c.First = random.IntN(len(c.Stages))
				c.End = c.First + 1 + random.IntN(len(c.Stages)-c.First)
				job := device.Job{Course: c}
				tile := time.Duration(random.IntN(2000)) * time.Nanosecond
				if err := team.Enter(1+random.IntN(4), target.Stop{}); err != nil {
					t.Error(err)
					return
				}
				for range 3 { // the first time, the time of tiles is unknown
					k := newOrdered(c, tile)
					job.Kernel, job.Tiles = k, int64(len(k.stage))
					if err := team.Launch(&job, scratches(4)); err != nil {
						t.Error(err)
					}
					for i := range k.done {
						if n := k.done[i].Load(); n != 1 {
							t.Errorf("tile %d of %+v was done %d times", i, *c, n)
							break
						}
					}
					if n := k.wrong.Load(); n > 0 {
						t.Errorf("%d tiles of %+v began too early", n, *c)
					}
				}
				team.Leave()
			}
		})
	}
	runs.Wait()
	if pool.taken != 0 || pool.waiting.Load() != 0 {
		t.Errorf("left behind: %d slots taken, %d wait", pool.taken, pool.waiting.Load())
	}
}

// TestCourseAsleep: a course that is too short to wake parked helpers for runs without them.
func TestCourseAsleep(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	c := &target.Course{Stages: []int64{2}, End: 1, Steps: 3}
	var team Team
	if err := team.Enter(2, target.Stop{}); err != nil {
		t.Fatal(err)
	}
	defer team.Leave()
	job := device.Job{Course: c, Tiles: 6}
	for range 5 {
		for range 2 {
			if err := team.Launch(&device.Job{Kernel: &busy{tile: 20 * time.Microsecond}, Tiles: 20}, scratches(2)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Millisecond)
		k := newOrdered(c, 4*time.Microsecond)
		job.Kernel = k
		if err := team.Launch(&job, scratches(2)); err != nil {
			t.Fatal(err)
		}
		for i := range k.done {
			if n := k.done[i].Load(); n != 1 {
				t.Fatalf("tile %d was done %d times", i, n)
			}
		}
	}
}

// TestCourseEnds: a course ends after an error of a tile, of whose later stages none begins, and after Stop.
func TestCourseEnds(t *testing.T) {
	c := &target.Course{Stages: []int64{1, 8, 2, 1}, First: 1, End: 3, Steps: 1000}
	var team Team
	for _, width := range []int{1, 2} {
		if err := team.Enter(width, target.Stop{}); err != nil {
			t.Fatal(err)
		}
		for _, fail := range []int64{0, 3, 8, 107, 5004} {
			k := newOrdered(c, 2*time.Microsecond)
			job := device.Job{Kernel: k, Course: c, Tiles: int64(len(k.stage))}
			if err := team.Launch(&job, scratches(2)); err != nil {
				t.Fatal(err)
			}
			k = newOrdered(c, 2*time.Microsecond)
			k.fail, job.Kernel = fail, k
			if err := team.Launch(&job, scratches(2)); !errors.Is(err, errTile) {
				t.Errorf("%d workers, tile %d fails: %v", width, fail, err)
			}
			for i := range k.stage {
				if k.stage[i] > k.stage[fail] && k.done[i].Load() > 0 {
					t.Errorf("%d workers, tile %d fails: tile %d was done", width, fail, i)
					break
				}
			}
		}
		stop := make(chan struct{})
		team.stop.Done = stop
		time.AfterFunc(5*time.Millisecond, func() { close(stop) })
		k := newOrdered(c, time.Millisecond/4)
		if err := team.Launch(&device.Job{Kernel: k, Course: c, Tiles: int64(len(k.stage))},
			scratches(2)); err != target.ErrStopped {
			t.Errorf("%d workers: %v", width, err)
		}
		team.stop.Done = nil
		team.Leave()
	}
}

// BenchmarkStages measures the additional time of a stage on two workers, over half of the time on one.
func BenchmarkStages(b *testing.B) {
	if runtime.GOMAXPROCS(0) < 2 {
		b.Skip("one processor")
	}
	const tile = 10 * time.Microsecond
	c := &target.Course{Stages: []int64{2}, End: 1, Steps: 1000}
	job := device.Job{Kernel: &busy{tile: tile}, Course: c, Tiles: 2000}
	var team Team
	if err := team.Enter(2, target.Stop{}); err != nil {
		b.Fatal(err)
	}
	defer team.Leave()
	least := time.Hour
	for b.Loop() {
		begin := time.Now()
		if err := team.Launch(&job, scratches(2)); err != nil {
			b.Fatal(err)
		}
		least = min(least, time.Since(begin))
	}
	b.ReportMetric(float64(least-1000*tile)/1000, "min-ns/stage")
}
