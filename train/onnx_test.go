package train_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/nn"
	"github.com/weirml/weir/train"
)

// normal are elements from a normal distribution.
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

func (f *file) node(op string, in, out []string, attributes ...*wire.AttributeProto) {
	n := &wire.NodeProto{OpType: op, Input: in, Output: out, Name: out[0] + "_node", Attribute: attributes}
	f.Node = append(f.Node, n)
}

func (f *file) weight(name string, t *tensor.Tensor) {
	f.Initializer = append(f.Initializer, wire.FromTensor(name, t))
}

func (f *file) input(name string, shape ...*wire.Dimension) {
	f.Input = append(f.Input, wire.TensorValue(name, wire.DataTypeOf(dtype.F32), shape...))
}

func (f *file) bytes(outputs ...string) []byte {
	f.Name = "main"
	for _, name := range outputs {
		f.Output = append(f.Output, &wire.ValueInfoProto{Name: name})
	}
	imports := []*wire.OperatorSetIDProto{{Version: 17}, {Domain: "local", Version: 1}}
	m := wire.ModelProto{IRVersion: 8, OpsetImport: imports, Graph: &f.GraphProto, Functions: f.functions}
	return m.Marshal()
}

// positive are 1 and a little more.
func positive(n int64) *tensor.Tensor {
	t := normal(9, 0.1, n)
	for i := range n {
		x := dtype.LoadFloat(dtype.F32, t.Bytes(), i)
		dtype.StoreFloat(dtype.F32, t.Bytes(), i, 1+x*x)
	}
	return t
}

// convnet is convolution, normalisation, relu, pooling and a product: classes of images of 3 × 8 × 8.
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

// trainable are what of convnet can be trained.
var trainable = []string{"/conv/weight", "bn.scale", "bn.shift", "fc.weight", "fc.bias"}

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

// images is a batch of images and classes, the same whenever it is asked for.
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

func elementsOf(a *array.Array) []byte { return bytes.Clone(a.Tensor().Bytes()) }

// TestONNXTrained: the loss of an imported model falls, what is frozen keeps every bit, running statistics are no
// parameters, and the file that is written computes what the store does.
func TestONNXTrained(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("test")
	defer s.Close()
	net, p := mustParse(t, convnet(wire.Dim("N")).bytes("scores"), array.ModelOptions{})
	defer p.Close()
	if !slices.Equal(p.Names(), trainable) {
		t.Fatalf("parameters are %v", p.Names())
	}
	if err := p.Freeze("*conv*", "bn.shift"); err != nil {
		t.Fatal(err)
	}
	before := map[string][]byte{}
	for _, name := range p.Names() {
		before[name] = elementsOf(p.Get(name))
	}
	tr, err := train.New(net, p, train.CrossEntropy, train.SGD(0.5), train.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	batch := images(s, 10)
	first, last := 0.0, 0.0
	for i := range 60 {
		m, err := tr.Step(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		if last = m.Loss; i == 0 {
			first = m.Loss
		}
	}
	if !(last < first*0.8) {
		t.Errorf("the loss went from %v to %v", first, last)
	}
	for name, b := range before {
		frozen := name == "/conv/weight" || name == "bn.shift"
		if bytes.Equal(b, p.Get(name).Tensor().Bytes()) != frozen {
			t.Errorf("%s: frozen %v, and the same bits %v", name, frozen, !frozen)
		}
	}
	sameAsWritten(t, s, net, p, batch.X)
}

// sameAsWritten writes a model and compares what the file computes with what the store does.
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

// loaded is the first output of a file, as package weir runs it.
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

// TestONNXDerivative holds derivatives by initializers against finite differences.
func TestONNXDerivative(t *testing.T) {
	s := array.NewScope("test")
	defer s.Close()
	net, p := mustParse(t, convnet(wire.Dim("N")).bytes("scores"), array.ModelOptions{})
	x := images(s, 3).X
	loss := func(s *array.Scope, w ...*array.Array) []*array.Array {
		c := nn.Inference(s, p)
		for i, name := range trainable {
			c.Bind(name, w[i])
		}
		y := nn.One(c, net, x)
		return []*array.Array{s.Sum(s.Mul(y, y))}
	}
	var weights []*array.Array
	for _, name := range trainable {
		weights = append(weights, p.Get(name))
	}
	grads := array.Grad(loss)(s, weights...)
	for i, name := range trainable {
		list, err := array.View[float32](weights[i])
		if err != nil {
			t.Fatal(err)
		}
		got := view(t, grads[i])
		for _, at := range []int{0, len(list) / 2, len(list) - 1} {
			const h = 1e-2
			x := list[at]
			list[at] = x + h
			up := view(t, loss(s, weights...)[0])[0]
			list[at] = x - h
			down := view(t, loss(s, weights...)[0])[0]
			list[at] = x
			want := float64(up-down) / (2 * h)
			if math.Abs(float64(got[at])-want) > 2e-2*(1+math.Abs(want)) {
				t.Errorf("%s[%d]: %v, finite differences give %v", name, at, got[at], want)
			}
		}
	}
}

// TestONNXHead: layers follow an intermediate output, the file's own head is left out, and the whole is written.
func TestONNXHead(t *testing.T) {
	s := array.NewScope("test")
	defer s.Close()
	until := array.ModelOptions{Outputs: []string{"features"}}
	base, err := train.ParseONNX(convnet(wire.Dim("N")).bytes("scores"), until)
	if err != nil {
		t.Fatal(err)
	}
	net := nn.Sequential(base, nn.Linear(4, 7))
	p := nn.Init(net, 7)
	defer p.Close()
	want := []string{"0./conv/weight", "0.bn.scale", "0.bn.shift", "1.weight", "1.bias"}
	if !slices.Equal(p.Names(), want) {
		t.Fatalf("parameters are %v", p.Names())
	}
	if err := p.Freeze("0.*"); err != nil {
		t.Fatal(err)
	}
	tr, err := train.New(net, p, train.CrossEntropy, train.Adam(0.05), train.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	batch := images(s, 10)
	var first, last train.Metrics
	for i := range 30 {
		if last, err = tr.Step(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = last
		}
	}
	if !(last.Loss < first.Loss*0.7) {
		t.Errorf("the loss went from %v to %v", first.Loss, last.Loss)
	}
	var out bytes.Buffer
	if err := nn.WriteONNX(&out, net, p); err != nil {
		t.Fatal(err)
	}
	scores := view(t, nn.Apply(nn.Inference(s, p), net, batch.X)[0])
	within(t, "the file", loaded(t, out.Bytes(), batch.X), scores, 1e-5)
	if err := base.WriteONNX(&out, p); err == nil || !strings.Contains(err.Error(), "nn.WriteONNX") {
		t.Errorf("the store of a larger network: %v", err)
	}
}

// TestONNXExternal: data beside the file is inside the one that is written; tensors that overlap cannot ask for more
// memory than their files have.
func TestONNXExternal(t *testing.T) {
	s := array.NewScope("test")
	defer s.Close()
	dir := t.TempDir()
	f, data := convnet(wire.Dim("N")), []byte(nil)
	for _, w := range f.Initializer {
		entry := func(key string, value int) *wire.StringStringEntryProto {
			return &wire.StringStringEntryProto{Key: key, Value: strconv.Itoa(value)}
		}
		place := &wire.StringStringEntryProto{Key: "location", Value: "w.bin"}
		offset, length := entry("offset", len(data)), entry("length", len(w.RawData))
		w.ExternalData = []*wire.StringStringEntryProto{place, offset, length}
		data = append(append(data, w.RawData...), 0) // not aligned
		w.RawData, w.DataLocation = nil, wire.LocationExternal
	}
	path := filepath.Join(dir, "m.onnx")
	save(t, path, f.bytes("scores"))
	save(t, filepath.Join(dir, "w.bin"), data)
	net, err := train.FromONNX(path, array.ModelOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p := nn.Init(net, 0)
	defer p.Close()
	_, inside := mustParse(t, convnet(wire.Dim("N")).bytes("scores"), array.ModelOptions{})
	for _, name := range trainable {
		if !bytes.Equal(elementsOf(p.Get(name)), elementsOf(inside.Get(name))) {
			t.Errorf("%s is another than inside", name)
		}
	}
	sameAsWritten(t, s, net, p, images(s, 2).X)
	overlap := convnet(wire.Dim("N"))
	overlap.Output = nil
	for i, w := range overlap.Initializer {
		w.Dims, w.RawData, w.DataLocation = []int64{100}, nil, wire.LocationExternal
		offset := &wire.StringStringEntryProto{Key: "offset", Value: strconv.Itoa(i)}
		w.ExternalData = []*wire.StringStringEntryProto{{Key: "location", Value: "w.bin"}, offset}
	}
	save(t, path, overlap.bytes("scores"))
	if _, err := train.FromONNX(path, array.ModelOptions{}); err == nil || !strings.Contains(err.Error(), "overlap") {
		t.Errorf("data that overlaps: %v", err)
	}
	os.Remove(filepath.Join(dir, "w.bin"))
	if _, err := train.FromONNX(path, array.ModelOptions{}); err == nil || !strings.Contains(err.Error(), "w.bin") {
		t.Errorf("data that is missing: %v", err)
	}
}

func save(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// parsed is a model's network, or the error.
func parsed(f *file, outputs []string, o array.ModelOptions) (*train.ONNX, error) {
	return train.ParseONNX(f.bytes(outputs...), o)
}

// halves is a tensor in f16.
func halves(from *tensor.Tensor) *tensor.Tensor { return converted(from, dtype.F16) }

func converted(from *tensor.Tensor, dt dtype.DType) *tensor.Tensor {
	t := tensor.Must(tensor.New(dt, from.Shape()...))
	for i := range t.Len() {
		dtype.StoreFloat(dt, t.Bytes(), i, dtype.LoadFloat(dtype.F32, from.Bytes(), i))
	}
	return t
}

func number(x float32) *tensor.Tensor { return tensor.Must(tensor.FromSlice([]float32{x})) }

// body is a graph in a graph.
func body(name string, inputs []*wire.ValueInfoProto, outputs []string, nodes ...*wire.NodeProto) *wire.GraphProto {
	g := &wire.GraphProto{Name: name, Input: inputs, Node: nodes}
	for _, o := range outputs {
		g.Output = append(g.Output, &wire.ValueInfoProto{Name: o})
	}
	return g
}

// TestONNXParameters: which initializers of a model are parameters; each has a derivative that is not zero.
func TestONNXParameters(t *testing.T) {
	vector := func(f *file) { f.input("x", wire.Dim("n"), wire.Size(4)) }
	for name, c := range map[string]struct {
		build func(f *file)
		want  []string
		o     array.ModelOptions
	}{
		"tied": {func(f *file) {
			f.weight("w", normal(1, 1, 4, 4))
			f.node("MatMul", []string{"x", "w"}, []string{"a"})
			f.node("MatMul", []string{"a", "w"}, []string{"y"})
		}, []string{"w"}, array.ModelOptions{}},
		"identities": {func(f *file) {
			f.weight("w", normal(1, 1, 4))
			f.node("Mul", []string{"a", "second"}, []string{"y"})
			f.node("Identity", []string{"first"}, []string{"second"})
			f.node("Identity", []string{"w"}, []string{"first"})
			f.node("Add", []string{"x", "first"}, []string{"a"})
		}, []string{"w"}, array.ModelOptions{}},
		"untied": {func(f *file) {
			f.weight("w", normal(1, 1, 4))
			f.node("Mul", []string{"a", "second"}, []string{"y"})
			f.node("Identity", []string{"first"}, []string{"second"})
			f.node("Identity", []string{"w"}, []string{"first"})
			f.node("Add", []string{"x", "first"}, []string{"a"})
		}, []string{"first", "second"}, array.ModelOptions{Untie: true}},
		"settings": {func(f *file) {
			f.weight("w", normal(1, 1, 4))
			f.weight("scale", number(1))
			f.weight("bound", tensor.Must(tensor.FromSlice([]float32{2}, 1)))
			f.weight("two", tensor.Must(tensor.FromSlice([]float32{2}, 1)))
			f.node("Mul", []string{"x", "w"}, []string{"a"})
			f.node("Mul", []string{"a", "scale"}, []string{"b"})
			f.node("Pow", []string{"b", "two"}, []string{"y"})
		}, []string{"w"}, array.ModelOptions{}},
		"scalars": {func(f *file) {
			f.weight("w", normal(1, 1, 4))
			f.weight("scale", tensor.Must(tensor.FromSlice([]float32{3}, []int64{}...)))
			f.node("Mul", []string{"x", "w"}, []string{"a"})
			f.node("Mul", []string{"a", "scale"}, []string{"y"})
		}, []string{"w", "scale"}, array.ModelOptions{Scalars: true}},
		"shapes": {func(f *file) { // floats that the converted model needs as constants
			f.weight("w", normal(1, 1, 4))
			f.weight("extents", tensor.Must(tensor.FromSlice([]float32{2, 2}, 2)))
			f.node("Mul", []string{"x", "w"}, []string{"a"})
			f.node("Cast", []string{"extents"}, []string{"integers"}, wire.IntAttribute("to", 7))
			f.node("Shape", []string{"w"}, []string{"four"})
			f.node("Expand", []string{"a", "four"}, []string{"b"})
			f.node("Unsqueeze", []string{"b", "axis"}, []string{"c"})
			f.weight("axis", tensor.Of(int64(0)))
			f.node("Tile", []string{"b", "integers"}, []string{"y"})
		}, []string{"w"}, array.ModelOptions{}},
		"masks": {func(f *file) {
			f.weight("w", normal(1, 1, 4))
			f.weight("mask", tensor.Must(tensor.FromSlice([]float32{0, float32(math.Inf(-1)), 0, 0}, 4)))
			f.weight("least", tensor.Must(tensor.FromSlice([]float32{0, -math.MaxFloat32, 0, 0}, 4)))
			f.node("Mul", []string{"x", "w"}, []string{"a"})
			f.node("Add", []string{"a", "mask"}, []string{"b"})
			f.node("Add", []string{"b", "least"}, []string{"c"})
			f.node("Softmax", []string{"c"}, []string{"y"})
		}, []string{"w"}, array.ModelOptions{}},
		"dead ends": {func(f *file) {
			f.weight("w", normal(1, 1, 4))
			f.weight("unread", normal(1, 1, 4))
			f.weight("rounded", normal(1, 1, 4))
			f.node("Mul", []string{"x", "w"}, []string{"a"})
			f.node("Round", []string{"rounded"}, []string{"whole"})
			f.node("Add", []string{"a", "whole"}, []string{"y"})
		}, []string{"w"}, array.ModelOptions{}},
		"half": {func(f *file) {
			f.weight("w", halves(normal(1, 1, 4)))
			f.node("Cast", []string{"x"}, []string{"h"}, wire.IntAttribute("to", 10))
			f.node("Mul", []string{"h", "w"}, []string{"a"})
			f.node("Cast", []string{"a"}, []string{"y"}, wire.IntAttribute("to", 1))
		}, []string{"w"}, array.ModelOptions{}},
		"branches": {func(f *file) {
			f.weight("w", normal(1, 1, 4))
			f.weight("v", normal(2, 1, 4))
			f.weight("zero", tensor.Must(tensor.FromSlice([]float32{-1000}, 1)))
			f.node("ReduceSum", []string{"x"}, []string{"sum"}, wire.IntAttribute("keepdims", 0))
			f.node("Greater", []string{"sum", "zero"}, []string{"positive"})
			f.node("If", []string{"positive"}, []string{"y"},
				wire.GraphAttribute("then_branch", body("then", nil, []string{"t"},
					&wire.NodeProto{OpType: "Mul", Input: []string{"x", "w"}, Output: []string{"t"}})),
				wire.GraphAttribute("else_branch", body("else", nil, []string{"e"},
					&wire.NodeProto{OpType: "Mul", Input: []string{"x", "v"}, Output: []string{"e"}})))
		}, []string{"w", "v"}, array.ModelOptions{}},
		"loops": {func(f *file) {
			f.weight("w", normal(1, 0.5, 4))
			f.weight("trips", tensor.Must(tensor.FromSlice([]int64{3}, []int64{}...)))
			turn := []*wire.ValueInfoProto{
				wire.TensorValue("i", wire.DataTypeOf(dtype.I64)), wire.TensorValue("go", wire.DataTypeOf(dtype.Bool)),
				wire.TensorValue("state", wire.DataTypeOf(dtype.F32), wire.Dim("n"), wire.Size(4))}
			loop := body("body", turn, []string{"on", "next"},
				&wire.NodeProto{OpType: "Identity", Input: []string{"go"}, Output: []string{"on"}},
				&wire.NodeProto{OpType: "Mul", Input: []string{"state", "w"}, Output: []string{"next"}})
			f.node("Loop", []string{"trips", "", "x"}, []string{"y"}, wire.GraphAttribute("body", loop))
		}, []string{"w"}, array.ModelOptions{}},
		"functions": {func(f *file) {
			for _, name := range []string{"s", "b", "m", "v"} {
				f.weight(name, positive(4))
			}
			in := []string{"p", "q", "r", "t", "u"}
			f.functions = []*wire.FunctionProto{{Name: "Norm", Domain: "local", Input: in, Output: []string{"z"},
				OpsetImport: []*wire.OperatorSetIDProto{{Version: 17}},
				Node:        []*wire.NodeProto{{OpType: "BatchNormalization", Input: in, Output: []string{"z"}}}}}
			f.node("Norm", []string{"x", "s", "b", "m", "v"}, []string{"y"})
			f.Node[0].Domain = "local"
		}, []string{"s", "b"}, array.ModelOptions{}},
		"quantised inputs": {func(f *file) {
			f.weight("w", normal(1, 1, 4, 4))
			f.weight("scale", tensor.Must(tensor.FromSlice([]float32{0.1}, 1)))
			f.weight("before", normal(1, 1, 4))
			f.weight("zero", tensor.Must(tensor.FromSlice([]int8{0}, 1)))
			f.node("Mul", []string{"x", "before"}, []string{"a"})
			f.node("QuantizeLinear", []string{"a", "scale", "zero"}, []string{"q"}, wire.IntAttribute("axis", 0))
			f.node("DequantizeLinear", []string{"q", "scale", "zero"}, []string{"d"}, wire.IntAttribute("axis", 0))
			f.node("MatMul", []string{"d", "w"}, []string{"y"})
		}, []string{"w"}, array.ModelOptions{}},
	} {
		t.Run(name, func(t *testing.T) {
			f := &file{}
			vector(f)
			c.build(f)
			if name == "quantised inputs" {
				for _, w := range f.Initializer {
					if len(w.Dims) == 1 && w.Dims[0] == 1 {
						w.Dims = nil
					}
				}
			}
			net, p := mustParse(t, f.bytes("y"), c.o)
			if !slices.Equal(p.Names(), c.want) {
				t.Fatalf("parameters are %v, not %v", p.Names(), c.want)
			}
			derived(t, net, p, name == "branches")
		})
	}
}

// derived finds that each parameter has a derivative that is not zero, and that the model is written as it is computed.
func derived(t *testing.T, net *train.ONNX, p *nn.Params, oneBranch bool) {
	t.Helper()
	s := array.NewScope("test")
	defer s.Close()
	x := array.From(s, []float32{1, 2, 3, 4, -1, 0.5, 0.25, 2}, 2, 4)
	var weights []*array.Array
	for _, name := range p.Names() {
		weights = append(weights, p.Get(name))
	}
	zeros := 0
	for _, g := range array.Grad(func(s *array.Scope, w ...*array.Array) []*array.Array {
		c := nn.Inference(s, p)
		for i, name := range p.Names() {
			c.Bind(name, w[i])
		}
		y := nn.One(c, net, x)
		return []*array.Array{s.Sum(s.Mul(y, s.Cast(y, weir.F32)))}
	})(s, weights...) {
		if !slices.ContainsFunc(view(t, g), func(x float32) bool { return x != 0 }) {
			zeros++
		}
	}
	if zeros > 0 && !(oneBranch && zeros == 1) {
		t.Errorf("%d of %v have no derivative", zeros, p.Names())
	}
	sameAsWritten(t, s, net, p, x)
}

// TestONNXNarrow: weights of f16 are trained as f32, and written as f16 again.
func TestONNXNarrow(t *testing.T) {
	f := &file{}
	f.input("x", wire.Dim("n"), wire.Size(4))
	f.weight("w", halves(normal(1, 1, 4)))
	f.node("Cast", []string{"w"}, []string{"wide"}, wire.IntAttribute("to", 1))
	f.node("Mul", []string{"x", "wide"}, []string{"y"})
	net, p := mustParse(t, f.bytes("y"), array.ModelOptions{})
	if p.Get("w").DType() != weir.F32 {
		t.Errorf("the parameter is %v", p.Get("w"))
	}
	s := array.NewScope("test")
	defer s.Close()
	list, err := array.View[float32](p.Get("w"))
	if err != nil {
		t.Fatal(err)
	}
	list[0] = 1.0001 // f16 has 1
	sameAsWritten(t, s, net, p, array.From(s, []float32{1, 2, 3, 4}, 1, 4))
	var out bytes.Buffer
	if err := net.WriteONNX(&out, p); err != nil {
		t.Fatal(err)
	}
	m, err := wire.ParseModel(out.Bytes())
	if err != nil || m.Graph.Initializer[0].DataType != wire.DataTypeOf(dtype.F16) {
		t.Errorf("the file has %v, %v", m.Graph.Initializer[0].DataType, err)
	}
}

// TestONNXBatch: a batch that the file fixes is an error that says what mends it, and is mended by a declaration.
func TestONNXBatch(t *testing.T) {
	s := array.NewScope("test")
	defer s.Close()
	data := convnet(wire.Size(1)).bytes("scores")
	net, p := mustParse(t, data, array.ModelOptions{})
	tr, err := train.New(net, p, train.CrossEntropy, train.SGD(0.1), train.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	batch := images(s, 4)
	if _, err := tr.Step(t.Context(), batch); err == nil || !strings.Contains(err.Error(), "fixes it to 1") {
		t.Errorf("a batch of 4: %v", err)
	}
	spec := array.SpecOf("image", weir.F32, "batch", 3, 8, 8)
	net, p = mustParse(t, convnet(wire.Size(1)).bytes("scores"), array.ModelOptions{Inputs: []array.Spec{spec}})
	tr, err = train.New(net, p, train.CrossEntropy, train.SGD(0.1), train.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if _, err := tr.Step(t.Context(), batch); err != nil {
		t.Error(err)
	}
	sameAsWritten(t, s, net, p, batch.X)
}

// TestONNXMisuse: one clear error each.
func TestONNXMisuse(t *testing.T) {
	good := func() *file { return convnet(wire.Dim("N")) }
	quantised, constants := &file{}, &file{}
	quantised.input("x", wire.Dim("n"), wire.Size(4))
	quantised.weight("w", tensor.Must(tensor.FromSlice([]int8{1, 2, 3, 4}, 4)))
	quantised.weight("scale", tensor.Must(tensor.FromSlice([]float32{0.1}, []int64{}...)))
	quantised.node("DequantizeLinear", []string{"w", "scale"}, []string{"d"})
	quantised.node("Mul", []string{"x", "d"}, []string{"y"})
	constants.input("x", wire.Dim("n"), wire.Size(4))
	constants.node("Constant", nil, []string{"w"}, wire.TensorAttribute("value", wire.FromTensor("w", normal(1, 1, 4))))
	constants.node("Mul", []string{"x", "w"}, []string{"y"})
	strange := good()
	strange.Node[2].OpType = "Strange"
	scores, y := []string{"scores"}, []string{"y"}
	until := func(names ...string) array.ModelOptions { return array.ModelOptions{Outputs: names} }
	declared := func(name string) array.ModelOptions {
		return array.ModelOptions{Inputs: []array.Spec{array.SpecOf(name, weir.F32, 1)}}
	}
	for want, c := range map[string]struct {
		f       *file
		outputs []string
		o       array.ModelOptions
	}{
		"the last nodes compute scores, features": {good(), scores, until("feature")},
		"twice":                   {good(), scores, until("p", "p")},
		`no input "x"`:            {good(), scores, declared("x")},
		"no outputs":              {good(), scores, array.ModelOptions{Outputs: []string{}}},
		"extents alone":           {good(), scores, declared("image")},
		"before it was quantised": {quantised, y, array.ModelOptions{}},
		"Constant nodes":          {constants, y, array.ModelOptions{}},
		"Strange":                 {strange, scores, array.ModelOptions{}},
	} {
		if _, err := parsed(c.f, c.outputs, c.o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	strange = good()
	strange.Node[5].OpType = "Strange"
	if _, err := parsed(strange, []string{"scores"}, array.ModelOptions{Outputs: []string{"features"}}); err != nil {
		t.Errorf("an unknown operator in what is left out: %v", err)
	}
	net, p := mustParse(t, good().bytes("scores"), array.ModelOptions{})
	if err := p.Freeze("conv.weight"); err == nil || !strings.Contains(err.Error(), "Names lists them") {
		t.Errorf("freezing what is not there: %v", err)
	}
	s := array.NewScope("test")
	defer s.Close()
	for _, shape := range [][]int{{2, 3, 9, 8}, {2, 3, 8}, {2, 3, 8, 8}} {
		inner := array.NewScope("inner", array.In(s))
		dt := weir.F32
		if shape[2] == 8 && len(shape) == 4 {
			dt = weir.F64
		}
		_, err := nn.Predict(inner, net, p, inner.Zeros(dt, shape...))
		if err == nil || !strings.Contains(err.Error(), "image") || strings.Contains(err.Error(), "/conv") {
			t.Errorf("an input %v: %v", shape, err)
		}
		inner.Close()
	}
}

// TestONNXBuffers: running statistics of a network that nn wrote are no parameters when it is read again.
func TestONNXBuffers(t *testing.T) {
	net := nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm(4), nn.Relu, nn.GlobalAvgPool, nn.Linear(4, 5))
	p := nn.Init(net, 7)
	defer p.Close()
	var out bytes.Buffer
	if err := nn.WriteONNX(&out, net, p, array.SpecOf("x", weir.F32, "batch", 3, 8, 8)); err != nil {
		t.Fatal(err)
	}
	again, q := mustParse(t, out.Bytes(), array.ModelOptions{})
	want := []string{"0.bias", "0.weight", "1.bias", "1.weight", "4.bias", "4.weight"}
	if got := slices.Sorted(slices.Values(q.Names())); !slices.Equal(got, want) {
		t.Errorf("parameters are %v, not %v", got, want)
	}
	s := array.NewScope("test")
	defer s.Close()
	x := images(s, 3).X
	got := view(t, nn.Apply(nn.Inference(s, q), again, x)[0])
	within(t, "the file", got, view(t, nn.Apply(nn.Inference(s, p), net, x)[0]), 1e-5)
	sameAsWritten(t, s, again, q, x)
	base, _ := mustParse(t, convnet(wire.Dim("N")).bytes("scores"), array.ModelOptions{})
	whole := nn.Sequential(base, nn.Linear(5, 2))
	r := nn.Init(whole, 7)
	defer r.Close()
	out.Reset()
	if err := nn.WriteONNX(&out, whole, r); err != nil {
		t.Fatal(err)
	}
	_, third := mustParse(t, out.Bytes(), array.ModelOptions{})
	if got, want := len(third.Names()), len(trainable)+2; got != want {
		t.Errorf("the parameters that are read again are %v", third.Names())
	}
	if values := again.Model().Values(); len(values) == 0 || values[len(values)-1] != again.Model().Outputs()[0] {
		t.Errorf("the model computes %v", values)
	}
}

// TestONNXCut: what an earlier output does not need is neither asked for nor written, inputs and operators included.
func TestONNXCut(t *testing.T) {
	f := convnet(wire.Dim("N"))
	f.input("bias", wire.Dim("N"), wire.Size(5))
	f.node("Add", []string{"scores", "bias"}, []string{"sum"})
	f.node("Strange", []string{"sum"}, []string{"y"})
	net, p := mustParse(t, f.bytes("y"), array.ModelOptions{Outputs: []string{"scores", "features"}})
	if list := net.Inputs(); len(list) != 1 || list[0].Name != "image" {
		t.Fatalf("the model takes %v", list)
	}
	s := array.NewScope("test")
	defer s.Close()
	x := images(s, 2).X
	if out := nn.Apply(nn.Inference(s, p), net, x); len(out) != 2 || out[1].Dim(1) != 4 {
		t.Errorf("results %v, %v", out, s.Err())
	}
	sameAsWritten(t, s, net, p, x)
}

// TestONNXResume: training of an imported model goes on to the same bits.
func TestONNXResume(t *testing.T) {
	s := array.NewScope("test")
	defer s.Close()
	batch, dir := images(s, 5), t.TempDir()
	fit := func(resumed bool) []byte {
		net, p := mustParse(t, convnet(wire.Dim("N")).bytes("scores"), array.ModelOptions{})
		tr, err := train.New(net, p, train.CrossEntropy, train.Adam(0.01), train.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		first := 0
		if resumed {
			first = 2
			if err := tr.Restore(dir); err != nil {
				t.Fatal(err)
			}
		}
		for step := first; step < 4; step++ {
			if _, err := tr.Step(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
			if !resumed && step == 1 {
				if err := tr.Save(dir); err != nil {
					t.Fatal(err)
				}
			}
		}
		return elementsOf(p.Get("/conv/weight"))
	}
	whole := fit(false)
	if !bytes.Equal(whole, fit(true)) {
		t.Error("the bits differ")
	}
}

// TestONNXCollidingNames: parameters that are called as a batch's arrays, as the step's other inputs and as what an
// optimiser keeps of another parameter are trained as under any other names, in checkpoints too.
func TestONNXCollidingNames(t *testing.T) {
	s := array.NewScope("test")
	defer s.Close()
	batch := train.Batch{X: array.From(s, []float32{1, 2, -1, 0.5, 3, -2, 0.25, 1, -1.5, 2, 0.75, -3}, 3, 4),
		Y: array.From(s, []int32{0, 2, 1})}
	fit := func(o train.Optimiser, names ...string) (bits [][]byte) {
		f := &file{}
		f.input("image", wire.Dim("N"), wire.Size(4))
		at := "image"
		for i, name := range names {
			wide := int64(4)
			if i == len(names)-1 {
				wide = 3
			}
			f.weight(name, normal(uint64(i)+1, 0.4, 4, wide))
			f.node("MatMul", []string{at, name}, []string{fmt.Sprint("value", i)})
			at = fmt.Sprint("value", i)
		}
		net, p := mustParse(t, f.bytes(at), array.ModelOptions{})
		open := func() *train.Trainer {
			tr, err := train.New(net, p, train.CrossEntropy, o, train.Options{Accumulate: 2})
			if err != nil {
				t.Fatal(err)
			}
			return tr
		}
		dir, tr := t.TempDir(), open()
		defer func() { tr.Close() }()
		for step := range 8 {
			if _, err := tr.Step(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
			if step != 3 {
				continue
			}
			if err := tr.Save(dir); err != nil {
				t.Fatal(err)
			}
			tr.Close()
			tr = open()
			if err := tr.Restore(dir); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range names {
			bits = append(bits, elementsOf(p.Get(name)))
		}
		return bits
	}
	for _, o := range []train.Optimiser{train.Adam(0.01), train.Adagrad(0.01)} {
		plain := fit(o, "a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
		odd := fit(o, "w", "w@mean", "w@square", "w@sum", "x", "y", "scalar0", "key", "loss", "w@mean@sum")
		for i := range plain {
			if !bytes.Equal(plain[i], odd[i]) {
				t.Errorf("%v: parameter %d differs", o, i)
			}
		}
	}
}

// TestONNXDamaged: a file in which bytes are changed is read, or refused with an error of the user's, and never a
// panic.
func TestONNXDamaged(t *testing.T) {
	whole := convnet(wire.Dim("N")).bytes("scores")
	r := rand.New(rand.NewPCG(3, 4))
	refused := 0
	for range 400 {
		data := bytes.Clone(whole)
		for range 1 + r.IntN(4) {
			data[r.IntN(len(data))] = byte(r.Uint32())
		}
		if r.IntN(8) == 0 {
			data = data[:r.IntN(len(data))]
		}
		net, err := train.ParseONNX(data, array.ModelOptions{})
		if errors.Is(err, weir.ErrInternal) {
			t.Fatal(err)
		}
		if err != nil {
			refused++
			continue
		}
		p, err := nn.New(net, 1)
		if errors.Is(err, weir.ErrInternal) {
			t.Fatal(err)
		}
		p.Close()
	}
	if refused == 0 || refused == 400 {
		t.Errorf("%d of 400 are refused", refused)
	}
}

// TestONNXOnnxruntime holds what onnxruntime computes of files that were trained against what Weir does.
func TestONNXOnnxruntime(t *testing.T) {
	python := os.Getenv("WEIR_PYTHON")
	if python == "" {
		t.Skip("WEIR_PYTHON names no Python with onnxruntime")
	}
	s := array.NewScope("test")
	defer s.Close()
	net, p := mustParse(t, convnet(wire.Dim("N")).bytes("scores"), array.ModelOptions{})
	base, err := train.ParseONNX(convnet(wire.Dim("N")).bytes("scores"), array.ModelOptions{Outputs: []string{"features"}})
	if err != nil {
		t.Fatal(err)
	}
	whole := nn.Sequential(base, nn.Linear(4, 7))
	q := nn.Init(whole, 7)
	defer q.Close()
	batch, dir := images(s, 10), t.TempDir()
	for name, c := range map[string]struct {
		net   nn.Layer
		p     *nn.Params
		write func(w io.Writer) error
	}{
		"same":   {net, p, func(w io.Writer) error { return net.WriteONNX(w, p) }},
		"headed": {whole, q, func(w io.Writer) error { return nn.WriteONNX(w, whole, q) }},
	} {
		tr, err := train.New(c.net, c.p, train.CrossEntropy, train.SGD(0.1), train.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := tr.Step(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
		}
		if err := tr.Close(); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := c.write(&out); err != nil {
			t.Fatal(err)
		}
		y := nn.Apply(nn.Inference(s, c.p), c.net, batch.X)[0]
		if s.Err() != nil {
			t.Fatal(s.Err())
		}
		save(t, filepath.Join(dir, name+".onnx"), out.Bytes())
		save(t, filepath.Join(dir, name+".x"), elementsOf(batch.X))
		save(t, filepath.Join(dir, name+".y"), elementsOf(y))
	}
	said, err := exec.Command(python, "testdata/check_onnx.py", dir).CombinedOutput()
	t.Logf("%s", said)
	if strings.Contains(string(said), "no onnxruntime") {
		t.Skip("there is no onnxruntime")
	}
	if err != nil || !strings.Contains(string(said), "2 models") {
		t.Error(err)
	}
}

// TestONNXQuantizedBase: layers are trained on top of a quantised model, which stays as it is, and both are written.
func TestONNXQuantizedBase(t *testing.T) {
	f := &file{}
	f.input("x", wire.Dim("n"), wire.Size(4))
	weights := tensor.Must(tensor.FromSlice([]int8{1, -2, 3, 4, 5, 6, -7, 8, 9, 10, 11, -12}, 4, 3))
	f.weight("w", weights)
	f.weight("scales", tensor.Must(tensor.FromSlice([]float32{0.1, 0.2, 0.05}, 3)))
	f.weight("scale", tensor.Must(tensor.FromSlice([]float32{0.02}, []int64{}...)))
	f.weight("zero", tensor.Must(tensor.FromSlice([]uint8{128}, []int64{}...)))
	f.node("QuantizeLinear", []string{"x", "scale", "zero"}, []string{"q"})
	f.node("DequantizeLinear", []string{"q", "scale", "zero"}, []string{"d"})
	f.node("DequantizeLinear", []string{"w", "scales"}, []string{"v"}, wire.IntAttribute("axis", 1))
	f.node("MatMul", []string{"d", "v"}, []string{"y"})
	base, err := array.ParseONNX(f.bytes("y"), array.ModelOptions{})
	if err != nil {
		t.Fatal(err)
	}
	net := nn.Sequential(nn.Lambdas(func(c *nn.Context, x ...*array.Array) []*array.Array {
		return base.Apply(c.Scope, nil, x...)
	}), nn.Linear(3, 2))
	p := nn.Init(net, 7)
	defer p.Close()
	s := array.NewScope("test")
	defer s.Close()
	x := array.From(s, []float32{1, -2, 0.5, 2, 0.25, 1, -1, 0}, 2, 4)
	tr, err := train.New(net, p, train.CrossEntropy, train.SGD(0.1), train.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if _, err := tr.Step(t.Context(), train.Batch{X: x, Y: array.From(s, []int32{0, 1})}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := nn.WriteONNX(&out, net, p, base.Inputs()...); err != nil {
		t.Fatal(err)
	}
	within(t, "the file", loaded(t, out.Bytes(), x), view(t, nn.Apply(nn.Inference(s, p), net, x)[0]), 1e-5)
}
