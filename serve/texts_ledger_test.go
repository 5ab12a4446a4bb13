package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirml/weir"
)

// startTexts starts a server with a model of texts, and with a folder for its artefact.
func startTexts(t *testing.T, limit int64, cache string) *Server {
	dir := filepath.Join(cache, "models")
	if err := os.CopyFS(filepath.Join(dir, "bert"), os.DirFS("../embed/testdata/models/bert")); err != nil &&
		!errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	s, err := New(Options{Folder: dir, Limit: limit, Cache: cache})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
		weir.SetLimit(0)
		if left := s.ledger.State(); left.Held != 0 {
			t.Errorf("at the end the ledger has %+v", left)
		}
	})
	for !s.Ready() {
		time.Sleep(time.Millisecond)
	}
	return s
}

// TestTextsLedger: the ledger has what a model of texts holds: exactly at quiet moments, and never less at others; it
// never exceeds the limit.
func TestTextsLedger(t *testing.T) {
	cache := t.TempDir()
	for _, compiled := range []bool{true, false} {
		t.Run(fmt.Sprintf("compiled %v", compiled), func(t *testing.T) { textsLedger(t, cache, compiled) })
	}
}

// textsLedger is TestTextsLedger for a model that is compiled, or is read from its artefact.
func textsLedger(t *testing.T, cache string, compiled bool) {
	weir.Trim()
	before := weir.Usage().Held
	s := startTexts(t, 32<<20, cache)
	if loaded := s.catalogue.Loaded(); len(loaded) != 1 || loaded[0].FromCache == compiled {
		t.Fatalf("%d models, which come from other files than they should", len(loaded))
	}
	quiet := func(when string) {
		t.Helper()
		weir.Trim()
		held, heap, measured := s.ledger.State().Held, s.catalogue.Heap(), weir.Usage().Held-before
		if held != measured+heap || heap == 0 {
			t.Errorf("%s: the ledger has %d bytes, and the process holds %d, and %d on Go's heap", when, held, measured, heap)
		}
	}
	quiet("after loading")
	var clients sync.WaitGroup
	done := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for {
			select {
			case <-done:
				return
			case <-time.After(100 * time.Microsecond):
			}
			measured := weir.Usage().Held - before
			if state := s.ledger.State(); max(state.Held, measured) > state.Limit {
				t.Errorf("the ledger has %d bytes of %d, and the process holds %d", state.Held, state.Limit, measured)
			}
		}
	}()
	for client := range 6 {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(39, uint64(client)))
			for range 25 {
				in := make([]string, 1+random.IntN(300))
				for i := range in {
					in[i] = strings.Repeat("words of a text ", random.IntN(12))
				}
				body, _ := json.Marshal(map[string]any{"model": "bert", "input": in})
				r := httptest.NewRequest("POST", "/v1/embeddings", bytes.NewReader(body))
				r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", client)
				w := httptest.NewRecorder()
				if s.Handler().ServeHTTP(w, r); w.Code != 200 {
					t.Errorf("status %d: %s", w.Code, w.Body)
				}
			}
		})
	}
	clients.Wait()
	close(done)
	<-watched
	quiet("after requests")
	s.catalogue.Trim()
	s.bodies.Release()
	s.responses.Release()
	quiet("after idle memory was released")
}

// TestTextsFair: while one client has 10,000 texts computed, another one's single text waits for a few runs only, and
// gets the same vector as among 10,000.
func TestTextsFair(t *testing.T) {
	s := startTexts(t, 256<<20, t.TempDir())
	v, err := s.catalogue.Use("bert", "")
	if err != nil {
		t.Fatal(err)
	}
	v.Leave()
	ask := func(from string, texts []string) []string {
		body, err := json.Marshal(map[string]any{"model": "bert", "input": texts, "encoding_format": "base64"})
		if err != nil {
			t.Error(err)
		}
		r := httptest.NewRequest("POST", "/v1/embeddings", bytes.NewReader(body))
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		var e struct{ Data []struct{ Embedding string } }
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != 200 || len(e.Data) != len(texts) {
			t.Errorf("status %d, %v: %.300s", w.Code, err, w.Body)
		}
		var list []string
		for _, d := range e.Data {
			list = append(list, d.Embedding)
		}
		return list
	}
	many := make([]string, 10000)
	for i := range many {
		many[i] = strings.Repeat(fmt.Sprintf("text %d has words ", i), 1+i%9)
	}
	ended := make(chan struct{})
	var all, single []string
	go func() {
		defer close(ended)
		all = ask("192.0.2.1:1000", many)
	}()
	runs := func() int64 { return v.Program.Stats().Runs }
	for runs() < 4 {
		time.Sleep(time.Millisecond)
	}
	var waited []int64
	for busy := true; busy; {
		first := runs()
		single = ask("192.0.2.2:2000", many[7:8])
		waited = append(waited, runs()-first)
		select {
		case <-ended:
			busy = false
		default:
		}
	}
	t.Logf("%d runs for 10,000 texts; single texts of another client waited for %d", runs(), waited)
	slices.Sort(waited) // the longest waits are those of a goroutine that the system did not run
	if n := len(waited); n < 5 || waited[n*9/10] > runs()/10 || waited[n-1] > runs()/2 {
		t.Errorf("single texts waited for %d runs", waited)
	}
	if len(single) != 1 || len(all) != len(many) || single[0] != all[7] {
		t.Errorf("the vector of a text alone and among 10,000 differ: %.40q, %.40q", single, all[7:8])
	}
}

// TestTextsCanceled: a model is unloaded while a run goes on whose request was canceled, and all bytes are given back
// (startTexts looks at the ledger).
func TestTextsCanceled(t *testing.T) {
	cache := t.TempDir()
	list := make([]string, 2000)
	for i := range list {
		list[i] = strings.Repeat("many words ", 1+i%30)
	}
	body, err := json.Marshal(map[string]any{"model": "bert", "input": list})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		t.Run("", func(t *testing.T) {
			s := startTexts(t, 64<<20, cache)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Duration(10+7*i)*time.Millisecond, cancel)
			r := httptest.NewRequestWithContext(ctx, "POST", "/v1/embeddings", bytes.NewReader(body))
			w := httptest.NewRecorder()
			if s.Handler().ServeHTTP(w, r); w.Code != 499 && w.Code != 200 {
				t.Errorf("status %d: %.200s", w.Code, w.Body)
			}
		})
	}
}
