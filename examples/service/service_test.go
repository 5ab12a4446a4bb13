package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/examples/digits/data"
)

// start runs a service behind a test server. When the test ends, all of its memory must be released.
func start(t *testing.T, s settings) (*service, *httptest.Server) {
	t.Helper()
	before := weir.Usage().Current
	s.log = slog.New(slog.NewTextHandler(io.Discard, nil))
	v, err := newService(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(v.handler())
	t.Cleanup(func() {
		server.Close()
		if err := v.close(); err != nil {
			t.Error(err)
		}
		if after := weir.Usage().Current; after != before {
			t.Errorf("%d bytes held after the service, %d before it", after, before)
		}
	})
	return v, server
}

func defaults() settings { return settings{calls: 4, batch: 16, deadline: 20 * time.Second} }

// post sends some pictures, and returns the status and the answers.
func post(ctx context.Context, url string, pictures []data.Picture) (int, []guess, error) {
	var body request
	for _, p := range pictures {
		body.Images = append(body.Images, p.PNG)
	}
	content, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/classify", bytes.NewReader(content))
	if err != nil {
		return 0, nil, err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	content, err = io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return response.StatusCode, nil, err
	}
	var guesses []guess
	err = json.Unmarshal(content, &guesses)
	return response.StatusCode, guesses, err
}

// ask posts pictures, and compares the answers with the labels and with onnxruntime's scores.
func ask(ctx context.Context, url string, pictures []data.Picture) error {
	code, guesses, err := post(ctx, url, pictures)
	if err != nil || code != http.StatusOK || len(guesses) != len(pictures) {
		return fmt.Errorf("status %d, %d answers, error %v", code, len(guesses), err)
	}
	for i, p := range pictures {
		if guesses[i].Digit != p.Label {
			return fmt.Errorf("%s: digit %d, want %d", p.Name, guesses[i].Digit, p.Label)
		}
		for digit, want := range p.Scores {
			if math.Abs(float64(guesses[i].Scores[digit]-want)) > 1e-5 {
				return fmt.Errorf("%s: digit %d scores %v, want %v", p.Name, digit, guesses[i].Scores[digit], want)
			}
		}
	}
	return nil
}

// load lets so many clients ask, each with batches of its own sizes, and returns their errors.
func load(t *testing.T, url string, clients, requests int) []error {
	t.Helper()
	pictures := data.Pictures()
	var wait sync.WaitGroup
	failures := make([]error, clients)
	for c := range clients {
		wait.Go(func() {
			for n := range requests {
				from := (c*7 + n*3) % len(pictures)
				if err := ask(t.Context(), url, pictures[from:min(from+1+(c+n)%9, len(pictures))]); err != nil {
					failures[c] = fmt.Errorf("client %d, request %d: %w", c, n, err)
					return
				}
			}
		})
	}
	wait.Wait()
	return failures
}

// watch samples the process's total until stop, which returns the highest.
func watch() (stop func() int64) {
	var highest atomic.Int64
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			highest.Store(max(highest.Load(), weir.Usage().Current))
			select {
			case <-done:
				return
			case <-time.After(100 * time.Microsecond):
			}
		}
	}()
	return func() int64 { close(done); <-ended; return highest.Load() }
}

// TestManyClients: many clients at once get right answers, and memory stays below the ceiling.
func TestManyClients(t *testing.T) {
	before := weir.Usage().Current
	v, server := start(t, defaults())
	ceiling, err := v.ceiling(v.program.Load())
	if err != nil {
		t.Fatal(err)
	}
	stop := watch()
	failures := load(t, server.URL, 32, 6)
	highest := stop() - before
	if err := errors.Join(failures...); err != nil {
		t.Error(err)
	}
	if highest > ceiling || highest == 0 {
		t.Errorf("%d bytes used, the certificate says at most %d", highest, ceiling)
	}
	t.Logf("32 clients: %d of %d bytes", highest, ceiling)
}

// TestReloadUnderLoad replaces the model's file and reloads while clients ask: no request fails, and there are never
// more than two programs.
func TestReloadUnderLoad(t *testing.T) {
	before := weir.Usage().Current
	s := defaults()
	s.model = filepath.Join(t.TempDir(), "digits.onnx")
	replace(t, s.model, data.Model)
	v, server := start(t, s)
	ceiling, err := v.ceiling(v.program.Load())
	if err != nil {
		t.Fatal(err)
	}
	stop := watch()
	reloads := reloadBeside(t, s.model, server.URL, 32, 6)
	if highest := stop() - before; highest > 2*ceiling+int64(len(data.Model)) {
		t.Errorf("%d bytes used with two programs, the certificates and the file say at most %d", highest,
			2*ceiling+int64(len(data.Model)))
	}
	t.Logf("%d reloads", reloads)

	old := v.program.Load()
	for name, content := range map[string][]byte{"damaged": data.Model[:1000], "another model": other(t)} {
		replace(t, s.model, content)
		if code, text := send(t, server.URL+"/reload"); code != http.StatusUnprocessableEntity {
			t.Errorf("reload of a file that is %s: status %d, %s", name, code, text)
		}
		if err := ask(t.Context(), server.URL, data.Pictures()[:3]); err != nil || v.program.Load() != old {
			t.Errorf("after a refused reload (%s): %v", name, err)
		}
	}
}

// TestReloadWithinMemory divides a container's memory, and reloads the model under load: nothing is refused, and memory
// never exceeds the limit. A container that is too small is refused at the start.
func TestReloadWithinMemory(t *testing.T) {
	heap := debug.SetMemoryLimit(-1)
	defer func() { weir.SetLimit(0); debug.SetMemoryLimit(heap) }()
	s := defaults()
	s.model, s.memory, s.log = filepath.Join(t.TempDir(), "digits.onnx"), 1<<20, slog.New(slog.DiscardHandler)
	replace(t, s.model, data.Model)
	if _, err := newService(t.Context(), s); err == nil || weir.SetLimit(0) != 0 {
		t.Errorf("a service in 1 MiB: %v", err)
	}
	s.memory = 256 << 20
	v, server := start(t, s)
	limit := weir.SetLimit(0)
	weir.SetLimit(limit)
	one, err := v.program.Load().Memory().Limit(s.calls)
	if err != nil || limit != 2*one || debug.SetMemoryLimit(-1) != s.memory-limit {
		t.Fatalf("a limit of %d, for programs of %d, and %d of Go's heap: %v", limit, one, debug.SetMemoryLimit(-1), err)
	}
	stop := watch()
	reloadBeside(t, s.model, server.URL, 16, 4)
	if highest := stop(); highest > limit {
		t.Errorf("%d bytes held, and the limit is %d", highest, limit)
	}
}

// reloadBeside replaces the model's file and reloads it, at least three times, until so many clients have made so many
// requests each. No request fails. It returns the number of reloads.
func reloadBeside(t *testing.T, model, url string, clients, requests int) (reloads int) {
	t.Helper()
	ended := make(chan []error, 1)
	go func() { ended <- load(t, url, clients, requests) }()
	for running := true; running || reloads < 3; reloads++ {
		replace(t, model, data.Model)
		if code, text := send(t, url+"/reload"); code != http.StatusOK {
			t.Fatalf("reload %d: status %d, %s", reloads, code, text)
		}
		select {
		case failures := <-ended:
			running = false
			if err := errors.Join(failures...); err != nil {
				t.Error(err)
			}
		default:
		}
	}
	return reloads
}

// replace replaces a file by a new one: mapped files must not change while they are read.
func replace(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func other(t *testing.T) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "testdata", "onnx", "two_dims", "model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func send(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := http.Post(url, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// occupy takes all of the program's calls by open results, until the returned function closes them.
func occupy(t *testing.T, v *service) (release func()) {
	t.Helper()
	image, err := weir.FromSlice(data.Pictures()[0].Pixels, 1, 1, data.Side, data.Side)
	if err != nil {
		t.Fatal(err)
	}
	var open []*weir.Results
	for range v.calls {
		results, err := v.program.Load().Run(t.Context(), weir.Inputs{"image": image})
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, results)
	}
	return func() {
		for _, r := range open {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestDeadline: a request that finds all calls taken is answered 503 at its deadline, and the next one is served.
func TestDeadline(t *testing.T) {
	s := defaults()
	s.deadline = 100 * time.Millisecond
	v, server := start(t, s)
	release := occupy(t, v)
	code, _, err := post(t.Context(), server.URL, data.Pictures()[:1])
	if err != nil || code != http.StatusServiceUnavailable {
		t.Errorf("status %d, error %v, want 503", code, err)
	}
	release()
	// A slow machine may miss so short a deadline once or twice with all calls free.
	for give := time.Now().Add(20 * time.Second); ; {
		err := ask(t.Context(), server.URL, data.Pictures()[:1])
		if err == nil {
			return
		}
		if time.Now().After(give) {
			t.Fatal(err)
		}
	}
}

// TestCancelled: a client that leaves does not keep a call.
func TestCancelled(t *testing.T) {
	v, server := start(t, defaults())
	release := occupy(t, v)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, _, err := post(ctx, server.URL, data.Pictures()[:1])
		left <- err
	}()
	time.Sleep(50 * time.Millisecond)
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the client's own", err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		if n, ok := v.answers.Load(statusGone); ok && n.(*atomic.Int64).Load() == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the service still works for a client who left")
		}
		time.Sleep(time.Millisecond)
	}
	release()
	if err := errors.Join(load(t, server.URL, 8, 2)...); err != nil {
		t.Error(err)
	}
}

func TestBadRequests(t *testing.T) {
	_, server := start(t, defaults())
	picture := `"` + "iVBORw0KGgo=" + `"`
	for name, body := range map[string]string{
		"empty": "", "no JSON": "digits", "no images": `{"images": []}`, "not base64": `{"images": ["!"]}`,
		"no PNG":  `{"images": ["aGVsbG8="]}`,
		"cut PNG": `{"images": [` + picture + `]}`, "too many": `{"images": [` + strings.Repeat(picture+",", 16) + picture +
			`]}`,
		"too long": `{"images": ["` + strings.Repeat("A", 1<<20) + `"]}`,
	} {
		response, err := http.Post(server.URL+"/classify", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d, want 400", name, response.StatusCode)
		}
	}
}

func TestMetrics(t *testing.T) {
	v, server := start(t, defaults())
	if err := ask(t.Context(), server.URL, data.Pictures()[:2]); err != nil {
		t.Fatal(err)
	}
	response, err := http.Get(server.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	ceiling, err := v.ceiling(v.program.Load())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"weir_memory_bytes{kind=\"arena\"} ", "weir_memory_current_bytes ",
		fmt.Sprintf("service_ceiling_bytes %d\n", ceiling), "service_answers_total{code=\"200\"} 1\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
