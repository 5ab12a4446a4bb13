package serve_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/weirml/weir/serve"
)

// get returns the status and the body of a page.
func get(t testing.TB, url string) (int, []byte) {
	t.Helper()
	a, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, body
}

// scrape returns the values of a server's metrics by name and labels, as name{label=value,…}. Those of a histogram are
// its count and its last bucket.
func scrape(t testing.TB, url string) map[string]float64 {
	t.Helper()
	status, body := get(t, url+"/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil || status != 200 {
		t.Fatalf("status %d, %v:\n%s", status, err, body)
	}
	values := map[string]float64{}
	for name, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			key := name
			if labels != nil {
				key += "{" + strings.Join(labels, ",") + "}"
			}
			if _, twice := values[key]; twice {
				t.Errorf("%s is there twice", key)
			}
			values[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue() +
				float64(m.GetHistogram().GetSampleCount())
		}
	}
	return values
}

// picky is a logger that makes a test fail on each error that it is told.
func picky(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(failing{t}, &slog.HandlerOptions{Level: slog.LevelError}))
}

type failing struct{ t testing.TB }

// Write fails the test.
func (f failing) Write(text []byte) (int, error) {
	f.t.Errorf("the log has an error: %s", text)
	return len(text), nil
}

// ask sends a request of so many rows for the digits, and returns its status.
func ask(t testing.TB, url, name string, rows int) int {
	t.Helper()
	text := fmt.Sprintf(`{"inputs":[{"name":"image","shape":[%d,1,8,8],"datatype":"FP32",`+
		`"parameters":{"binary_data_size":%d}}]}`, rows, rows*256)
	header := http.Header{"Inference-Header-Content-Length": {fmt.Sprint(len(text))}}
	status, _, _ := post(t, url+"/v2/models/"+name+"/infer", header, append([]byte(text), make([]byte, rows*256)...))
	return status
}

// TestMetrics: the metrics have Triton's names and the numbers of the requests, for the versions that are loaded and no
// others.
func TestMetrics(t *testing.T) {
	hostile := `a"b\c<script>` + "\n{}"
	_, h := start(t, serve.Options{Logger: picky(t), Folder: folder(t, map[string]string{"digits.onnx": digits,
		hostile + "/2/model.onnx": digits, "\xff\xfe/1/model.onnx": digits})})
	for _, rows := range []int{1, 3, 5} {
		if status := ask(t, h.URL, "digits", rows); status != 200 {
			t.Fatalf("status %d", status)
		}
	}
	post(t, h.URL+"/v2/models/digits/infer", nil, []byte(`{}`))
	post(t, h.URL+"/v2/models/digits/infer", nil, []byte(`{"inputs":`))
	post(t, h.URL+"/v2/models/nobody/infer", nil, []byte(`{"inputs":[]}`))
	get(t, h.URL+"/v2/models/nobody")
	const of = "{model=digits,version=1}"
	got := scrape(t, h.URL)
	for name, want := range map[string]float64{"nv_inference_request_success" + of: 3, "nv_inference_count" + of: 9,
		"nv_inference_exec_count" + of: 3, "nv_inference_pending_request_count" + of: 0, "weir_request_seconds" + of: 3,
		"nv_inference_request_failure{model=digits,reason=OTHER,version=1}":    1,
		"nv_inference_request_failure{model=digits,reason=REJECTED,version=1}": 0,
		"weir_request_failures_total{kind=input,model=digits,version=1}":       1,
		"weir_requests_failed_total{reason=input}":                             1,
		"weir_requests_failed_total{reason=unknown}":                           2,
		"weir_requests_failed_total{reason=token}":                             0,
		"weir_ledger_limit_bytes":                                              1 << 30,
		"weir_ledger_waiting":                                                  0, "weir_ledger_refusals_total": 0,
		"weir_models{state=READY}": 3, "weir_models{state=UNAVAILABLE}": 0,
		"nv_inference_request_success{model=" + hostile + ",version=2}": 0,
		`nv_inference_request_success{model=\xff\xfe,version=1}`:        0,
		"weir_program_errors_total{program=digits, version 1}":          0} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s is %v (there: %v), not %v", name, value, ok, want)
		}
	}
	for _, name := range []string{"nv_inference_request_duration_us" + of, "nv_inference_queue_duration_us" + of,
		"nv_inference_compute_input_duration_us" + of, "nv_inference_compute_infer_duration_us" + of,
		"nv_inference_compute_output_duration_us" + of, "weir_ledger_peak_bytes", "weir_memory_peak_bytes",
		"weir_ledger_bytes{account=digits, version 1,kind=model}", "weir_model_bytes{kind=fixed,model=digits,version=1}",
		"go_goroutines"} {
		if got[name] <= 0 {
			t.Errorf("%s is %v", name, got[name])
		}
	}
	parts := got["nv_inference_queue_duration_us"+of] + got["nv_inference_compute_input_duration_us"+of] +
		got["nv_inference_compute_infer_duration_us"+of] + got["nv_inference_compute_output_duration_us"+of]
	if whole := got["nv_inference_request_duration_us"+of]; parts > whole || parts < whole/2 {
		t.Errorf("the phases took %v µs, and the requests %v µs", parts, whole)
	}
	if status, _, body := post(t, h.URL+"/v2/repository/models/digits/unload", nil, nil); status != 200 {
		t.Fatalf("status %d: %s", status, body)
	}
	for name := range scrape(t, h.URL) {
		if strings.Contains(name, "digits") {
			t.Errorf("%s is there after the model was unloaded", name)
		}
	}
}

// TestMetricsWhileVersionsChange: scrapes meet neither a version twice nor one that is closed.
func TestMetricsWhileVersionsChange(t *testing.T) {
	dir := folder(t, map[string]string{"digits/1/model.onnx": digits})
	_, h := start(t, serve.Options{Logger: picky(t), Folder: dir})
	done := make(chan struct{})
	var scrapes, ended sync.WaitGroup
	for range 2 {
		scrapes.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					scrape(t, h.URL)
				}
			}
		})
	}
	ended.Go(func() {
		for range 50 {
			if status := ask(t, h.URL, "digits", 2); status != 200 {
				t.Errorf("status %d", status)
			}
		}
	})
	for i := range 4 {
		if i%2 == 1 { // another file: it is compiled again
			data, err := os.ReadFile(digits)
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, fmt.Sprint("digits/", i+1, "/model.onnx")), data)
		}
		if status, _, body := post(t, h.URL+"/v2/repository/models/digits/load", nil, nil); status != 200 {
			t.Errorf("status %d: %s", status, body)
		}
	}
	ended.Wait()
	close(done)
	scrapes.Wait()
	got := scrape(t, h.URL)
	if _, old := got["nv_inference_count{model=digits,version=1}"]; old {
		t.Error("the first version still has metrics")
	}
	if _, ok := got["nv_inference_count{model=digits,version=4}"]; !ok {
		t.Error("the last version has no metrics")
	}
}
