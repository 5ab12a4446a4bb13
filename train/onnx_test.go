package train_test

import (
	"bytes"
	"io"
	"math"
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

// TestONNXTrained: the loss of an imported model falls, frozen parameters keep every bit, running statistics are not
// parameters, and the written file computes the same as the store.
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

// TestONNXDerivative compares derivatives by initializers with finite differences.
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

// TestONNXHead: layers follow an intermediate output, the file's own head is omitted, and the entire network is
// written.
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

// TestONNXExternal: the written file includes external data; overlapping tensors cannot take more memory than their
// files have.
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
	list[0] = 1.0001 // f16 rounds it to 1
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

// TestONNXBatch: a batch size fixed in the file is an error that names the fix, and ModelOptions.Inputs replaces the
// size.
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

// TestONNXBuffers: running statistics of a network that nn wrote are not parameters when it is read again.
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

// TestONNXCut: inputs and nodes that an earlier output does not need are neither required nor written.
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

// TestONNXResume: training of an imported model that is resumed from a checkpoint gives the same bits as uninterrupted
// training.
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

// TestONNXOnnxruntime compares onnxruntime's results of trained files with Weir's.
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

// TestONNXQuantizedBase: a layer after a quantised model is trained, and both are written as one model, which computes
// the same as the network.
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
