package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirml/weir"
)

// TestSequenceStress: many clients step their sequences, and leave in the middle, while the models are loaded again and
// again. Each step continues exactly the steps that were answered, or is refused; at the end nothing is held.
func TestSequenceStress(t *testing.T) {
	h := newSequenceHistory(t)
	defer weir.SetLimit(0)
	before := h.memory("before")
	steps := max(40, *sequenceSteps/20)
	var clients, loader sync.WaitGroup
	done := make(chan struct{})
	answered, ended, left := atomic.Int64{}, atomic.Int64{}, atomic.Int64{}
	for n := range 16 {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(3, uint64(n)))
			model, sum, alive := []string{"sum", "list"}[n%2], 0, false
			for range steps {
				start := !alive
				if start {
					sum = 0
				}
				ctx, cancel := context.WithCancel(t.Context())
				switch random.IntN(8) {
				case 0:
					cancel()
				case 1:
					time.AfterFunc(time.Duration(random.IntN(300))*time.Microsecond, cancel)
				}
				x := 1 + random.IntN(9)
				body := fmt.Sprintf(`{"parameters":{"sequence_id":"client %d","sequence_start":%v},"inputs":[{"name":"x",`+
					`"shape":[1],"datatype":"FP32","data":[%d]}]}`, n, start, x)
				w := httptest.NewRecorder()
				h.server.Handler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, "POST", "/v2/models/"+model+"/infer",
					strings.NewReader(body)))
				cancel()
				var a struct {
					Outputs []struct{ Data []int }
					Error   string
				}
				err := json.Unmarshal(w.Body.Bytes(), &a)
				switch {
				case err == nil && w.Code == 200 && a.Outputs[0].Data[0] == sum+x:
					sum, alive = sum+x, true
					answered.Add(1)
				case w.Code == 400 && strings.Contains(a.Error, "START") && !start,
					strings.Contains(a.Error, "has ended"):
					alive = false
					ended.Add(1)
				case w.Code == 499 && start, w.Code == 503 && start, w.Code == 429 && start:
				case w.Code == 499:
					left.Add(1) // the states are as they were
				case w.Code == 503, w.Code == 429:
				default:
					t.Errorf("client %d, start %v, sum %d, x %d: status %d, %s", n, start, sum, x, w.Code, w.Body)
					return
				}
			}
		})
	}
	loader.Go(func() {
		for random := rand.New(rand.NewPCG(4, 0)); ; time.Sleep(5 * time.Millisecond) {
			select {
			case <-done:
				return
			default:
			}
			name, err := []string{"sum", "list"}[random.IntN(2)], error(nil)
			if random.IntN(3) == 0 {
				err = h.server.catalogue.Unload(t.Context(), name)
			}
			if err = errors.Join(err, h.server.catalogue.Load(t.Context(), name)); err != nil {
				t.Error(err)
			}
		}
	})
	clients.Wait()
	close(done)
	loader.Wait()
	t.Logf("%d steps answered; %d sequences ended, %d clients left", answered.Load(), ended.Load(), left.Load())
	if answered.Load() < int64(steps) || ended.Load() == 0 || left.Load() == 0 {
		t.Error("the steps are not of all kinds")
	}
	for _, name := range []string{"sum", "list"} {
		if err := h.server.catalogue.Load(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	if after := h.memory("after"); after != before {
		t.Errorf("%d bytes are held, and %d were before", after, before)
	}
	if err := h.server.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestSequenceCancelled: clients leave while a run changes a large state in place. The next step finds the state as it
// was before, whole, or the sequence has ended.
func TestSequenceCancelled(t *testing.T) {
	dir := t.TempDir()
	const size = 1 << 20
	text := strings.ReplaceAll(`weir 1
ir @wide {
  main @main(%x: f32[1], %s: f32[N]) {
    %a: f32[N] = add(%s, %x)
    %b: f32[N] = mul(%a, %a)
    %c: f32[N] = sqrt(%b)
    %next: f32[N] = abs(%c)
    %low: f32[] = reduce_min(%next) {axes = ints [0], keep = bool false}
    %high: f32[] = reduce_max(%next) {axes = ints [0], keep = bool false}
    return %low, %high, %next
  }
}
`, "N", fmt.Sprint(size))
	config := fmt.Sprintf(`sequence_batching { max_sequence_idle_microseconds: 600000000 state [ { input_name: "s"
  output_name: "next" data_type: TYPE_FP32 dims: [ %d ] } ] }`, size)
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "wide", "1"), 0o755),
		os.WriteFile(filepath.Join(dir, "wide", "1", "model.weir"), []byte(text), 0o644),
		os.WriteFile(filepath.Join(dir, "wide", "config.pbtxt"), []byte(config), 0o644)); err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{Folder: dir, Limit: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer weir.SetLimit(0)
	defer s.Close(t.Context())
	for !s.Ready() {
		time.Sleep(time.Millisecond)
	}
	random := rand.New(rand.NewPCG(5, 0))
	sum, counts := 0, map[string]int{}
	alive := false
	for range *sequenceSteps / 4 {
		ctx, cancel := context.WithCancel(t.Context())
		if random.IntN(2) == 0 {
			time.AfterFunc(time.Duration(random.IntN(4000))*time.Microsecond, cancel)
		}
		if !alive {
			sum = 0
		}
		body := fmt.Sprintf(`{"parameters":{"sequence_id":1,"sequence_start":%v},"inputs":[{"name":"x","shape":[1],`+
			`"datatype":"FP32","data":[1]}]}`, !alive)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, "POST", "/v2/models/wide/infer",
			strings.NewReader(body)))
		cancel()
		var a struct {
			Outputs []struct{ Data []int }
			Error   string
		}
		err := json.Unmarshal(w.Body.Bytes(), &a)
		switch {
		case err == nil && w.Code == 200 && a.Outputs[0].Data[0] == sum+1 && a.Outputs[1].Data[0] == sum+1:
			sum, alive = sum+1, true
			counts["answered"]++
		case w.Code == 499 && strings.Contains(a.Error, "has ended"):
			alive = false
			counts["ended"]++
		case w.Code == 499:
			counts["as before"]++
		default:
			t.Fatalf("sum %d, alive %v: status %d, %s", sum, alive, w.Code, w.Body)
		}
	}
	if t.Logf("%v", counts); counts["answered"] == 0 || counts["as before"]+counts["ended"] == 0 {
		t.Error("the steps are not of all kinds")
	}
}
