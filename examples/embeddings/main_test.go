package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirml/weir"
)

// post sends texts to the service at a URL, and returns the status and the vectors, nil if the status is not 200.
func post(url string, texts ...string) (int, [][]float32, error) {
	body, err := json.Marshal(request{texts})
	if err != nil {
		return 0, nil, err
	}
	response, err := http.Post(url+"/embed", "application/json", bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return response.StatusCode, nil, nil
	}
	var a answer
	err = json.NewDecoder(response.Body).Decode(&a)
	return response.StatusCode, a.Embeddings, err
}

// TestDivide divides 1 to 16 cores into calls and threads.
func TestDivide(t *testing.T) {
	for cores, want := range map[int][2]int{1: {1, 1}, 2: {2, 1}, 4: {2, 2}, 8: {2, 4}, 16: {4, 4}} {
		if calls, threads := divide(cores); [2]int{calls, threads} != want {
			t.Errorf("%d cores are %d calls of %d threads, want %v", cores, calls, threads, want)
		}
	}
}

// TestEmbeds asks from 24 clients at once: each gets the vectors that its texts get alone, of length 1, in fewer runs
// than there are texts.
func TestEmbeds(t *testing.T) {
	e, err := newEncoder(t.Context(), 2, 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	server := httptest.NewServer(e)
	defer server.Close()
	const clients = 24
	text := func(i int) string { return strings.Repeat(fmt.Sprintf("text %d. ", i), 1+i%8) }
	alone := make([][]float32, clients)
	for i := range alone {
		if alone[i], err = e.embed(t.Context(), text(i)); err != nil {
			t.Fatal(err)
		}
	}
	before := e.program.Stats().Runs
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			status, vectors, err := post(server.URL, text(i), text((i+1)%clients))
			if err != nil || status != http.StatusOK || len(vectors) != 2 {
				t.Errorf("client %d: status %d, %d vectors, %v", i, status, len(vectors), err)
				return
			}
			for j, vector := range vectors {
				square, want := 0.0, alone[(i+j)%clients]
				for k, v := range vector {
					square += float64(v) * float64(v)
					if math.Abs(float64(v-want[k])) > 1e-5 {
						t.Errorf("client %d: element %d of vector %d is %v, alone it is %v", i, k, j, v, want[k])
						return
					}
				}
				if len(vector) != width || math.Abs(square-1) > 1e-5 {
					t.Errorf("client %d: %d elements, of length² %v", i, len(vector), square)
				}
			}
		})
	}
	all.Wait()
	if runs := e.program.Stats().Runs - before; runs >= 2*clients {
		t.Errorf("%d runs for %d texts: none were joined", runs, 2*clients)
	}
	if fmt.Sprint(alone[0]) == fmt.Sprint(alone[1]) {
		t.Error("two texts have one vector")
	}
}

// TestRefuses sends texts that the service refuses, and the longest text that it accepts.
func TestRefuses(t *testing.T) {
	e, err := newEncoder(t.Context(), 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	server := httptest.NewServer(e)
	defer server.Close()
	for name, texts := range map[string][]string{"no texts": nil, "an empty text": {""},
		"too many": make([]string, most+1),
		"too long": {strings.Repeat("a", longest+1)}, "one too long": {"a", strings.Repeat("a", longest+1)}} {
		if status, _, err := post(server.URL, texts...); err != nil || status != http.StatusBadRequest {
			t.Errorf("%s: status %d, %v", name, status, err)
		}
	}
	if status, _, err := post(server.URL, strings.Repeat("a", longest)); err != nil || status != http.StatusOK {
		t.Errorf("the longest text: status %d, %v", status, err)
	}
}

// TestEnds ends the service while a request waits for its run: the request is answered, and all memory is given back.
func TestEnds(t *testing.T) {
	held := weir.Usage().Weights
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var begun logged
	ended := make(chan error, 1)
	go func() {
		ended <- serve(ctx, listener, 2, 600*time.Millisecond, slog.New(slog.NewTextHandler(&begun, nil)))
	}()
	url := "http://" + listener.Addr().String()
	if status, _, err := post(url, "the first text"); err != nil || status != http.StatusOK {
		t.Fatalf("status %d, %v", status, err)
	}
	if !strings.Contains(begun.String(), "calls=2 threads=1 certificate_bytes=") {
		t.Errorf("the log says %q", begun.String())
	}
	// The client sends the body once the handler reads it, and the service ends once the body is sent.
	handled := false
	traced := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got100Continue: func() { handled = true },
		WroteRequest:   func(httptrace.WroteRequestInfo) { end() },
	})
	last, err := http.NewRequestWithContext(traced, http.MethodPost, url+"/embed",
		strings.NewReader(`{"texts": ["the last text"]}`))
	if err != nil {
		t.Fatal(err)
	}
	last.Header.Set("Expect", "100-continue")
	client := http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}
	response, err := client.Do(last)
	if err != nil {
		t.Fatal("the request that had begun:", err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK || !handled {
		t.Errorf("the request that had begun: status %d, it had begun: %v", response.StatusCode, handled)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, _, err := post(url, "too late"); err == nil {
		t.Error("the service still answers")
	}
	if now := weir.Usage().Weights; now != held {
		t.Errorf("%d bytes of weights are held, %d were before", now, held)
	}
}

// logged is a log that any goroutine may read.
type logged struct {
	mu   sync.Mutex
	data bytes.Buffer
}

// Write appends to the log.
func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data.Write(p)
}

// String returns the log so far.
func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data.String()
}
