package main

import (
	"context"
	"fmt"
	"net/url"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/weirml/weir/serve"
)

// trace makes the server's spans go to the collector of --otlp. The caller calls end, which sends those that are left.
func (s *settings) trace(ctx context.Context) (end func(context.Context) error, err error) {
	if s.otlp == "" {
		return func(context.Context) error { return nil }, nil
	}
	if u, err := url.Parse(s.otlp); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("--otlp is %q, and an address such as http://collector:4318/v1/traces is wanted", s.otlp)
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(s.otlp))
	if err != nil {
		return nil, fmt.Errorf("--otlp: %w", err)
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithSampler(sdk.AlwaysSample()),
		sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", "weir-serve"),
			attribute.String("service.version", serve.Version))))
	s.options.Tracer = provider.Tracer("github.com/weirml/weir/serve")
	return provider.Shutdown, nil
}
