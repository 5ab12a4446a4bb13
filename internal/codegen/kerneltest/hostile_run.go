package kerneltest

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The environment variables of Hostiles: the number of executions of the long run, and its first seed.
const (
	hostileVariable     = "WEIR_HOSTILE"
	hostileSeedVariable = "WEIR_HOSTILE_SEED"
)

// Hostiles runs a number of hostile kernels on all generators. If the environment variable WEIR_HOSTILE is set, it runs
// kernels from the seed WEIR_HOSTILE_SEED on until there were that many executions, on all processors that Go uses, and
// prints counts every minute.
func Hostiles(t *testing.T, kernels int64, generators ...Harness) {
	executions, seed := int64(0), int64(1)
	for name, to := range map[string]*int64{hostileVariable: &executions, hostileSeedVariable: &seed} {
		if text := os.Getenv(name); text != "" {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			*to = n
		}
	}
	if executions == 0 {
		x := NewHostile(t, generators...)
		for s := range kernels {
			x.Kernel(seed + s)
		}
		t.Log(x.Count.String())
		if x.Count.Executions < 50*kernels || x.Count.Stopped == 0 || x.Count.Guarded == 0 {
			t.Error("too few executions, stops or guards for this test to show anything")
		}
		return
	}
	r := &hostileRun{began: time.Now(), told: time.Now()}
	next := atomic.Int64{}
	next.Store(seed)
	t.Run("long", func(t *testing.T) {
		for worker := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				x := NewHostile(t, generators...)
				x.Bindings, x.Data = 64, 64
				for more := true; more; more = !t.Failed() && r.add(&x.Count, next.Load(), executions) {
					x.Count.reset()
					x.Kernel(next.Add(1) - 1)
				}
			})
		}
	})
	fmt.Println(r.text(next.Load()))
}

// hostileRun has the counts of all workers of a long run.
type hostileRun struct {
	sync.Mutex
	HostileCount
	began, told time.Time
}

// add adds a worker's count, prints the sum if a minute has passed, and reports whether there are fewer than until
// executions.
func (r *hostileRun) add(c *HostileCount, next, until int64) bool {
	r.Lock()
	defer r.Unlock()
	r.Add(c)
	if time.Since(r.told) > time.Minute {
		r.told = time.Now()
		fmt.Println(r.text(next))
	}
	return r.Executions < until
}

// text returns the counts as text for a log.
func (r *hostileRun) text(next int64) string {
	took := time.Since(r.began)
	return fmt.Sprintf("%v, seeds below %d, %.0f executions per second: %s\nreached: %s", took.Round(time.Second), next,
		float64(r.Executions)/took.Seconds(), r.HostileCount.String(), Counted(r.Reached))
}
