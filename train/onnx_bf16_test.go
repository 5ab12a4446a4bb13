package train_test

import (
	"bytes"
	"context"
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/nn"
	"github.com/weirml/weir/train"
)

// attends returns a model of attention over the rows of an image, written as several nodes, with a layer normalisation
// and a weight that is used twice.
func attends() *file {
	f := &file{}
	f.input("image", wire.Dim("N"), wire.Size(3), wire.Size(8), wire.Size(8))
	f.weight("wq", normal(1, 0.3, 8, 8))
	f.weight("wk", normal(2, 0.3, 8, 8))
	f.weight("gain", positive(8))
	f.weight("shift", normal(3, 0.1, 8))
	f.weight("head", normal(4, 0.3, 8, 5))
	f.weight("root", number(2.828427))
	f.node("MatMul", []string{"image", "wq"}, []string{"q"})
	f.node("MatMul", []string{"image", "wk"}, []string{"k"})
	f.node("Transpose", []string{"k"}, []string{"kt"}, wire.IntsAttribute("perm", 0, 1, 3, 2))
	f.node("MatMul", []string{"q", "kt"}, []string{"products"})
	f.node("Div", []string{"products", "root"}, []string{"scaled"})
	f.node("Softmax", []string{"scaled"}, []string{"shares"}, wire.IntAttribute("axis", -1))
	f.node("MatMul", []string{"shares", "image"}, []string{"mixed"})
	f.node("LayerNormalization", []string{"mixed", "gain", "shift"}, []string{"normed"})
	f.node("MatMul", []string{"normed", "wq"}, []string{"again"})
	f.node("ReduceMean", []string{"again"}, []string{"features"}, wire.IntsAttribute("axes", 1, 2),
		wire.IntAttribute("keepdims", 0))
	f.node("MatMul", []string{"features", "head"}, []string{"scores"})
	return f
}

// windows returns a model of a grouped convolution, a transposed convolution, and a mean over each channel.
func windows() *file {
	f := &file{}
	f.input("image", wire.Dim("N"), wire.Size(3), wire.Size(8), wire.Size(8))
	f.weight("deep", normal(1, 0.3, 6, 1, 3, 3))
	f.weight("wide", normal(2, 0.3, 6, 4, 2, 2))
	f.weight("shift", normal(3, 0.1, 4))
	f.weight("head", normal(4, 0.3, 4, 5))
	f.node("Conv", []string{"image", "deep"}, []string{"c"}, wire.IntAttribute("group", 3),
		wire.IntsAttribute("strides", 2, 2))
	f.node("Relu", []string{"c"}, []string{"r"})
	f.node("ConvTranspose", []string{"r", "wide", "shift"}, []string{"t"}, wire.IntsAttribute("strides", 2, 2))
	f.node("ReduceMean", []string{"t"}, []string{"features"}, wire.IntsAttribute("axes", 2, 3),
		wire.IntAttribute("keepdims", 0))
	f.node("MatMul", []string{"features", "head"}, []string{"scores"})
	return f
}

// trainedFor trains a network for 50 steps on one batch, and returns the losses.
func trainedFor(t *testing.T, net nn.Layer, p *nn.Params, batch train.Batch, o train.Options) (losses []float64) {
	t.Helper()
	tr, err := train.New(net, p, train.CrossEntropy, train.SGD(0.2), o)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	for range 50 {
		m, err := tr.Step(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, m.Loss)
	}
	return losses
}

// TestONNXBF16: models from files train with products in bf16 about as in f32, their parameters stay f32, and the
// written file has the store's elements.
func TestONNXBF16(t *testing.T) {
	array.AssertNoLeaks(t)
	models := map[string]*file{"convnet": convnet(wire.Dim("N")), "attends": attends(), "windows": windows()}
	maps.Copy(models, looped())
	for name, f := range models {
		t.Run(name, func(t *testing.T) {
			s := array.NewScope(name)
			defer s.Close()
			var both [][]float64
			batch := images(s, 10)
			switch name {
			case "scan":
				batch = train.Batch{X: s.Reshape(s.Index(batch.X, array.All, 0, array.Slice(0, 6), array.Slice(0, 6)), 10, 12, 3),
					Y: batch.Y}
			case "branches", "while":
				batch = train.Batch{X: s.Index(batch.X, array.All, array.All, 0, 0), Y: batch.Y}
			}
			for _, precision := range []weir.DType{weir.F32, weir.BF16} {
				net, p := mustParse(t, f.bytes("scores"), array.ModelOptions{})
				both = append(both, trainedFor(t, net, p, batch, train.Options{Precision: precision}))
				for _, name := range p.Names() {
					if p.Get(name).DType() != weir.F32 {
						t.Errorf("%s is %v in the store", name, p.Get(name))
					}
				}
				sameAsWritten(t, s, net, p, batch.X)
				p.Close()
			}
			same := true
			for i, want := range both[0] {
				same = same && want == both[1][i]
				if got := both[1][i]; math.Abs(got-want) > 0.03+0.08*want {
					t.Errorf("step %d: the loss is %v in bf16, and %v in f32", i, got, want)
				}
			}
			if same {
				t.Error("the losses are the same to the bit: nothing was rounded")
			}
			if last := both[1][49]; !(last < both[1][0]*0.95) {
				t.Errorf("the loss went from %v to %v", both[1][0], last)
			}
		})
	}
}

// TestONNXBF16Products: in a model that is trained in bf16, every matmul, also in bodies, has a result of bf16 or the
// attribute dtype f32.
func TestONNXBF16Products(t *testing.T) {
	s := array.NewScope("test")
	defer s.Close()
	net, p := mustParse(t, looped()["branches"].bytes("scores"), array.ModelOptions{})
	var text strings.Builder
	o := train.Options{Precision: weir.BF16}
	o.Compile.Stage = func(name, stage string) {
		if name == "import" {
			text.WriteString(stage)
		}
	}
	batch := train.Batch{X: array.From(s, make([]float32, 6), 2, 3), Y: array.From(s, []int32{0, 1})}
	tr, err := train.New(net, p, train.CrossEntropy, train.SGD(0.2), o)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if _, err := tr.Step(context.Background(), batch); err != nil {
		t.Fatal(err)
	}
	products := 0
	for line := range strings.Lines(text.String()) {
		if strings.Contains(line, "= matmul(") {
			if products++; !strings.Contains(line, "dtype = dtype f32") && !strings.Contains(line, ": bf16[") {
				t.Errorf("a product that is not of bf16: %s", line)
			}
		}
	}
	if products < 8 {
		t.Errorf("%d products were seen", products)
	}
}

// TestONNXBF16Base: layers after a model from a file compute in bf16 as the model does.
func TestONNXBF16Base(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("test")
	defer s.Close()
	base, err := train.ParseONNX(convnet(wire.Dim("N")).bytes("scores"), array.ModelOptions{Outputs: []string{"features"}})
	if err != nil {
		t.Fatal(err)
	}
	kind := weir.InvalidDType
	seen := nn.Lambda(func(c *nn.Context, x *array.Array) *array.Array {
		kind = x.DType()
		return x
	})
	net := nn.Sequential(base, nn.Linear(4, 16), seen, nn.Gelu, nn.Linear(16, 5))
	p, err := nn.New(net, 7)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	losses := trainedFor(t, net, p, images(s, 10), train.Options{Precision: weir.BF16})
	if kind != weir.BF16 {
		t.Errorf("a layer after the model computes in %v", kind)
	}
	if last := losses[49]; !(last < losses[0]*0.9) {
		t.Errorf("the loss went from %v to %v", losses[0], last)
	}
}

// TestWriteBF16: a network that was trained in bf16 is written with the store's f32, and the file computes the f32
// predictions.
func TestWriteBF16(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("test")
	defer s.Close()
	net := nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm(4), nn.Relu, nn.GlobalAvgPool, nn.Linear(4, 5))
	p := nn.Init(net, 7)
	defer p.Close()
	batch := images(s, 10)
	trainedFor(t, net, p, batch, train.Options{Precision: weir.BF16})
	var out bytes.Buffer
	if err := nn.WriteONNX(&out, net, p, array.SpecOf("x", weir.F32, "batch", 3, 8, 8)); err != nil {
		t.Fatal(err)
	}
	within(t, "the file", loaded(t, out.Bytes(), batch.X), view(t, nn.Apply(nn.Inference(s, p), net, batch.X)[0]), 1e-5)
	if strings.Contains(out.String(), "bf16") {
		t.Error("the file mentions bf16")
	}
}
