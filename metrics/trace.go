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
	TargetKey = attribute.Key("weir.target") // the target that the program was compiled for
	BytesKey  = attribute.Key("weir.bytes")  // the certificate's bytes for the program and this one run
	ErrorKey  = attribute.Key("error.type")  // the ErrorKind of a run that failed
)

// Traced is a program whose runs are spans.
type Traced struct {
	*weir.Program
	model  string
	tracer trace.Tracer
}

// Trace returns a program whose Run makes a span. The span's name is "weir.run" and the model's name, which is an
// attribute too. The caller still closes the program.
func Trace(p *weir.Program, model string, tracer trace.Tracer) *Traced {
	return &Traced{Program: p, model: model, tracer: tracer}
}

// Run runs the program as Program.Run does, in a span. The span ends when Run returns, even if the results stay open.
// If the run fails, the span records the error and has its kind as the attribute error.type.
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

// sizes returns the dimensions that inputs bind and, if the program accepts them, the bytes of a run with them.
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

// kinds are in the order in which ErrorKind tries them; an error may be of two kinds.
var kinds = []struct {
	err  error
	name string
}{
	{context.Canceled, "canceled"}, {context.DeadlineExceeded, "deadline"}, {weir.ErrDeviceLost, "device lost"},
	{weir.ErrInternal, "internal"}, {weir.ErrClosed, "closed"}, {weir.ErrMemory, "memory"}, {weir.ErrBudget, "budget"},
	{weir.ErrUnsupported, "unsupported"}, {weir.ErrInput, "input"},
}
