package metrics

import (
	"context"
	"errors"
	"maps"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/weirml/weir"
)

// The attributes of a span. Each dimension of a run is one too: weir.dim. and its name.
const (
	ModelKey  = attribute.Key("weir.model")  // the name that Trace was given
	TargetKey = attribute.Key("weir.target") // what the program was compiled for
	BytesKey  = attribute.Key("weir.bytes")  // what the certificate says that the program and this one run take
	ErrorKey  = attribute.Key("error.type")  // of a run that failed: see ErrorKind
)

// Traced is a program whose runs are spans.
type Traced struct {
	*weir.Program
	model  string
	tracer trace.Tracer
}

// Trace returns a program whose Run makes a span. The model's name is the span's, after "weir.run", and its attribute.
// The program is as before, and the caller's to close.
func Trace(p *weir.Program, model string, tracer trace.Tracer) *Traced {
	return &Traced{Program: p, model: model, tracer: tracer}
}

// Run runs the program as Program.Run does, in a span that ends with the run: results that are open later are not in
// it. A run that fails has its error recorded, and the error's kind as the attribute error.type.
func (t *Traced) Run(ctx context.Context, in weir.Inputs) (*weir.Results, error) {
	ctx, span := t.tracer.Start(ctx, "weir.run "+t.model)
	defer span.End()
	if span.IsRecording() {
		span.SetAttributes(ModelKey.String(t.model), TargetKey.String(string(t.Target())))
		span.SetAttributes(t.sizes(in)...)
	}
	results, err := t.Program.Run(ctx, in)
	if err != nil {
		span.SetAttributes(ErrorKey.String(ErrorKind(err)))
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	return results, err
}

// sizes returns the dimensions that inputs bind, and the bytes of a run with these, if the program takes them.
func (t *Traced) sizes(in weir.Inputs) (list []attribute.KeyValue) {
	dims, err := t.Bind(in)
	if err != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(dims)) {
		list = append(list, attribute.Int64("weir.dim."+name, dims[name]))
	}
	if t.Check(dims) == nil {
		if bytes, err := t.Memory().Peak(1, dims); err == nil {
			list = append(list, BytesKey.Int64(bytes))
		}
	}
	return list
}

// ErrorKind returns the kind of a run's error, for metrics and spans: canceled, deadline, device lost, internal,
// closed, memory, budget, unsupported or input; other for an error that weir did not return.
func ErrorKind(err error) string {
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.name
		}
	}
	return "other"
}

// kinds are tried in this order: an error may be of two of them.
var kinds = []struct {
	err  error
	name string
}{
	{context.Canceled, "canceled"}, {context.DeadlineExceeded, "deadline"}, {weir.ErrDeviceLost, "device lost"},
	{weir.ErrInternal, "internal"}, {weir.ErrClosed, "closed"}, {weir.ErrMemory, "memory"}, {weir.ErrBudget, "budget"},
	{weir.ErrUnsupported, "unsupported"}, {weir.ErrInput, "input"},
}
