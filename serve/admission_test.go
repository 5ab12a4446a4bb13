package serve_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir/serve"
)

// inferRows asks for the scores of some pictures, in binary form.
func inferRows(t testing.TB, url, model, parameters string, rows int) (status int, text string) {
	t.Helper()
	head := fmt.Sprintf(`{%s"inputs":[{"name":"image","shape":[%d,1,8,8],"datatype":"FP32",`+
		`"parameters":{"binary_data_size":%d}}]}`, parameters, rows, rows*256)
	header := http.Header{"Inference-Header-Content-Length": {fmt.Sprint(len(head))}}
	status, _, body := post(t, url+"/v2/models/"+model+"/infer", header, append([]byte(head), make([]byte, rows*256)...))
	return status, string(body)
}

// refusal is the JSON text of an error.
type refusal struct {
	Error, Kind, Fix  string
	Need, Limit, Held int64
}

// TestTooLarge: a request that never fits is refused with the size that does, and that size is answered.
func TestTooLarge(t *testing.T) {
	_, h := start(t, serve.Options{Folder: folder(t, map[string]string{"digits.onnx": digits}), Limit: 16 << 20})
	status, text := inferRows(t, h.URL, "digits", "", 3000)
	var r refusal
	if err := json.Unmarshal([]byte(text), &r); err != nil || status != http.StatusRequestEntityTooLarge {
		t.Fatalf("status %d: %s", status, text)
	}
	document, err := os.ReadFile("../docs/serving.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(document), "```json\n")
	example, _, _ := strings.Cut(after, "```")
	var documented, got map[string]any
	if err := errors.Join(json.Unmarshal([]byte(example), &documented), json.Unmarshal([]byte(text), &got)); err != nil ||
		!slices.Equal(slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(got))) {
		t.Errorf("docs/serving.md has the refusal %s, and the server says %s: %v", example, text, err)
	}
	most := 0
	if _, err := fmt.Sscanf(r.Fix, "send batch at most %d", &most); err != nil || r.Need <= r.Limit || r.Limit >= 16<<20 {
		t.Fatalf("%+v", r)
	}
	if status, text := inferRows(t, h.URL, "digits", "", most); status != 200 {
		t.Errorf("%d rows: status %d: %s", most, status, text)
	}
	if status, _ := inferRows(t, h.URL, "digits", "", most+1); status != http.StatusRequestEntityTooLarge {
		t.Errorf("%d rows: status %d", most+1, status)
	}
	status, text = inferRows(t, h.URL, "digits", "", 20000)
	if status != http.StatusRequestEntityTooLarge || !strings.Contains(text, "body") {
		t.Errorf("a body that never fits: status %d, %s", status, text)
	}
}

// TestTwoOutputs: outputs that fit one by one, and not together, are refused at once instead of waiting for each other.
func TestTwoOutputs(t *testing.T) {
	_, h := start(t, serve.Options{Folder: folder(t, map[string]string{"twice.weir": "testdata/twice.weir"}),
		Limit: 64 << 20})
	ask := func(n int) (int, string) {
		head := fmt.Sprintf(`{"parameters":{"binary_data_output":true},"inputs":[{"name":"x","shape":[%d],`+
			`"datatype":"FP32","parameters":{"binary_data_size":%d}}]}`, n, 4*n)
		status, _, body := post(t, h.URL+"/v2/models/twice/infer", http.Header{headerLength: {fmt.Sprint(len(head))}},
			append([]byte(head), make([]byte, 4*n)...))
		return status, string(body[:min(len(body), 300)])
	}
	if status, text := ask(700 << 10); status != 200 {
		t.Errorf("outputs of 5.5 MiB together: status %d, %s", status, text)
	}
	answers := make(chan int, 16)
	for range 16 { // one after the other: together they exceed the responses' share
		go func() {
			status, _ := ask(500 << 10)
			answers <- status
		}()
	}
	for range 16 {
		if status := <-answers; status != 200 {
			t.Errorf("status %d", status)
		}
	}
	status, text := ask(1500 << 10)
	if status != http.StatusRequestEntityTooLarge || !strings.Contains(text, "response") {
		t.Errorf("outputs of 12 MiB together, in a share of 8 MiB: status %d, %s", status, text)
	}
	var r refusal
	most := 0
	json.Unmarshal([]byte(text), &r)
	if _, err := fmt.Sscanf(r.Fix, "send n at most %d", &most); err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	if status, text := ask(most); status != 200 {
		t.Errorf("%d elements, as the refusal says: status %d, %s", most, status, text)
	}
}

// headerLength names the header with the bytes of the JSON text before binary data.
const headerLength = "Inference-Header-Content-Length"

// manyDigits makes a folder of sixteen models.
func manyDigits(t testing.TB) string {
	files := map[string]string{}
	for i := range 16 {
		files[fmt.Sprintf("m%d.onnx", i)] = digits
	}
	return folder(t, files)
}

// load loads a model.
func load(t testing.TB, url, model string) (int, refusal) {
	status, _, body := post(t, url+"/v2/repository/models/"+model+"/load", nil, nil)
	var r refusal
	json.Unmarshal(body, &r)
	return status, r
}

// TestLoadsWithin: models are loaded while they fit; the next is refused with the numbers, or takes the place of the
// one that was not used for the longest time.
func TestLoadsWithin(t *testing.T) {
	_, h := start(t, serve.Options{Folder: manyDigits(t), Mode: serve.Explicit, Limit: 3 << 20})
	loaded := 0
	for i := range 16 {
		status, r := load(t, h.URL, fmt.Sprint("m", i))
		if status == 200 && i == loaded {
			loaded++
			continue
		}
		if status != http.StatusInsufficientStorage || r.Need == 0 || r.Limit >= r.Need || r.Held == 0 || r.Fix == "" {
			t.Errorf("m%d: status %d, %+v", i, status, r)
		}
	}
	if loaded == 0 || loaded == 16 {
		t.Errorf("%d of 16 models are loaded", loaded)
	}
	if status, _, _ := post(t, h.URL+"/v2/repository/models/m0/unload", nil, nil); status != 200 {
		t.Errorf("unload: status %d", status)
	}
	if status, r := load(t, h.URL, "m15"); status != 200 {
		t.Errorf("after another was unloaded: status %d, %+v", status, r)
	}
	if status, text := inferRows(t, h.URL, "m0", "", 1); status != http.StatusServiceUnavailable {
		t.Errorf("an unloaded model: status %d, %s", status, text)
	}
}

// TestEvicts: with eviction every model can be loaded and used, in turns.
func TestEvicts(t *testing.T) {
	_, h := start(t, serve.Options{Folder: manyDigits(t), Mode: serve.Explicit, Limit: 3 << 20, Evict: true})
	for i := range 16 {
		if status, r := load(t, h.URL, fmt.Sprint("m", i)); status != 200 {
			t.Errorf("with eviction: m%d: status %d, %+v", i, status, r)
		}
		if status, text := inferRows(t, h.URL, fmt.Sprint("m", i), "", 1); status != 200 {
			t.Errorf("with eviction: m%d: status %d, %s", i, status, text)
		}
	}
}

// TestNewVersion: a folder's new version takes the place of the old one while requests go on, and none fails.
func TestNewVersion(t *testing.T) {
	dir := folder(t, map[string]string{"m/1/model.onnx": digits})
	s, h := start(t, serve.Options{Folder: dir})
	done, failed := make(chan struct{}), make(chan string, 8)
	for range 4 {
		go func() {
			text := ""
			for {
				select {
				case <-done:
					failed <- text
					return
				default:
				}
				if status, answer := inferRows(t, h.URL, "m", "", 3); status != 200 {
					text = answer
				}
			}
		}()
	}
	data, err := os.ReadFile(digits)
	if err != nil {
		t.Fatal(err)
	}
	for version := 2; version < 6; version++ {
		write(t, filepath.Join(dir, "m", fmt.Sprint(version), "model.onnx"), data)
		if err := s.Refresh(t.Context()); err != nil {
			t.Error(err)
		}
		_, text := inferRows(t, h.URL, "m", "", 1)
		if !strings.Contains(text, fmt.Sprintf(`"model_version":"%d"`, version)) {
			t.Errorf("version %d: %s", version, text)
		}
		time.Sleep(20 * time.Millisecond)
	}
	close(done)
	for range 4 {
		if text := <-failed; text != "" {
			t.Errorf("a request failed: %s", text)
		}
	}
}

// TestWaits: a request that does not fit now waits for as long as its timeout says, and is then refused.
func TestWaits(t *testing.T) {
	dir := folder(t, map[string]string{"digits.onnx": digits})
	_, h := start(t, serve.Options{Folder: dir, Limit: 8 << 20})
	answers := make(chan int, 64)
	for range 164 {
		go func() {
			status, _ := inferRows(t, h.URL, "digits", "", 300)
			answers <- status
		}()
	}
	for range 164 {
		if status := <-answers; status != 200 {
			t.Errorf("status %d", status)
		}
	}
	began := time.Now()
	refused := 0
	for range 164 {
		go func() {
			status, _ := inferRows(t, h.URL, "digits", `"parameters":{"timeout":1},`, 300)
			answers <- status
		}()
	}
	for range 164 {
		switch status := <-answers; status {
		case 200:
		case http.StatusTooManyRequests:
			refused++
		default:
			t.Errorf("status %d", status)
		}
	}
	if refused == 0 {
		t.Errorf("with a timeout of a microsecond, 64 requests were answered in %v", time.Since(began))
	}
}
