// Command throughput measures the best division of the machine's cores into calls that run at once, and threads of
// each.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/nn"
)

// width is the number of elements of a row.
const width = 512

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cores := flag.Int("cores", runtime.GOMAXPROCS(0), "cores to divide")
	rows := flag.Int("rows", 32, "rows of a run")
	each := flag.Duration("time", time.Second, "how long to measure each division")
	flag.Parse()
	if err := run(ctx, os.Stdout, *cores, *rows, *each); err != nil {
		fmt.Fprintln(os.Stderr, "throughput:", err)
		os.Exit(1)
	}
}

// run prints a line for each division of the cores.
func run(ctx context.Context, w io.Writer, cores, rows int, each time.Duration) error {
	net := nn.Sequential(nn.Linear(width, 4*width), nn.Gelu, nn.Linear(4*width, width))
	params := nn.Init(net, 1)
	defer params.Close()
	var file bytes.Buffer
	if err := nn.WriteONNX(&file, net, params); err != nil {
		return err
	}
	model, err := weir.LoadBytes(file.Bytes())
	if err != nil {
		return err
	}
	defer model.Close()
	fmt.Fprintln(w, "calls  threads    rows/s  ms a run  certificate")
	for _, d := range divisions(cores) {
		if err := measure(ctx, w, model, d, rows, each); err != nil {
			return err
		}
	}
	return nil
}

// division is a number of calls at once, and the threads of each.
type division struct{ calls, threads int }

// divisions returns the divisions that use all cores, as far as possible: 1, 2, 4 … calls.
func divisions(cores int) (list []division) {
	for calls := 1; calls <= cores; calls *= 2 {
		list = append(list, division{calls, cores / calls})
	}
	return list
}

// measure runs the model with one division.
func measure(ctx context.Context, w io.Writer, model *weir.Model, d division, rows int, each time.Duration) error {
	program, err := weir.Compile(ctx, model, weir.Options{Calls: d.calls, Threads: d.threads,
		Dims: map[string]weir.Range{"batch": {Min: 1, Max: int64(rows)}}})
	if err != nil {
		return err
	}
	defer program.Close()
	certificate, err := program.Memory().Max(d.calls)
	if err != nil {
		return err
	}
	x, err := weir.FromSlice(make([]float32, rows*width), rows, width)
	if err != nil {
		return err
	}
	begin := time.Now()
	errs := make([]error, d.calls)
	var clients sync.WaitGroup
	for i := range errs {
		clients.Go(func() {
			for first := true; errs[i] == nil && (first || time.Since(begin) < each); first = false {
				results, err := program.Run(ctx, weir.Inputs{"x": x})
				if errs[i] = err; err == nil {
					errs[i] = results.Close()
				}
			}
		})
	}
	clients.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	seconds, s := time.Since(begin).Seconds(), program.Stats()
	_, err = fmt.Fprintf(w, "%5d  %7d  %8.0f  %8.2f  %d bytes\n", d.calls, d.threads,
		float64(s.Runs)*float64(rows)/seconds,
		s.Busy.Seconds()*1e3/float64(s.Runs), certificate)
	return err
}
