package metrics_test

import (
	"context"
	"fmt"
	"log"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/weirml/weir"
	"github.com/weirml/weir/metrics"
)

// A program's counters are in a registry, and its runs are spans.
func Example() {
	model, err := weir.LoadBytes([]byte("weir 1\nir @m {\n  dim batch in [1, 32]\n  main @main(%x: f32[batch, 2]) {\n" +
		"    %y: f32[batch, 2] = neg(%x)\n    return %y\n  }\n}\n"))
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	program, err := weir.Compile(context.Background(), model, weir.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer program.Close()

	collector := metrics.NewCollector()
	if err := collector.Add("negation", program); err != nil {
		log.Fatal(err)
	}
	defer collector.Remove("negation")
	registry := prometheus.NewRegistry() // served by promhttp.HandlerFor
	registry.MustRegister(collector)

	traced := metrics.Trace(program, "negation", noop.NewTracerProvider().Tracer("service"))
	x, err := weir.FromSlice([]float32{1, 2}, 1, 2)
	if err != nil {
		log.Fatal(err)
	}
	results, err := traced.Run(context.Background(), weir.Inputs{"x": x})
	if err != nil {
		log.Fatal(err)
	}
	defer results.Close()

	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "weir_program_runs_total" {
			fmt.Println(f.GetName(), f.GetMetric()[0].GetCounter().GetValue())
		}
	}
	// Output:
	// weir_program_runs_total 1
}
