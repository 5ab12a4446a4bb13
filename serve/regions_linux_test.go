package serve_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir/serve"
)

// TestSharedMemoryCutShort: a client that cuts its shared memory short gets an error; the server lives.
func TestSharedMemoryCutShort(t *testing.T) {
	_, h := start(t, serve.Options{Folder: folder(t, map[string]string{"digits.onnx": digits,
		"echo.weir": "testdata/echo.weir"})})
	const bytes = 4 << 20
	for _, c := range []struct{ model, input, shape, output string }{
		{"digits", "image", "[16384,1,8,8]", "scores"}, {"digits", "image", "[16,1,8,8]", "scores"}, {"echo", "x",
			"[4096]", "y"},
	} {
		var elements int64 = 1
		var shape []int64
		if err := json.Unmarshal([]byte(c.shape), &shape); err != nil {
			t.Fatal(err)
		}
		for _, e := range shape {
			elements *= e
		}
		for _, what := range []string{"input", "output"} {
			key := fmt.Sprintf("weir-test-%d", os.Getpid())
			path := filepath.Join("/dev/shm", key)
			if err := os.WriteFile(path, make([]byte, bytes), 0o600); err != nil {
				t.Skipf("there is no shared memory: %v", err)
			}
			t.Cleanup(func() { os.Remove(path) })
			status, _, body := post(t, h.URL+"/v2/systemsharedmemory/region/r/register", nil,
				fmt.Appendf(nil, `{"key":"/%s","offset":0,"byte_size":%d}`, key, bytes))
			if status != 200 {
				t.Fatalf("register: status %d, %s", status, body)
			}
			in, out := `"data":[`+strings.TrimSuffix(strings.Repeat("0,", int(elements)), ",")+"]", ""
			if what == "input" {
				in = fmt.Sprintf(`"parameters":{"shared_memory_region":"r","shared_memory_byte_size":%d}`, 4*elements)
			} else {
				out = fmt.Sprintf(`"parameters":{"shared_memory_region":"r","shared_memory_byte_size":%d},`, bytes)
			}
			request := fmt.Appendf(nil, `{"inputs":[{"name":"%s","shape":%s,"datatype":"FP32",%s}],`+
				`"outputs":[{%s"name":"%s"}]}`, c.input, c.shape, in, out, c.output)
			if status, _, body := post(t, h.URL+"/v2/models/"+c.model+"/infer", nil, request); status != 200 {
				t.Errorf("%s, %s: status %d, %.300s", c.model, what, status, body)
			}
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
			if status, _, body := post(t, h.URL+"/v2/models/"+c.model+"/infer", nil, request); status != 400 {
				t.Errorf("%s, %s, cut short: status %d, %.300s", c.model, what, status, body)
			}
			if status, _, body := post(t, h.URL+"/v2/systemsharedmemory/region/r/unregister", nil, nil); status != 200 {
				t.Errorf("unregister: status %d, %s", status, body)
			}
		}
	}
	if status, text := inferRows(t, h.URL, "digits", "", 2); status != 200 {
		t.Errorf("at the end: status %d, %s", status, text)
	}
}

// TestSequenceEnds: a step that fails after its run has changed a state in place ends the sequence, and says so; a
// state that is copied stays as it was.
func TestSequenceEnds(t *testing.T) {
	_, h := start(t, serve.Options{Folder: stateful(t, time.Minute)})
	key := fmt.Sprintf("weir-test-%d", os.Getpid())
	path := filepath.Join("/dev/shm", key)
	if err := os.WriteFile(path, make([]byte, 64), 0o600); err != nil {
		t.Skipf("there is no shared memory: %v", err)
	}
	t.Cleanup(func() { os.Remove(path) })
	if status, _, body := post(t, h.URL+"/v2/systemsharedmemory/region/r/register", nil,
		fmt.Appendf(nil, `{"key":"/%s","offset":0,"byte_size":64}`, key)); status != 200 {
		t.Fatalf("register: status %d, %s", status, body)
	}
	const short = `,"outputs":[{"name":"y","parameters":{"shared_memory_region":"r","shared_memory_byte_size":2}}]`
	for model, want := range map[string]string{"sum_f32": "has ended", "list": "[3]"} {
		stepREST(t, h.URL, model, "1", true, false, "", 1)
		status, _, text := stepREST(t, h.URL, model, "1", false, false, short, 1)
		if status != 400 || !strings.Contains(text, "shared memory 2") ||
			strings.Contains(text, "has ended") != (model != "list") {
			t.Errorf("%s: status %d, %s", model, status, text)
		}
		if _, _, next := stepREST(t, h.URL, model, "1", false, false, "", 2); !strings.Contains(next+text, want) ||
			strings.Contains(next, "START") != (model != "list") {
			t.Errorf("%s, the next step: %s", model, next)
		}
	}
}
