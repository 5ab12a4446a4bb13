package main

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/values"
)

// benchFlags are bench's own.
type benchFlags struct {
	modelFlags
	inputFlags
	seconds float64
}

func (c *cli) benchCommand() *cobra.Command {
	f := &benchFlags{}
	cmd := &cobra.Command{
		Use: "bench MODEL", Short: "Measure how fast a model runs, and what memory it takes", Args: exactly(1, "one MODEL"),
		Example: `  weir bench model.onnx
  weir bench model.onnx --dim batch=32 --calls 4 --seconds 5 --json`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.bench(cmd.Context(), args[0]) },
	}
	f.modelFlags.register(cmd, c)
	f.inputFlags.register(cmd)
	cmd.Flags().Float64Var(&f.seconds, "seconds", 2, "how long to measure")
	return cmd
}

type latency struct {
	Min float64 `json:"min"`
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
}

// measured is what bench prints as JSON.
type measured struct {
	Latency    latency          `json:"latency_ms"`
	Throughput float64          `json:"throughput_per_s"`
	GFLOPs     float64          `json:"gflops"`
	PeakShare  float64          `json:"peak_share"`
	Predicted  int64            `json:"predicted_bytes"`
	Measured   int64            `json:"measured_bytes"`
	Process    int64            `json:"process_bytes"`
	Compile    float64          `json:"compile_ms"`
	Load       float64          `json:"load_ms"`
	First      float64          `json:"first_ms"`
	Threads    int              `json:"threads"`
	Calls      int              `json:"calls"`
	Precision  string           `json:"precision"`
	CPU        string           `json:"cpu"`
	Target     string           `json:"target"`
	Dims       map[string]int64 `json:"dims"`
	Runs       int              `json:"runs"`
	Probe      float64          `json:"probe_gflops"`
}

func (f *benchFlags) bench(ctx context.Context, path string) error {
	peak := values.ProcessPeak()
	l, dims, err := f.compile(ctx, path, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	in, err := f.inputFlags.read(l.program, dims, true)
	if err != nil {
		return err
	}
	m := measured{Compile: ms(l.compileTime), Load: ms(l.load), Calls: f.calls, Precision: "f32", CPU: runtime.GOARCH, Target: string(l.program.Target()), Dims: dims, Threads: l.program.Memory().Workers}
	begin := time.Now()
	r, err := l.program.Run(ctx, in)
	if err != nil {
		return err
	}
	r.Close()
	m.First = ms(time.Since(begin))
	m.Process = peak()
	if err := f.measure(ctx, l, in, &m); err != nil {
		return err
	}
	seen, err := l.program.Measure(ctx, in)
	if err != nil {
		return err
	}
	if dims, err = l.program.Bind(in); err != nil { // with those that elements of inputs are
		return err
	}
	m.Dims = maps.Clone(dims)
	for _, d := range l.program.Decided() {
		m.Dims[d.Name] = seen.Decided[d.Name]
	}
	if m.Predicted, err = l.program.Memory().Peak(f.calls, m.Dims); err != nil {
		return err
	}
	m.Measured = seen.Peak(f.calls)
	m.Probe = weir.Probe() * float64(min(m.Threads, runtime.GOMAXPROCS(0)))
	if ops, err := l.program.Operations().At(dims); err == nil && m.Latency.P50 > 0 {
		m.GFLOPs = float64(ops) / m.Latency.P50 / 1e6
		m.PeakShare = m.GFLOPs / m.Probe
	}
	if f.c.json {
		return f.c.printJSON(m)
	}
	m.print()
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// measure runs the model for the given time on so many goroutines as there are calls.
func (f *benchFlags) measure(ctx context.Context, l *loaded, in weir.Inputs, m *measured) error {
	var mu sync.Mutex
	var all []float64
	var failed error
	var wait sync.WaitGroup
	begin := time.Now()
	end := begin.Add(time.Duration(f.seconds * float64(time.Second)))
	for range f.calls {
		wait.Go(func() {
			for runs := 0; runs < 3 || time.Now().Before(end); runs++ {
				start := time.Now()
				r, err := l.program.Run(ctx, in)
				took := ms(time.Since(start))
				if err == nil {
					err = r.Close()
				}
				mu.Lock()
				all = append(all, took)
				if err != nil {
					failed = err
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wait.Wait()
	if failed != nil {
		return failed
	}
	m.Throughput = float64(len(all)) / time.Since(begin).Seconds()
	slices.Sort(all)
	at := func(q float64) float64 { return all[min(len(all)-1, int(q*float64(len(all))))] }
	m.Latency, m.Runs = latency{all[0], at(0.5), at(0.9), at(0.99)}, len(all)
	return nil
}

func (m *measured) print() {
	fmt.Printf("latency        min %.3f  p50 %.3f  p90 %.3f  p99 %.3f ms over %d runs\n", m.Latency.Min, m.Latency.P50, m.Latency.P90, m.Latency.P99, m.Runs)
	fmt.Printf("throughput     %.1f runs/s with %d calls, %d threads\n", m.Throughput, m.Calls, m.Threads)
	fmt.Printf("speed          %.2f GFLOP/s, %.0f %% of the %.2f that this target's own probe reached\n", m.GFLOPs, 100*m.PeakShare, m.Probe)
	fmt.Printf("memory         predicted %d, measured %d bytes (%s)\n", m.Predicted, m.Measured, values.FormatBytes(m.Measured))
	fmt.Printf("process        %s above what it had before loading\n", values.FormatBytes(m.Process))
	fmt.Printf("time           load %.1f, compile %.1f, first run %.1f ms\n", m.Load, m.Compile, m.First)
	fmt.Printf("target         %s on %s\n", m.Target, m.CPU)
}
