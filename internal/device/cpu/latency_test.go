package cpu

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/target"
)

// TestHandlerLatency logs the latency of an HTTP handler of the process, without runs and with eight in flight. It
// fails on errors only, since the speed and the load of the machine are unknown.
func TestHandlerLatency(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok")) }))
	defer server.Close()
	for _, runs := range []int{0, 8} {
		stop := make(chan struct{})
		var wait sync.WaitGroup
		var done [8]int
		for i := range runs {
			wait.Go(func() {
				var team Team
				job := device.Job{Kernel: &busy{tile: 50 * time.Microsecond}, Tiles: 400} // 20 ms
				for {
					select {
					case <-stop:
						return
					default:
					}
					if err := team.Enter(2, target.Stop{}); err != nil {
						t.Error(err)
						return
					}
					if err := team.Launch(&job, scratches(2)); err != nil {
						t.Error(err)
					}
					team.Leave()
					done[i]++
				}
			})
		}
		time.Sleep(20 * time.Millisecond)
		var took []time.Duration
		for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); time.Sleep(500 * time.Microsecond) {
			begin := time.Now()
			r, err := http.Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			took = append(took, time.Since(begin))
		}
		close(stop)
		wait.Wait()
		slices.Sort(took)
		at := func(share float64) time.Duration {
			return took[int(share*float64(len(took)-1))].Round(time.Microsecond)
		}
		t.Logf("%d runs in flight: %d answers, p50 %v, p90 %v, p99 %v; each run was done %v times", runs, len(took), at(0.5),
			at(0.9), at(0.99), done[:runs])
	}
}
