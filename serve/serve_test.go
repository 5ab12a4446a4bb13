package serve_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/serve"
)

// digits is the model of most tests: image f32[batch, 1, 8, 8] to scores f32[batch, 10].
const digits = "../examples/digits/data/digits.onnx"

// folder makes a folder of models, by name below it, from files.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, from := range files {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), data)
	}
	return dir
}

// write writes a file and the folders that it needs.
func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// start starts a server whose models are loaded, behind an HTTP server that speaks HTTP/1 and HTTP/2.
func start(t testing.TB, o serve.Options) (*serve.Server, *httptest.Server) {
	t.Helper()
	if o.Limit == 0 {
		o.Limit = 1 << 30
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	s, err := serve.New(o)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewUnstartedServer(s.Handler())
	h.Config.Protocols = &http.Protocols{}
	h.Config.Protocols.SetHTTP1(true)
	h.Config.Protocols.SetUnencryptedHTTP2(true)
	h.Start()
	t.Cleanup(func() {
		h.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
		weir.SetLimit(0)
	})
	for give := time.Now().Add(30 * time.Second); !s.Ready(); time.Sleep(time.Millisecond) {
		if time.Now().After(give) {
			t.Fatal("the server is not ready")
		}
	}
	return s, h
}

// post sends a body and returns the status, the header and the body of the answer.
func post(t testing.TB, url string, header http.Header, body []byte) (int, http.Header, []byte) {
	t.Helper()
	r, err := http.NewRequest("POST", url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	answer, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, a.Header, answer
}

// picture returns the elements of n pictures for the digits, and their scores by Weir itself.
func picture(t testing.TB, n int) (image, scores []float32) {
	t.Helper()
	image = make([]float32, n*64)
	for i := range image {
		image[i] = float32(i*7%31) / 31
	}
	m, err := weir.Load(digits)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := weir.Compile(t.Context(), m, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	x, err := weir.FromSlice(image, n, 1, 8, 8)
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Run(t.Context(), weir.Inputs{"image": x})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if scores, err = weir.Copy[float32](out.Get("scores")); err != nil {
		t.Fatal(err)
	}
	return image, scores
}

// floats returns numbers as a tensor's bytes.
func floats(list []float32) []byte {
	data, err := binary.Append(nil, binary.LittleEndian, list)
	if err != nil {
		panic(err)
	}
	return data
}

// answer is the JSON text of a response.
type answer struct {
	Model   string `json:"model_name"`
	Version string `json:"model_version"`
	ID      string `json:"id"`
	Outputs []struct {
		Name       string         `json:"name"`
		Datatype   string         `json:"datatype"`
		Shape      []int          `json:"shape"`
		Parameters map[string]any `json:"parameters"`
		Data       []float32      `json:"data"`
	} `json:"outputs"`
	Error string `json:"error"`
}

// TestREST: elements in the text and after it, in requests and responses, are the same numbers.
func TestREST(t *testing.T) {
	_, h := start(t, serve.Options{Folder: folder(t, map[string]string{"digits.onnx": digits})})
	image, scores := picture(t, 3)
	flat, err := json.Marshal(image)
	if err != nil {
		t.Fatal(err)
	}
	rows := make([][1][8][8]float32, 3)
	for i, v := range image {
		rows[i/64][0][i/8%8][i%8] = v
	}
	nested, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, data string
		after      []byte
	}{
		{"flat", `"data":` + string(flat), nil}, {"nested", `"data": ` + string(nested), nil},
		{"after", `"parameters":{"binary_data_size":768}`, floats(image)},
	} {
		for _, binary := range []bool{false, true} {
			text := fmt.Sprintf(`{"id":"a","inputs":[{"name":"image","shape":[3,1,8,8],"datatype":"FP32",%s}],`+
				`"outputs":[{"name":"scores","parameters":{"binary_data":%v}}]}`, c.data, binary)
			header := http.Header{}
			if c.after != nil {
				header.Set("Inference-Header-Content-Length", fmt.Sprint(len(text)))
			}
			status, got, body := post(t, h.URL+"/v2/models/digits/infer", header, append([]byte(text), c.after...))
			after := []byte{}
			if n := got.Get("Inference-Header-Content-Length"); n != "" {
				size := 0
				fmt.Sscan(n, &size)
				body, after = body[:size], body[size:]
			}
			var a answer
			if err := json.Unmarshal(body, &a); err != nil || status != 200 || len(a.Outputs) != 1 {
				t.Fatalf("%s, binary %v: status %d, %v: %s", c.name, binary, status, err, body)
			}
			if a.Model != "digits" || a.Version != "1" || a.ID != "a" || fmt.Sprint(a.Outputs[0].Shape) != "[3 10]" {
				t.Errorf("%s: %s", c.name, body)
			}
			if binary != (len(after) == 120) || binary && !bytes.Equal(after, floats(scores)) ||
				!binary && !bytes.Equal(floats(a.Outputs[0].Data), floats(scores)) {
				t.Errorf("%s, binary %v: the scores differ: %s, %d bytes after it", c.name, binary, body, len(after))
			}
		}
	}
}

// TestMalformed: requests that are not the protocol's are refused by name, and nothing else happens.
func TestMalformed(t *testing.T) {
	_, h := start(t, serve.Options{Folder: folder(t, map[string]string{"digits.onnx": digits})})
	input := func(rest string) string { return `{"inputs":[{"name":"image","datatype":"FP32",` + rest + `}]}` }
	for _, c := range []struct {
		name, path, body, header string
		status                   int
		says                     string
	}{
		{"no model", "nope", `{}`, "", 404, "unknown"},
		{"a path as a model", "..%2f..%2fetc%2fpasswd", `{}`, "", 404, "unknown"},
		{"no version", "digits/versions/9", `{}`, "", 404, "unknown"},
		{"no number", "digits/versions/x", `{}`, "", 404, "unknown"},
		{"no JSON", "digits", `{`, "", 400, "JSON"},
		{"no input", "digits", `{}`, "", 400, "image"},
		{"no shape", "digits", input(`"data":[1]`), "", 400, "image"},
		{"negative", "digits", input(`"shape":[-1,1,8,8],"data":[]`), "", 400, "negative"},
		{"huge", "digits", input(`"shape":[9223372036854775807,9223372036854775807],"data":[1]`), "", 400, "2^47"},
		{"few", "digits", input(`"shape":[1,1,8,8],"data":[1,2,3]`), "", 400, "64 elements"},
		{"ragged", "digits", input(`"shape":[2,1],"data":[[1],[1,2]]`), "", 400, "2 elements"},
		{"text", "digits", input(`"shape":[1],"data":["a"]`), "", 400, "no FP32"},
		{"other type", "digits", `{"inputs":[{"name":"image","datatype":"INT8","shape":[1],"data":[1]}]}`, "", 400, "INT8"},
		{"no type", "digits", `{"inputs":[{"name":"image","datatype":"FP7","shape":[1],"data":[1]}]}`, "", 400, "FP7"},
		{"other name", "digits", `{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]}]}`, "", 400, "no input"},
		{"other rank", "digits", input(`"shape":[1],"data":[1]`), "", 400, "image"},
		{"header too long", "digits", `{}`, "9", 400, "Content-Length"},
		{"header negative", "digits", `{}`, "-1", 400, "Content-Length"},
		{"header no number", "digits", `{}`, "x", 400, "Content-Length"},
		{"size beyond the body", "digits", input(`"shape":[1],"parameters":{"binary_data_size":4}`), "", 400,
			"0 bytes are left"},
		{"size negative", "digits", input(`"shape":[1],"parameters":{"binary_data_size":-4}`), "", 400, "-4"},
		{"parameter", "digits", `{"parameters":{"a":[1]}}`, "", 400, "parameter"},
		{"region", "digits", input(`"shape":[1],"parameters":{"shared_memory_region":"r","shared_memory_byte_size":4}`),
			"", 400,
			"not registered"},
		{"output", "digits", `{"inputs":[{"name":"image","datatype":"FP32","shape":[0,1,8,8],"data":[]}],` +
			`"outputs":[{"name":"x"}]}`, "", 400, "no output"},
	} {
		header := http.Header{}
		if c.header != "" {
			header.Set("Inference-Header-Content-Length", c.header)
		}
		status, _, body := post(t, h.URL+"/v2/models/"+c.path+"/infer", header, []byte(c.body))
		var a answer
		if err := json.Unmarshal(body, &a); err != nil || status != c.status || !strings.Contains(a.Error, c.says) {
			t.Errorf("%s: status %d, %s", c.name, status, body)
		}
	}
}

// TestHealthBodies checks the objects of health calls, which KServe's clients read; Triton's read the status.
func TestHealthBodies(t *testing.T) {
	_, h := start(t, serve.Options{Folder: folder(t, map[string]string{"digits.onnx": digits})})
	for path, want := range map[string]string{"/v2/health/live": `200 {"live":true}`,
		"/v2/health/ready":                   `200 {"live":true,"ready":true}`,
		"/v2/models/digits/ready":            `200 {"name":"digits","ready":true}`,
		"/v2/models/somebody/ready":          `400 {"name":"somebody","ready":false}`,
		"/v2/models/digits/versions/2/ready": `400 {"name":"digits","ready":false}`} {
		a, err := http.Get(h.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(a.Body)
		a.Body.Close()
		if got := fmt.Sprintf("%d %s", a.StatusCode, body); err != nil || got != want {
			t.Errorf("%s: %s (%v), want %s", path, got, err, want)
		}
	}
}
