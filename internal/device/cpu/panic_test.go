package cpu

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/target"
)

// broken is a kernel that panics on one worker while the others wait for that, or in one tile.
type broken struct {
	target.Kernel
	tile  int64
	only  int // the worker that fails; if negative, the worker that runs the tile
	meet  chan struct{}
	fault func()
}

func (k *broken) Run(_ *target.Args, begin, end int64, scratch []byte) error {
	worker := len(scratch) // see scratches
	switch {
	case k.only >= 0 && worker == k.only:
		close(k.meet)
		k.fault()
	case k.only >= 0:
		<-k.meet
	case begin <= k.tile && k.tile < end:
		k.fault()
	}
	return nil
}

// faults returns functions that panic in various ways, one of them by a memory fault.
func faults(t *testing.T) map[string]func() {
	var none []int
	list := map[string]func(){
		"panic":          func() { panic("a kernel's own") },
		"index":          func() { none[len(none)+3]++ },
		"internal error": func() { panic(diag.Internalf("a shape that cannot be")) },
	}
	if mem.OutsideHeap() {
		b, err := mem.Map(mem.Arena, "read-only", 1<<16)
		if err == nil {
			err = b.Protect(true)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		data := b.Bytes()
		list["fault"] = func() { data[5000]++ }
	}
	return list
}

// TestPanics: a panic or a memory fault of a kernel, on the run's own goroutine or on a helper's, is an internal error
// of that launch. The launch ends, its team and those of other runs continue, and no slot is lost.
func TestPanics(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	defer diag.Faults(diag.Faults(true))
	for name, fault := range faults(t) {
		for worker := range 3 {
			var team Team
			if err := team.Enter(3, target.Stop{}); err != nil {
				t.Fatal(err)
			}
			k := &broken{only: worker, meet: make(chan struct{}), fault: sync.OnceFunc(fault)}
			err := team.Launch(&device.Job{Kernel: k, Tiles: 3}, scratches(3))
			if !errors.Is(err, diag.ErrInternal) || diag.Stack(err) == "" || !strings.Contains(err.Error(), "running a kernel") {
				t.Errorf("%s on worker %d: %v", name, worker, err)
			}
			if err := team.Launch(&device.Job{Kernel: &busy{}, Tiles: 100}, scratches(3)); err != nil {
				t.Errorf("the launch after %s on worker %d: %v", name, worker, err)
			}
			team.Leave()
		}
	}
	left(t)
}

// TestPanicsAmongRuns: the same in random tiles, with and without a course, while other runs compete for slots and
// helpers.
func TestPanicsAmongRuns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	ways := faults(t)
	var runs sync.WaitGroup
	for g := range 8 {
		random := rand.New(rand.NewPCG(uint64(g), 3))
		runs.Go(func() {
			defer diag.Faults(diag.Faults(true))
			var team Team
			for range 40 {
				if err := team.Enter(1+random.IntN(4), target.Stop{}); err != nil {
					t.Error(err)
					return
				}
				n := 1 + random.Int64N(200)
				for name, fault := range ways {
					j := &device.Job{Kernel: &broken{tile: random.Int64N(n), only: -1, fault: fault}, Tiles: n}
					if random.IntN(2) == 0 {
						j.Course = &target.Course{Stages: []int64{n - n/2, n / 2}, First: 2, End: 2}
					}
					if err := team.Launch(j, scratches(4)); !errors.Is(err, diag.ErrInternal) {
						t.Errorf("%s in one of %d tiles: %v", name, n, err)
					}
				}
				good := &busy{}
				if err := team.Launch(&device.Job{Kernel: good, Tiles: n}, scratches(4)); err != nil {
					t.Error(err)
				}
				team.Leave()
			}
		})
	}
	runs.Wait()
	left(t)
}

// left checks that all slots are free and no run waits.
func left(t *testing.T) {
	t.Helper()
	pool.Lock()
	defer pool.Unlock()
	if pool.taken != 0 || pool.first != nil || pool.waiting.Load() != 0 {
		t.Errorf("left behind: %d slots taken, %d wait", pool.taken, pool.waiting.Load())
	}
}
