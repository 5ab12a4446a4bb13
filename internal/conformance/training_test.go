package conformance

import (
	"fmt"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/values"
)

// Optimiser is the rule by which a training step changes its parameters.
type Optimiser int

// The optimisers.
const (
	SGD Optimiser = iota
	Adam
)

// trainingStep builds a module that computes a loss and, from the loss's derivatives, the new values of its parameters,
// which are states.
type trainingStep struct {
	*ir.Builder
	module *ir.Module
	params []*ir.Value
	states []*ir.Value // besides the parameters, each before its new value
}

// newTrainingStep begins a module whose sizes may be named n.
func newTrainingStep(name string, sizes ...sym.Expr) *trainingStep {
	body := &ir.Block{}
	m := &ir.Module{Name: name, Dims: sym.NewDims(), Main: &ir.Func{Name: "main", Body: body}}
	m.Funcs = []*ir.Func{m.Main}
	for _, size := range sizes {
		for _, name := range size.Vars() {
			m.Dims.Set(name, sym.Range{Min: 1, Max: 1 << 20})
		}
	}
	return &trainingStep{Builder: ir.NewBuilder(ir.NewInference(m), body), module: m}
}

func (s *trainingStep) input(name string, dt dtype.DType, shape ...sym.Expr) *ir.Value {
	return s.Param(name, ir.Type{DType: dt, Shape: shape})
}

func (s *trainingStep) parameter(name string, shape ...int64) *ir.Value {
	p := s.input(name, dtype.F32, ir.Constants(shape)...)
	s.params = append(s.params, p)
	return p
}

func (s *trainingStep) f(f loop.UnaryOp, x *ir.Value) *ir.Value { return ops.Unary(s.Builder, f, x) }

func (s *trainingStep) op(f loop.BinaryOp, x, y *ir.Value) *ir.Value {
	return ops.Binary(s.Builder, f, x, y)
}

func (s *trainingStep) times(x *ir.Value, by float64) *ir.Value {
	return s.op(loop.Mul, x, s.number(by))
}

func (s *trainingStep) plus(x *ir.Value, by float64) *ir.Value {
	return s.op(loop.Add, x, s.number(by))
}

func (s *trainingStep) number(x float64) *ir.Value { return ops.Scalar(s.Builder, dtype.F32, x) }

// linear returns x·W + b, or x·Wᵀ + b if turned, over the last axis. b may be nil.
func (s *trainingStep) linear(x, w, b *ir.Value, turned bool) *ir.Value {
	y := ops.MatMul(s.Builder, x, w, false, turned)
	if b == nil {
		return y
	}
	return s.op(loop.Add, y, b)
}

// slices splits the last axis into parts of equal size.
func (s *trainingStep) slices(x *ir.Value, parts int64) []*ir.Value {
	last := len(x.Type.Shape) - 1
	size := x.Type.Shape[last].FloorDiv(sym.Const(parts))
	var out []*ir.Value
	for i := range parts {
		out = append(out, ops.SliceAxis(s.Builder, x, last, size.Mul(sym.Const(i)), size))
	}
	return out
}

// convolution pads so that the result has the picture's size.
func (s *trainingStep) convolution(x, w *ir.Value) *ir.Value {
	kernel, _ := w.Type.Shape[2].Const()
	pad := sym.Const(kernel / 2)
	ones, pads := []int64{1, 1}, []sym.Expr{pad, pad}
	window := ops.Window{Kernel: []int64{kernel, kernel}, Strides: ones, Dilations: ones, Begin: pads, End: pads}
	return ops.Convolution(s.Builder, x, w, nil, window, 1)
}

// norm centers and scales x over some axes, and each channel, along axis, by parameters. It also returns the means and
// variances.
func (s *trainingStep) norm(x, scale, shift *ir.Value, axis int, over ...int64) (y, mean, variance *ir.Value) {
	along := func(v *ir.Value) *ir.Value {
		return ops.AlongAxis(s.Builder, v, axis, len(x.Type.Shape))
	}
	mean = ops.ReduceMean(s.Builder, x, true, over...)
	centered := s.op(loop.Sub, x, mean)
	variance = ops.ReduceMean(s.Builder, s.op(loop.Mul, centered, centered), true, over...)
	standard := ops.Normalize(s.Builder, x, 1e-5, true, over...)
	return s.op(loop.Add, s.op(loop.Mul, standard, along(scale)), along(shift)), mean, variance
}

// pool returns the largest of each 2 × 2 elements.
func (s *trainingStep) pool(x *ir.Value) *ir.Value {
	twos, zeros := []int64{2, 2}, ir.Constants([]int64{0, 0})
	window := ops.Window{Kernel: twos, Strides: twos, Dilations: []int64{1, 1}, Begin: zeros, End: zeros}
	return ops.MaxPool(s.Builder, x, window, false)
}

// crossEntropy returns the mean over the rows of the negative log-probability of the label.
func (s *trainingStep) crossEntropy(x, labels *ir.Value) *ir.Value {
	rows, classes := x.Type.Shape[0], x.Type.Shape[1]
	logs := ops.LogSoftmax(s.Builder, x, -1)
	places := ops.Reshape(s.Builder, labels, rows, sym.Const(1))
	hot := s.op(loop.Eq, places, ops.Reshape(s.Builder, ops.Counting(s.Builder, dtype.I64, classes), sym.Const(1),
		classes))
	return s.f(loop.Neg, ops.ReduceMean(s.Builder, ops.ReduceSum(s.Builder,
		s.op(loop.Mul, logs, ops.Cast(s.Builder, hot, dtype.F32)), false, 1), false, 0))
}

// squares returns the mean of the squared differences.
func (s *trainingStep) squares(x, target *ir.Value) *ir.Value {
	var axes []int64
	for i := range x.Type.Shape {
		axes = append(axes, int64(i))
	}
	e := s.op(loop.Sub, x, target)
	return ops.ReduceMean(s.Builder, s.op(loop.Mul, e, e), false, axes...)
}

// backward updates the parameters by the loss's derivatives, and returns the step's module.
func (s *trainingStep) backward(loss *ir.Value, o Optimiser) *ir.Module {
	gradients := ops.Gradient(s.Builder, loss, s.params)
	s.module.Main.Body.Results = []*ir.Value{s.named(loss, "loss")}
	for i := 0; i < len(s.states); i += 2 {
		s.becomes(s.states[i], s.states[i+1])
	}
	var first, second *ir.Value
	if o == Adam {
		first, second = s.corrections()
	}
	for i, p := range s.params {
		if o == SGD {
			s.becomes(p, s.op(loop.Sub, p, s.times(gradients[i], rate)))
			continue
		}
		s.adam(p, gradients[i], first, second)
	}
	if err := ir.Verify(s.module); err != nil {
		s.Fail(err)
	}
	return s.module
}

const rate = 0.001

func (s *trainingStep) named(v *ir.Value, name string) *ir.Value {
	v.Name = s.Name(name)
	return v
}

// becomes makes a parameter of main a state.
func (s *trainingStep) becomes(in, out *ir.Value) {
	body := s.module.Main.Body
	s.named(out, in.Name+".new")
	s.module.Main.States = append(s.module.Main.States, ir.State{In: in, Out: len(body.Results)})
	body.Results = append(body.Results, out)
}

const beta1, beta2 = 0.9, 0.999

// corrections counts the steps, and returns the divisors of the averages.
func (s *trainingStep) corrections() (first, second *ir.Value) {
	count := s.input("count", dtype.F32)
	next := s.plus(count, 1)
	s.becomes(count, next)
	correction := func(beta float64) *ir.Value {
		return s.op(loop.Sub, s.number(1), s.op(loop.Pow, s.number(beta), next))
	}
	return correction(beta1), correction(beta2)
}

// adam updates a parameter and its two averages.
func (s *trainingStep) adam(p, gradient, first, second *ir.Value) {
	m, v := s.Param(p.Name+".m", p.Type), s.Param(p.Name+".v", p.Type)
	next, nextM, nextV := s.moved(p, m, v, gradient, first, second)
	s.becomes(m, nextM)
	s.becomes(v, nextV)
	s.becomes(p, next)
}

// moved returns Adam's new weight and averages for a gradient.
func (s *trainingStep) moved(w, m, v, g, first, second *ir.Value) (nextW, nextM, nextV *ir.Value) {
	nextM = s.op(loop.Add, s.times(m, beta1), s.times(g, 1-beta1))
	nextV = s.op(loop.Add, s.times(v, beta2), s.times(s.op(loop.Mul, g, g), 1-beta2))
	down := s.plus(s.f(loop.Sqrt, s.op(loop.Div, nextV, second)), 1e-8)
	step := s.op(loop.Div, s.op(loop.Div, nextM, first), down)
	return s.op(loop.Sub, w, s.times(step, rate)), nextM, nextV
}

// Perceptron returns a training step of dense layers with the given numbers of units, on batches.
func Perceptron(batch sym.Expr, o Optimiser, turned bool, units ...int64) (m *ir.Module, err error) {
	defer ir.Catch(&err)
	s := newTrainingStep("perceptron", batch)
	x, labels := s.input("x", dtype.F32, batch, sym.Const(units[0])), s.input("labels", dtype.I64, batch)
	for i, to := range units[1:] {
		shape := []int64{units[i], to}
		if turned {
			shape = []int64{to, units[i]}
		}
		w, b := s.parameter(fmt.Sprint("w", i), shape...), s.parameter(fmt.Sprint("b", i), to)
		x = s.linear(x, w, b, turned)
		if i < len(units)-2 {
			x = ops.Activation(s.Builder, "relu", x)
		}
	}
	return s.backward(s.crossEntropy(x, labels), o), nil
}

// Pictures returns a training step of a network of two convolutions.
func Pictures(batch sym.Expr, o Optimiser, side int64, channels ...int64) (m *ir.Module, err error) {
	defer ir.Catch(&err)
	s := newTrainingStep("pictures", batch)
	x, labels := s.input("x", dtype.F32, batch, sym.Const(1), sym.Const(side), sym.Const(side)),
		s.input("labels", dtype.I64, batch)
	from := int64(1)
	for i, to := range channels {
		name := func(what string) string { return fmt.Sprint(what, i) }
		x = s.convolution(x, s.parameter(name("w"), to, from, 3, 3))
		scale, shift := s.parameter(name("scale"), to), s.parameter(name("shift"), to)
		var mean, variance *ir.Value
		x, mean, variance = s.norm(x, scale, shift, 1, 0, 2, 3)
		for k, v := range []*ir.Value{mean, variance} {
			running := s.input(fmt.Sprint("running", i, ".", k), dtype.F32, sym.Const(to))
			now := s.times(ops.Reshape(s.Builder, v, sym.Const(to)), 0.1)
			s.states = append(s.states, running, s.op(loop.Add, s.times(running, 0.9), now))
		}
		x = s.pool(ops.Activation(s.Builder, "relu", x))
		from, side = to, side/2
	}
	x = ops.Reshape(s.Builder, x, batch, sym.Const(from*side*side))
	x = s.linear(x, s.parameter("w", from*side*side, 10), s.parameter("b", 10), false)
	return s.backward(s.crossEntropy(x, labels), o), nil
}

// Transformer returns a training step of blocks of attention and two dense layers.
func Transformer(batch, length sym.Expr, o Optimiser, layers, width, heads int64) (m *ir.Module, err error) {
	defer ir.Catch(&err)
	s := newTrainingStep("transformer", batch)
	x := s.input("x", dtype.F32, batch, length, sym.Const(width))
	target := s.input("target", dtype.F32, batch, length, sym.Const(width))
	each := width / heads
	for i := range layers {
		vector := func(what string, n int64) *ir.Value { return s.parameter(fmt.Sprint(what, i), n) }
		dense := func(x *ir.Value, what string, from, to int64) *ir.Value {
			return s.linear(x, s.parameter(fmt.Sprint("w.", what, i), from, to), vector("b."+what, to), false)
		}
		norm := func(x *ir.Value, what string) *ir.Value {
			y, _, _ := s.norm(x, vector("scale."+what, width), vector("shift."+what, width), 2, 2)
			return y
		}
		y := dense(norm(x, "attention"), "in", width, 3*width)
		var parts []*ir.Value
		for _, part := range s.slices(y, 3) {
			part = ops.Reshape(s.Builder, part, batch, length, sym.Const(heads), sym.Const(each))
			parts = append(parts, ops.Transpose(s.Builder, part, 0, 2, 1, 3))
		}
		share := s.times(ops.MatMul(s.Builder, parts[0], parts[1], false, true), 1/math.Sqrt(float64(each)))
		y = ops.Transpose(s.Builder, ops.MatMul(s.Builder, ops.Softmax(s.Builder, share, -1), parts[2], false, false), 0, 2,
			1, 3)
		x = s.op(loop.Add, x, dense(ops.Reshape(s.Builder, y, batch, length, sym.Const(width)), "out", width, width))
		y = ops.Activation(s.Builder, "gelu", dense(norm(x, "dense"), "up", width, 4*width))
		x = s.op(loop.Add, x, dense(y, "down", 4*width, width))
	}
	return s.backward(s.squares(x, target), o), nil
}

// LSTM returns a training step of one recurrent layer, with its steps as separate nodes.
func LSTM(batch sym.Expr, o Optimiser, steps, inputs, width int64) (m *ir.Module, err error) {
	defer ir.Catch(&err)
	s := newTrainingStep("lstm", batch)
	xs, labels := s.input("x", dtype.F32, sym.Const(steps), batch, sym.Const(inputs)), s.input("labels", dtype.I64, batch)
	w, r, bias := s.parameter("w", inputs, 4*width), s.parameter("r", width, 4*width), s.parameter("bias", 4*width)
	all := s.linear(xs, w, bias, false)
	h := ops.Fill(s.Builder, tensor.Must(tensor.New(dtype.F32)), batch, sym.Const(width))
	c := h
	for i := range steps {
		part := ops.SliceAxis(s.Builder, all, 0, sym.Const(i), sym.Const(1))
		now := ops.Reshape(s.Builder, part, batch, sym.Const(4*width))
		if i > 0 {
			now = s.op(loop.Add, now, s.linear(h, r, nil, false))
		}
		parts := s.slices(now, 4)
		fresh := s.op(loop.Mul, s.f(loop.Sigmoid, parts[0]), s.f(loop.Tanh, parts[2]))
		c = s.op(loop.Add, fresh, s.op(loop.Mul, s.f(loop.Sigmoid, parts[1]), c))
		h = s.op(loop.Mul, s.f(loop.Sigmoid, parts[3]), s.f(loop.Tanh, c))
	}
	y := s.linear(h, s.parameter("wy", width, 10), s.parameter("by", 10), false)
	return s.backward(s.crossEntropy(y, labels), o), nil
}

// Recurrent returns a training step of one recurrent layer that is one operator.
func Recurrent(batch sym.Expr, o Optimiser, steps, inputs, width int64) (m *ir.Module, err error) {
	defer ir.Catch(&err)
	s := newTrainingStep("recurrent", batch)
	xs, labels := s.input("x", dtype.F32, sym.Const(steps), batch, sym.Const(inputs)), s.input("labels", dtype.I64, batch)
	w, r, bias := s.parameter("w", inputs, 4*width), s.parameter("r", 1, 4*width, width), s.parameter("bias", 4*width)
	all := ops.Reshape(s.Builder, s.linear(xs, w, bias, false), sym.Const(steps), batch, sym.Const(1), sym.Const(4*width))
	cell := ops.Recurrence{Cell: "lstm", Reverse: []bool{false}, Functions: []string{"sigmoid", "tanh", "tanh"},
		Alpha: make([]float64, 3), Beta: make([]float64, 3)}
	last := ops.Recurrent(s.Builder, cell, ops.RecurrentOperands{Projected: all, Weights: r})[1]
	h := ops.Reshape(s.Builder, last, batch, sym.Const(width))
	y := s.linear(h, s.parameter("wy", width, 10), s.parameter("by", 10), false)
	return s.backward(s.crossEntropy(y, labels), o), nil
}

// Embedding returns a training step of a table, of which a batch names rows. Adam moves only those rows.
func Embedding(batch sym.Expr, o Optimiser, rows, width int64) (m *ir.Module, err error) {
	defer ir.Catch(&err)
	s := newTrainingStep("embedding", batch)
	ids, target := s.input("ids", dtype.I64, batch), s.input("target", dtype.F32, batch, sym.Const(width))
	full := ir.Type{DType: dtype.F32, Shape: ir.Constants([]int64{rows, width})}
	table := s.Param("table", full)
	e := s.op(loop.Sub, ops.Gather(s.Builder, table, ids, 0), target)
	loss := s.named(ops.ReduceMean(s.Builder, s.op(loop.Mul, e, e), false, 0, 1), "loss")
	s.module.Main.Body.Results = []*ir.Value{loss}
	g := s.times(e, 2/64.0)
	column := func(v *ir.Value) *ir.Value { return ops.Reshape(s.Builder, v, batch, sym.Const(1)) }
	nothing := func(shape ...sym.Expr) *ir.Value {
		return ops.Fill(s.Builder, tensor.Must(tensor.New(dtype.F32)), shape...)
	}
	if o == SGD {
		whole := ops.ScatterND(s.Builder, nothing(full.Shape...), column(ids), g, "add")
		s.becomes(table, s.op(loop.Sub, table, s.times(whole, rate)))
		return m, s.finish(&m)
	}
	places := s.Param("places", ir.Type{DType: dtype.I64, Shape: ir.Constants([]int64{rows})})
	counted := ops.ScatterND(s.Builder, places, column(ids), ops.Counting(s.Builder, dtype.I64, batch), "none")
	place := ops.Gather(s.Builder, counted, ids, 0) // one index into the batch for each id, however often the id occurs
	sums := ops.ScatterND(s.Builder, nothing(batch, sym.Const(width)), column(place), g, "add")
	first, second := s.corrections()
	mean, square := s.Param("mean", full), s.Param("square", full)
	rowsOf := func(v *ir.Value) *ir.Value { return ops.Gather(s.Builder, v, ids, 0) }
	w, mm, v := s.moved(rowsOf(table), rowsOf(mean), rowsOf(square), ops.Gather(s.Builder, sums, place, 0), first, second)
	s.becomes(places, counted)
	s.becomes(mean, ops.ScatterND(s.Builder, mean, column(ids), mm, "none"))
	s.becomes(square, ops.ScatterND(s.Builder, square, column(ids), v, "none"))
	s.becomes(table, ops.ScatterND(s.Builder, table, column(ids), w, "none"))
	return m, s.finish(&m)
}

func (s *trainingStep) finish(m **ir.Module) error {
	*m = s.module
	return ir.Verify(s.module)
}

// trainingTexts is the folder of the steps at bench's sizes.
const trainingTexts = "../../bench/training"

// TestTrainingTexts: the steps that bench times are the steps of this file.
func TestTrainingTexts(t *testing.T) {
	n := sym.Const(64)
	for name, build := range map[string]func() (*ir.Module, error){
		"mlp_sgd":          func() (*ir.Module, error) { return Perceptron(n, SGD, false, 784, 256, 128, 10) },
		"mlp_adam":         func() (*ir.Module, error) { return Perceptron(n, Adam, false, 784, 256, 128, 10) },
		"mlpt_sgd":         func() (*ir.Module, error) { return Perceptron(n, SGD, true, 784, 256, 128, 10) },
		"mlpt_adam":        func() (*ir.Module, error) { return Perceptron(n, Adam, true, 784, 256, 128, 10) },
		"cnn_sgd":          func() (*ir.Module, error) { return Pictures(n, SGD, 28, 32, 64) },
		"transformer_adam": func() (*ir.Module, error) { return Transformer(sym.Const(8), sym.Const(128), Adam, 2, 256, 8) },
		"lstm_adam":        func() (*ir.Module, error) { return LSTM(n, Adam, 28, 28, 128) },
		"recurrent_adam":   func() (*ir.Module, error) { return Recurrent(n, Adam, 28, 28, 128) },
		"embed_sgd":        func() (*ir.Module, error) { return Embedding(sym.Const(1024), SGD, 1000000, 64) },
		"embed_adam":       func() (*ir.Module, error) { return Embedding(sym.Const(1024), Adam, 1000000, 64) },
	} {
		m, err := build()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		path := filepath.Join(trainingTexts, name+".weir")
		if *rewrite {
			if err := os.WriteFile(path, []byte(m.String()), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if there, err := os.ReadFile(path); err != nil || string(there) != m.String() {
			t.Errorf("%s is not what this file builds (%v): go test ./internal/conformance -run TestTrainingTexts -rewrite",
				path, err)
		}
	}
}

// TestTrainingSteps: after some training steps, parameters equal the reference's, with named sizes and with fixed ones,
// and to the bit on one thread and several.
func TestTrainingSteps(t *testing.T) {
	for name, build := range map[string]func(n sym.Expr) (*ir.Module, error){
		"perceptron":      func(n sym.Expr) (*ir.Module, error) { return Perceptron(n, SGD, false, 37, 24, 10) },
		"perceptron Adam": func(n sym.Expr) (*ir.Module, error) { return Perceptron(n, Adam, false, 37, 130, 10) },
		"turned":          func(n sym.Expr) (*ir.Module, error) { return Perceptron(n, SGD, true, 65, 48, 33, 10) },
		"turned Adam":     func(n sym.Expr) (*ir.Module, error) { return Perceptron(n, Adam, true, 16, 31, 10) },
		"pictures":        func(n sym.Expr) (*ir.Module, error) { return Pictures(n, SGD, 12, 5, 18) },
		"transformer":     func(n sym.Expr) (*ir.Module, error) { return Transformer(n, sym.Const(9), SGD, 1, 24, 3) },
		"lstm":            func(n sym.Expr) (*ir.Module, error) { return LSTM(n, SGD, 3, 5, 19) },
		"recurrent":       func(n sym.Expr) (*ir.Module, error) { return Recurrent(n, SGD, 3, 5, 19) },
		"embedding":       func(n sym.Expr) (*ir.Module, error) { return Embedding(n, SGD, 40, 17) },
		"embedding Adam":  func(n sym.Expr) (*ir.Module, error) { return Embedding(n, Adam, 40, 8) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int64{1, 7, 33} {
				sameTraining(t, build, sym.Const(size), size)
			}
			sameTraining(t, build, sym.Dim("n"), 21)
		})
	}
}

// sameTraining trains with the reference, on one thread and on two, and compares.
func sameTraining(t *testing.T, build func(n sym.Expr) (*ir.Module, error), n sym.Expr, size int64) {
	t.Helper()
	m, err := build(n)
	if err != nil {
		t.Fatalf("%v: %v", n, err)
	}
	want := trained(t, m.String(), size, weir.Options{Target: weir.Reference})
	var first map[string]*tensor.Tensor
	for _, threads := range []int{1, 2} {
		got := trained(t, m.String(), size, weir.Options{Threads: threads})
		for name, x := range got {
			if err := tensor.CompareAmong(x, want[name], 2e-3, 2e-5); err != nil {
				t.Errorf("%v, %d threads: %s: %v", n, threads, name, err)
			}
			if first != nil && !x.Equal(first[name]) {
				t.Errorf("%v: %s has other bits on %d threads", n, name, threads)
			}
		}
		first = got
	}
}

// trained runs three steps, and returns the states after them.
func trained(t *testing.T, text string, size int64, o weir.Options) map[string]*tensor.Tensor {
	t.Helper()
	m, err := weir.LoadBytes([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := weir.Compile(t.Context(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	r := rand.New(rand.NewSource(size))
	in, out := weir.Inputs{}, map[string]*weir.Tensor{}
	for _, info := range p.Inputs() {
		var shape []int
		for _, e := range info.Shape {
			if e.Dim != "" {
				e.Size = size
			}
			shape = append(shape, int(e.Size))
		}
		x, err := weir.New(info.DType, shape...)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		fillForTraining(x, info.Name, r)
		if in[info.Name] = x; info.State != "" {
			in[info.Name], out[info.Name] = weir.Update(x), x
		}
	}
	for range 3 {
		results, err := p.Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		results.Close()
	}
	trained := map[string]*tensor.Tensor{}
	for name, x := range out {
		y, err := values.FromWeir(x)
		if err != nil {
			t.Fatal(err)
		}
		trained[name] = y
	}
	return trained
}

// fillForTraining draws small numbers; indices are labels or ids, and averages of squares are positive.
func fillForTraining(x *weir.Tensor, name string, r *rand.Rand) {
	if data, err := weir.View[int64](x); err == nil {
		for i := range data {
			data[i] = r.Int63n(10)
		}
		return
	}
	data, _ := weir.View[float32](x)
	for i := range data {
		switch data[i] = float32(r.NormFloat64()) / 4; {
		case strings.HasSuffix(name, ".v") || name == "square":
			data[i] = 1 + data[i]*data[i]
		case name == "count":
			data[i] = 0
		}
	}
}
