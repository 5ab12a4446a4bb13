package serve

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/weirml/weir"
)

// TestLedgerIsMeasured: at quiet moments the ledger has the bytes that the process holds, to the byte; at all others at
// least these, and never more than the limit.
func TestLedgerIsMeasured(t *testing.T) {
	dir := t.TempDir()
	digits, err := os.ReadFile("../examples/digits/data/digits.onnx")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("m%d.onnx", i)), digits, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	weir.Trim()
	before := weir.Usage().Held
	s, err := New(Options{Folder: dir, Limit: 64 << 20, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s.Handler())
	for !s.Ready() {
		time.Sleep(time.Millisecond)
	}
	quiet := func(when string) {
		t.Helper()
		weir.Trim()
		if held, measured := s.ledger.State().Held, weir.Usage().Held-before; held != measured {
			t.Errorf("%s: the ledger has %d bytes, and the process holds %d", when, held, measured)
		}
	}
	quiet("after loading")
	var stop, ended sync.WaitGroup
	done := make(chan struct{})
	ended.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			measured := weir.Usage().Held - before
			if state := s.ledger.State(); max(state.Held, measured) > state.Limit {
				t.Errorf("the ledger has %d bytes of %d, and the process holds %d", state.Held, state.Limit, measured)
			}
			time.Sleep(100 * time.Microsecond)
		}
	})
	statuses := sync.Map{}
	for client := range 8 {
		stop.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(client)))
			for range 60 {
				rows := 1 + random.IntN(400)
				image := make([]float32, rows*64)
				text := fmt.Sprintf(`{"inputs":[{"name":"image","shape":[%d,1,8,8],"datatype":"FP32",`+
					`"parameters":{"binary_data_size":%d}}]}`, rows, 4*len(image))
				body, _ := binary.Append([]byte(text), binary.LittleEndian, image)
				r, _ := http.NewRequest("POST", fmt.Sprintf("%s/v2/models/m%d/infer", h.URL, random.IntN(3)), bytes.NewReader(body))
				r.Header.Set(headerLength, fmt.Sprint(len(text)))
				a, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				answer, _ := io.ReadAll(a.Body)
				a.Body.Close()
				n, _ := statuses.LoadOrStore(a.StatusCode, new(sync.Map))
				n.(*sync.Map).Store(client, string(answer[:min(len(answer), 200)]))
			}
		})
	}
	stop.Wait()
	close(done)
	ended.Wait()
	statuses.Range(func(status, who any) bool {
		if status != 200 {
			who.(*sync.Map).Range(func(_, text any) bool {
				t.Errorf("status %v: %v", status, text)
				return false
			})
		}
		return true
	})
	quiet("after requests")
	s.catalogue.Trim()
	s.bodies.Release()
	s.responses.Release()
	quiet("after idle memory was released")
	h.Close()
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	weir.SetLimit(0)
	if left := s.ledger.State(); left.Held != 0 {
		t.Errorf("at the end the ledger has %+v", left)
	}
	quiet("at the end")
}
