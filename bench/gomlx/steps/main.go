// Command steps times training steps of GoMLX's backend in Go on the models of bench/steps.py, built of GoMLX's own
// layers, loss and optimisers. It prints the same line as command bench/steps.
//
// Usage: steps MODEL SECONDS. It uses as many threads as the process has processors. Pictures have their channels last,
// as GoMLX does by default. On one processor the time of a step is processor time, which equals the clock's on an idle
// machine: some steps take so long that they cannot get real-time priority on a busy one.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gomlx/gomlx/backends/simplego"
	"github.com/gomlx/gomlx/pkg/core/dtypes"
	"github.com/gomlx/gomlx/pkg/core/graph"
	"github.com/gomlx/gomlx/pkg/core/shapes"
	"github.com/gomlx/gomlx/pkg/core/tensors"
	"github.com/gomlx/gomlx/pkg/ml/context"
	"github.com/gomlx/gomlx/pkg/ml/context/initializers"
	"github.com/gomlx/gomlx/pkg/ml/layers"
	"github.com/gomlx/gomlx/pkg/ml/layers/activations"
	"github.com/gomlx/gomlx/pkg/ml/layers/batchnorm"
	"github.com/gomlx/gomlx/pkg/ml/layers/lstm"
	"github.com/gomlx/gomlx/pkg/ml/train"
	"github.com/gomlx/gomlx/pkg/ml/train/losses"
	"github.com/gomlx/gomlx/pkg/ml/train/optimizers"
)

// model is a network with a batch: the network returns a row of classes for each label.
type model struct {
	net     func(ctx *context.Context, x *graph.Node) *graph.Node
	x       []int // the shape of the batch
	ids     int   // the number of ids in the batch; 0: the elements are numbers
	classes int
	labels  []int // the shape of the labels, whose last extent is 1
	sgd     bool  // instead of Adam
}

// models are the models of bench/steps.py.
var models = map[string]model{
	"step_mlp":         {net: perceptron, x: []int{64, 784}, classes: 10, labels: []int{64, 1}},
	"step_cnn":         {net: convolutions, x: []int{64, 28, 28, 1}, classes: 10, labels: []int{64, 1}},
	"step_transformer": {net: transformer, x: []int{8, 128}, ids: 96, classes: 96, labels: []int{8, 128, 1}},
	"step_lstm":        {net: recurrent, x: []int{64, 28, 28}, classes: 10, labels: []int{64, 1}},
	"step_embedding":   {net: table, x: []int{1024}, ids: 1_000_000, classes: 10, labels: []int{1024, 1}, sgd: true},
}

// perceptron returns the output of three dense layers.
func perceptron(ctx *context.Context, x *graph.Node) *graph.Node {
	h := activations.Relu(layers.Dense(ctx.In("a"), x, true, 256))
	h = activations.Relu(layers.Dense(ctx.In("b"), h, true, 128))
	return layers.Dense(ctx.In("c"), h, true, 10)
}

// convolutions returns the output of two convolutions and a dense layer.
func convolutions(ctx *context.Context, x *graph.Node) *graph.Node {
	block := func(ctx *context.Context, x *graph.Node, filters int) *graph.Node {
		h := layers.Convolution(ctx, x).Channels(filters).KernelSize(3).PadSame().Done()
		// The backend has no operators of batch normalization; without them the layer builds it of simpler nodes.
		h = batchnorm.New(ctx, h, -1).Epsilon(1e-5).Momentum(0.9).UseBackendInference(false).Done()
		return graph.MaxPool(activations.Relu(h)).Window(2).NoPadding().Done()
	}
	h := block(ctx.In("b"), block(ctx.In("a"), x, 32), 64)
	return layers.Dense(ctx.In("head"), graph.Reshape(h, h.Shape().Dim(0), -1), true, 10)
}

// transformer returns the output of a transformer's blocks.
func transformer(ctx *context.Context, x *graph.Node) *graph.Node {
	g := x.Graph()
	places := ctx.In("places").VariableWithShape("embeddings", shapes.Make(dtypes.Float32, 128, 256)).ValueGraph(g)
	h := layers.Embedding(ctx.In("tokens"), x, dtypes.Float32, 96, 256)
	h = graph.Add(h, graph.InsertAxes(places, 0))
	for i := range 2 {
		at := ctx.In(fmt.Sprintf("block %d", i))
		n := layers.LayerNormalization(at.In("first"), h, -1).Epsilon(1e-5).Done()
		h = graph.Add(h, layers.MultiHeadAttention(at, n, n, n, 4, 64).UseCausalMask().Done())
		n = layers.LayerNormalization(at.In("second"), h, -1).Epsilon(1e-5).Done()
		n = activations.Gelu(layers.Dense(at.In("up"), n, true, 1024))
		h = graph.Add(h, layers.Dense(at.In("down"), n, true, 256))
	}
	return layers.Dense(ctx.In("head"), h, true, 96)
}

// recurrent returns the output of a recurrent layer.
func recurrent(ctx *context.Context, x *graph.Node) *graph.Node {
	_, last, _ := lstm.New(ctx.In("lstm"), x, 128).Done()
	return layers.Dense(ctx.In("head"), graph.Squeeze(last, 0), true, 10)
}

func table(ctx *context.Context, x *graph.Node) *graph.Node {
	return layers.Dense(ctx.In("head"), layers.Embedding(ctx.In("table"), x, dtypes.Float32, 1_000_000, 64), true, 10)
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "steps:", err)
		os.Exit(1)
	}
}

// line is the printed line: times in ms, sizes in bytes.
type line struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	First  float64 `json:"first"`
	Peak   int64   `json:"peak"` // resident bytes of the process while it trains, minus those before
	Loss   float64 `json:"loss"`
	Last   float64 `json:"last"`
}

// run times one model's steps and prints the line.
func run(arguments []string) (err error) {
	defer func() {
		if r := recover(); r != nil { // GoMLX refuses a model by a panic
			text, _, _ := strings.Cut(fmt.Sprint(r), "\n")
			err = fmt.Errorf("%s", text)
		}
	}()
	if len(arguments) != 2 || models[arguments[0]].net == nil {
		return fmt.Errorf("usage: steps MODEL SECONDS")
	}
	seconds, err := strconv.ParseFloat(arguments[1], 64)
	if err != nil {
		return err
	}
	before, begin := resident("VmRSS:"), time.Now()
	m := models[arguments[0]]
	x, y := m.batch(rand.New(rand.NewSource(0)))
	settings := ""
	if runtime.NumCPU() == 1 {
		settings = "ops_sequential" // by default the transformer's step waits forever for a second worker
	}
	backend, err := simplego.New(settings)
	if err != nil {
		return err
	}
	ctx := context.New()
	ctx = ctx.WithInitializer(initializers.GlorotUniformFn(ctx))
	optimiser := optimizers.Interface(optimizers.Adam().LearningRate(1e-3).Epsilon(1e-8).Done())
	if m.sgd {
		optimiser = optimizers.StochasticGradientDescent().WithLearningRate(1e-3).WithDecay(false).Done()
	}
	net := func(ctx *context.Context, _ any, in []*graph.Node) []*graph.Node {
		return []*graph.Node{m.net(ctx, in[0])}
	}
	trainer := train.NewTrainer(backend, ctx, net, losses.SparseCategoricalCrossEntropyLogits, optimiser, nil, nil)
	step := func() (loss float64, err error) {
		out, err := trainer.TrainStep(nil, []*tensors.Tensor{x}, []*tensors.Tensor{y})
		if err != nil {
			return 0, err
		}
		loss = float64(tensors.ToScalar[float32](out[0]))
		for _, t := range out {
			t.FinalizeAll()
		}
		return loss, nil
	}
	l, err := measure(step, begin, before, seconds)
	if err != nil {
		text, _, _ := strings.Cut(err.Error(), "\n")
		return fmt.Errorf("%s", text)
	}
	return json.NewEncoder(os.Stdout).Encode(l)
}

// batch draws the inputs and the labels.
func (m model) batch(r *rand.Rand) (x, y *tensors.Tensor) {
	if m.ids > 0 {
		x = tensors.FromFlatDataAndDimensions(draw(r, m.ids, m.x), m.x...)
	} else {
		data := make([]float32, product(m.x))
		for i := range data {
			data[i] = float32(r.NormFloat64())
		}
		x = tensors.FromFlatDataAndDimensions(data, m.x...)
	}
	return x, tensors.FromFlatDataAndDimensions(draw(r, m.classes, m.labels), m.labels...)
}

// draw returns random ids.
func draw(r *rand.Rand, below int, shape []int) []int64 {
	data := make([]int64, product(shape))
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

// measure makes steps on one batch for so many seconds, and at least three, after five steps, or as many seconds, of
// warm-up.
func measure(step func() (float64, error), begin time.Time, before int64, seconds float64) (l line, err error) {
	if l.Loss, err = step(); err != nil {
		return l, err
	}
	l.First = ms(time.Since(begin))
	length := time.Duration(seconds * 1e9)
	for range 5 {
		if _, err := step(); err != nil {
			return l, err
		}
		if time.Since(begin) > length {
			break
		}
	}
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o600)
	var times []float64
	for stop := time.Now().Add(length); time.Now().Before(stop) || len(times) < 3; {
		begin := now()
		if l.Last, err = step(); err != nil {
			return l, err
		}
		times = append(times, ms(now()-begin))
	}
	slices.Sort(times)
	l.Min, l.Median, l.Peak = times[0], times[len(times)/2], resident("VmHWM:")-before
	return l, nil
}

// now returns the clock's time or, on one processor, the time of the process.
func now() time.Duration {
	var used syscall.Rusage
	if runtime.NumCPU() > 1 || syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return time.Since(start)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

var start = time.Now()

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

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
