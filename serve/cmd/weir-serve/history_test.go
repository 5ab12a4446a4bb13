//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/nn"
)

var history = flag.Duration("history", 8*time.Second, "how long TestHistory runs")

// served is the command, of which the test reads the log to find faults.
type served struct {
	*process
	faults chan string // has an entry once the log has an error
}

// launch starts the command on a folder of models.
func launch(t *testing.T, folder string, flags ...string) *served {
	t.Helper()
	p := &served{serveFolder(t, folder, flags...), make(chan string, 1)}
	go func() {
		for r := range p.log {
			if r["level"] == "ERROR" {
				select {
				case p.faults <- fmt.Sprint(r):
				default:
				}
			}
		}
	}()
	return p
}

// confine moves the process to a memory cgroup with its limit, if the system lets the test make one: a process that
// needs more is killed, which fails the test. It reports whether it did.
func (p *served) confine(limit int64) bool {
	for _, c := range [][2]string{{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"}} {
		group := filepath.Join(c[0], fmt.Sprint("weir-serve-test-", p.cmd.Process.Pid))
		if os.Mkdir(group, 0o755) != nil {
			continue
		}
		p.t.Cleanup(func() { os.Remove(group) })
		set := func(file string, value any) error { // the system makes the files of a group: none is made here
			f, err := os.OpenFile(filepath.Join(group, file), os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(f, value)
			return errors.Join(err, f.Close())
		}
		if errors.Join(set(c[1], limit), set("cgroup.procs", p.cmd.Process.Pid)) == nil {
			return true
		}
		os.Remove(group)
	}
	return false
}

// anonymous returns the process's resident bytes without pages of files.
func (p *served) anonymous() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	total := int64(0)
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 3 && (f[0] == "RssAnon:" || f[0] == "RssShmem:") {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			total += n << 10
		}
	}
	return total
}

// call sends a request and returns the status and the body; an error if the connection broke.
func (p *served) call(method, path string, header http.Header, body []byte) (int, []byte, error) {
	r, err := http.NewRequest(method, "http://"+p.address+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header = header
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer a.Body.Close()
	answer, err := io.ReadAll(a.Body)
	return a.StatusCode, answer, err
}

// metric returns the sum of a metric over its labels.
func (p *served) metric(t testing.TB, name string) (sum float64) {
	_, text, err := p.call("GET", "/metrics", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 2 && (f[0] == name || strings.HasPrefix(f[0], name+"{")) {
			v, err := strconv.ParseFloat(f[len(f)-1], 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}

// networks writes a folder of networks of random sizes, and returns the widths of their inputs by name.
func networks(t testing.TB, random *rand.Rand, count int) (folder string, widths map[string]int, bytes int64) {
	t.Helper()
	folder, widths = t.TempDir(), map[string]int{}
	for i := range count {
		in, middle := 1+random.IntN(300), 1+random.IntN(1200)
		net := nn.Sequential(nn.Linear(in, middle), nn.Relu, nn.Linear(middle, 1+random.IntN(200)))
		p := nn.Init(net, array.Key(uint64(i)))
		name := fmt.Sprint("net", i)
		file, err := os.Create(filepath.Join(folder, name+".onnx"))
		if err != nil {
			t.Fatal(err)
		}
		spec := array.SpecOf("x", weir.F32, "rows", in)
		if err := errors.Join(nn.WriteONNX(file, net, p, spec), file.Close(), p.Close()); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		bytes += info.Size()
		widths[name] = in
	}
	return folder, widths, bytes
}

// TestHistory: a hundred models under a limit in which about half fit, and a random history of loads, requests,
// unloads, reloads, kills and restarts. The ledger never exceeds its limit, equals what the process holds at quiet
// moments, and the process stays within its limit; each refusal has a reason of a known kind; a restart compiles
// nothing.
func TestHistory(t *testing.T) {
	random := rand.New(rand.NewPCG(38, 2))
	folder, widths, bytes := networks(t, random, 100)
	const heap = 96 << 20
	limit := int64(heap) + bytes/2
	flags := []string{"--mode", "explicit", "--limit", fmt.Sprint(limit), "--heap", fmt.Sprint(heap), "--cache",
		t.TempDir(),
		"--evict"}
	p := launch(t, folder, flags...)
	var statuses sync.Map
	var most atomic.Int64
	count := func(what string, status int) {
		n, _ := statuses.LoadOrStore(fmt.Sprint(what, " ", status), new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
	}
	kills, confined := 0, p.confine(limit)
	for end := time.Now().Add(*history); time.Now().Before(end); {
		round := time.Now().Add(min(*history/4, 30*time.Second))
		var clients sync.WaitGroup
		for client := range 6 {
			seed := random.Uint64()
			clients.Go(func() { p.client(t, rand.New(rand.NewPCG(seed, uint64(client))), widths, round, count) })
		}
		clients.Go(func() {
			for time.Now().Before(round) {
				most.Store(max(most.Load(), p.anonymous()))
				time.Sleep(5 * time.Millisecond)
			}
		})
		clients.Wait()
		if ledger, measured := p.metric(t, "weir_ledger_bytes"), p.metric(t, "weir_measured_bytes"); ledger != measured {
			t.Errorf("the ledger has %.0f bytes, and the process holds %.0f", ledger, measured)
		}
		if peak := p.metric(t, "weir_ledger_peak_bytes"); peak > p.metric(t, "weir_ledger_limit_bytes") {
			t.Errorf("the ledger had %.0f bytes", peak)
		}
		select {
		case fault := <-p.faults:
			t.Error(fault)
		default:
		}
		p.cmd.Process.Kill()
		p.end()
		kills++
		p = launch(t, folder, flags...)
		confined = p.confine(limit)
	}
	p.signal(syscall.SIGTERM)
	if err, _ := p.end(); err != nil {
		t.Error(err)
	}
	if most.Load() > limit {
		t.Errorf("the process had %d bytes, and its limit is %d", most.Load(), limit)
	}
	text := ""
	statuses.Range(func(what, n any) bool {
		text += fmt.Sprintf("; %s: %d", what, n.(*atomic.Int64).Load())
		return true
	})
	t.Logf("models of %d bytes, limit %d (a cgroup's: %v), most %d, %d kills%s", bytes, limit, confined, most.Load(),
		kills,
		text)
}

// client does random things until a time.
func (p *served) client(t *testing.T, random *rand.Rand, widths map[string]int, end time.Time, count func(string,
	int)) {
	for time.Now().Before(end) {
		name := fmt.Sprint("net", random.IntN(len(widths)))
		if random.IntN(3) > 0 {
			name = fmt.Sprint("net", random.IntN(10)) // some are wanted more often
		}
		var what, path string
		var body []byte
		header := http.Header{}
		switch n := random.IntN(20); {
		case n == 0:
			what, path = "unload", "/v2/repository/models/"+name+"/unload"
		case n < 4:
			what, path = "load", "/v2/repository/models/"+name+"/load"
		default:
			rows := 1 + random.IntN(64)
			head := fmt.Sprintf(`{"inputs":[{"name":"x","shape":[%d,%d],"datatype":"FP32",`+
				`"parameters":{"binary_data_size":%d}}]}`, rows, widths[name], rows*widths[name]*4)
			what, path, body = "infer", "/v2/models/"+name+"/infer", append([]byte(head), make([]byte, rows*widths[name]*4)...)
			header.Set("Inference-Header-Content-Length", fmt.Sprint(len(head)))
		}
		status, answer, err := p.call("POST", path, header, body)
		if err != nil {
			t.Errorf("%s %s: %v", what, name, err)
			return
		}
		count(what, status)
		var reason struct{ Error, Kind string }
		if status != 200 && (json.Unmarshal(answer, &reason) != nil || reason.Error == "" || reason.Kind == "" ||
			reason.Kind == "internal" || reason.Kind == "input") {
			t.Errorf("%s %s: status %d, %s", what, name, status, answer)
			return
		}
	}
}
