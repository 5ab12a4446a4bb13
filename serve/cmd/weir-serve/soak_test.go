//go:build linux

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var soak = flag.Duration("soak", 6*time.Second, "how long honest and hostile clients of TestSoak live together")

// TestSoak: one process lives through loads, requests and unloads of honest clients, models whose files change, and
// attacks. After each round it is left alone with no model: the ledger is what the process holds, and goroutines,
// files, heap and the cache of artefacts are what they were after the first rounds.
func TestSoak(t *testing.T) {
	random := rand.New(rand.NewPCG(38, 6))
	folder, widths, bytes := networks(t, random, 40)
	echo, err := os.ReadFile("../../testdata/echo.weir")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "echo.weir"), echo, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	const heap = 64 << 20
	limit, cache := heap+96<<20+bytes/2, t.TempDir()
	p := launch(t, folder, "--mode", "explicit", "--evict", "--stall", "2s", "--cache", cache, "--heap", fmt.Sprint(heap),
		"--limit", fmt.Sprint(limit))
	confined := p.confine(limit)
	var statuses sync.Map
	count := func(what string, status int) {
		n, _ := statuses.LoadOrStore(fmt.Sprint(what, " ", status), new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
	}
	var all []quiet
	var most atomic.Int64
	length := min(max(*soak/20, time.Second), 20*time.Second)
	for end := time.Now().Add(*soak); time.Now().Before(end) || len(all) < 4; {
		p.round(t, random, widths, folder, length, &most, count)
		all = append(all, p.alone(t))
		if t.Failed() {
			break
		}
	}
	select {
	case fault := <-p.faults:
		t.Error(fault)
	default:
	}
	p.signal(syscall.SIGTERM)
	if err, _ := p.end(); err != nil {
		t.Error(err)
	}
	drift(t, all)
	if most.Load() > limit {
		t.Errorf("the process had %d bytes, and its limit is %d", most.Load(), limit)
	}
	files, err := filepath.Glob(filepath.Join(cache, "*.weir"))
	if err != nil || len(files) > 3*len(widths) {
		t.Errorf("the cache has %d artefacts of %d models: %v", len(files), len(widths), err)
	}
	text := ""
	statuses.Range(func(what, n any) bool {
		text += fmt.Sprintf("; %s: %d", what, n.(*atomic.Int64).Load())
		return true
	})
	t.Logf("%d rounds of %v, limit %d (a cgroup's: %v), most %d, %d artefacts%s; at first %+v, at last %+v", len(all),
		length, limit, confined, most.Load(), len(files), text, all[0], all[len(all)-1])
}

// round lets honest clients and one attack run for a time, while files of models change.
func (p *served) round(t *testing.T, random *rand.Rand, widths map[string]int, folder string, length time.Duration,
	most *atomic.Int64, count func(string, int)) {
	if status, body, err := p.call("POST", "/v2/repository/models/echo/load", nil, nil); err != nil || status != 200 {
		t.Errorf("echo is not loaded: status %d, %v, %s", status, err, body)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	end := time.Now().Add(length)
	var wait sync.WaitGroup
	for client := range 4 {
		seed := random.Uint64()
		wait.Go(func() { p.client(t, rand.New(rand.NewPCG(seed, uint64(client))), widths, end, count) })
	}
	a := &attacks[random.IntN(len(attacks))]
	wait.Go(func() { a.run(ctx, p.address, min(a.share, 100)) })
	count("under attack by "+a.name+",", 0)
	changed := filepath.Join(folder, fmt.Sprintf("net%d.onnx", random.IntN(10)))
	wait.Go(func() {
		for ctx.Err() == nil {
			most.Store(max(most.Load(), p.anonymous()))
			time.Sleep(5 * time.Millisecond)
		}
	})
	time.Sleep(length / 2)
	os.Chtimes(changed, time.Now(), time.Now())
	p.signal(syscall.SIGHUP)
	wait.Wait()
}

// alone unloads all models, and returns what the process has once nothing is in progress.
func (p *served) alone(t *testing.T) (q quiet) {
	t.Helper()
	_, text, err := p.call("POST", "/v2/repository/index", nil, []byte(`{"ready":true}`))
	var list []struct{ Name string }
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		if status, body, err := p.call("POST", "/v2/repository/models/"+m.Name+"/unload", nil, nil); err != nil ||
			status != 200 {
			t.Errorf("%s is not unloaded: status %d, %v, %s", m.Name, status, err, body)
		}
	}
	for give := time.Now().Add(15 * time.Second); err == nil; time.Sleep(50 * time.Millisecond) {
		if q = p.rests(t); q.ledger == q.measured && q.goroutines < 20 {
			return q
		}
		if time.Now().After(give) {
			t.Errorf("left alone, the process has %+v", q)
			return q
		}
	}
	t.Error(err)
	return q
}

// drift compares the least of what a process had after its first rounds, without the very first, with that of its last.
func drift(t *testing.T, all []quiet) {
	t.Helper()
	least := func(some []quiet) quiet {
		q := some[0]
		for _, other := range some {
			q = quiet{min(q.goroutines, other.goroutines), min(q.files, other.files), 0, 0, min(q.heap, other.heap)}
		}
		return q
	}
	if len(all) < 4 {
		return
	}
	half := slices.Clone(all[1:])
	first, last := least(half[:len(half)/2]), least(half[len(half)/2:])
	if last.goroutines > first.goroutines+2 || last.files > first.files || last.heap > first.heap+2<<20 {
		t.Errorf("of %d rounds the first ones leave %+v, the last ones %+v", len(all), first, last)
	}
}
