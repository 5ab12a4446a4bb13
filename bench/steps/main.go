// Command steps times training steps of Weir on the models of bench/steps.py. It prints one JSON line as bench/steps.py
// does, with the bytes of the certificate and of the states.
//
// Usage: steps MODEL SECONDS [BUDGET [FILE]]. It uses GOMAXPROCS threads. BUDGET is the largest number of bytes that a
// step may take besides its states, for batches up to this one's size; 0: no limit. The step is written to FILE as an
// artefact, for weir plan and weir bench --profile.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/nn"
	"github.com/weirml/weir/train"
)

// model is a network with its optimiser and a batch.
type model struct {
	net       nn.Layer
	optimiser train.Optimiser
	x         func(s *array.Scope, r *rand.Rand) *array.Array
	labels    int // of the batch, each below classes
	classes   int
	shape     []int // of the labels
}

// models are the models of bench/steps.py.
var models = map[string]func() model{
	"step_mlp": func() model {
		net := nn.Sequential(nn.Linear(784, 256), nn.Relu, nn.Linear(256, 128), nn.Relu, nn.Linear(128, 10))
		return model{net, train.Adam(1e-3), normal(64, 784), 64, 10, []int{64}}
	},
	"step_cnn": func() model {
		net := nn.Sequential(nn.Conv2d(1, 32, 3, nn.Padding(1)), nn.BatchNorm(32), nn.Relu, nn.MaxPool2d(2),
			nn.Conv2d(32, 64, 3, nn.Padding(1)), nn.BatchNorm(64), nn.Relu, nn.MaxPool2d(2), nn.Flatten(1), nn.Linear(64*49, 10))
		return model{net, train.Adam(1e-3), normal(64, 1, 28, 28), 64, 10, []int{64}}
	},
	"step_transformer": func() model {
		block := func() nn.Layer {
			return nn.TransformerEncoderLayer(256, 4, 1024, nn.NormFirst, nn.Causal, nn.Activation(nn.Gelu))
		}
		net := nn.Sequential(nn.Embedding(96, 256), nn.Positions(128, 256), block(), block(), nn.Linear(256, 96))
		return model{net, train.Adam(1e-3), ids(96, 8, 128), 8 * 128, 96, []int{8, 128}}
	},
	"step_lstm": func() model {
		last := nn.Lambda(func(c *nn.Context, x *array.Array) *array.Array { return c.Split(x, 1, 27, 1)[1] })
		return model{nn.Sequential(nn.LSTM(28, 128), last, nn.Flatten(1), nn.Linear(128, 10)), train.Adam(1e-3),
			normal(64, 28, 28), 64, 10, []int{64}}
	},
	"step_embedding": func() model {
		net := nn.Sequential(nn.Embedding(1_000_000, 64), nn.Linear(64, 10))
		return model{net, train.SGD(1e-3), ids(1_000_000, 1024), 1024, 10, []int{1024}}
	},
}

// normal returns a function that draws normal numbers.
func normal(shape ...int) func(s *array.Scope, r *rand.Rand) *array.Array {
	return func(s *array.Scope, r *rand.Rand) *array.Array {
		data := make([]float32, product(shape))
		for i := range data {
			data[i] = float32(r.NormFloat64())
		}
		return array.From(s, data, shape...)
	}
}

// ids returns a function that draws ids.
func ids(below int, shape ...int) func(s *array.Scope, r *rand.Rand) *array.Array {
	return func(s *array.Scope, r *rand.Rand) *array.Array {
		return array.From(s, draw(r, below, product(shape)), shape...)
	}
}

// draw returns count random ids.
func draw(r *rand.Rand, below, count int) []int64 {
	data := make([]int64, count)
	for i := range data {
		data[i] = int64(r.Intn(below))
	}
	return data
}

// product returns the number of elements of a shape.
func product(shape []int) int {
	n := 1
	for _, e := range shape {
		n *= e
	}
	return n
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "steps:", err)
		os.Exit(1)
	}
}

// line is the printed line: times in ms, sizes in bytes.
type line struct {
	Min         float64 `json:"min"`
	Median      float64 `json:"median"`
	First       float64 `json:"first"`
	Peak        int64   `json:"peak"`        // resident bytes of the process while it trains, minus those before
	Certificate int64   `json:"certificate"` // the step's certificate, and its states
	States      int64   `json:"states"`      // parameters, buffers, and the optimiser's slots
	Loss        float64 `json:"loss"`
	Last        float64 `json:"last"`
	Allocated   float64 `json:"allocated"` // allocations in Go's heap for each step
}

// run times one model's steps and prints the line.
func run(arguments []string) (err error) {
	if len(arguments) < 2 || len(arguments) > 4 || models[arguments[0]] == nil {
		return fmt.Errorf("usage: steps MODEL SECONDS [BUDGET [FILE]]")
	}
	seconds, err := strconv.ParseFloat(arguments[1], 64)
	if err != nil {
		return err
	}
	budget := int64(0)
	if len(arguments) > 2 {
		if budget, err = strconv.ParseInt(arguments[2], 10, 64); err != nil {
			return err
		}
	}
	before, begin := resident("VmRSS:"), time.Now()
	m := models[arguments[0]]()
	r := rand.New(rand.NewSource(0))
	s := array.NewScope("batch")
	defer func() { err = errors.Join(err, s.Close()) }()
	batch := train.Batch{X: m.x(s, r), Y: array.From(s, draw(r, m.classes, m.labels), m.shape...)}
	params := nn.Init(m.net, 7)
	defer params.Close()
	o := train.Options{Threads: runtime.GOMAXPROCS(0), Budget: budget}
	if budget > 0 {
		o.Compile.Dims = map[string]weir.Range{"batch": {Min: 1, Max: int64(batch.X.Dim(0))}}
	}
	t, err := train.New(m.net, params, train.CrossEntropy, m.optimiser, o)
	if err != nil {
		return err
	}
	defer t.Close()
	l, err := measure(t, batch, begin, before, seconds)
	if err != nil {
		return err
	}
	if len(arguments) > 3 {
		if err := write(t.Program(), arguments[3]); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(l)
}

// write writes a program's artefact to a file.
func write(p *weir.Program, name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = p.WriteTo(f)
	return errors.Join(err, f.Close())
}

// measure makes steps on one batch for so many seconds.
func measure(t *train.Trainer, batch train.Batch, begin time.Time, before int64, seconds float64) (l line, err error) {
	ctx := context.Background()
	m, err := t.Step(ctx, batch)
	if err != nil {
		return l, err
	}
	l.First, l.Loss = ms(time.Since(begin)), m.Loss
	for range 5 {
		if _, err := t.Step(ctx, batch); err != nil {
			return l, err
		}
	}
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o600)
	var start, end runtime.MemStats
	times := make([]float64, 0, 1<<20)
	runtime.ReadMemStats(&start)
	for stop := time.Now().Add(time.Duration(seconds * 1e9)); time.Now().Before(stop) || len(times) < 10; {
		begin := time.Now()
		if m, err = t.Step(ctx, batch); err != nil {
			return l, err
		}
		times = append(times, ms(time.Since(begin)))
	}
	runtime.ReadMemStats(&end)
	l.Allocated = float64(end.Mallocs-start.Mallocs) / float64(len(times))
	slices.Sort(times)
	l.Min, l.Median, l.Last, l.Peak = times[0], times[len(times)/2], m.Loss, resident("VmHWM:")-before
	dims := weir.Dims{"batch": int64(batch.X.Dim(0))}
	l.States = t.StateBytes()
	l.Certificate, err = t.Peak(dims)
	return l, err
}

func ms(d time.Duration) float64 { return math.Round(float64(d.Nanoseconds())/10) / 1e5 }

// resident returns a size of the process in bytes from the system's status; 0 if it has none.
func resident(field string) (size int64) {
	status, _ := os.ReadFile("/proc/self/status")
	for _, line := range bytes.Split(status, []byte("\n")) {
		if rest, ok := bytes.CutPrefix(line, []byte(field)); ok {
			fmt.Sscan(string(rest), &size)
		}
	}
	return size * 1024
}
