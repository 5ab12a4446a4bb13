package command

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirml/weir/internal/diag"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/values"
)

// benchFlags are the flags of bench.
type benchFlags struct {
	modelFlags
	inputFlags
	seconds float64
	profile bool
	pauses  bool
}

// benchCommand makes the command bench.
func (c *cli) benchCommand() *cobra.Command {
	f := &benchFlags{}
	cmd := &cobra.Command{
		Use: "bench MODEL", Short: "Measure a model's speed and memory", Args: exactly(1, "one MODEL"),
		Long: `Measure a model's speed and memory.

Latency is of one run at a time, throughput of --calls runs at once. Speeds are printed beside those of a probe in the same process: f32 multiply-adds in registers, and
reads from each level of the memory. --profile prints a row for each kernel: its time, its useful arithmetic, which is the arithmetic that the results need,
the arithmetic that it performs, and its share of the probe's speed, in arithmetic performed or in reads, whichever share is larger. It gives reasons for each kernel that takes more than 2 % of the run and
reaches less than half of the probe's speed. With several threads, it also compiles the model for one thread, and lists the kernels that lose most of what further threads
could gain, each with the reason.

--pauses instead measures how long others wait for the model's runs: how long Go's garbage collector takes to stop all goroutines, with one collection after the other, and
how long a run continues after it is cancelled, at random times.`,
		Example: `  weir bench model.onnx
  weir bench model.onnx --profile --threads 1
  weir bench model.onnx --pauses
  weir bench model.onnx --dim batch=32 --calls 4 --seconds 5 --json`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.bench(cmd.Context(), args[0]) },
	}
	f.modelFlags.register(cmd, c)
	f.inputFlags.register(cmd)
	seconds := from(&f.seconds, 0, 2)
	seconds.above = true
	cmd.Flags().Var(seconds, "seconds", "how long to measure")
	cmd.Flags().BoolVar(&f.profile, "profile", false, "add a row for each launch of a kernel")
	cmd.Flags().BoolVar(&f.pauses, "pauses", false, "measure how long garbage collections and cancellations wait for runs")
	return cmd
}

type latency struct {
	Min float64 `json:"min"`
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
}

// measured is the JSON output of bench.
type measured struct {
	Latency    latency `json:"latency_ms"`
	Throughput float64 `json:"throughput_per_s"`
	Operations int64   `json:"operations"`
	GFLOPs     float64 `json:"gflops"`
	PeakShare  float64 `json:"peak_share"`
	Moved      int64   `json:"moved_bytes"`
	MovedRate  float64 `json:"moved_gb_per_s"`
	Predicted  int64   `json:"predicted_bytes"`
	Measured   int64   `json:"measured_bytes"`
	// Of a device's memory, as requested from its driver; absent if the program has no device.
	DevicePredicted int64 `json:"device_predicted_bytes,omitempty"`
	DeviceMeasured  int64 `json:"device_measured_bytes,omitempty"`
	Process         int64 `json:"process_bytes"`
	// the part of a peak like process_bytes' without a file behind it
	Anonymous int64            `json:"process_anonymous_bytes"`
	Compile   float64          `json:"compile_ms"`
	Load      float64          `json:"load_ms"`
	First     float64          `json:"first_ms"`
	Threads   int              `json:"threads"`
	Calls     int              `json:"calls"`
	Precision string           `json:"precision"`
	CPU       string           `json:"cpu"`
	Target    string           `json:"target"`
	Dims      map[string]int64 `json:"dims"`
	Runs      int              `json:"runs"`
	Probe     weir.Roofline    `json:"probe"`
	Processor string           `json:"processor"`
	Features  []string         `json:"features"`
	Caches    [3]int64         `json:"cache_bytes"`
	Profile   []row            `json:"profile,omitempty"`
	// OneThread is the least latency of a program for one thread; with a profile of several threads.
	OneThread float64 `json:"one_thread_ms,omitempty"`
}

// bench compiles the model at path, measures it and prints the results.
func (f *benchFlags) bench(ctx context.Context, path string) error {
	peak := values.ProcessPeak()
	defer peak()
	l, dims, err := f.compile(ctx, path, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	p := l.program
	in, err := f.inputFlags.read(p, dims, true, takeFree)
	if err != nil {
		return err
	}
	if f.pauses {
		m, err := f.measurePauses(ctx, p, in)
		if err == nil && f.c.json {
			return f.c.printJSON(m)
		} else if err == nil {
			m.print()
		}
		return err
	}
	here := weir.HostProcessor()
	m := measured{Compile: ms(l.compileTime), Load: ms(l.load), Calls: f.calls, Precision: f.precision, CPU: p.CPU(),
		Target: string(p.Target()), Dims: dims, Threads: p.Memory().Workers, Processor: here.Name, Features: here.Features,
		Caches: here.Cache}
	begin := time.Now()
	r, err := p.Run(ctx, in)
	if err != nil {
		return err
	}
	r.Close()
	m.First = ms(time.Since(begin))
	m.Process, m.Anonymous = peak()
	if dims, err = p.Bind(in); err != nil { // with the dimensions that elements of inputs decide
		return err
	}
	if err := f.time(ctx, p, in, dims, &m); err != nil {
		return err
	}
	seen, err := p.Measure(ctx, in)
	if err != nil {
		return err
	}
	m.Dims = maps.Clone(dims)
	for _, d := range p.Decided() {
		m.Dims[d.Name] = seen.Decided[d.Name]
	}
	if m.Predicted, err = p.Memory().Peak(f.calls, m.Dims); err != nil {
		return err
	}
	m.Measured = seen.Peak(f.calls)
	if d := p.Memory().Device; d != nil {
		if m.DevicePredicted, err = d.Formula(f.calls).At(dims); err != nil {
			return err
		}
		m.DeviceMeasured = seen.DeviceWeights + int64(f.calls)*seen.DeviceCall
	}
	level := m.CPU
	if p.Target() == weir.Vulkan {
		level = "" // the level of the processor beside the device
	}
	if m.Probe, err = weir.Probe(level, m.Threads); err != nil {
		return err
	}
	if err := f.speed(ctx, p, in, &m); err != nil {
		return err
	}
	if f.profile && m.Threads > 1 && p.Target() != weir.Vulkan {
		if err := f.oneThread(ctx, path, in, dims, &m); err != nil {
			return err
		}
	}
	if f.c.json {
		return f.c.printJSON(m)
	}
	m.print()
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// time measures the latency of single runs, and the throughput of as many concurrent runs as there are calls.
func (f *benchFlags) time(ctx context.Context, p *weir.Program, in weir.Inputs, dims weir.Dims, m *measured) error {
	length := time.Duration(f.seconds * float64(time.Second))
	run, end := runner(ctx, p, in, dims)
	defer end()
	for range 2 { // the first run touched its memory for the first time
		if err := run(); err != nil {
			return err
		}
	}
	begin := time.Now()
	all, err := repeat(run, begin.Add(length))
	if err != nil {
		return err
	}
	m.Throughput = float64(len(all)) / time.Since(begin).Seconds()
	slices.Sort(all)
	at := func(q float64) float64 { return all[min(len(all)-1, int(q*float64(len(all))))] }
	m.Latency, m.Runs = latency{all[0], at(0.5), at(0.9), at(0.99)}, len(all)
	end()
	if f.calls == 1 {
		return nil
	}
	var group diag.Group
	counts := make([]int, f.calls)
	own := slices.Repeat([]weir.Inputs{in}, f.calls)
	if len(p.States()) > 0 { // one run at a time updates a state
		for i := range own {
			if own[i], err = f.inputFlags.read(p, dims, true, takeFree); err != nil {
				return err
			}
		}
	}
	begin = time.Now()
	for i := range f.calls {
		group.Go("running", func() error {
			run, end := runner(ctx, p, own[i], dims)
			defer end()
			all, err := repeat(run, begin.Add(length))
			counts[i] = len(all)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	total := 0
	for _, n := range counts {
		total += n
	}
	m.Throughput = float64(total) / time.Since(begin).Seconds()
	return nil
}

// runner returns a function that runs the program on the same inputs, through a bound call if the program has calls,
// and a function that releases it.
func runner(ctx context.Context, p *weir.Program, in weir.Inputs, dims weir.Dims) (run func() error, end func()) {
	if call, err := p.NewCall(dims); err == nil {
		for name, a := range in {
			if err = call.Bind(name, a); err != nil {
				break
			}
		}
		if err == nil {
			return func() error { return call.Run(ctx) }, func() { call.Close() }
		}
		call.Close()
	}
	return func() error {
		r, err := p.Run(ctx, in)
		if err != nil {
			return err
		}
		return r.Close()
	}, func() {}
}

// repeat runs until the time then, at least three times, and returns the times in milliseconds.
func repeat(run func() error, then time.Time) (all []float64, err error) {
	for begin := time.Now(); len(all) < 3 || begin.Before(then); {
		if err := run(); err != nil {
			return nil, err
		}
		now := time.Now()
		all = append(all, ms(now.Sub(begin)))
		begin = now
	}
	return all, nil
}

// speed compares a run's operations and bytes with its time and the probe.
func (f *benchFlags) speed(ctx context.Context, p *weir.Program, in weir.Inputs, m *measured) error {
	runs := 1
	if f.profile {
		runs = max(3, min(50, int(f.seconds*1000/m.Latency.P50)))
	}
	list, err := p.Profile(ctx, in, runs)
	if err != nil {
		return err
	}
	for _, k := range list {
		m.Operations += k.Operations * int64(k.Count)
		m.Moved += k.Bytes * int64(k.Count)
	}
	if m.Latency.P50 > 0 {
		m.GFLOPs = float64(m.Operations) / m.Latency.P50 / 1e6
		m.MovedRate = float64(m.Moved) / m.Latency.P50 / 1e6
		m.PeakShare = m.GFLOPs / m.Probe.All
	}
	if f.profile {
		m.Profile = rows(list, m.Probe)
	}
	return nil
}

// oneThread measures the model again, compiled for one thread. An artefact stays for its threads, and is not measured.
func (f *benchFlags) oneThread(ctx context.Context, path string, in weir.Inputs, dims weir.Dims, m *measured) error {
	one := f.modelFlags
	one.threads = 1
	l, _, err := one.compile(ctx, path, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	if l.program.Memory().Workers > 1 {
		return nil
	}
	own := measured{}
	g := *f
	g.calls, g.seconds = 1, f.seconds/2
	if len(l.program.States()) > 0 {
		if in, err = f.inputFlags.read(l.program, dims, true, takeFree); err != nil {
			return err
		}
	}
	if err := g.time(ctx, l.program, in, dims, &own); err != nil {
		return err
	}
	m.OneThread = own.Latency.Min
	list, err := l.program.Profile(ctx, in, max(3, min(50, int(g.seconds*1000/own.Latency.P50))))
	if err != nil {
		return err
	}
	addOneThread(m.Profile, list)
	return nil
}

// reports is the page for reports of users.
const reports = "https://github.com/weirml/weir/issues"

// print prints the results for a person.
func (m *measured) print() {
	stdout.Printf("latency        min %.3f  p50 %.3f  p90 %.3f  p99 %.3f ms over %d runs\n", m.Latency.Min, m.Latency.P50,
		m.Latency.P90, m.Latency.P99, m.Runs)
	stdout.Printf("throughput     %.1f runs/s with %d calls, %d threads\n", m.Throughput, m.Calls, m.Threads)
	stdout.Printf("speed          %.2f GFLOP/s, %.0f %% of the probe's %.2f; %s moved, %.2f GB/s\n", m.GFLOPs,
		100*m.PeakShare, m.Probe.All, values.FormatBytes(m.Moved), m.MovedRate)
	stdout.Printf("probe          %.1f GFLOP/s on one core, %.1f on %d threads (%s); reads", m.Probe.Core, m.Probe.All,
		m.Probe.Threads, m.Probe.CPU)
	for _, r := range m.Probe.Memory {
		stdout.Printf("  %s %.0f", values.FormatBytes(r.Range), r.All)
	}
	stdout.Println(" GB/s")
	stdout.Printf("memory         predicted %d, measured %d bytes (%s)\n", m.Predicted, m.Measured,
		values.FormatBytes(m.Measured))
	if m.DevicePredicted > 0 {
		stdout.Printf("the device's   predicted %d, asked of its driver %d bytes (%s)\n", m.DevicePredicted, m.DeviceMeasured,
			values.FormatBytes(m.DeviceMeasured))
	}
	stdout.Printf("process        %s above what it had before loading; files apart, %s\n", values.FormatBytes(m.Process),
		values.FormatBytes(m.Anonymous))
	stdout.Printf("time           load %.1f, compile %.1f, first run %.1f ms\n", m.Load, m.Compile, m.First)
	stdout.Printf("target         %s for %s\n", m.Target, m.CPU)
	stdout.Printf("processor      %s; %s; %s; %s, weir %s\n", m.Processor, strings.Join(m.Features, " "),
		caches(m.Caches), runtime.GOOS, version())
	if m.Profile != nil {
		printRows(m.Profile)
		if m.OneThread > 0 {
			printThreads(m.Profile, m.OneThread, m.Latency.Min, m.Threads)
		}
	}
	if runtime.GOARCH == "arm64" {
		stdout.Printf("\nCode for arm64 has not been measured on hardware. Please send this text, best with --profile, to\n")
		stdout.Println(reports)
	}
}
