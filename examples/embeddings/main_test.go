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
	"github.com/weirml/weir/embed"
)

// post sends texts to the service at a URL, and returns the status and the vectors, nil if the status is not 200.
func post(url string, texts ...string) (int, [][]float32, error) {
	body, err := json.Marshal(request{Texts: texts})
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

// model is a tiny model of sentence-transformers.
const model = "../../embed/testdata/models/bert"

// started returns a service of the model, and its URL.
func started(t *testing.T) (*embed.Model, string) {
	t.Helper()
	m, err := embed.Load(t.Context(), model, embed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(service{m})
	t.Cleanup(func() {
		server.Close()
		m.Close()
	})
	return m, server.URL
}

// TestEmbeds asks from 24 clients at once: each gets the vectors that its texts get alone, in fewer runs than there are
// texts.
func TestEmbeds(t *testing.T) {
	m, url := started(t)
	const clients = 24
	text := func(i int) string { return strings.Repeat(fmt.Sprintf("text %d. ", i), 1+i%8) }
	alone := make([][]float32, clients)
	for i := range alone {
		v, err := m.Embed(t.Context(), []string{text(i)})
		if err != nil {
			t.Fatal(err)
		}
		alone[i] = v[0]
	}
	before := m.Program().Stats().Runs
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			texts := make([]string, clients)
			for k := range texts {
				texts[k] = text((i + k) % clients)
			}
			status, vectors, err := post(url, texts...)
			if err != nil || status != http.StatusOK || len(vectors) != clients {
				t.Errorf("client %d: status %d, %d vectors, %v", i, status, len(vectors), err)
				return
			}
			for j, vector := range vectors {
				want := alone[(i+j)%clients]
				for k, v := range vector {
					if len(vector) != m.Dimensions() || math.Abs(float64(v-want[k])) > 1e-5 {
						t.Errorf("client %d: element %d of vector %d is %v, alone it is %v", i, k, j, v, want[k])
						return
					}
				}
			}
		})
	}
	all.Wait()
	if runs := m.Program().Stats().Runs - before; runs >= clients*clients {
		t.Errorf("%d runs for %d texts: none were joined", runs, clients*clients)
	}
	if fmt.Sprint(alone[0]) == fmt.Sprint(alone[1]) {
		t.Error("two texts have one vector")
	}
}

// TestRefuses sends requests that the service refuses, and a text that is longer than the model reads.
func TestRefuses(t *testing.T) {
	_, url := started(t)
	for name, texts := range map[string][]string{"no texts": nil, "too many": make([]string, most+1),
		"too long": {strings.Repeat("a", mostBody)}} {
		if status, _, err := post(url, texts...); err != nil || status != http.StatusBadRequest {
			t.Errorf("%s: status %d, %v", name, status, err)
		}
	}
	response, err := http.Post(url+"/embed", "application/json", strings.NewReader(`{"texts": ["a"], "prompt": "none"}`))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("an unknown prompt: status %d", response.StatusCode)
	}
	if status, _, err := post(url, strings.Repeat("a river ", 10_000), ""); err != nil || status != http.StatusOK {
		t.Errorf("a long text: status %d, %v", status, err)
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
		ended <- serve(ctx, listener, model, weir.Options{Calls: 2}, slog.New(slog.NewTextHandler(&begun, nil)))
	}()
	url := "http://" + listener.Addr().String()
	if status, _, err := post(url, "the first text"); err != nil || status != http.StatusOK {
		t.Fatalf("status %d, %v", status, err)
	}
	if !strings.Contains(begun.String(), "tokens=40 certificate_bytes=") {
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
