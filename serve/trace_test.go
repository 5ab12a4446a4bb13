package serve_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weirml/weir/serve"
)

// TestTraces: a request is a span with its phases as children, below the client's span; the settings choose requests.
func TestTraces(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))
	_, h := start(t, serve.Options{Folder: folder(t, map[string]string{"digits.onnx": digits}),
		Tracer: provider.Tracer("test")})
	const parent = "00-0102030405060708090a0b0c0d0e0f10-0102030405060708-01"
	ask(t, h.URL, "digits", 3)
	post(t, h.URL+"/v2/models/digits/infer", http.Header{"Traceparent": {parent}}, []byte(`{}`))
	var whole []sdk.ReadOnlySpan
	children := map[string]bool{}
	for _, s := range spans.Ended() {
		if s.Name() == "inference" {
			whole = append(whole, s)
			continue
		}
		if len(whole) == 0 {
			children[s.Name()] = true
		}
	}
	if len(whole) != 2 {
		t.Fatalf("there are %d spans of requests", len(whole))
	}
	for _, name := range []string{"input", "queue", "compute", "output"} {
		if !children[name] && name != "queue" {
			t.Errorf("the phase %s is no span", name)
		}
	}
	for _, s := range spans.Ended() {
		if s.Parent().SpanID() == whole[0].SpanContext().SpanID() &&
			(s.StartTime().Before(whole[0].StartTime()) || s.EndTime().After(whole[0].EndTime())) {
			t.Errorf("the phase %s is not within its request", s.Name())
		}
	}
	has := attribute.NewSet(whole[0].Attributes()...)
	for key, want := range map[string]string{"weir.model": "digits", "weir.version": "1", "weir.rows": "3",
		"weir.request.bytes": "768", "weir.response.bytes": "120"} {
		if v, ok := has.Value(attribute.Key(key)); !ok || v.Emit() != want {
			t.Errorf("%s is %q, not %s", key, v.Emit(), want)
		}
	}
	has = attribute.NewSet(whole[1].Attributes()...)
	if v, _ := has.Value("error.type"); v.Emit() != "input" || whole[1].Parent().SpanID().String() != "0102030405060708" ||
		whole[1].SpanContext().TraceID().String() != "0102030405060708090a0b0c0d0e0f10" {
		t.Errorf("the failed request has the error %q and the parent %v", v.Emit(), whole[1].Parent())
	}
	for _, c := range []struct {
		set   string
		asked int
		more  int // spans
	}{{`{"trace_rate":"2"}`, 4, 2}, {`{"trace_rate":1,"trace_count":"3"}`, 5, 3}, {`{"trace_count":null}`, 2, 2},
		{`{"trace_level":["OFF"]}`, 3, 0}, {`{"trace_level":["TIMESTAMPS"]}`, 1, 1}} {
		if status, _, body := post(t, h.URL+"/v2/trace/setting", nil, []byte(c.set)); status != 200 {
			t.Fatalf("%s: status %d: %s", c.set, status, body)
		}
		count := func() (n int) {
			for _, s := range spans.Ended() {
				if s.Name() == "inference" {
					n++
				}
			}
			return n
		}
		before := count()
		for range c.asked {
			ask(t, h.URL, "digits", 1)
		}
		if got := count() - before; got != c.more {
			t.Errorf("%s: %d of %d requests are traced, not %d", c.set, got, c.asked, c.more)
		}
	}
	ok := 200
	for set, want := range map[string]int{`{"trace_rate":"0"}`: 400, `{"trace_rate":"x"}`: 400, `{"trace_file":"/etc/x"}`: 501,
		`{"trace_level":["TENSORS"]}`: 501, `{"nothing":"1"}`: 400, `{"trace_rate":{}}`: 400, `{"trace_rate":"7"}`: ok} {
		if status, _, body := post(t, h.URL+"/v2/models/digits/trace/setting", nil, []byte(set)); status != want {
			t.Errorf("%s: status %d: %s", set, status, body)
		}
	}
	for path, rate := range map[string]string{"/v2/trace/setting": "1", "/v2/models/digits/trace/setting": "7"} {
		var s struct {
			Level []string `json:"trace_level"`
			Rate  string   `json:"trace_rate"`
		}
		_, body := get(t, h.URL+path)
		if err := json.Unmarshal(body, &s); err != nil || s.Rate != rate || len(s.Level) != 1 || s.Level[0] != "TIMESTAMPS" {
			t.Errorf("%s: %v: %s", path, err, body)
		}
	}
	if status, _ := get(t, h.URL+"/v2/models/nope/trace/setting"); status != 404 {
		t.Errorf("of a model that is not there: status %d", status)
	}
}

// TestTracesOff: a server without a tracer says so, and refuses to trace.
func TestTracesOff(t *testing.T) {
	_, h := start(t, serve.Options{Folder: folder(t, map[string]string{"digits.onnx": digits})})
	if status, _, body := post(t, h.URL+"/v2/trace/setting", nil, []byte(`{"trace_level":["TIMESTAMPS"]}`)); status != 501 {
		t.Errorf("status %d: %s", status, body)
	}
	if status, _, body := post(t, h.URL+"/v2/trace/setting", nil, []byte(`{"trace_level":["OFF"]}`)); status != 200 {
		t.Errorf("status %d: %s", status, body)
	}
}
