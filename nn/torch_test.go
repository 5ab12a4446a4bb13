package nn_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/safetensors"
	"github.com/weirml/weir/nn"
)

// torchNets are the layers of bench/layers.py, by the names of their fixtures.
var torchNets = map[string]nn.Layer{
	"linear":               nn.Linear(5, 3),
	"linear_rank3":         nn.Linear(5, 3, nn.NoBias),
	"conv1d":               nn.Conv1d(4, 6, 3, nn.Stride(2), nn.Padding(2), nn.Dilation(2), nn.Groups(2)),
	"conv2d":               nn.Conv2d(3, 4, 3, nn.Padding(1)),
	"conv2d_window":        nn.Conv2d(2, 4, 0, nn.Window(3, 2), nn.Stride(1, 2), nn.Padding(0, 1), nn.NoBias),
	"conv3d":               nn.Conv3d(2, 3, 2),
	"conv_transpose1d":     nn.ConvTranspose1d(4, 6, 3, nn.Stride(2), nn.Padding(1), nn.OutputPadding(1), nn.Groups(2)),
	"conv_transpose2d":     nn.ConvTranspose2d(3, 4, 3, nn.Stride(2)),
	"conv_transpose3d":     nn.ConvTranspose3d(2, 3, 2, nn.Stride(2)),
	"embedding":            nn.Embedding(7, 4),
	"embedding_rank0":      nn.Embedding(7, 4),
	"embedding_rank3":      nn.Embedding(7, 4),
	"layer_norm":           nn.LayerNorm(6),
	"layer_norm_over":      nn.LayerNormOver([]int{4, 6}),
	"rms_norm":             nn.RMSNorm(6),
	"batch_norm":           nn.BatchNorm(3),
	"batch_norm_training":  nn.BatchNorm(3),
	"batch_norm_1d":        nn.BatchNorm(3, nn.Momentum(0.3), nn.Epsilon(1e-3)),
	"group_norm":           nn.GroupNorm(2, 6),
	"instance_norm":        nn.InstanceNorm(3),
	"instance_norm_scaled": nn.InstanceNorm(3, nn.Scaled),
	"lstm":                 nn.LSTM(3, 4),
	"lstm_states":          nn.LSTM(3, 4, nn.Layers(2), nn.Bidirectional),
	"gru":                  nn.GRU(3, 4),
	"gru_states":           nn.GRU(3, 4, nn.Layers(2), nn.Bidirectional, nn.NoBias),
	"rnn":                  nn.RNN(3, 4),
	"rnn_relu":             nn.RNN(3, 4, nn.Activation(nn.Relu), nn.Bidirectional),
	"attention":            nn.MultiHeadAttention(6, 2),
	"attention_causal":     nn.MultiHeadAttention(6, 3, nn.Causal),
	"attention_mask":       nn.MultiHeadAttention(6, 2, nn.NoBias),
	"attention_cross":      nn.MultiHeadAttention(6, 2),
	"attention_added":      nn.MultiHeadAttention(6, 2),
	"encoder_layer":        nn.TransformerEncoderLayer(6, 2, 8),
	"encoder_layer_first":  nn.TransformerEncoderLayer(6, 2, 8, nn.NormFirst, nn.Activation(nn.Gelu)),
	"decoder_layer":        nn.TransformerDecoderLayer(6, 2, 8),
	"encoder": nn.Stack(nn.LayerNorm(6), nn.TransformerEncoderLayer(6, 2, 8),
		nn.TransformerEncoderLayer(6, 2, 8)),
	"max_pool":           nn.MaxPool2d(3, nn.Stride(2), nn.Padding(1), nn.Ceil),
	"avg_pool":           nn.AvgPool2d(3, nn.Stride(2), nn.Padding(1)),
	"avg_pool_uncounted": nn.AvgPool1d(3, nn.Stride(1), nn.Padding(1), nn.NoPadCount),
	"max_pool3d":         nn.MaxPool3d(2),
	"adaptive_avg":       nn.AdaptiveAvgPool(3, 2),
	"adaptive_max":       nn.AdaptiveMaxPool(3, 1),
	"prelu":              nn.PRelu(3),
	"relu":               nn.Relu, "relu6": nn.Relu6, "sigmoid": nn.Sigmoid, "log_sigmoid": nn.LogSigmoid,
	"tanh": nn.Tanh, "silu": nn.Silu, "gelu": nn.Gelu,
	"gelu_tanh": nn.GeluTanh, "softplus": nn.Softplus, "softsign": nn.Softsign, "mish": nn.Mish, "selu": nn.Selu,
	"elu": nn.Elu(0.7), "celu": nn.Celu(0.7),
	"leaky_relu": nn.LeakyRelu(0.1), "hard_sigmoid": nn.HardSigmoid, "hard_swish": nn.HardSwish, "softmax": nn.Softmax(-1),
	"log_softmax": nn.LogSoftmax(0),
	"glu":         nn.GLU(-1),
	"mlp":         nn.Sequential(nn.Linear(4, 6), nn.Relu, nn.Linear(6, 2)),
}

// torchTraining names the fixtures whose results PyTorch computed in training mode.
var torchTraining = map[string]bool{"batch_norm_training": true, "batch_norm_1d": true}

// fixture is a safetensors file that PyTorch wrote: its table and the bytes of its tensors.
type fixture struct {
	list []safetensors.Entry
	data []byte
}

// readFixture reads a fixture from testdata/torch.
func readFixture(t *testing.T, name string) fixture {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "torch", name+".safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	r := bytes.NewReader(data)
	list, _, err := safetensors.ReadTable(r)
	if err != nil {
		t.Fatal(err)
	}
	return fixture{list, data[len(data)-r.Len():]}
}

// floats returns a tensor's elements and shape; ok is false if the file does not have it.
func (f fixture) floats(name string) (list []float64, shape []int, ok bool) {
	for _, e := range f.list {
		if e.Name == name {
			for i := range (e.End - e.Begin) / 4 {
				list = append(list, dtype.LoadFloat(e.DType, f.data[e.Begin:e.End], i))
			}
			return list, ints(e.Shape), true
		}
	}
	return nil, nil, false
}

// ints converts extents to int.
func ints(shape []int64) []int {
	out := make([]int, len(shape))
	for i, e := range shape {
		out[i] = int(e)
	}
	return out
}

// arrays returns the tensors that are named by a letter and the numbers from 0 on, as arrays of s.
func (f fixture) arrays(t *testing.T, s *array.Scope, letter string) (list []*array.Array) {
	t.Helper()
	for i := 0; ; i++ {
		k := slices.IndexFunc(f.list, func(e safetensors.Entry) bool { return e.Name == fmt.Sprint(letter, i) })
		if k < 0 {
			return list
		}
		e := f.list[k]
		from, err := weir.New(e.DType, ints(e.Shape)...)
		if err != nil {
			t.Fatal(err)
		}
		copy(from.Bytes(), f.data[e.Begin:e.End])
		a := array.Of(s, from)
		list = append(list, s.Reshape(a, ints(e.Shape)...))
		if err := s.Err(); err != nil {
			t.Fatal(err)
		}
		a.Close()
		from.Close()
	}
}

// load reads a fixture's parameters into a store.
func (f fixture) load(t *testing.T, p *nn.Params) {
	t.Helper()
	var b bytes.Buffer
	if err := safetensors.WriteTable(&b, f.list, nil); err != nil {
		t.Fatal(err)
	}
	b.Write(f.data)
	if err := p.ReadSafetensors(&b, nn.Under("p.")); err != nil {
		t.Fatal(err)
	}
}

// near fails the test if elements differ from the fixture's by more than 2e-5 of the greatest magnitude, at least 1.
func near(t *testing.T, what string, got []float32, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s has %d elements, not %d", what, len(got), len(want))
		return
	}
	most := 1.0
	for _, x := range want {
		most = max(most, math.Abs(x))
	}
	for i, x := range want {
		if d := math.Abs(float64(got[i]) - x); !(d <= 2e-5*most) {
			t.Errorf("%s, element %d: %v, PyTorch has %v", what, i, got[i], x)
			return
		}
	}
}

// TestTorch compares each layer's results, derivatives and running statistics with PyTorch's.
func TestTorch(t *testing.T) {
	files, err := filepath.Glob("testdata/torch/*.safetensors")
	if err != nil || len(files) != len(torchNets) {
		t.Fatalf("%d fixtures for %d layers: %v", len(files), len(torchNets), err)
	}
	for name, net := range torchNets {
		t.Run(name, func(t *testing.T) { compareTorch(t, name, net) })
	}
}

// compareTorch compares a layer with its fixture, and checks that the store's scope gains no byte.
func compareTorch(t *testing.T, name string, net nn.Layer) {
	f := readFixture(t, name)
	s, p := open(t, net)
	f.load(t, p)
	x, w := f.arrays(t, s, "x"), f.arrays(t, s, "w")
	context := func(s *array.Scope) *nn.Context {
		if torchTraining[name] {
			return nn.Training(s, p, nil)
		}
		return nn.Inference(s, p)
	}
	before := p.Scope().Stats()
	c := context(s)
	y := nn.Apply(c, net, x...)
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	for i, a := range y {
		want, shape, _ := f.floats(fmt.Sprint("y", i))
		if !slices.Equal(a.Shape(), shape) {
			t.Errorf("result %d is %v, PyTorch's is %v", i, a, shape)
		}
		near(t, fmt.Sprint("result ", i), elements(t, a), want)
	}
	if len(y) != len(w) {
		t.Errorf("%d results, PyTorch has %d", len(y), len(w))
	}
	if err := c.Commit(); err != nil {
		t.Fatal(err)
	}
	for _, b := range p.Buffers() {
		if want, _, ok := f.floats("b." + b); ok {
			near(t, b, elements(t, p.Get(b)), want)
		}
	}
	// The parameters' scope took nothing.
	if after := p.Scope().Stats(); after.Bytes != before.Bytes || len(after.Loans) != 0 {
		t.Errorf("the store held %d bytes, and holds %d", before.Bytes, after.Bytes)
	}
	gradients(t, f, net, p, context, s, x, w)
}

// gradients compares the derivatives of a weighted sum of the results, by parameters and inputs, with PyTorch's.
func gradients(t *testing.T, f fixture, net nn.Layer, p *nn.Params, context func(*array.Scope) *nn.Context,
	s *array.Scope, x, w []*array.Array) {
	names := p.Names()
	loss := func(s *array.Scope, in ...*array.Array) []*array.Array {
		c := context(s)
		for i, name := range names {
			c.Bind(name, in[i])
		}
		total := s.Number(0)
		for i, y := range nn.Apply(c, net, in[len(names):]...) {
			total = s.Add(total, s.Sum(s.Mul(y, w[i])))
		}
		return []*array.Array{total}
	}
	var in []*array.Array
	for _, name := range names {
		in = append(in, p.Get(name))
	}
	grads := array.Grad(loss)(s, append(in, x...)...)
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		want, shape, ok := f.floats("g." + name)
		if !ok {
			t.Fatalf("the fixture has no derivative by %s", name)
		}
		// The derivative has the store's layout and the fixture the file's: it is converted as the parameter is.
		near(t, "the derivative by "+name, inFile(t, p, name, grads[i]), want)
		_ = shape
	}
	for i := range x {
		if want, _, ok := f.floats(fmt.Sprint("d", i)); ok {
			near(t, fmt.Sprint("the derivative by input ", i), elements(t, grads[len(names)+i]), want)
		}
	}
}

// inFile converts an array from a parameter's layout in the store to its layout in files: it writes the store with the
// array in place of the parameter, and then sets the parameter back.
func inFile(t *testing.T, p *nn.Params, name string, a *array.Array) []float32 {
	t.Helper()
	s := array.NewScope("kept")
	defer s.Close()
	kept := s.Add(p.Get(name), s.Number(0))
	defer p.Set(name, kept)
	if err := p.Set(name, a); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := p.WriteSafetensors(&b); err != nil {
		t.Fatal(err)
	}
	list, _, err := safetensors.ReadTable(&b)
	if err != nil {
		t.Fatal(err)
	}
	body := b.Bytes()
	for _, e := range list {
		if e.Name == name {
			out := make([]float32, (e.End-e.Begin)/4)
			for i := range out {
				out[i] = float32(dtype.LoadFloat(e.DType, body[e.Begin:e.End], int64(i)))
			}
			return out
		}
	}
	t.Fatalf("the file has no %s", name)
	return nil
}

// TestFixturesAreRead: a fixture contains parameters, an input, a result, weights and derivatives, so the other tests
// compare something.
func TestFixturesAreRead(t *testing.T) {
	f := readFixture(t, "mlp")
	var names []string
	for _, e := range f.list {
		names = append(names, e.Name)
	}
	if got := strings.Join(names,
		" "); got != "p.0.weight p.0.bias p.2.weight p.2.bias x0 y0 w0 g.0.weight g.0.bias g.2.weight g.2.bias d0" {
		t.Error(got)
	}
}
