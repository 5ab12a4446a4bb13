package serve

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"

	"github.com/weirml/weir/serve/internal/oip"
)

// tracing decides which requests are traced.
type tracing struct {
	tracer trace.Tracer // nil: none are

	mu     sync.Mutex
	all    traceSettings
	models map[string]*traceSettings // of models with settings of their own
}

// traceSettings are Triton's trace settings, as far as they have a meaning.
type traceSettings struct {
	on    bool  // trace_level is TIMESTAMPS
	rate  int64 // one of so many requests is traced
	count int64 // so many more requests are traced; negative: all
	seen  int64
}

// initial returns the settings that a server starts with.
func (t *tracing) initial() traceSettings {
	return traceSettings{on: t.tracer != nil, rate: 1, count: -1}
}

// of returns the settings for a model, under the lock.
func (t *tracing) of(model string) *traceSettings {
	if own := t.models[model]; own != nil {
		return own
	}
	return &t.all
}

// sample reports whether a request is traced. Its client may ask for that by a parent that is sampled, whatever the
// rate.
func (t *tracing) sample(model string, parent trace.SpanContext) bool {
	if t.tracer == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.of(model)
	if !s.on || s.count == 0 {
		return false
	}
	s.seen++
	if !parent.IsSampled() && (s.seen-1)%s.rate != 0 {
		return false
	}
	if s.count > 0 {
		s.count--
	}
	return true
}

// settings returns the settings of a model, or of all if it is empty, as the protocol has them.
func (t *tracing) settings(model string) map[string][]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.of(model)
	level := map[bool]string{true: "TIMESTAMPS", false: "OFF"}[s.on]
	return map[string][]string{"trace_level": {level}, "trace_rate": {strconv.FormatInt(s.rate, 10)},
		"trace_count": {strconv.FormatInt(s.count, 10)}, "log_frequency": {"0"}, "trace_file": {""},
		"trace_mode": {"opentelemetry"}}
}

// set changes settings of a model, or of all if it is empty. A setting without values gets the value of all models, or
// that of the start. Nothing changes if there is an error.
func (t *tracing) set(model string, changes map[string][]string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	usual := t.initial()
	if model != "" {
		usual = t.all
	}
	s := *t.of(model)
	for name, values := range changes {
		if err := s.change(name, values, usual, t.tracer != nil); err != nil {
			return err
		}
	}
	s.seen = 0
	if model == "" {
		t.all = s
		return nil
	}
	if t.models = maps.Clone(t.models); t.models == nil {
		t.models = map[string]*traceSettings{}
	}
	t.models[model] = &s
	return nil
}

// change changes one setting.
func (s *traceSettings) change(name string, values []string, usual traceSettings, possible bool) error {
	text := strings.Join(values, ",")
	number := func(least int64) (int64, error) {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < least {
			return 0, oip.Errorf("trace setting %s is %q, and a number from %d is wanted", name, text, least)
		}
		return n, nil
	}
	var err error
	switch name {
	case "trace_level":
		switch {
		case len(values) == 0:
			s.on = usual.on
		case text == "OFF" || text == "":
			s.on = false
		case text != "TIMESTAMPS":
			return notSupported("trace level %q: it may be OFF or TIMESTAMPS", text)
		case !possible:
			return notSupported("traces: the server was started without a tracer")
		default:
			s.on = true
		}
	case "trace_rate":
		if s.rate = usual.rate; len(values) > 0 {
			s.rate, err = number(1)
		}
	case "trace_count":
		if s.count = usual.count; len(values) > 0 {
			s.count, err = number(-1)
		}
	case "trace_file", "log_frequency", "trace_mode":
		if text != "" && text != map[string]string{"log_frequency": "0", "trace_mode": "opentelemetry"}[name] {
			return notSupported("trace setting %s: spans go to the OpenTelemetry tracer of the server's start", name)
		}
	default:
		return oip.Errorf("there is no trace setting %q; there are trace_level, trace_rate and trace_count", name)
	}
	return err
}

// textSettings reads trace settings of JSON: texts, numbers, lists of texts, and null.
func textSettings(body map[string]any) (map[string][]string, error) {
	out := map[string][]string{}
	for name, value := range body {
		list, ok := value.([]any)
		if !ok && value != nil {
			list = []any{value}
		}
		out[name] = nil
		for _, v := range list {
			switch v := v.(type) {
			case string:
				out[name] = append(out[name], v)
			case float64:
				out[name] = append(out[name], strconv.FormatFloat(v, 'f', -1, 64))
			default:
				return nil, oip.Errorf("trace setting %q is %v", name, value)
			}
		}
	}
	return out, nil
}

// traceREST adds the calls about trace settings.
func traceREST(handle func(string, func(context.Context, *http.Request, any) (any, error)), api *service) {
	trace := func(ctx context.Context, r *http.Request, body any) (any, error) {
		request := &oip.TraceSettingRequest{ModelName: r.PathValue("model")}
		settings, err := textSettings(body.(map[string]any))
		if err != nil {
			return nil, err
		}
		request.Settings = map[string]*oip.TraceSettingRequest_SettingValue{}
		for name, values := range settings {
			request.Settings[name] = &oip.TraceSettingRequest_SettingValue{Value: values}
		}
		m, err := api.TraceSetting(ctx, request)
		if err != nil {
			return nil, err
		}
		all := map[string]any{}
		for name, v := range m.Settings {
			if all[name] = v.Value; name != "trace_level" {
				all[name] = strings.Join(v.Value, ",")
			}
		}
		return oip.AppendJSON(nil, all), nil
	}
	for _, at := range []string{"/v2/trace/setting", "/v2/models/{model}/trace/setting"} {
		handle("GET "+at, trace)
		handle("POST "+at, trace)
	}
}

// answer is infer, as a span if the request is traced. A failure is logged: at the level error if the server is to
// blame, else at the level debug.
func (x *exchange) answer(ctx context.Context, r *oip.Request) (*oip.Response, error) {
	s := x.server
	began := time.Now()
	parent := ctx
	if s.traces.tracer != nil && x.carrier != nil {
		parent = propagation.TraceContext{}.Extract(ctx, x.carrier)
	}
	var span trace.Span
	if s.traces.sample(r.Model, trace.SpanContextFromContext(parent)) {
		ctx, span = s.traces.tracer.Start(parent, "inference", trace.WithTimestamp(began),
			trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
	}
	response, err := x.infer(ctx, r)
	var f *failure
	if err != nil {
		f = failureOf(err)
		level := slog.LevelDebug
		if f.Kind == "internal" {
			level = slog.LevelError
		}
		s.log.Log(ctx, level, "request failed", "model", r.Model, "version", r.Version, "client", x.from, "id", r.ID,
			"kind", f.Kind, "took", time.Since(began), "error", f.Text)
	}
	if span != nil && span.IsRecording() {
		x.record(ctx, span, began, r, response, f)
	}
	return response, err
}

// record adds what is known of a request to its span: attributes, the phases as spans of their own, the error.
func (x *exchange) record(ctx context.Context, span trace.Span, began time.Time, r *oip.Request, response *oip.Response,
	f *failure) {
	span.SetAttributes(attribute.String("weir.model", label(r.Model)), attribute.Int("weir.rows", rowsOf(r)))
	bytes := 0
	for _, t := range r.Inputs {
		bytes += len(t.Data)
	}
	span.SetAttributes(attribute.Int("weir.request.bytes", bytes))
	at := began
	p := x.last.phases
	for _, phase := range []struct {
		name string
		took time.Duration
	}{{"input", p.Input}, {"queue", p.Queue}, {"compute", p.Infer}, {"output", p.Output}} {
		if phase.took > 0 {
			_, child := x.server.traces.tracer.Start(ctx, phase.name, trace.WithTimestamp(at))
			at = at.Add(phase.took)
			child.End(trace.WithTimestamp(at))
		}
	}
	if f != nil {
		span.SetAttributes(attribute.String("error.type", f.Kind))
		span.SetStatus(codes.Error, f.Text)
		return
	}
	bytes = 0
	for _, t := range response.Outputs {
		bytes += len(t.Data)
	}
	span.SetAttributes(attribute.String("weir.version", response.Version), attribute.Int("weir.response.bytes", bytes),
		attribute.Bool("weir.joined", x.last.joined))
}

// headers returns the carrier of a trace's parent in a call that grpc-go received.
func headers(ctx context.Context) propagation.TextMapCarrier {
	h := http.Header{}
	for _, name := range []string{"traceparent", "tracestate"} {
		for _, value := range metadata.ValueFromIncomingContext(ctx, name) {
			h.Add(name, value)
		}
	}
	return propagation.HeaderCarrier(h)
}
