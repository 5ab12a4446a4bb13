package train_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/nn"
	"github.com/weirml/weir/train"
)

// normal returns a tensor drawn from a normal distribution.
func normal(seed uint64, deviation float64, shape ...int64) *tensor.Tensor {
	r := rand.New(rand.NewPCG(seed, 5))
	t := tensor.Must(tensor.New(dtype.F32, shape...))
	for i := range t.Len() {
		dtype.StoreFloat(dtype.F32, t.Bytes(), i, deviation*r.NormFloat64())
	}
	return t
}

// file is a model under construction.
type file struct {
	wire.GraphProto
	functions []*wire.FunctionProto
}

// node adds a node. Its name derives from its first output.
func (f *file) node(op string, in, out []string, attributes ...*wire.AttributeProto) {
	n := &wire.NodeProto{OpType: op, Input: in, Output: out, Name: out[0] + "_node", Attribute: attributes}
	f.Node = append(f.Node, n)
}

// weight adds an initializer.
func (f *file) weight(name string, t *tensor.Tensor) {
	f.Initializer = append(f.Initializer, wire.FromTensor(name, t))
}

// input adds an input of f32.
func (f *file) input(name string, shape ...*wire.Dimension) {
	f.Input = append(f.Input, wire.TensorValue(name, wire.DataTypeOf(dtype.F32), shape...))
}

// bytes adds the outputs and returns the model as a file's bytes.
func (f *file) bytes(outputs ...string) []byte {
	f.Name = "main"
	for _, name := range outputs {
		f.Output = append(f.Output, &wire.ValueInfoProto{Name: name})
	}
	imports := []*wire.OperatorSetIDProto{{Version: 17}, {Domain: "local", Version: 1}}
	m := wire.ModelProto{IRVersion: 8, OpsetImport: imports, Graph: &f.GraphProto, Functions: f.functions}
	return m.Marshal()
}

// positive returns a vector of numbers slightly above 1.
func positive(n int64) *tensor.Tensor {
	t := normal(9, 0.1, n)
	for i := range n {
		x := dtype.LoadFloat(dtype.F32, t.Bytes(), i)
		dtype.StoreFloat(dtype.F32, t.Bytes(), i, 1+x*x)
	}
	return t
}

// convnet classifies images of 3 × 8 × 8 by convolution, normalisation, relu, pooling and a product.
func convnet(batch *wire.Dimension) *file {
	f := &file{}
	f.input("image", batch, wire.Size(3), wire.Size(8), wire.Size(8))
	f.weight("/conv/weight", normal(1, 0.3, 4, 3, 3, 3))
	f.weight("bn.scale", positive(4))
	f.weight("bn.shift", normal(2, 0.1, 4))
	f.weight("bn.mean", normal(3, 0.1, 4))
	f.weight("bn.variance", positive(4))
	f.weight("fc.weight", normal(4, 0.3, 5, 4))
	f.weight("fc.bias", normal(5, 0.1, 5))
	f.node("Conv", []string{"image", "/conv/weight"}, []string{"c"}, wire.IntsAttribute("pads", 1, 1, 1, 1))
	f.node("BatchNormalization", []string{"c", "bn.scale", "bn.shift", "bn.mean", "bn.variance"}, []string{"n"})
	f.node("Relu", []string{"n"}, []string{"r"})
	f.node("GlobalAveragePool", []string{"r"}, []string{"p"})
	f.node("Flatten", []string{"p"}, []string{"features"})
	f.node("Gemm", []string{"features", "fc.weight", "fc.bias"}, []string{"scores"}, wire.IntAttribute("transB", 1))
	return f
}

// trainable are the parameters of convnet.
var trainable = []string{"/conv/weight", "bn.scale", "bn.shift", "fc.weight", "fc.bias"}

// mustParse returns a model's network and its parameters, which are closed when the test ends.
func mustParse(t *testing.T, data []byte, o array.ModelOptions) (*train.ONNX, *nn.Params) {
	t.Helper()
	net, err := train.ParseONNX(data, o)
	if err != nil {
		t.Fatal(err)
	}
	p, err := nn.New(net, 7)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return net, p
}

// images returns a batch of images and classes, the same in each call.
func images(s *array.Scope, n int) train.Batch {
	x, y := make([]float32, n*3*8*8), make([]int32, n)
	r := rand.New(rand.NewPCG(11, 12))
	for i := range y {
		y[i] = int32(i % 5)
		for k := range 192 {
			x[i*192+k] = float32(r.NormFloat64()) + float32(y[i])*float32(k%3-1)/2
		}
	}
	return train.Batch{X: array.From(s, x, n, 3, 8, 8), Y: array.From(s, y)}
}

// elementsOf returns a copy of an array's bytes.
func elementsOf(a *array.Array) []byte { return bytes.Clone(a.Tensor().Bytes()) }

// sameAsWritten writes a model, and compares the results of the file, by package array and by package weir, with the
// store's.
func sameAsWritten(t *testing.T, s *array.Scope, net *train.ONNX, p *nn.Params, x *array.Array) {
	t.Helper()
	var out bytes.Buffer
	if err := net.WriteONNX(&out, p); err != nil {
		t.Fatal(err)
	}
	want := view(t, nn.Apply(nn.Inference(s, p), net, x)[0])
	again, err := array.ParseONNX(out.Bytes(), array.ModelOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := view(t, again.Apply(s, nil, x)[0])
	within(t, "the file", got, want, 1e-5)
	within(t, "the program", loaded(t, out.Bytes(), x), want, 1e-5)
}

// loaded returns the first output of a model that package weir compiles and runs on x.
func loaded(t *testing.T, data []byte, x *array.Array) []float32 {
	t.Helper()
	m, err := weir.LoadBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := weir.Compile(t.Context(), m, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	r, err := p.Run(t.Context(), weir.Inputs{p.Inputs()[0].Name: x.Tensor()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	list, err := weir.Copy[float32](r.At(0))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// view returns a copy of an array's elements; an error of its scope fails the test.
func view(t *testing.T, a *array.Array) []float32 {
	t.Helper()
	if err := a.Scope().Err(); err != nil {
		t.Fatal(err)
	}
	list, err := array.View[float32](a)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(list)
}

// within fails the test if two lists differ in length, or in an element by more than tolerance · (1 + |want|).
func within(t *testing.T, what string, got, want []float32, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s has %d elements, not %d", what, len(got), len(want))
	}
	for i := range got {
		if d := math.Abs(float64(got[i] - want[i])); !(d <= tolerance*(1+math.Abs(float64(want[i])))) {
			t.Fatalf("%s: element %d is %v, not %v", what, i, got[i], want[i])
		}
	}
}

// save writes a file; an error fails the test.
func save(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// parsed returns a model's network, or the error.
func parsed(f *file, outputs []string, o array.ModelOptions) (*train.ONNX, error) {
	return train.ParseONNX(f.bytes(outputs...), o)
}

// halves returns an f32 tensor converted to f16.
func halves(from *tensor.Tensor) *tensor.Tensor { return converted(from, dtype.F16) }

// converted returns an f32 tensor converted to another float type.
func converted(from *tensor.Tensor, dt dtype.DType) *tensor.Tensor {
	t := tensor.Must(tensor.New(dt, from.Shape()...))
	for i := range t.Len() {
		dtype.StoreFloat(dt, t.Bytes(), i, dtype.LoadFloat(dtype.F32, from.Bytes(), i))
	}
	return t
}

// number returns a tensor of one element.
func number(x float32) *tensor.Tensor { return tensor.Must(tensor.FromSlice([]float32{x})) }

// body returns a graph for an attribute of a node.
func body(name string, inputs []*wire.ValueInfoProto, outputs []string, nodes ...*wire.NodeProto) *wire.GraphProto {
	g := &wire.GraphProto{Name: name, Input: inputs, Node: nodes}
	for _, o := range outputs {
		g.Output = append(g.Output, &wire.ValueInfoProto{Name: o})
	}
	return g
}
